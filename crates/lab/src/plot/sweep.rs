//! Sweeps as pictures: a panel for each metric over one key.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{COLOURS, PANEL_HEIGHT, PlotError, WIDTH};

/// A metric.
#[derive(Debug)]
pub(crate) struct SweepPanel {
    pub(crate) title: String,
    pub(crate) series: Vec<SweepSeries>,
}

/// A metric at one combination of the other keys.
#[derive(Debug)]
pub(crate) struct SweepSeries {
    pub(crate) label: String,
    /// By the key's value: least, median and largest value over the seeds.
    pub(crate) points: Vec<(f64, [f64; 3])>,
}

/// Draws the panels over the key called `label`.
pub(crate) fn draw_sweep(path: &Path, label: &str, panels: &[SweepPanel]) -> Result<(), PlotError> {
    let failed = |reason: String| PlotError::Write {
        path: path.to_owned(),
        reason,
    };
    let size = (WIDTH, PANEL_HEIGHT * panels.len() as u32);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)
        .map_err(|error| failed(error.to_string()))?;
    let areas = root.split_evenly((panels.len(), 1));
    for (area, panel) in areas.iter().zip(panels) {
        draw_panel(area, label, panel).map_err(|error| failed(error.to_string()))?;
    }
    root.present().map_err(|error| failed(error.to_string()))
}

fn draw_panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    label: &str,
    panel: &SweepPanel,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let top = points()
        .fold(0.0_f64, |top, (_, [.., max])| top.max(*max))
        .max(1e-3)
        * 1.05;
    let begin = points().fold(f64::MAX, |begin, (x, _)| begin.min(*x));
    let end = points().fold(f64::MIN, |end, (x, _)| end.max(*x));
    let margin = ((end - begin) * 0.03).max(1e-6);
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 18))
        .margin(8)
        .margin_right(220)
        .x_label_area_size(34)
        .y_label_area_size(60)
        .build_cartesian_2d(begin - margin..end + margin, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc(label)
        .x_labels(11)
        .y_labels(6)
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 13))
        .draw()?;
    for (index, series) in panel.series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let medians = series
            .points
            .iter()
            .map(|(x, [_, median, _])| (*x, *median));
        chart.draw_series(LineSeries::new(medians, &colour))?;
        let bar = |(x, [min, median, max]): &(f64, [f64; 3])| {
            ErrorBar::new_vertical(*x, *min, *median, *max, colour.filled(), 8)
        };
        chart.draw_series(series.points.iter().map(bar))?;
        if series.label.is_empty() {
            // The only line needs no name.
            continue;
        }
        // Beside the panel, where it hides nothing.
        let (x, y) = ((WIDTH - 205) as i32, 40 + 18 * index as i32);
        area.draw(&Rectangle::new([(x, y), (x + 12, y + 6)], colour.filled()))?;
        let label = series.label.clone();
        area.draw(&Text::new(label, (x + 18, y - 3), ("sans-serif", 13)))?;
    }
    Ok(())
}

//! Traces as pictures: one SVG with a panel each for rates, delays, queues and frames, over one
//! time axis.

mod sweep;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) use sweep::{SweepPanel, SweepSeries, draw_sweep};

/// A picture that cannot be drawn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// A trace cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: csv::Error,
    },
    /// A trace holds nothing.
    #[error("{}: there is nothing in it to draw", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The picture cannot be written.
    #[error("{}: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// Draws the trace in `folder` (one run's) into its `trace.svg`, whose path it returns.
///
/// # Errors
/// [`PlotError`]: a file is missing, not a trace, or empty; or the picture cannot be written.
pub fn plot(folder: &Path) -> Result<PathBuf, PlotError> {
    let panels = panels(folder)?;
    let path = folder.join("trace.svg");
    draw(&path, &panels).map_err(|reason| PlotError::Write {
        path: path.clone(),
        reason,
    })?;
    Ok(path)
}

const WIDTH: u32 = 1_200;
const PANEL_HEIGHT: u32 = 300;

/// Colours that people with any colour vision tell apart (Okabe & Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(64, 64, 64),
];

#[derive(Debug)]
struct Panel {
    title: &'static str,
    unit: &'static str,
    series: Vec<Series>,
}

#[derive(Debug)]
struct Series {
    label: String,
    /// Series of one subject have one colour in all panels.
    subject: String,
    points: Vec<(f64, f64)>,
    mark: Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Line,
    Dots,
    Crosses,
}

#[derive(Debug, Deserialize)]
struct PathRow {
    time_s: f64,
    flow: String,
    path: u8,
    route: String,
    delivered_bps: f64,
    delay_ms: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct FlowRow {
    time_s: f64,
    flow: String,
    target_bps: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct LinkRow {
    time_s: f64,
    link: String,
    queued_bytes: f64,
}

#[derive(Debug, Deserialize)]
struct FrameRow {
    captured_s: f64,
    flow: String,
    outcome: String,
    delay_ms: f64,
}

fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Vec<T>, PlotError> {
    let path = folder.join(name);
    csv::Reader::from_path(&path)
        .and_then(|reader| reader.into_deserialize().collect())
        .map_err(|error| PlotError::Read { path, error })
}

fn panels(folder: &Path) -> Result<Vec<Panel>, PlotError> {
    let paths: Vec<PathRow> = read(folder, "paths.csv")?;
    let flows: Vec<FlowRow> = read(folder, "flows.csv")?;
    let links: Vec<LinkRow> = read(folder, "links.csv")?;
    let frames: Vec<FrameRow> = read(folder, "frames.csv")?;
    if flows.is_empty() {
        return Err(PlotError::Empty {
            path: folder.join("flows.csv"),
        });
    }
    let is_one_flow = flows.iter().all(|row| row.flow == flows[0].flow);
    let label = path_labels(&paths, is_one_flow);
    let rates = paths
        .iter()
        .map(|row| (label(row), row.time_s, row.delivered_bps / 1e6));
    // Half a second's mean: 100 ms hold so few packets that the lines would be a blur.
    let mut rates: Vec<Series> = lines(rates)
        .into_iter()
        .map(|line| smoothed(line, 5))
        .collect();
    if is_one_flow {
        let target = |row: &FlowRow| {
            Some((
                "target bitrate".to_owned(),
                row.time_s,
                row.target_bps? / 1e6,
            ))
        };
        rates.extend(lines(flows.iter().filter_map(target)));
    }
    let delays = paths
        .iter()
        .filter_map(|row| Some((label(row), row.time_s, row.delay_ms?)));
    let queues = links
        .iter()
        .map(|row| (row.link.clone(), row.time_s, row.queued_bytes / 1e3));
    let mut queues = lines(queues);
    queues.retain(|series| series.points.iter().any(|(_, bytes)| *bytes > 0.0));
    let panel = |title, unit, series| Panel {
        title,
        unit,
        series,
    };
    let panels = vec![
        panel("Delivered", "Mbit/s", rates),
        panel("One-way delay of packets", "ms", lines(delays)),
        panel("Queues", "kB", queues),
        panel("Delay of frames", "ms", frame_series(&frames)),
    ];
    Ok(panels
        .into_iter()
        .filter(|panel| !panel.series.is_empty())
        .collect())
}

/// What to call a path: by its route, by its flow, or by both where neither alone tells.
fn path_labels(paths: &[PathRow], is_one_flow: bool) -> impl Fn(&PathRow) -> String {
    let of_several = paths
        .iter()
        .filter(|row| row.path > 0)
        .map(|row| row.flow.clone());
    let with_several_paths: BTreeSet<String> = of_several.collect();
    move |row| match (is_one_flow, with_several_paths.contains(&row.flow)) {
        (true, _) => row.route.clone(),
        (false, false) => row.flow.clone(),
        (false, true) => format!("{} {}", row.flow, row.route),
    }
}

/// Dots for frames that came, crosses for those that were given up.
fn frame_series(frames: &[FrameRow]) -> Vec<Series> {
    let of = |is_complete: bool| {
        let rows = frames
            .iter()
            .filter(move |row| (row.outcome == "complete") == is_complete);
        lines(rows.map(|row| (row.flow.clone(), row.captured_s, row.delay_ms)))
    };
    let complete = of(true).into_iter().map(|series| Series {
        mark: Mark::Dots,
        ..series
    });
    let given_up = of(false).into_iter().map(|series| Series {
        label: format!("{} given up", series.label),
        mark: Mark::Crosses,
        ..series
    });
    complete.chain(given_up).collect()
}

/// One line per label, in the order of labels.
fn lines(points: impl Iterator<Item = (String, f64, f64)>) -> Vec<Series> {
    let mut by_label: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (label, x, y) in points {
        by_label.entry(label).or_default().push((x, y));
    }
    let series = |(label, points): (String, _)| Series {
        subject: label.clone(),
        label,
        points,
        mark: Mark::Line,
    };
    by_label.into_iter().map(series).collect()
}

/// Each point the mean of itself and those before it, `count` in all.
fn smoothed(mut series: Series, count: usize) -> Series {
    let raw = series.points.clone();
    for (index, point) in series.points.iter_mut().enumerate() {
        let recent = &raw[(index + 1).saturating_sub(count)..=index];
        point.1 = recent.iter().map(|(_, y)| y).sum::<f64>() / recent.len() as f64;
    }
    series
}

fn draw(path: &Path, panels: &[Panel]) -> Result<(), String> {
    let size = (WIDTH, PANEL_HEIGHT * panels.len() as u32);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE).map_err(|error| error.to_string())?;
    let points = || {
        panels
            .iter()
            .flat_map(|panel| &panel.series)
            .flat_map(|line| &line.points)
    };
    let end = points().fold(0.0_f64, |end, (x, _)| end.max(*x));
    let mut subjects: Vec<&str> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !subjects.contains(&series.subject.as_str()) {
            subjects.push(&series.subject);
        }
    }
    let colour_of = |subject: &str| {
        let index = subjects
            .iter()
            .position(|known| *known == subject)
            .unwrap_or(0);
        COLOURS[index % COLOURS.len()]
    };
    let areas = root.split_evenly((panels.len(), 1));
    for (area, panel) in areas.iter().zip(panels) {
        draw_panel(area, panel, end, &colour_of).map_err(|error| error.to_string())?;
    }
    root.present().map_err(|error| error.to_string())
}

fn draw_panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    panel: &Panel,
    end: f64,
    colour_of: &dyn Fn(&str) -> RGBColor,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let points = panel.series.iter().flat_map(|series| &series.points);
    let top = points.fold(0.0_f64, |top, (_, y)| top.max(*y)).max(1e-3) * 1.05;
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 18))
        .margin(8)
        .margin_right(220)
        .x_label_area_size(34)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("time, s")
        .y_desc(panel.unit)
        .x_labels(11)
        .y_labels(6)
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 13))
        .draw()?;
    for (index, series) in panel.series.iter().enumerate() {
        let colour = colour_of(&series.subject);
        match series.mark {
            Mark::Line => {
                for part in unbroken_parts(&series.points) {
                    chart.draw_series(LineSeries::new(part.iter().copied(), &colour))?;
                }
            }
            Mark::Dots => {
                let dot = |point: &(f64, f64)| Circle::new(*point, 1, colour.filled());
                chart.draw_series(series.points.iter().map(dot))?;
            }
            Mark::Crosses => {
                let cross = |point: &(f64, f64)| Cross::new(*point, 3, colour);
                chart.draw_series(series.points.iter().map(cross))?;
            }
        }
        // Beside the panel, where it hides nothing.
        let y = 40 + 18 * index as i32;
        let x = (WIDTH - 205) as i32;
        area.draw(&Rectangle::new([(x, y), (x + 12, y + 6)], colour.filled()))?;
        area.draw(&Text::new(
            series.label.clone(),
            (x + 18, y - 3),
            ("sans-serif", 13),
        ))?;
    }
    Ok(())
}

/// The stretches of a line without holes: where nothing was measured, nothing is to be seen.
fn unbroken_parts(points: &[(f64, f64)]) -> impl Iterator<Item = &[(f64, f64)]> {
    points.chunk_by(|(before, _), (after, _)| after - before < 0.35)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_keeps_a_constant_and_averages_a_step() {
        let series = |ys: &[f64]| Series {
            label: String::new(),
            subject: String::new(),
            points: ys.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect(),
            mark: Mark::Line,
        };
        let ys = |series: Series| {
            series
                .points
                .into_iter()
                .map(|(_, y)| y)
                .collect::<Vec<_>>()
        };
        assert_eq!(ys(smoothed(series(&[2.0; 4]), 3)), [2.0; 4]);
        assert_eq!(
            ys(smoothed(series(&[0.0, 0.0, 4.0, 4.0]), 2)),
            [0.0, 0.0, 2.0, 4.0]
        );
    }

    #[test]
    fn a_line_breaks_where_nothing_was_measured() {
        let points: Vec<(f64, f64)> = [0.0, 0.1, 0.2, 5.0, 5.1].map(|x| (x, 1.0)).to_vec();
        let lengths: Vec<usize> = unbroken_parts(&points).map(<[_]>::len).collect();
        assert_eq!(lengths, [3, 2]);
    }

    #[test]
    fn a_missing_trace_is_named() {
        let error = plot(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/paths.csv: "), "{error}");
    }
}

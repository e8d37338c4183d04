//! The frontier as a picture: a panel for each family.

use super::{Frontier, FrontierCell, median};
use crate::chart::{COLOURS, Chart, Line, Lines, Mark, page};

/// End of the horizontal axis, ms, if delays exceed it: these stand at the border.
const MOST_MILLIS: f64 = 800.0;

/// Returns the frontier as a picture of its own. In each family's panel a controller has a disc at
/// the medians of its frames' delay and its goodput, a ring at that of its packets' delay, and a
/// dot for each point.
pub fn frontier_svg(frontier: &Frontier) -> String {
    let mut families: Vec<&str> = Vec::new();
    for point in &frontier.points {
        if !families.contains(&&point.family[..]) {
            families.push(&point.family);
        }
    }
    let charts: Vec<Chart> = families
        .into_iter()
        .map(|family| Chart::Lines(panel(frontier, family)))
        .collect();
    page(&charts)
}

fn panel(frontier: &Frontier, family: &str) -> Lines {
    let points: Vec<_> = frontier
        .points
        .iter()
        .filter(|point| point.family == family)
        .collect();
    let mut lines = Vec::new();
    for (place, column) in frontier.columns.iter().enumerate() {
        let cells: Vec<&FrontierCell> = points.iter().map(|point| &point.cells[place]).collect();
        lines.extend(marks(
            &cells,
            column.label(),
            COLOURS[place % COLOURS.len()],
        ));
    }
    let most = lines
        .iter()
        .flat_map(|line| &line.points)
        .fold(0.0, |most: f64, (delay, _)| most.max(*delay));
    let noun = if points.len() == 1 { "point" } else { "points" };
    Lines {
        title: format!("{family}: {} {noun}", points.len()),
        x: "95th percentile of the delay, ms; disc: frames, ring: packets".to_owned(),
        y: "goodput, % of the best".to_owned(),
        lines,
        x_end: Some((most * 1.05).min(MOST_MILLIS)),
        y_end: Some(105.0),
        ..Lines::default()
    }
}

fn finite_median(values: Vec<f64>) -> Option<f64> {
    median(values).filter(|value| value.is_finite())
}

/// Returns a controller's dots, the line between its packets and its frames, ring and disc.
fn marks(cells: &[&FrontierCell], label: String, colour: &'static str) -> Vec<Line> {
    let goodputs = cells.iter().map(|cell| 100.0 * cell.goodput_ratio);
    let frame_delays = cells.iter().map(|cell| cell.frame_delay_ms());
    let packet_delays = cells.iter().map(|cell| cell.packet_delay_ms());
    let dots: Vec<(f64, f64)> = frame_delays
        .clone()
        .zip(goodputs.clone())
        .filter(|(delay, _)| delay.is_finite())
        .collect();
    let goodput = finite_median(goodputs.collect());
    let frames = Vec::from_iter(finite_median(frame_delays.collect()).zip(goodput));
    let packets = Vec::from_iter(finite_median(packet_delays.collect()).zip(goodput));
    let between = [&packets[..], &frames].concat();
    let lines = [
        (String::new(), dots, Mark::Dots),
        (String::new(), between, Mark::Line),
        (String::new(), packets, Mark::Rings),
        (label, frames, Mark::Discs),
    ];
    lines
        .map(|(label, points, mark)| Line {
            label,
            points,
            mark,
            colour: Some(colour),
            ..Line::default()
        })
        .into()
}

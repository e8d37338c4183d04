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

/// Returns a controller's dots, the line between its packets and its frames, ring and disc.
fn marks(cells: &[&FrontierCell], label: String, colour: &'static str) -> Vec<Line> {
    let per_cent = |cell: &&FrontierCell| 100.0 * cell.goodput_ratio;
    let dots: Vec<(f64, f64)> = cells
        .iter()
        .map(|cell| (cell.frame_delay_ms(), per_cent(cell)))
        .filter(|(delay, _)| delay.is_finite())
        .collect();
    let middle = |values: Vec<f64>| median(values).filter(|value| value.is_finite());
    let goodput = middle(cells.iter().map(per_cent).collect());
    let frames = middle(cells.iter().map(|cell| cell.frame_delay_ms()).collect());
    let packets = middle(cells.iter().map(|cell| cell.packet_delay_ms()).collect());
    let at = |delay: Option<f64>| Vec::from_iter(delay.zip(goodput));
    let line = |label: String, points: Vec<(f64, f64)>, mark| Line {
        label,
        points,
        mark,
        colour: Some(colour),
        ..Line::default()
    };
    let between = [at(packets), at(frames)].concat();
    vec![
        line(String::new(), dots, Mark::Dots),
        line(String::new(), between, Mark::Line),
        line(String::new(), at(packets), Mark::Rings),
        line(label, at(frames), Mark::Discs),
    ]
}

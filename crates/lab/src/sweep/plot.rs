//! Pictures of a sweep.

use std::path::Path;

use super::{PointReport, SettingReport, SweepReport, columns, heading, keys, unit, value};
use crate::chart::{Line, Lines};
use crate::metrics::Unit;
use crate::plot::{PlotError, draw};
use crate::report::Spread;

/// Largest number of lines in a panel: as many as colours.
const MAX_LINES: usize = 7;
/// Largest number of panels of a picture.
const MAX_PANELS: usize = 48;

/// Draws a sweep over its first numeric key (of several, that with the most values) into an SVG: a
/// panel for each metric, a line for each combination of the other keys. If these are too many
/// lines, there is a panel for each metric and each value of some of the other keys.
///
/// # Errors
/// [`PlotError::Empty`] if no key is numeric or nothing was measured, [`PlotError::Crowded`],
/// [`PlotError::Write`].
pub fn plot_sweep(report: &SweepReport, path: &Path) -> Result<(), PlotError> {
    let Some(axis) = numeric_axis(report) else {
        return Err(PlotError::Empty {
            path: path.to_owned(),
        });
    };
    let label = match axis.unit {
        "" => axis.key.to_owned(),
        unit => format!("{}, {unit}", axis.key),
    };
    let others = keys(report)
        .into_iter()
        .filter(|key| is_ambiguous(report, axis.key, key));
    let (of_panels, of_lines) = shared_out(report, others.collect());
    let facets = combinations(report, &of_panels);
    let columns = columns(report);
    let panel_count = facets.len() * columns.len();
    if panel_count > MAX_PANELS {
        return Err(PlotError::Crowded {
            path: path.to_owned(),
            panel_count,
            keys: of_panels.join(", "),
        });
    }
    let pairs = columns
        .iter()
        .flat_map(|column| facets.iter().map(move |facet| (column, &facet[..])));
    let panels: Vec<Lines> = pairs
        .filter_map(|(column, facet)| {
            let mut lines: Vec<(String, Vec<(f64, Spread)>)> = Vec::new();
            let points = report.points.iter();
            for point in points.filter(|point| values(point, &of_panels) == facet) {
                let x = setting(point, axis.key)?.number?.0;
                let Some(spread) = value(&point.report, column) else {
                    continue;
                };
                let label = values(point, &of_lines).join(", ");
                match lines.iter_mut().find(|(known, _)| *known == label) {
                    Some((_, points)) => points.push((x, spread)),
                    None => lines.push((label, vec![(x, spread)])),
                }
            }
            let scale = scale(unit(column));
            let title = match facet {
                [] => heading(column),
                facet => format!("{}: {}", heading(column), facet.join(", ")),
            };
            Some(Lines {
                title,
                x: label.clone(),
                lines: lines
                    .into_iter()
                    .map(|(label, points)| line(label, points, scale))
                    .collect(),
                ..Lines::default()
            })
        })
        .collect();
    if panels.is_empty() {
        return Err(PlotError::Empty {
            path: path.to_owned(),
        });
    }
    draw(path, panels)
}

/// Returns the line through the medians of points, which come in any order.
fn line(label: String, mut points: Vec<(f64, Spread)>, scale: f64) -> Line {
    points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let medians = points.iter().map(|(x, spread)| (*x, spread.median * scale));
    let ranges = points
        .iter()
        .map(|(_, spread)| (spread.min * scale, spread.max * scale));
    Line {
        ranges: ranges.collect(),
        ..Line::new(label, medians.collect())
    }
}

/// Returns the keys that have a panel for each value, and those that have a line for each.
///
/// Keys go to the panels, those with the fewest values first, until a panel has few enough lines.
fn shared_out<'a>(report: &SweepReport, mut keys: Vec<&'a str>) -> (Vec<&'a str>, Vec<&'a str>) {
    let mut of_panels = Vec::new();
    while combinations(report, &keys).len() > MAX_LINES {
        let counts = keys.iter().map(|key| combinations(report, &[key]).len());
        let Some((fewest, _)) = counts.enumerate().min_by_key(|(_, count)| *count) else {
            break;
        };
        of_panels.push(keys.remove(fewest));
    }
    (of_panels, keys)
}

/// Returns the values of keys that some point has, in the order of points; one list without values
/// for no key.
fn combinations<'a>(report: &'a SweepReport, keys: &[&str]) -> Vec<Vec<&'a str>> {
    let mut found: Vec<Vec<&str>> = Vec::new();
    for point in &report.points {
        let values = values(point, keys);
        if !found.contains(&values) {
            found.push(values);
        }
    }
    found
}

fn values<'a>(point: &'a PointReport, keys: &[&str]) -> Vec<&'a str> {
    keys.iter()
        .map(|key| setting(point, key).map_or("", |setting| setting.value.as_str()))
        .collect()
}

fn setting<'a>(point: &'a PointReport, key: &str) -> Option<&'a SettingReport> {
    point.settings.iter().find(|setting| setting.key == key)
}

/// Whether points at one place of the axis differ in a key. A key that changes only with the axis
/// does not distinguish lines.
fn is_ambiguous(report: &SweepReport, axis: &str, key: &str) -> bool {
    let places: Vec<_> = report
        .points
        .iter()
        .map(|point| [axis, key].map(|key| setting(point, key).map(|setting| &setting.value)))
        .collect();
    places.iter().enumerate().any(|(index, [x, own])| {
        let mut before = places[..index].iter();
        before.any(|[other_x, other]| other_x == x && other != own)
    })
}

/// Key of the horizontal axis, and its values' unit.
struct NumericAxis<'a> {
    key: &'a str,
    unit: &'static str,
}

fn numeric_axis(report: &SweepReport) -> Option<NumericAxis<'_>> {
    let mut best: Option<(usize, NumericAxis<'_>)> = None;
    for key in keys(report) {
        let settings = report.points.iter().flat_map(|point| &point.settings);
        let numbers = settings
            .filter(|setting| setting.key == key)
            .map(|setting| setting.number);
        let Some(numbers) = numbers.collect::<Option<Vec<(f64, &'static str)>>>() else {
            continue;
        };
        let unit = numbers.first()?.1;
        let mut values: Vec<f64> = numbers.iter().map(|(value, _)| *value).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let is_one_unit = numbers.iter().all(|(_, other)| *other == unit);
        if is_one_unit && best.as_ref().is_none_or(|(count, _)| values.len() > *count) {
            best = Some((values.len(), NumericAxis { key, unit }));
        }
    }
    best.map(|(_, axis)| axis)
}

/// Returns the factor from a metric's number to that in its heading.
fn scale(unit: Unit) -> f64 {
    match unit {
        Unit::Share => 100.0,
        Unit::BitsPerSecond | Unit::Bytes => 1e-3,
        Unit::Milliseconds | Unit::Number => 1.0,
    }
}

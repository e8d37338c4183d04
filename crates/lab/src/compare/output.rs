//! A comparison as text, CSV, JSON and a picture.

use serde::Serialize;

use super::{Cell, Comparison, ComparisonRow};
use crate::chart::{Bar, BarKind, Bars, Chart, page};
use crate::metrics::Unit;
use crate::report::{grid, in_unit};

/// Version of the JSON form. Fields may be added under one version; none changes its meaning or is
/// removed.
pub const COMPARISON_SCHEMA: &str = "anabranch-comparison/1";

/// Returns the unit in which a number is printed and drawn, and the factor of the conversion.
fn printed(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::Share => ("%", 100.0),
        Unit::Milliseconds => ("ms", 1.0),
        Unit::BitsPerSecond => ("kbit/s", 1e-3),
        Unit::Bytes => ("kB", 1e-3),
        Unit::Number => ("", 1.0),
    }
}

fn metric_name(row: &ComparisonRow) -> String {
    match &row.subject {
        Some(subject) => format!("{}.{subject}", row.metric.name),
        None => row.metric.name.to_owned(),
    }
}

/// Returns the comparison as aligned text. `~` marks values that may be equal to the first
/// column's.
pub fn comparison_table(comparison: &Comparison) -> String {
    let mut heading = vec![
        "scenario".to_owned(),
        "metric".to_owned(),
        "unit".to_owned(),
    ];
    heading.extend(comparison.columns.iter().map(super::Column::label));
    let mut rows = vec![heading];
    for row in &comparison.rows {
        let unit = row.metric.unit;
        let names = [
            row.scenario.clone(),
            metric_name(row),
            printed(unit).0.to_owned(),
        ];
        rows.push(
            names
                .into_iter()
                .chain(row.cells.iter().map(|cell| match cell.estimate {
                    None => "-".to_owned(),
                    Some(estimate) => {
                        let mark = if cell.is_different == Some(false) {
                            " ~"
                        } else {
                            ""
                        };
                        let half_width = estimate
                            .half_width
                            .map(|width| in_unit(width, unit))
                            .map_or(String::new(), |width| format!(" ±{width}"));
                        format!("{}{half_width}{mark}", in_unit(estimate.mean, unit))
                    }
                }))
                .collect(),
        );
    }
    let mut text = format!(
        "{} seeds: mean ± half of the 95 % confidence interval; ~ the difference from the first \
         column, seed by seed, may be chance\n\n{}",
        comparison.seed_count,
        grid(&rows)
    );
    if !comparison.without_chance.is_empty() {
        let names: Vec<String> = comparison
            .without_chance
            .iter()
            .map(|(scenario, label)| format!("{scenario} ({label})"))
            .collect();
        text.push_str("\nall seeds gave the same result, without any chance: ");
        text.push_str(&names.join(", "));
        text.push('\n');
    }
    text
}

/// Returns the settings as `key=value`.
fn settings(column: &super::Column) -> Vec<String> {
    let settings = column.settings.iter();
    settings
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}

#[derive(Serialize)]
struct CsvRow<'a> {
    scenario: &'a str,
    metric: &'a str,
    subject: Option<&'a str>,
    controller: Option<&'a str>,
    scheduler: Option<&'a str>,
    seeds: u64,
    mean: Option<f64>,
    half_width_95: Option<f64>,
    is_different_from_first: Option<bool>,
    /// `key=value`, with semicolons between them.
    settings: String,
}

/// Returns the comparison as CSV, one line per cell. Shares are 0 to 1, times in ms, rates in
/// bit/s.
pub fn comparison_csv(comparison: &Comparison) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in &comparison.rows {
        for (cell, column) in row.cells.iter().zip(&comparison.columns) {
            let written = writer.serialize(CsvRow {
                scenario: &row.scenario,
                metric: row.metric.name,
                subject: row.subject.as_deref(),
                controller: column.controller.as_deref(),
                scheduler: column.scheduler.as_deref(),
                seeds: comparison.seed_count,
                mean: cell.estimate.map(|estimate| estimate.mean),
                half_width_95: cell.estimate.and_then(|estimate| estimate.half_width),
                is_different_from_first: cell.is_different,
                settings: settings(column).join(";"),
            });
            written.expect("memory takes everything");
        }
    }
    let bytes = writer.into_inner().expect("memory takes everything");
    String::from_utf8(bytes).expect("names are texts")
}

#[derive(Serialize)]
struct JsonDocument<'a> {
    schema: &'static str,
    seed_count: u64,
    columns: Vec<JsonColumn<'a>>,
    rows: Vec<JsonRow<'a>>,
}

#[derive(Serialize)]
struct JsonColumn<'a> {
    controller: Option<&'a str>,
    scheduler: Option<&'a str>,
    settings: Vec<String>,
}

#[derive(Serialize)]
struct JsonRow<'a> {
    scenario: &'a str,
    metric: &'a str,
    subject: Option<&'a str>,
    cells: Vec<JsonCell<'a>>,
}

#[derive(Serialize)]
struct JsonCell<'a> {
    mean: Option<f64>,
    half_width_95: Option<f64>,
    is_different_from_first: Option<bool>,
    values: &'a [Option<f64>],
}

/// Returns the comparison as JSON, indented. Shares are 0 to 1, times in ms, rates in bit/s.
pub fn comparison_json(comparison: &Comparison) -> String {
    let columns = comparison.columns.iter().map(|column| JsonColumn {
        controller: column.controller.as_deref(),
        scheduler: column.scheduler.as_deref(),
        settings: settings(column),
    });
    let document = JsonDocument {
        schema: COMPARISON_SCHEMA,
        seed_count: comparison.seed_count,
        columns: columns.collect(),
        rows: comparison.rows.iter().map(json_row).collect(),
    };
    let mut text = serde_json::to_string_pretty(&document).expect("keys are texts");
    text.push('\n');
    text
}

fn json_row(row: &ComparisonRow) -> JsonRow<'_> {
    JsonRow {
        scenario: &row.scenario,
        metric: row.metric.name,
        subject: row.subject.as_deref(),
        cells: row.cells.iter().map(json_cell).collect(),
    }
}

fn json_cell(cell: &Cell) -> JsonCell<'_> {
    JsonCell {
        mean: cell.estimate.map(|estimate| estimate.mean),
        half_width_95: cell.estimate.and_then(|estimate| estimate.half_width),
        is_different_from_first: cell.is_different,
        values: &cell.values,
    }
}

/// Returns the comparison as a picture of its own: for each metric the scenarios' bars, with
/// intervals.
pub fn comparison_svg(comparison: &Comparison) -> String {
    let mut metrics: Vec<String> = Vec::new();
    for name in comparison.rows.iter().map(metric_name) {
        if !metrics.contains(&name) {
            metrics.push(name);
        }
    }
    let charts: Vec<Chart> = metrics.iter().map(|name| bars(comparison, name)).collect();
    page(&charts)
}

/// Makes a bar of a cell's mean and confidence interval, times `factor`.
fn bar(cell: &Cell, factor: f64) -> Option<Bar> {
    cell.estimate.map(|estimate| {
        let half_width = estimate.half_width.unwrap_or(0.0);
        Bar {
            value: estimate.mean * factor,
            low: (estimate.mean - half_width) * factor,
            high: (estimate.mean + half_width) * factor,
        }
    })
}

fn bars(comparison: &Comparison, metric: &str) -> Chart {
    let rows: Vec<&ComparisonRow> = comparison
        .rows
        .iter()
        .filter(|row| metric_name(row) == metric)
        .collect();
    let (unit, factor) = rows
        .first()
        .map_or(("", 1.0), |row| printed(row.metric.unit));
    let columns = comparison.columns.iter().enumerate();
    let kinds = columns.map(|(place, column)| BarKind {
        label: column.label(),
        bars: rows
            .iter()
            .map(|row| bar(&row.cells[place], factor))
            .collect(),
    });
    Chart::Bars(Bars {
        title: metric.to_owned(),
        y: unit.to_owned(),
        groups: rows.iter().map(|row| row.scenario.clone()).collect(),
        kinds: kinds.collect(),
    })
}

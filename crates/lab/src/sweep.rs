//! A scenario at every point of its sweep: runs, report, table and picture.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::chart::{Line, Lines};
use crate::metrics::{METRICS, Unit};
use crate::plot::{PlotError, draw};
use crate::report::{Report, Spread, cell, grid, in_unit, report, unit_name};
use crate::run::{Outcome, Progress, RunError, RunOptions, in_parallel, run_outcomes};
use crate::scenario::{Point, Scenario, Setting};

/// The version of the JSON report of a sweep, as [`SCHEMA`](crate::SCHEMA) of a report's.
pub const SWEEP_SCHEMA: &str = "anabranch-sweep/1";

/// The report of a scenario at every point of its sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepReport {
    /// [`SWEEP_SCHEMA`].
    pub schema: &'static str,
    /// The points, the last key of the sweep changing fastest.
    pub points: Vec<PointReport>,
    /// Whether all expectations were met in all runs at all points.
    pub is_as_expected: bool,
}

/// One point of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct PointReport {
    /// What the sweep set.
    pub settings: Vec<SettingReport>,
    /// What was measured.
    pub report: Report,
}

/// A value that the sweep set.
#[derive(Clone, Debug, Serialize)]
pub struct SettingReport {
    /// Where.
    pub key: String,
    /// What.
    pub value: String,
    #[serde(skip)]
    number: Option<(f64, &'static str)>,
}

/// Runs a scenario at every point with every seed. Traces, if wanted, go into `point-N` below the
/// folder, and there into `seed-N` if there are several.
///
/// # Errors
/// The first [`RunError`] in the order of points and seeds.
pub fn run_sweep(
    points: &[Point],
    options: &RunOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<SweepReport, RunError> {
    let jobs = points.iter().enumerate().flat_map(|(index, point)| {
        options
            .seeds
            .iter()
            .map(move |seed| (index, &point.scenario, *seed))
    });
    let jobs: Vec<(usize, &Scenario, u64)> = jobs.collect();
    // One pool for all runs of all points: nothing waits for the last seed of a point.
    let results = in_parallel(&jobs, options.threads, |(index, scenario, seed)| {
        let folder = |folder: &PathBuf| {
            let folder = folder.join(format!("point-{}", index + 1));
            match options.seeds.len() {
                1 => folder,
                _ => folder.join(format!("seed-{seed}")),
            }
        };
        let options = RunOptions {
            seeds: vec![*seed],
            threads: 1,
            trace: options
                .trace
                .as_ref()
                .map(|(path, trace)| (folder(path), *trace)),
            series_interval: options.series_interval,
        };
        run_outcomes(scenario, &options, progress)
    });
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); points.len()];
    for ((index, ..), result) in jobs.iter().zip(results) {
        outcomes[*index].extend(result?);
    }
    let setting = |setting: &Setting| SettingReport {
        key: setting.key.clone(),
        value: setting.value.clone(),
        number: setting.number,
    };
    let points = points
        .iter()
        .zip(&outcomes)
        .map(|(point, outcomes)| PointReport {
            settings: point.settings.iter().map(setting).collect(),
            report: report(&point.scenario, outcomes),
        });
    let points: Vec<PointReport> = points.collect();
    Ok(SweepReport {
        schema: SWEEP_SCHEMA,
        is_as_expected: points.iter().all(|point| point.report.is_as_expected),
        points,
    })
}

/// The report as JSON, indented.
pub fn sweep_json(report: &SweepReport) -> String {
    let mut text = serde_json::to_string_pretty(report).expect("keys are texts");
    text.push('\n');
    text
}

/// A metric of a subject.
type Column = (&'static str, Option<String>);

/// What every sweep shows, beside what its scenario expects something of.
const USUAL_COLUMNS: [&str; 6] = [
    "throughput",
    "loss",
    "delay-mean",
    "delay-p95",
    "jain",
    "utilisation",
];

/// The metrics that the scenario expects something of, and the usual ones, as far as they could be
/// measured anywhere.
fn columns(report: &SweepReport) -> Vec<Column> {
    let reports = || report.points.iter().map(|point| &point.report);
    let expected = reports().flat_map(|report| &report.expectations);
    let expected = expected.map(|expected| (expected.metric, expected.subject.clone()));
    // Raw datagrams have no scheduler, and no share in Jain's index.
    let session_count = |report: &Report| {
        let flows = report.runs[0].statistics.flows.iter();
        flows.filter(|flow| !flow.scheduler.is_empty()).count()
    };
    let is_shared = reports().any(|report| session_count(report) > 1);
    let is_usual = |metric: &str| match metric {
        "jain" => is_shared,
        metric => USUAL_COLUMNS.contains(&metric),
    };
    let usual = reports()
        .flat_map(|report| &report.summary)
        .filter(|entry| {
            let is_of_link = entry.metric == "utilisation";
            is_usual(entry.metric) && (entry.subject.is_none() || is_of_link)
        });
    let usual = usual.map(|entry| (entry.metric, entry.subject.clone()));
    let mut columns: Vec<Column> = Vec::new();
    for column in expected.chain(usual) {
        let is_measured = reports().any(|report| value(report, &column).is_some());
        if is_measured && !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

fn value(report: &Report, (metric, subject): &Column) -> Option<crate::report::Spread> {
    let is_it =
        |entry: &&crate::report::MetricReport| entry.metric == *metric && entry.subject == *subject;
    report.summary.iter().find(is_it).map(|entry| entry.spread)
}

fn unit(column: &Column) -> Unit {
    let metric = METRICS.iter().find(|metric| metric.name == column.0);
    metric.map_or(Unit::Number, |metric| metric.unit)
}

fn heading(column: &Column) -> String {
    let (metric, subject) = column;
    let subject = subject
        .as_ref()
        .map_or(String::new(), |subject| format!(".{subject}"));
    let unit = unit_name(unit(column));
    let gap = if unit.is_empty() { "" } else { " " };
    format!("{metric}{subject}{gap}{unit}")
}

/// The keys that the sweep sets anywhere, in their order.
fn keys(report: &SweepReport) -> Vec<&str> {
    let mut keys: Vec<&str> = Vec::new();
    for setting in report.points.iter().flat_map(|point| &point.settings) {
        if !keys.contains(&setting.key.as_str()) {
            keys.push(&setting.key);
        }
    }
    keys
}

/// One row for each point: what the sweep set, and the medians over the seeds with least and
/// largest value. After it, every expectation that was not met.
pub fn sweep_table(report: &SweepReport) -> String {
    let (keys, columns) = (keys(report), columns(report));
    let is_judged = report
        .points
        .iter()
        .any(|point| !point.report.expectations.is_empty());
    let verdict = is_judged.then(|| "verdict".to_owned());
    let headings = keys
        .iter()
        .map(|key| (*key).to_owned())
        .chain(columns.iter().map(heading));
    let mut rows: Vec<Vec<String>> = vec![headings.chain(verdict).collect()];
    for point in &report.points {
        let setting = |key: &&str| {
            let setting = point.settings.iter().find(|setting| setting.key == *key);
            setting.map_or("-".to_owned(), |setting| setting.value.clone())
        };
        let measured = |column: &Column| {
            let unit = unit(column);
            cell(value(&point.report, column), |value| in_unit(value, unit))
        };
        let verdict = match point.report.is_as_expected {
            true => "ok",
            false => "BROKEN",
        };
        let cells = keys.iter().map(setting).chain(columns.iter().map(measured));
        rows.push(cells.chain(is_judged.then(|| verdict.to_owned())).collect());
    }
    let scenario = &report.points[0].report.scenario;
    let seed_count = report.points[0].report.runs.len();
    let mut text = format!(
        "{}\n{} points, {} s simulated, statistics over {:.0}-{:.0} s, {seed_count} {}\n\n{}",
        scenario.title,
        report.points.len(),
        scenario.duration_s,
        scenario.statistics_from_s,
        scenario.statistics_to_s,
        if seed_count == 1 {
            "seed"
        } else {
            "seeds: median (min-max)"
        },
        grid(&rows),
    );
    for point in report
        .points
        .iter()
        .filter(|point| !point.report.is_as_expected)
    {
        let settings: Vec<String> = point
            .settings
            .iter()
            .map(|setting| format!("{}={}", setting.key, setting.value))
            .collect();
        text.push_str(&format!("\n{}\n", settings.join(", ")));
        text.push_str(&crate::report::broken_expectations(&point.report));
    }
    text
}

/// Draws a sweep over its first numeric key (of several, that with the most values) into an SVG: a
/// panel for each metric, a line for each combination of the other keys.
///
/// # Errors
/// [`PlotError::Empty`] if no key is numeric or nothing was measured, [`PlotError::Write`].
pub fn plot_sweep(report: &SweepReport, path: &Path) -> Result<(), PlotError> {
    let empty = || PlotError::Empty {
        path: path.to_owned(),
    };
    let axis = numeric_axis(report).ok_or_else(empty)?;
    let label = match axis.unit {
        "" => axis.key.to_owned(),
        unit => format!("{}, {unit}", axis.key),
    };
    let others: Vec<&str> = keys(report)
        .into_iter()
        .filter(|key| tells_apart(report, axis.key, key))
        .collect();
    let panel = |column: &Column| {
        let mut lines: Vec<(String, Vec<(f64, Spread)>)> = Vec::new();
        for point in &report.points {
            let settings = || point.settings.iter();
            let x = settings()
                .find(|setting| setting.key == axis.key)?
                .number?
                .0;
            let Some(spread) = value(&point.report, column) else {
                continue;
            };
            let values = settings().filter(|setting| others.contains(&setting.key.as_str()));
            let values: Vec<&str> = values.map(|setting| setting.value.as_str()).collect();
            let label = values.join(", ");
            match lines.iter_mut().find(|(known, _)| *known == label) {
                Some((_, points)) => points.push((x, spread)),
                None => lines.push((label, vec![(x, spread)])),
            }
        }
        let scale = scale(unit(column));
        let line = |(label, mut points): (String, Vec<(f64, Spread)>)| {
            points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            let medians = points.iter().map(|(x, spread)| (*x, spread.median * scale));
            let ranges = points.iter();
            let ranges = ranges.map(|(_, spread)| (spread.min * scale, spread.max * scale));
            Line {
                ranges: ranges.collect(),
                ..Line::new(label, medians.collect())
            }
        };
        Some(Lines {
            title: heading(column),
            x: label.clone(),
            lines: lines.into_iter().map(line).collect(),
            ..Lines::default()
        })
    };
    let panels: Vec<Lines> = columns(report).iter().filter_map(panel).collect();
    if panels.is_empty() {
        return Err(empty());
    }
    draw(path, panels)
}

/// Whether points at one place of the axis differ in a key. One that changes with the axis alone
/// tells no lines apart.
fn tells_apart(report: &SweepReport, axis: &str, key: &str) -> bool {
    let value = |point: &PointReport, key: &str| {
        let mut settings = point.settings.iter();
        let setting = settings.find(|setting| setting.key == key);
        setting.map(|setting| setting.value.clone())
    };
    let places = report
        .points
        .iter()
        .map(|point| (value(point, axis), value(point, key)));
    let places: Vec<_> = places.collect();
    places.iter().enumerate().any(|(index, (x, own))| {
        let mut before = places[..index].iter();
        before.any(|(other_x, other)| other_x == x && other != own)
    })
}

/// The key to draw over, and its values' unit.
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

/// From a metric's number to that in its heading.
fn scale(unit: Unit) -> f64 {
    match unit {
        Unit::Share => 100.0,
        Unit::BitsPerSecond | Unit::Bytes => 1e-3,
        Unit::Milliseconds | Unit::Number => 1.0,
    }
}

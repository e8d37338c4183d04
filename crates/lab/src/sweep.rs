//! A scenario at every point of its sweep: runs, report, table and picture.

mod index;
mod plot;

use serde::Serialize;

use crate::metrics::{METRICS, Unit};
use crate::report::{Report, cell, grid, in_unit, report, unit_name};
use crate::run::{Outcome, Progress, RunError, RunOptions, in_parallel, run_outcomes};
use crate::scenario::{Point, Scenario};
pub use plot::plot_sweep;

/// Version of the JSON report of a sweep, as [`SCHEMA`](crate::SCHEMA) of a report.
pub const SWEEP_SCHEMA: &str = "anabranch-sweep/1";

/// The report of a scenario at every point of its sweep.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
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
    /// Settings of the point.
    pub settings: Vec<SettingReport>,
    /// Measurements at the point.
    pub report: Report,
}

/// A value that the sweep set.
#[derive(Clone, Debug, Serialize)]
pub struct SettingReport {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    #[serde(skip)]
    number: Option<(f64, &'static str)>,
}

/// Runs a scenario at every point with every seed. Traces, if requested, go into `point-N` below
/// the folder, and there into `seed-N` if there are several. `points.csv` lists the settings of
/// each point.
///
/// # Errors
/// The first [`RunError`] in the order of points and seeds.
pub fn run_sweep(
    points: &[Point],
    options: &RunOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<SweepReport, RunError> {
    let jobs: Vec<(usize, &Scenario, u64)> = points
        .iter()
        .enumerate()
        .flat_map(|(index, point)| {
            options
                .seeds
                .iter()
                .map(move |seed| (index, &point.scenario, *seed))
        })
        .collect();
    if let Some((folder, _)) = &options.trace {
        index::write(folder, points, &options.seeds)?;
    }
    // One pool for all runs of all points: no thread waits for the last seed of a point.
    let results = in_parallel(&jobs, options.threads, |(index, scenario, seed)| {
        let trace = options.trace.as_ref().map(|(path, trace)| {
            let folder = path.join(trace_folder(*index, *seed, &options.seeds));
            (folder, *trace)
        });
        let options = RunOptions {
            seeds: vec![*seed],
            threads: 1,
            trace,
            series_interval: options.series_interval,
        };
        run_outcomes(scenario, &options, progress)
    });
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); points.len()];
    for ((index, ..), result) in jobs.iter().zip(results) {
        outcomes[*index].extend(result?);
    }
    let points: Vec<PointReport> = points
        .iter()
        .zip(&outcomes)
        .map(|(point, outcomes)| PointReport {
            settings: point
                .settings
                .iter()
                .map(|setting| SettingReport {
                    key: setting.key.clone(),
                    value: setting.value.clone(),
                    number: setting.number,
                })
                .collect(),
            report: report(&point.scenario, outcomes),
        })
        .collect();
    Ok(SweepReport {
        schema: SWEEP_SCHEMA,
        is_as_expected: points.iter().all(|point| point.report.is_as_expected),
        points,
    })
}

/// Returns the folder of a run's traces below that of the sweep.
fn trace_folder(index: usize, seed: u64, seeds: &[u64]) -> String {
    match seeds.len() {
        1 => format!("point-{}", index + 1),
        _ => format!("point-{}/seed-{seed}", index + 1),
    }
}

/// Returns the report as JSON, indented.
pub fn sweep_json(report: &SweepReport) -> String {
    let mut text = serde_json::to_string_pretty(report).expect("keys are texts");
    text.push('\n');
    text
}

/// A metric of a subject.
type Column = (&'static str, Option<String>);

/// Metrics that every sweep shows, beside those that its scenario has expectations of.
const USUAL_COLUMNS: [&str; 6] = [
    "throughput",
    "loss",
    "delay-mean",
    "delay-p95",
    "jain",
    "utilisation",
];

/// Returns the metrics of the scenario's expectations, and the usual ones, as far as any run could
/// measure them.
fn columns(report: &SweepReport) -> Vec<Column> {
    fn is_usual(metric: &str, is_shared: bool) -> bool {
        match metric {
            "jain" => is_shared,
            metric => USUAL_COLUMNS.contains(&metric),
        }
    }

    fn session_count(report: &Report) -> usize {
        let flows = report.runs[0].statistics.flows.iter();
        flows.filter(|flow| !flow.scheduler.is_empty()).count()
    }

    let reports = report.points.iter().map(|point| &point.report);
    let expected = reports
        .clone()
        .flat_map(|report| &report.expectations)
        .map(|expected| (expected.metric, expected.subject.clone()));
    // Raw datagrams have no scheduler, and no share in Jain's index.
    let is_shared = reports.clone().any(|report| session_count(report) > 1);
    let usual = reports
        .clone()
        .flat_map(|report| &report.summary)
        .filter(|entry| {
            let is_of_link = entry.metric == "utilisation";
            is_usual(entry.metric, is_shared) && (entry.subject.is_none() || is_of_link)
        })
        .map(|entry| (entry.metric, entry.subject.clone()));
    let mut columns: Vec<Column> = Vec::new();
    for column in expected.chain(usual) {
        let mut values = reports.clone().map(|report| value(report, &column));
        let is_measured = values.any(|value| value.is_some());
        if is_measured && !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

fn value(report: &Report, (metric, subject): &Column) -> Option<crate::report::Spread> {
    report
        .summary
        .iter()
        .find(|entry| entry.metric == *metric && entry.subject == *subject)
        .map(|entry| entry.spread)
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

/// Returns the keys that the sweep sets anywhere, in their order.
fn keys(report: &SweepReport) -> Vec<&str> {
    let mut keys: Vec<&str> = Vec::new();
    for setting in report.points.iter().flat_map(|point| &point.settings) {
        if !keys.contains(&setting.key.as_str()) {
            keys.push(&setting.key);
        }
    }
    keys
}

/// Returns a table with one row for each point: its settings, and the medians over the seeds with
/// least and largest value. After it, every expectation that was not met.
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
        let settings = keys.iter().map(|key| {
            let setting = point.settings.iter().find(|setting| setting.key == *key);
            setting.map_or("-".to_owned(), |setting| setting.value.clone())
        });
        let verdict = if point.report.is_as_expected {
            "ok"
        } else {
            "BROKEN"
        };
        let cells = settings.chain(columns.iter().map(|column| {
            let unit = unit(column);
            cell(value(&point.report, column), |value| in_unit(value, unit))
        }));
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

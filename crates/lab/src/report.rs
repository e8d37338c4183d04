//! Results of a set of runs, as JSON for programs and as a table for people.

mod table;

use anabranch_units::median;
use serde::{Deserialize, Serialize};

use crate::metrics::{METRICS, Metric, Scope, Statistics, Subject};
use crate::run::{Outcome, Progress, RunError, RunOptions, run_outcomes};
use crate::scenario::{Expectation, Scenario};

pub use table::table;
pub(crate) use table::{broken_expectations, in_unit, unit_name};
pub use table::{cell, grid, written};

/// Version of the JSON report. Fields may be added under one version; none changes its meaning or
/// is removed.
pub const SCHEMA: &str = "anabranch-report/1";

/// Report of one scenario over one or more seeds; `docs/scenarios.md` documents its JSON form.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The scenario.
    pub scenario: ScenarioReport,
    /// Each run, in the order of the seeds.
    pub runs: Vec<RunReport>,
    /// Every metric over the runs.
    pub summary: Vec<MetricReport>,
    /// Every expectation, and whether it was met.
    pub expectations: Vec<ExpectationReport>,
    /// Whether all expectations were met in all runs.
    pub is_as_expected: bool,
}

impl Report {
    /// Whether there are several runs and chance made no difference to them.
    pub fn are_seeds_alike(&self) -> bool {
        let mut runs = self.runs.iter();
        let first = runs.next().map(|run| &run.trace_hash);
        self.runs.len() > 1 && runs.all(|run| Some(&run.trace_hash) == first)
    }
}

/// The scenario of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScenarioReport {
    /// The file's name without folder and ending.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its source.
    pub source: Option<String>,
    /// Simulated time of each run.
    pub duration_s: f64,
    /// Begin of the part that the statistics cover.
    pub statistics_from_s: f64,
    /// Its end.
    pub statistics_to_s: f64,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunReport {
    /// Its seed.
    pub seed: u64,
    /// Sixteen hexadecimal digits that any run of the same code, scenario and seed has.
    pub trace_hash: String,
    /// Datagrams of both directions handed to the network.
    pub packets_sent: u64,
    /// Datagrams that arrived.
    pub packets_delivered: u64,
    /// Datagrams that links lost. The rest was on its way when the run ended.
    pub packets_dropped: u64,
    /// Datagrams that arrived at receivers.
    pub data_packets_delivered: u64,
    /// Its measurements.
    pub statistics: Statistics,
}

/// One metric of one subject over the runs that could measure it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MetricReport {
    /// Its name, one of [`METRICS`].
    pub metric: &'static str,
    /// The flow's or link's name; `null`: all flows together.
    pub subject: Option<String>,
    /// Median, least and largest value, in the metric's unit.
    #[serde(flatten)]
    pub spread: Spread,
}

/// Distribution of a value over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number of runs the mean of the middle two.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of any number of values; `None` without any.
    ///
    /// ```
    /// use anabranch_lab::Spread;
    ///
    /// let spread = Spread::of([3.0, 1.0, 2.0]).expect("there are values");
    /// assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
    /// assert_eq!(Spread::of([]), None);
    /// ```
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        let median = median(&mut values)?;
        let (min, max) = (*values.first()?, *values.last()?);
        Some(Spread { median, min, max })
    }
}

/// One expectation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExpectationReport {
    /// The metric's name.
    pub metric: &'static str,
    /// The flow's or link's name; `null`: all flows together.
    pub subject: Option<String>,
    /// The least value that is right.
    pub min: Option<f64>,
    /// The largest value that is right.
    pub max: Option<f64>,
    /// Begin of its window.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Part of the window that does not count.
    pub outside_s: Option<[f64; 2]>,
    /// The value in each run; `null`: there was nothing to measure, which does not meet the
    /// expectation.
    pub values: Vec<Option<f64>>,
    /// Whether it was met in each run.
    pub is_met: bool,
}

/// Runs a scenario and reports the results.
///
/// # Errors
/// A [`RunError`] if it cannot be run. Expectations that are not met are no error: see
/// [`Report::is_as_expected`].
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Report, RunError> {
    Ok(report(
        scenario,
        &run_outcomes(scenario, options, progress)?,
    ))
}

/// Returns the report of finished runs.
pub fn report(scenario: &Scenario, outcomes: &[Outcome]) -> Report {
    let expectations: Vec<ExpectationReport> = scenario
        .expectations
        .iter()
        .enumerate()
        .map(|(index, expectation)| {
            let values = outcomes
                .iter()
                .map(|outcome| expectation.value(&outcome.expected[index]));
            judge(scenario, expectation, values.collect())
        })
        .collect();
    Report {
        schema: SCHEMA,
        scenario: ScenarioReport {
            name: scenario.name.clone(),
            title: scenario.title.clone(),
            source: scenario.source.clone(),
            duration_s: scenario.duration.as_secs_f64(),
            statistics_from_s: scenario.statistics.from.as_secs_f64(),
            statistics_to_s: scenario.statistics.to.as_secs_f64(),
        },
        runs: outcomes.iter().map(run_report).collect(),
        summary: METRICS
            .iter()
            .flat_map(|metric| summary(scenario, metric, outcomes))
            .collect(),
        is_as_expected: expectations.iter().all(|expectation| expectation.is_met),
        expectations,
    }
}

/// Returns the report as JSON, indented.
pub fn json(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(report).expect("keys are texts");
    text.push('\n');
    text
}

pub(crate) fn run_report(outcome: &Outcome) -> RunReport {
    RunReport {
        seed: outcome.seed,
        trace_hash: outcome.trace_hash.to_string(),
        packets_sent: outcome.packets.sent,
        packets_delivered: outcome.packets.delivered,
        packets_dropped: outcome.packets.dropped,
        data_packets_delivered: outcome.data_packets_delivered,
        statistics: outcome.statistics.clone(),
    }
}

fn summary(scenario: &Scenario, metric: &Metric, outcomes: &[Outcome]) -> Vec<MetricReport> {
    let subjects: Vec<Subject> = match metric.scope {
        Scope::Run => vec![Subject::All],
        Scope::Flow => {
            let flows = (0..scenario.flows.len()).map(Subject::Flow);
            std::iter::once(Subject::All).chain(flows).collect()
        }
        Scope::EachFlow => (0..scenario.flows.len()).map(Subject::Flow).collect(),
        Scope::Link => (0..scenario.links.len()).map(Subject::Link).collect(),
    };
    subjects
        .into_iter()
        .filter_map(|subject| {
            let values = outcomes
                .iter()
                .filter_map(|outcome| metric.of(&outcome.statistics, subject));
            let spread = Spread::of(values)?;
            Some(MetricReport {
                metric: metric.name,
                subject: subject_name(scenario, subject),
                spread,
            })
        })
        .collect()
}

/// Returns the name of a metric's subject; `None`: all flows together.
pub fn subject_name(scenario: &Scenario, subject: Subject) -> Option<String> {
    match subject {
        Subject::All => None,
        Subject::Flow(flow) => Some(scenario.flows[flow].name.clone()),
        Subject::Link(link) => Some(scenario.links[link].name.clone()),
    }
}

pub(crate) fn judge(
    scenario: &Scenario,
    expectation: &Expectation,
    values: Vec<Option<f64>>,
) -> ExpectationReport {
    let Expectation {
        metric,
        subject,
        window,
        min,
        max,
    } = *expectation;
    let is_within =
        |value: f64| min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max);
    ExpectationReport {
        metric: metric.name,
        subject: subject_name(scenario, subject),
        min,
        max,
        from_s: window.from.as_secs_f64(),
        to_s: window.to.as_secs_f64(),
        outside_s: window
            .outside
            .map(|(from, to)| [from.as_secs_f64(), to.as_secs_f64()]),
        is_met: values.iter().all(|value| value.is_some_and(is_within)),
        values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        fn spread(values: &[f64]) -> Option<Spread> {
            Spread::of(values.iter().copied())
        }
        assert_eq!(
            spread(&[3.0, 1.0, 2.0]),
            Some(Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            })
        );
        assert_eq!(
            spread(&[4.0, 1.0, 2.0, 3.0]).map(|spread| spread.median),
            Some(2.5)
        );
        assert_eq!(spread(&[]), None);
    }
}

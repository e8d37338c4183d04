//! Scenarios × controllers, schedulers or any settings: means over seeds, and the differences that
//! are more than chance.
//!
//! The *controller under test* of a scenario is that of its first flow. Every flow that has the
//! same one, apart from options, gets the compared one. The other flows, the cross traffic, keep
//! theirs. The same holds for schedulers.
//!
//! All columns have the same seeds, and with them the same network, so they are compared seed by
//! seed. The differences from the first column have a mean and an interval of their own.

mod expansion;
mod output;
mod statistics;
mod subjects;
mod vary;

use anabranch_controllers::{Controller, UnknownController, by_name};

use crate::metrics::{Metric, Statistics, Subject};
use crate::run::{Progress, RunError, RunOptions, in_parallel, run_outcomes};
use crate::scenario::{
    FlowSpec, Point, Scenario, ScenarioError, scheduler_by_name, unknown_scheduler,
};

pub use expansion::{expanded_controllers, expanded_schedulers};
pub use output::{
    COMPARISON_SCHEMA, comparison_csv, comparison_json, comparison_svg, comparison_table,
};
pub use statistics::{Estimate, deviation, student_t_975, student_t_995};
pub use vary::{Vary, VaryError};

/// Replacements in one column of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// The controller; `None`: the scenario's own.
    pub controller: Option<String>,
    /// The scheduler; `None`: the scenario's own.
    pub scheduler: Option<String>,
    /// Keys of the scenario and their values, as by `--set`.
    pub settings: Vec<(String, String)>,
}

impl Column {
    /// Returns the heading of the column.
    pub fn label(&self) -> String {
        let parts = [&self.controller, &self.scheduler];
        let names = parts.into_iter().flatten().cloned();
        let settings = self.settings.iter().map(|(key, value)| {
            let short = key.strip_prefix(vary::FIRST_FLOW).unwrap_or(key);
            format!("{short}={value}")
        });
        names.chain(settings).collect::<Vec<_>>().join(" + ")
    }

    /// Returns columns of every controller, as by [`expanded_controllers`], with every scheduler,
    /// as by [`expanded_schedulers`]; an empty list means the scenario's own.
    ///
    /// ```
    /// use anabranch_lab::compare::Column;
    ///
    /// let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    /// let columns = Column::product(&names(&["gcc", "cubic"]), &names(&["wrr"]));
    /// let labels: Vec<String> = columns.iter().map(Column::label).collect();
    /// assert_eq!(labels, ["gcc + wrr", "cubic + wrr"]);
    /// ```
    pub fn product(controllers: &[String], schedulers: &[String]) -> Vec<Column> {
        let schedulers = or_own(&expanded_schedulers(schedulers));
        let controllers = expanded_controllers(controllers);
        let columns = or_own(&controllers).into_iter().flat_map(|controller| {
            schedulers.iter().map(move |scheduler| Column {
                controller: controller.clone(),
                scheduler: scheduler.clone(),
                settings: Vec::new(),
            })
        });
        columns.collect()
    }

    /// Reads a scenario for each column, by `load` with these overrides and the column's own.
    ///
    /// # Errors
    /// [`ScenarioError`], for a key or value that the scenario cannot have.
    pub fn scenarios(
        columns: &[Column],
        load: impl Fn(&[String]) -> Result<Scenario, ScenarioError>,
    ) -> Result<Vec<Scenario>, ScenarioError> {
        columns
            .iter()
            .map(|column| {
                let settings = column
                    .settings
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"));
                load(&settings.collect::<Vec<_>>())
            })
            .collect()
    }

    /// Does the same as [`scenarios`](Self::scenarios), for every point of a sweep, in its order.
    ///
    /// # Errors
    /// As [`scenarios`](Self::scenarios).
    pub fn points(
        columns: &[Column],
        load: impl Fn(&[String]) -> Result<Vec<Point>, ScenarioError>,
    ) -> Result<Vec<Vec<Scenario>>, ScenarioError> {
        let mut rows: Vec<Vec<Scenario>> = Vec::new();
        for column in columns {
            let settings = column
                .settings
                .iter()
                .map(|(key, value)| format!("{key}={value}"));
            let points = load(&settings.collect::<Vec<_>>())?;
            // Every column sets the same keys, so each removes the same ones from the sweep.
            rows.resize_with(points.len(), Vec::new);
            for (row, point) in rows.iter_mut().zip(points) {
                row.push(point.into_named_scenario());
            }
        }
        Ok(rows)
    }

    /// Returns the scenario with this column's controller and scheduler, and with its expectations.
    ///
    /// # Errors
    /// [`CompareError::Controller`], [`CompareError::Scheduler`]: there is none of this name.
    pub fn apply(&self, scenario: &Scenario) -> Result<Scenario, CompareError> {
        check(self)?;
        Ok(self.replaced_in(scenario))
    }

    /// Returns the scenario with this column's controller and scheduler, without expectations.
    fn applied_to(&self, scenario: &Scenario) -> Scenario {
        let mut changed = self.replaced_in(scenario);
        changed.expectations.clear();
        changed
    }

    fn replaced_in(&self, scenario: &Scenario) -> Scenario {
        let mut changed = scenario.clone();
        let Some(under_test) = scenario.flows.iter().find_map(FlowSpec::config) else {
            return changed;
        };
        for config in changed.flows.iter_mut().filter_map(FlowSpec::config_mut) {
            if let Some(controller) = &self.controller {
                let own = config.controller.name();
                if let Some(other) = replaced(own, under_test.controller.name(), controller) {
                    config.controller = other;
                }
            }
            if let Some(scheduler) = &self.scheduler
                && config.scheduler == under_test.scheduler
                && let Some(other) = scheduler_by_name(scheduler)
            {
                config.scheduler = other;
            }
        }
        changed
    }
}

/// Returns the replacement of the controller `own` if that is the one under test. It is
/// `controller`, with the options that `own` has beyond the one under test, if `controller` has
/// these.
fn replaced(own: &str, under_test: &str, controller: &str) -> Option<Controller> {
    let options = own.strip_prefix(under_test)?;
    if !options.is_empty() && !options.starts_with(':') {
        return None;
    }
    let with_options = by_name(&format!("{controller}{options}"));
    with_options.or_else(|_| by_name(controller)).ok()
}

/// Reason why a comparison cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A controller is not known.
    #[error(transparent)]
    Controller(#[from] UnknownController),
    /// A scheduler is not known.
    #[error("{text}")]
    Scheduler {
        /// The requested name, and the known ones.
        text: String,
    },
    /// A metric is not known.
    #[error("no metric is called {name:?}; known are {known}")]
    Metric {
        /// The requested name.
        name: String,
        /// The known names.
        known: String,
    },
    /// No scenario has such a flow or link, or the metric is not one of flows or links.
    #[error("{text}: {why}; {known}")]
    Subject {
        /// The text of the request.
        text: String,
        /// Reason of the rejection.
        why: &'static str,
        /// The first scenario's links and flows.
        known: String,
    },
    /// A scenario cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// One metric of one scenario.
#[derive(Clone, Debug)]
pub struct ComparisonRow {
    /// The scenario's name.
    pub scenario: String,
    /// The metric.
    pub metric: &'static Metric,
    /// The flow's or link's name; `None`: all flows together.
    pub subject: Option<String>,
    /// One cell per column.
    pub cells: Vec<Cell>,
}

/// One metric of one scenario in one column.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// One value per seed; `None`: there was nothing to measure.
    pub values: Vec<Option<f64>>,
    /// Their mean and interval; `None` if a seed could not measure it.
    pub estimate: Option<Estimate>,
    /// Whether the mean of the differences from the first column, seed by seed, is not zero at 95
    /// %; `None` for the first column, and if this is unknown.
    pub is_different: Option<bool>,
}

/// A table of means.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The compared columns.
    pub columns: Vec<Column>,
    /// Number of seeds of each cell.
    pub seed_count: u64,
    /// The rows.
    pub rows: Vec<ComparisonRow>,
    /// Scenarios and columns, by name and label, of which all of several seeds gave the same
    /// result: chance has no influence on them, and they have no intervals.
    pub without_chance: Vec<(String, String)>,
}

/// Metrics of a comparison that requests none.
pub const USUAL_METRICS: [&str; 7] = [
    "throughput",
    "loss",
    "delay-mean",
    "delay-p95",
    "jain",
    "utilisation",
    "frames-decodable-on-time",
];

/// Returns names and labels of the runs, scenario by scenario, whose seeds all gave the same
/// result.
fn pairs_without_chance(
    scenarios: &[&Scenario],
    columns: &[Column],
    runs: &[&[Statistics]],
) -> Vec<(String, String)> {
    let names = scenarios.iter().flat_map(|scenario| {
        columns
            .iter()
            .map(|column| (&scenario.name, column.label()))
    });
    let alike = names.zip(runs).filter(|(_, runs)| {
        let (first, others) = runs.split_first().expect("a seed at least");
        !others.is_empty() && others.iter().all(|other| other == first)
    });
    alike
        .map(|((name, label), _)| (name.clone(), label))
        .collect()
}

/// Runs every scenario, each changed for every column ([`Column::scenarios`]), with the seeds 1 to
/// `seed_count`, on `threads` threads (0: one per core). `metrics` are names of
/// [`METRICS`](crate::metrics::METRICS), of all flows together, or of the flow or link named after
/// a dot, which some scenario must have. Without such a name, metrics of links are of every link
/// that has a rate, and metrics of single flows of every flow of adaptive media.
///
/// # Errors
/// [`CompareError`].
pub fn compare(
    scenarios: &[Vec<Scenario>],
    columns: &[Column],
    metrics: &[String],
    seed_count: u64,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Comparison, CompareError> {
    let firsts: Vec<&Scenario> = scenarios.iter().filter_map(|all| all.first()).collect();
    let rows = subjects::rows(&firsts, metrics)?;
    let runs = run_columns(scenarios, columns, seed_count, threads, progress)?;
    let by_pair: Vec<&[Statistics]> = runs.iter().map(Vec::as_slice).collect();
    let without_chance = pairs_without_chance(&firsts, columns, &by_pair);
    Ok(Comparison {
        columns: columns.to_vec(),
        seed_count,
        without_chance,
        rows: rows
            .into_iter()
            .map(|asked| {
                let place = asked.place * columns.len();
                let of_scenario = &by_pair[place..place + columns.len()];
                ComparisonRow {
                    scenario: firsts[asked.place].name.clone(),
                    metric: asked.metric,
                    subject: asked.name,
                    cells: cells(of_scenario, asked.metric, asked.subject),
                }
            })
            .collect(),
    })
}

/// Runs every scenario, each changed for every column ([`Column::scenarios`]), with the seeds 1 to
/// `seed_count`. Returns the seeds' statistics for each column of each scenario, in that order.
pub(crate) fn run_columns(
    scenarios: &[Vec<Scenario>],
    columns: &[Column],
    seed_count: u64,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Vec<Statistics>>, CompareError> {
    columns.iter().try_for_each(check)?;
    let pairs: Vec<Scenario> = scenarios
        .iter()
        .flat_map(|of_columns| {
            let pairs = columns.iter().zip(of_columns);
            pairs.map(|(column, scenario)| column.applied_to(scenario))
        })
        .collect();
    let jobs: Vec<(&Scenario, u64)> = pairs
        .iter()
        .flat_map(|scenario| (1..=seed_count).map(move |seed| (scenario, seed)))
        .collect();
    let runs: Vec<Statistics> = in_parallel(&jobs, threads, |(scenario, seed)| {
        let options = RunOptions {
            seeds: vec![*seed],
            threads: 1,
            ..RunOptions::default()
        };
        let mut outcomes = run_outcomes(scenario, &options, progress)?;
        Ok(outcomes.remove(0).statistics)
    })
    .into_iter()
    .collect::<Result<_, RunError>>()?;
    let mut runs = runs.into_iter();
    Ok((0..pairs.len())
        .map(|_| runs.by_ref().take(seed_count as usize).collect())
        .collect())
}

/// Returns the names, or `None` alone: the scenario's own choice.
fn or_own(names: &[String]) -> Vec<Option<String>> {
    match names {
        [] => vec![None],
        names => names.iter().cloned().map(Some).collect(),
    }
}

/// Returns the values if no run lacks one.
fn whole(values: &[Option<f64>]) -> Option<Vec<f64>> {
    values.iter().copied().collect()
}

fn cells(columns: &[&[Statistics]], metric: &Metric, subject: Option<Subject>) -> Vec<Cell> {
    let values: Vec<Vec<Option<f64>>> = columns
        .iter()
        .map(|runs| -> Vec<Option<f64>> {
            runs.iter().map(|run| metric.of(run, subject?)).collect()
        })
        .collect();
    let first = values.first().and_then(|values| whole(values));
    values
        .iter()
        .enumerate()
        .map(|(place, values)| {
            let ours = whole(values);
            let pair = if place > 0 {
                first.as_ref().zip(ours.as_ref())
            } else {
                None
            };
            let differences = pair.and_then(|(first, ours)| {
                let pairs = ours.iter().zip(first);
                Estimate::of(&pairs.map(|(ours, first)| ours - first).collect::<Vec<_>>())
            });
            Cell {
                values: values.clone(),
                estimate: ours.and_then(|ours| Estimate::of(&ours)),
                is_different: differences.and_then(|differences| differences.excludes_zero()),
            }
        })
        .collect()
}

fn check(column: &Column) -> Result<(), CompareError> {
    if let Some(controller) = &column.controller {
        by_name(controller)?;
    }
    match &column.scheduler {
        Some(name) if scheduler_by_name(name).is_none() => Err(CompareError::Scheduler {
            text: unknown_scheduler(name),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_replaces_the_controller_under_test() {
        for (own, controller, expected) in [
            ("nada", "gcc", "gcc"),
            ("nada:priority=2", "gcc", "gcc"),
            ("nada:priority=2", "nada", "nada:priority=2"),
            ("new-reno", "gcc", "new-reno"),
            ("nada2", "gcc", "nada2"),
        ] {
            let other = replaced(own, "nada", controller);
            let name = other.map_or(own.to_owned(), |other| other.name().to_owned());
            assert_eq!(name, expected, "{own}, {controller}");
        }
    }
}

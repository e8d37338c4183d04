//! Requests of a page, and failures.

use std::collections::BTreeMap;
use std::fmt::Display;

use anabranch_lab::compare::Column;
use anabranch_lab::{LiveRun, Scenario, ScenarioError};
use anabranch_link::{LinkChange, LossModel};
use anabranch_sim::LinkId;
use anabranch_units::{DataRate, Duration, Instant};
use serde::{Deserialize, Serialize};

/// A request; `lib.rs` lists the answers.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub(crate) enum Request {
    Names,
    Schema,
    Check(Experiment),
    Run(Experiment),
    Export {
        #[serde(flatten)]
        experiment: Experiment,
        what: Export,
    },
    Start(Experiment),
    Advance {
        run: u32,
        /// Simulated time since the start.
        until_ms: f64,
    },
    Change {
        run: u32,
        #[serde(flatten)]
        change: Change,
    },
    Stop {
        run: u32,
    },
}

/// Files that can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Export {
    /// The report.
    Json,
    /// The tables of a trace.
    Csv,
    /// Their picture.
    Svg,
}

/// A scenario with all choices that determine a run of it.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Experiment {
    /// Name of the scenario's file in messages.
    file: String,
    text: String,
    /// Texts of the files that the scenario names, by these names.
    files: BTreeMap<String, String>,
    /// Overrides, `KEY=VALUE`.
    settings: Vec<String>,
    /// Replaces the controller of the first flow, and of all flows with the same one.
    controller: Option<String>,
    /// The same of the scheduler.
    scheduler: Option<String>,
    pub(crate) seed: u64,
    /// Changes of links during the run, in any order.
    changes: Vec<TimedChange>,
}

impl Default for Experiment {
    fn default() -> Experiment {
        Experiment {
            file: "scenario.toml".to_owned(),
            text: String::new(),
            files: BTreeMap::new(),
            settings: Vec::new(),
            controller: None,
            scheduler: None,
            seed: 1,
            changes: Vec::new(),
        }
    }
}

/// A change of a link at a time.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TimedChange {
    /// Simulated time since the start.
    pub(crate) at_ms: f64,
    #[serde(flatten)]
    pub(crate) change: Change,
}

/// A change of a link.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Change {
    /// Name of the link.
    link: String,
    #[serde(flatten)]
    property: Property,
}

/// A property of a link, and its new value.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "property", content = "value")]
enum Property {
    /// Rate, in bit/s.
    Rate(f64),
    /// Propagation delay, in ms.
    Delay(f64),
    /// Share of packets lost, each independently.
    Loss(f64),
    /// Whether the link carries anything.
    Up(bool),
}

/// Largest value of a property; larger ones say nothing about a network.
const MAX_RATE: f64 = 1e12;
const MAX_DELAY_MS: f64 = 60_000.0;

impl Experiment {
    /// Returns the scenario with its choices.
    pub(crate) fn scenario(&self) -> Result<Scenario, Failure> {
        let files: Vec<(&str, &str)> = self
            .files
            .iter()
            .map(|(name, text)| (&**name, &**text))
            .collect();
        let scenario = Scenario::built_in(&self.file, &self.text, &files, &self.settings)
            .map_err(|error| Failure::in_scenario(&self.file, &error))?;
        let column = Column {
            controller: self.controller.clone(),
            scheduler: self.scheduler.clone(),
            ..Column::default()
        };
        column.apply(&scenario).map_err(Failure::of)
    }

    /// Returns the changes in the order of time.
    pub(crate) fn changes(&self) -> Vec<TimedChange> {
        let mut changes = self.changes.clone();
        changes.sort_by(|one, other| one.at_ms.total_cmp(&other.at_ms));
        changes
    }
}

impl Change {
    /// Applies the change to a run, now.
    pub(crate) fn apply(&self, scenario: &Scenario, run: &mut LiveRun<'_>) -> Result<(), Failure> {
        let position = scenario
            .links
            .iter()
            .position(|link| link.name == self.link)
            .ok_or_else(|| Failure::of(format!("no link is called {:?}", self.link)))?;
        let change = self.property.change()?;
        let link = LinkId(position as u32);
        run.change_link(link, change).map_err(Failure::of)
    }
}

fn within(value: f64, max: f64, unit: &str) -> Result<f64, Failure> {
    if (0.0..=max).contains(&value) {
        Ok(value)
    } else {
        Err(Failure::of(format!(
            "{value} is not between 0 and {max} {unit}"
        )))
    }
}

impl Property {
    fn change(self) -> Result<LinkChange, Failure> {
        Ok(match self {
            Property::Rate(value) => {
                let rate = within(value, MAX_RATE, "bit/s")?;
                LinkChange::Rate(DataRate::from_bits_per_second(rate as u64))
            }
            Property::Delay(value) => {
                let delay = within(value, MAX_DELAY_MS, "ms")?;
                LinkChange::Delay(Duration::from_nanos((delay * 1e6) as u64))
            }
            Property::Loss(value) => LinkChange::Loss(LossModel::Bernoulli {
                probability: within(value, 1.0, "as a share")?,
            }),
            Property::Up(true) => LinkChange::Up,
            Property::Up(false) => LinkChange::Down,
        })
    }
}

/// Returns the instant of a time in ms, not before the start; NaN is the start.
pub(crate) fn instant(at_ms: f64) -> Instant {
    Instant::from_nanos((at_ms * 1e6).round() as u64)
}

/// Reason why a request has no answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Failure {
    message: String,
    /// Line of the mistake in the scenario, from 1.
    line: Option<usize>,
    /// Key of the mistake in the scenario.
    key: Option<String>,
}

impl Failure {
    /// Returns a failure that does not concern a line.
    pub(crate) fn of(message: impl Display) -> Failure {
        Failure {
            message: message.to_string(),
            line: None,
            key: None,
        }
    }

    /// Returns the failure of a scenario in `file`, with its line if it is in that file.
    fn in_scenario(file: &str, error: &ScenarioError) -> Failure {
        match error {
            ScenarioError::Syntax {
                file: of,
                line,
                message,
            } => Failure {
                message: message.clone(),
                line: (of == file).then_some(*line),
                key: None,
            },
            ScenarioError::Mistake {
                place,
                key,
                message,
            } => {
                let line = place
                    .strip_prefix(file)
                    .and_then(|rest| rest.strip_prefix(':'))
                    .and_then(|line| line.parse().ok());
                let place = match line {
                    Some(_) => String::new(),
                    None => format!("{place}: "),
                };
                Failure {
                    message: format!("{place}{message}"),
                    line,
                    key: (!key.is_empty()).then(|| key.clone()),
                }
            }
            other => Failure::of(other),
        }
    }
}

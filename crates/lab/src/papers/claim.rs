//! What a paper claims, and how it is tested: as data.

use anabranch_units::Duration;

use super::evidence::Evidence;
use super::judgement::Judgement;
use crate::scenario::{Scenario, ScenarioError};

/// Where claims come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// Its name on the command line.
    pub key: &'static str,
    /// Authors, title, where it appeared.
    pub citation: &'static str,
}

/// One figure, table or sentence of a paper, as a statement that a run can contradict.
#[derive(Clone, Copy)]
pub struct Claim {
    /// Its name, such as `S0-F3`.
    pub id: &'static str,
    /// Whose it is.
    pub paper: &'static Paper,
    /// Where it stands in the paper.
    pub figure: &'static str,
    /// What it says, in our words.
    pub claim: &'static str,
    /// The controller whose behaviour it is about; `None`: it is about the set-up.
    pub controller: Option<&'static str>,
    /// The runs that it takes, with this controller in the place of the one it is about.
    pub cases: fn(&str) -> Vec<Case>,
    /// What they say to it.
    pub judge: fn(&Evidence) -> Judgement,
}

impl core::fmt::Debug for Claim {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.id)
    }
}

impl Claim {
    /// Whether `selection`, which is a paper's key, an ID or the beginning of IDs, means this one.
    pub fn is_meant_by(&self, selection: &str) -> bool {
        self.paper.key == selection || {
            let rest = self.id.strip_prefix(selection);
            // `S0-F1` is not meant to bring `S0-F10` along.
            rest.is_some_and(|rest| {
                !(rest.starts_with(|next: char| next.is_ascii_digit())
                    && selection.ends_with(|last: char| last.is_ascii_digit()))
            })
        }
    }
}

/// A scenario that a claim takes, run with every seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What the claim's judge calls it.
    pub name: String,
    /// The scenario's file name, for messages.
    pub file: String,
    /// Its text.
    pub text: &'static str,
    /// Settings that override it.
    pub settings: Vec<String>,
    /// How finely it is recorded.
    pub interval: Duration,
}

impl Case {
    /// A scenario as its file has it, recorded by the second.
    pub fn new(name: impl Into<String>, file: impl Into<String>, text: &'static str) -> Case {
        Case {
            name: name.into(),
            file: file.into(),
            text,
            settings: Vec::new(),
            interval: Duration::from_secs(1),
        }
    }

    /// With a key of the scenario set, as by `--set`.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Case {
        self.settings.push(format!("{key}={value}"));
        self
    }

    /// With the controller of all flows that have none of their own.
    #[must_use]
    pub fn controller(self, controller: &str) -> Case {
        self.set("flow-defaults.controller", controller)
    }

    /// Recorded more, or less, finely; in whole milliseconds.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Case {
        self.interval = interval;
        self
    }

    /// The scenario with its settings. What it expects of `anabranch run` is left out: a claim
    /// judges by itself.
    ///
    /// # Errors
    /// [`ScenarioError`], for a controller that this build does not know.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let mut scenario = Scenario::parse(&self.file, self.text, &self.settings)?;
        scenario.expectations.clear();
        Ok(scenario)
    }

    /// All that its runs depend on beside seed and code.
    pub(super) fn key(&self) -> String {
        let settings = self.settings.join("\n");
        format!("{}\n{settings}\n{}", self.text, self.interval)
    }
}

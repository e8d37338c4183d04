//! Scenarios that claims are run with, and the origin of their algorithms.

use anabranch_controllers::by_name;
use anabranch_lab::{BARE_SENDER, FlowKind, Scenario, ScenarioError};
use anabranch_units::Duration;

/// Origin of the algorithms that a paper's claims are about, and of those that are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithms {
    /// The paper's, as published.
    Published,
    /// A controller of ours that grew out of the paper's. Each claim is judged twice: with ours,
    /// and with the published one.
    Developed(Forms),
    /// Ours: there is no other author.
    Own,
}

impl Algorithms {
    /// Returns a setting of a case with the published controller in place of ours.
    pub(super) fn published_setting(&self, setting: &str) -> String {
        let Algorithms::Developed(forms) = self else {
            return setting.to_owned();
        };
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let published = if key.ends_with("controller") {
            forms.as_published(value)
        } else {
            None
        };
        published.map_or(setting.to_owned(), |value| format!("{key}={value}"))
    }

    /// Gives a bare endpoint to the media flows of a scenario, except to those of our own
    /// controller. Papers' algorithms are measured with the features that their senders had.
    /// Returns whether any flow has one.
    pub(super) fn strip(&self, scenario: &mut Scenario) -> bool {
        let mut has_any = false;
        for flow in &mut scenario.flows {
            let FlowKind::Media(media) = &mut flow.kind else {
                continue;
            };
            let controller = media.config.controller.name();
            let is_published = match self {
                Algorithms::Published => true,
                Algorithms::Developed(forms) => forms.as_published(controller).is_none(),
                Algorithms::Own => false,
            };
            if is_published {
                media.config.laboratory.rules = BARE_SENDER;
                has_any = true;
            }
        }
        has_any
    }
}

/// A published controller and the form that it has here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms {
    /// Name of the published controller.
    pub published: &'static str,
    /// Name of ours.
    pub ours: &'static str,
    /// Reason for which the published one differs from the paper's description, if it does.
    pub why: &'static str,
    /// Experiment that tests this reason by taking the cause away.
    pub ablation: &'static str,
}

impl Forms {
    /// Returns the published controller in place of `controller`, with the same options; `None` if
    /// it is not ours.
    fn as_published(&self, controller: &str) -> Option<String> {
        let options = controller.strip_prefix(self.ours)?;
        let is_whole = options.is_empty() || options.starts_with(':');
        is_whole.then(|| format!("{}{options}", self.published))
    }

    /// Replaces our controller by the published one in every flow. Returns whether any flow had
    /// ours.
    pub(super) fn publish(&self, scenario: &mut Scenario) -> bool {
        let mut has_any = false;
        for flow in &mut scenario.flows {
            let Some(config) = flow.config_mut() else {
                continue;
            };
            if let Some(controller) = self.as_published(config.controller.name()) {
                config.controller =
                    by_name(&controller).expect("the published form takes the options of ours");
                has_any = true;
            }
        }
        has_any
    }
}

/// A scenario of a claim, run with every seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Name by which the claim's judge finds it.
    pub name: String,
    /// File name of the scenario, for messages.
    pub file: String,
    /// Text of the scenario.
    pub text: &'static str,
    /// Files that the scenario names, and their texts.
    pub files: &'static [(&'static str, &'static str)],
    /// Settings that override the scenario.
    pub settings: Vec<String>,
    /// Recording interval.
    pub interval: Duration,
    /// Whether the expectations of its file for `anabranch-lab run` count.
    pub has_promises: bool,
    /// Whether no expectation is about it, so that the seeds of the first stage are enough.
    pub is_only_shown: bool,
    /// Maximum number of seeds. If chance has little part, points of a space show more than seeds.
    pub max_seeds: u64,
}

impl Case {
    /// Makes a case of an unchanged scenario file, recorded every second.
    pub fn new(name: impl Into<String>, file: impl Into<String>, text: &'static str) -> Case {
        Case {
            name: name.into(),
            file: file.into(),
            text,
            files: &[],
            settings: Vec::new(),
            interval: Duration::from_secs(1),
            has_promises: false,
            is_only_shown: false,
            max_seeds: u64::MAX,
        }
    }

    /// Adds the files that the scenario names.
    #[must_use]
    pub fn with_files(mut self, files: &'static [(&'static str, &'static str)]) -> Case {
        self.files = files;
        self
    }

    /// Sets a key of the scenario, as `--set` does.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Case {
        self.settings.push(format!("{key}={value}"));
        self
    }

    /// Sets the controller of all flows that have none of their own.
    #[must_use]
    pub fn controller(self, controller: &str) -> Case {
        self.set("flow-defaults.controller", controller)
    }

    /// Sets the scheduler of all flows that have none of their own.
    #[must_use]
    pub fn scheduler(self, scheduler: &str) -> Case {
        self.set("flow-defaults.scheduler", scheduler)
    }

    /// Sets the recording interval, in whole milliseconds.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Case {
        self.interval = interval;
        self
    }

    /// Also measures the expectations of its file for `anabranch-lab run`, for
    /// [`Evidence::promises`].
    #[must_use]
    pub fn with_promises(mut self) -> Case {
        self.has_promises = true;
        self
    }

    /// Marks the case as reported without being judged.
    #[must_use]
    pub fn only_shown(mut self) -> Case {
        self.is_only_shown = true;
        self
    }

    /// Limits the number of seeds.
    #[must_use]
    pub fn seeds(mut self, max_seeds: u64) -> Case {
        self.max_seeds = max_seeds;
        self
    }

    /// Returns the scenario with its settings, and with the expectations of its file if they count.
    ///
    /// # Errors
    /// [`ScenarioError`], for a controller that this build does not know.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let mut scenario = Scenario::built_in(&self.file, self.text, self.files, &self.settings)?;
        if !self.has_promises {
            scenario.expectations.clear();
        }
        Ok(scenario)
    }

    /// Returns the text that determines its runs, except for seed and code.
    pub(super) fn key(&self) -> String {
        let settings = self.settings.join("\n");
        let files: Vec<&str> = self.files.iter().map(|(_, text)| *text).collect();
        let (files, has_promises) = (files.join("\n"), self.has_promises);
        let (text, interval) = (self.text, self.interval);
        format!("{text}\n{settings}\n{interval}\npromises: {has_promises}\n{files}")
    }
}

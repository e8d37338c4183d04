//! What a paper claims, and how it is tested: as data.

use anabranch_controllers::by_name;
use anabranch_core::Endpoint;
use anabranch_units::Duration;
use serde::Serialize;

use super::evidence::Evidence;
use super::judgement::Judgement;
use anabranch_lab::{FlowKind, Scenario, ScenarioError};

/// Where claims come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// Its name on the command line.
    pub key: &'static str,
    /// Authors, title, where it appeared.
    pub citation: &'static str,
    /// Whose algorithms its claims are run with.
    pub algorithms: Algorithms,
}

/// Whose algorithms the claims of a paper are about, and whose are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithms {
    /// The paper's, as published.
    Published,
    /// A controller of ours that grew out of the paper's. Each claim is judged twice: with ours,
    /// and with the one as published.
    Developed(Forms),
    /// Ours: there is no other author.
    Own,
}

/// A controller as published, and what it has become here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms {
    /// The name of the controller as published.
    pub published: &'static str,
    /// The name of ours.
    pub ours: &'static str,
    /// Why the published one differs from what the paper says of it, where it does.
    pub why: &'static str,
}

impl Forms {
    /// The controller as published in place of `controller`, options kept; `None`: it is not ours.
    fn as_published(&self, controller: &str) -> Option<String> {
        let options = controller.strip_prefix(self.ours)?;
        let is_whole = options.is_empty() || options.starts_with(':');
        is_whole.then(|| format!("{}{options}", self.published))
    }

    /// Runs every flow that has our controller with the published one. Returns whether any had.
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

impl Algorithms {
    /// A setting of a case with the published controller in place of ours.
    pub(super) fn published_setting(&self, setting: &str) -> String {
        let Algorithms::Developed(forms) = self else {
            return setting.to_owned();
        };
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let published = match key.ends_with("controller") {
            true => forms.as_published(value),
            false => None,
        };
        published.map_or(setting.to_owned(), |value| format!("{key}={value}"))
    }

    /// Gives the media flows of a scenario a bare endpoint, but for those of our own controller:
    /// papers' algorithms are measured with what their senders had. Returns whether any flow has
    /// one.
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
                media.config.media.endpoint = Endpoint::Bare;
                has_any = true;
            }
        }
        has_any
    }
}

/// On what grounds a claim holds or differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Basis {
    /// Runs could have shown either.
    #[serde(rename = "measured")]
    Measured,
    /// It says what was set up, and the scenario is checked.
    #[serde(rename = "set-up")]
    SetUp,
    /// The algorithm or the simulator is made so: runs check the program, not the paper.
    #[serde(rename = "by construction")]
    ByConstruction,
}

impl Basis {
    /// As reports print it.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::SetUp => "set-up",
            Basis::ByConstruction => "by construction",
        }
    }
}

/// What a claim is about, and what is put in its place to see that the claim can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A scenario as it is.
    Scenario,
    /// The behaviour of this controller.
    Controller(&'static str),
    /// The behaviour of this scheduler.
    Scheduler(&'static str),
}

impl Subject {
    /// Its name; that of a scenario is empty.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Scenario => "",
            Subject::Controller(name) | Subject::Scheduler(name) => name,
        }
    }
}

/// What takes the place of the subjects of claims, in a negative control.
#[derive(Clone, Copy, Debug, Default)]
pub struct Swap<'a> {
    /// Instead of every claim's controller.
    pub controller: Option<&'a str>,
    /// Instead of every claim's scheduler.
    pub scheduler: Option<&'a str>,
}

impl Swap<'_> {
    /// What `subject` is tested with.
    pub fn of(&self, subject: Subject) -> &str {
        let other = match subject {
            Subject::Scenario => None,
            Subject::Controller(_) => self.controller,
            Subject::Scheduler(_) => self.scheduler,
        };
        other.unwrap_or(subject.name())
    }
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
    /// What the paper says there, in our words.
    pub claim: &'static str,
    /// What we take for that: bounds and choices that are ours. Empty if the claim says it all.
    pub criterion: &'static str,
    /// On what grounds it holds or differs.
    pub basis: Basis,
    /// What it is about.
    pub subject: Subject,
    /// The runs that it takes, with this controller or scheduler in the place of the one it is
    /// about.
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
    /// The files that it names, and their texts.
    pub files: &'static [(&'static str, &'static str)],
    /// Settings that override it.
    pub settings: Vec<String>,
    /// How finely it is recorded.
    pub interval: Duration,
    /// Whether what its file expects of `anabranch run` counts.
    pub has_promises: bool,
    /// Whether no expectation is about it, so that the seeds of the first look are enough.
    pub is_only_shown: bool,
    /// The most seeds that it takes: where chance has little part, points of a space say more.
    pub max_seeds: u64,
}

impl Case {
    /// A scenario as its file has it, recorded by the second.
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

    /// With the files that it names.
    #[must_use]
    pub fn with_files(mut self, files: &'static [(&'static str, &'static str)]) -> Case {
        self.files = files;
        self
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

    /// With the scheduler of all flows that have none of their own.
    #[must_use]
    pub fn scheduler(self, scheduler: &str) -> Case {
        self.set("flow-defaults.scheduler", scheduler)
    }

    /// Recorded more, or less, finely; in whole milliseconds.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Case {
        self.interval = interval;
        self
    }

    /// With what its file expects of `anabranch run` measured too, for [`Evidence::promises`].
    #[must_use]
    pub fn with_promises(mut self) -> Case {
        self.has_promises = true;
        self
    }

    /// As something that is reported beside what is judged.
    #[must_use]
    pub fn only_shown(mut self) -> Case {
        self.is_only_shown = true;
        self
    }

    /// With so many seeds at most.
    #[must_use]
    pub fn seeds(mut self, max_seeds: u64) -> Case {
        self.max_seeds = max_seeds;
        self
    }

    /// The scenario with its settings, and with what it expects of `anabranch run` if that counts.
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

    /// All that its runs depend on beside seed and code.
    pub(super) fn key(&self) -> String {
        let settings = self.settings.join("\n");
        let files: Vec<&str> = self.files.iter().map(|(_, text)| *text).collect();
        let (files, has_promises) = (files.join("\n"), self.has_promises);
        let (text, interval) = (self.text, self.interval);
        format!("{text}\n{settings}\n{interval}\npromises: {has_promises}\n{files}")
    }
}

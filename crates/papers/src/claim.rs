//! Claims of papers and their tests, as data.

use anabranch_controllers::by_name;
use anabranch_lab::BARE_SENDER;
use anabranch_units::Duration;
use serde::Serialize;

use super::evidence::Evidence;
use super::judgement::Judgement;
use anabranch_lab::{FlowKind, Scenario, ScenarioError};

/// Source of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// Name on the command line.
    pub key: &'static str,
    /// Authors, title and place of publication.
    pub citation: &'static str,
    /// Origin of the algorithms that the claims are run with.
    pub algorithms: Algorithms,
}

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

/// Grounds on which a claim holds or differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Basis {
    /// Runs could show either verdict.
    #[serde(rename = "measured")]
    Measured,
    /// The claim describes the set-up, and the scenario is checked.
    #[serde(rename = "set-up")]
    SetUp,
    /// The algorithm or the simulator is built that way: runs check the program, not the paper.
    #[serde(rename = "by construction")]
    ByConstruction,
}

impl Basis {
    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Measured => "measured",
            Basis::SetUp => "set-up",
            Basis::ByConstruction => "by construction",
        }
    }
}

/// Subject of a claim, which can be replaced to see that the claim can fail.
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
    /// Returns the subject's name; that of a scenario is empty.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Scenario => "",
            Subject::Controller(name) | Subject::Scheduler(name) => name,
        }
    }
}

/// Substitutes for the subjects of claims, in a negative control.
#[derive(Clone, Copy, Debug, Default)]
pub struct Swap<'a> {
    /// Substitute for every claim's controller.
    pub controller: Option<&'a str>,
    /// Substitute for every claim's scheduler.
    pub scheduler: Option<&'a str>,
}

impl Swap<'_> {
    /// Returns the algorithm that `subject` is tested with.
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
    /// Name, such as `S0-F3`.
    pub id: &'static str,
    /// Paper that makes the claim.
    pub paper: &'static Paper,
    /// Place in the paper.
    pub figure: &'static str,
    /// The paper's sentence, in our words.
    pub claim: &'static str,
    /// Criterion for it: bounds and choices that are ours. Empty if the claim is precise by itself.
    pub criterion: &'static str,
    /// Grounds on which it holds or differs.
    pub basis: Basis,
    /// Subject of the claim.
    pub subject: Subject,
    /// Runs of the claim, with this controller or scheduler in the place of its subject.
    pub cases: fn(&str) -> Vec<Case>,
    /// Function that judges the runs.
    pub judge: fn(&Evidence) -> Judgement,
}

impl core::fmt::Debug for Claim {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.id)
    }
}

impl Claim {
    /// Returns the scenario files of the claim, each once, from the folder `scenarios`.
    pub fn files(&self) -> Vec<String> {
        let mut files: Vec<String> = Vec::new();
        for case in (self.cases)(self.subject.name()) {
            if !files.contains(&case.file) {
                files.push(case.file);
            }
        }
        files
    }

    /// Returns whether `selection` matches this claim: a paper's key, an ID or the beginning of
    /// IDs.
    pub fn is_meant_by(&self, selection: &str) -> bool {
        self.paper.key == selection || {
            let rest = self.id.strip_prefix(selection);
            // `S0-F1` does not match `S0-F10`.
            rest.is_some_and(|rest| {
                !(rest.starts_with(|next: char| next.is_ascii_digit())
                    && selection.ends_with(|last: char| last.is_ascii_digit()))
            })
        }
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
    /// Whether no expectation is about it, so that the seeds of the first look are enough.
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

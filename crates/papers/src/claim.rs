//! Claims of papers and their tests, as data.

use serde::Serialize;

use super::case::{Algorithms, Case};
use super::evidence::Evidence;
use super::judgement::Judgement;

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

//! A claim with its verdicts.

use super::case::{Algorithms, Forms};
use super::claim::Claim;
use super::judgement::{Judged, Judgement, Verdict};

/// Other algorithms that were tried in a claim, and those for which it holds as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// All that were tried.
    pub tried: Vec<&'static str>,
    /// All that pass.
    pub passed: Vec<&'static str>,
}

impl Others {
    /// Returns the result in words: "cubic, vegas (2 of 8)".
    pub fn text(&self) -> String {
        let (passed, tried) = (self.passed.len(), self.tried.len());
        if self.passed.is_empty() {
            format!("none of {tried}")
        } else {
            format!("{} ({passed} of {tried})", self.passed.join(", "))
        }
    }
}

/// A claim and its verdict with the program's default algorithm.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The claim.
    pub claim: &'static Claim,
    /// Verdict.
    pub judged: Judged,
    /// Verdict with the paper's algorithm, if the program's is another.
    pub as_published: Option<AsPublished>,
    /// Verdict with the paper's algorithm on our endpoint, if that can differ.
    pub on_our_endpoint: Option<Judged>,
    /// Other algorithms that were tried in the place of its subject.
    pub others: Option<Others>,
}

impl Finding {
    pub(super) fn new(
        claim: &'static Claim,
        judged: Judged,
        as_published: Option<AsPublished>,
        on_our_endpoint: Option<Judged>,
    ) -> Finding {
        Finding {
            claim,
            judged,
            as_published,
            on_our_endpoint,
            others: None,
        }
    }

    /// Returns the verdict of a column; `None` if the claim has no such column. A published
    /// algorithm that is run unchanged has no second form, and our own experiments have no
    /// published one.
    pub fn column(&self, column: Column) -> Option<&Judged> {
        let default = Some(&self.judged);
        let is_own = self.claim.paper.algorithms == Algorithms::Own;
        match (column, &self.as_published) {
            (Column::PublishedOnOurs, _) => self.on_our_endpoint.as_ref(),
            (Column::Published, Some(published)) => Some(&published.judged),
            (Column::Ours, Some(_)) => default,
            (Column::Published, None) if !is_own => default,
            (Column::Ours, None) if is_own => default,
            (Column::Published | Column::Ours, None) => None,
        }
    }

    /// Returns the reason for which a column differs or cannot be known, and the experiment that
    /// tests it; `None` if the claim holds there.
    pub fn why(&self, column: Column) -> Option<String> {
        let judged = self.column(column)?;
        let Judgement { why, ablation, .. } = &judged.judgement;
        if judged.verdict == Verdict::Holds || why.is_empty() {
            return None;
        }
        Some(if ablation.is_empty() {
            format!("{why} No ablation tests this explanation.")
        } else {
            format!("{why} Ablation: {ablation}")
        })
    }

    pub(super) fn verdict(&self, column: Column) -> Option<Verdict> {
        Some(self.column(column)?.verdict)
    }
}

/// Verdict on a claim with the paper's algorithm as published.
#[derive(Clone, Debug)]
pub struct AsPublished {
    /// Name of the published algorithm.
    pub controller: &'static str,
    /// Verdict.
    pub judged: Judged,
}

impl AsPublished {
    pub(super) fn new(forms: &Forms, mut judged: Judged) -> AsPublished {
        forms.why.clone_into(&mut judged.judgement.why);
        forms.ablation.clone_into(&mut judged.judgement.ablation);
        AsPublished {
            controller: forms.published,
            judged,
        }
    }
}

/// Algorithm and endpoint that a verdict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The paper's, as published, on a bare endpoint.
    Published,
    /// The same on our endpoint.
    PublishedOnOurs,
    /// Ours.
    Ours,
}

/// Columns that a study fills in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Each claim also with the published form of the paper's algorithm, on both endpoints.
    Both,
    /// Each claim only with its own subject, or the swapped one.
    AsNamed,
}

//! What was found, as programs and terminals read it.

use serde::Serialize;

use super::claim::{Algorithms, Claim, Forms, Subject};
use super::judgement::{Expect, Judgement, Measured, Verdict};
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Spread, grid};

/// The version of the JSON form. Fields may be added under one version; none changes its meaning or
/// goes away.
pub const FINDINGS_SCHEMA: &str = "anabranch-findings/1";

/// One claim and what became of it, with what this project runs by default.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The claim.
    pub claim: &'static Claim,
    /// The numbers and pictures.
    pub judgement: Judgement,
    /// What they come to.
    pub verdict: Verdict,
    /// What became of it with the paper's algorithm, if what this project runs is another.
    pub as_published: Option<AsPublished>,
}

/// What became of a claim with the paper's algorithm as published.
#[derive(Clone, Debug)]
pub struct AsPublished {
    /// The name of the published algorithm.
    pub controller: &'static str,
    /// The numbers and pictures.
    pub judgement: Judgement,
    /// What they come to.
    pub verdict: Verdict,
}

/// Whose algorithm a verdict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The paper's, as published.
    Published,
    /// Ours.
    Ours,
}

/// What a study fills in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Each claim that is run with our form of a paper's algorithm also with the published one.
    Both,
    /// Each claim with what it names, or what is swapped in, and nothing else.
    AsNamed,
}

impl AsPublished {
    pub(super) fn new(forms: &Forms, mut judgement: Judgement) -> AsPublished {
        forms.why.clone_into(&mut judgement.why);
        AsPublished {
            controller: forms.published,
            verdict: judgement.verdict(),
            judgement,
        }
    }
}

impl Finding {
    pub(super) fn new(
        claim: &'static Claim,
        judgement: Judgement,
        as_published: Option<AsPublished>,
    ) -> Finding {
        Finding {
            claim,
            verdict: judgement.verdict(),
            judgement,
            as_published,
        }
    }

    /// What stands in a column; `None`: the other column has all there is. A published algorithm
    /// that is run as it is has no second form, and our own experiments have no published one.
    pub fn column(&self, column: Column) -> Option<(&Judgement, Verdict)> {
        let default = Some((&self.judgement, self.verdict));
        let is_own = self.claim.paper.algorithms == Algorithms::Own;
        match (column, &self.as_published) {
            (Column::Published, Some(published)) => Some((&published.judgement, published.verdict)),
            (Column::Ours, Some(_)) => default,
            (Column::Published, None) => default.filter(|_| !is_own),
            (Column::Ours, None) => default.filter(|_| is_own),
        }
    }

    /// Why a column differs, or why nobody can know; nothing if the claim holds there.
    pub fn why(&self, column: Column) -> Option<&str> {
        let (judgement, verdict) = self.column(column)?;
        let is_asked = verdict != Verdict::Holds && !judgement.why.is_empty();
        is_asked.then_some(judgement.why.as_str())
    }
}

/// How many verdicts of a column are which, in a sentence.
pub(super) fn count(findings: &[Finding], column: Column) -> Option<[usize; 3]> {
    let verdicts: Vec<Verdict> = findings
        .iter()
        .filter_map(|finding| Some(finding.column(column)?.1))
        .collect();
    let of = |verdict| verdicts.iter().filter(|other| **other == verdict).count();
    let counts = [Verdict::Holds, Verdict::Differs, Verdict::CannotBeKnown].map(of);
    (!verdicts.is_empty()).then_some(counts)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    seed_count: u64,
    findings: Vec<JsonFinding<'a>>,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    id: &'a str,
    paper: &'a str,
    figure: &'a str,
    claim: &'a str,
    controller: Option<&'a str>,
    scheduler: Option<&'a str>,
    verdict: Verdict,
    paper_value: Option<f64>,
    ours: Option<Spread>,
    why: Option<&'a str>,
    values: Vec<JsonValue<'a>>,
    expects: &'a [Expect],
    as_published: Option<JsonAsPublished<'a>>,
}

#[derive(Serialize)]
struct JsonAsPublished<'a> {
    controller: &'a str,
    verdict: Verdict,
    why: Option<&'a str>,
    values: Vec<JsonValue<'a>>,
    expects: &'a [Expect],
}

#[derive(Serialize)]
struct JsonValue<'a> {
    name: &'a str,
    unit: &'static str,
    paper_value: Option<f64>,
    ours: Option<Spread>,
}

/// What a unit is called in JSON.
fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => "ratio",
        Unit::Milliseconds => "ms",
        Unit::BitsPerSecond => "bits_per_second",
        Unit::Bytes => "bytes",
        Unit::Number => "number",
    }
}

/// The findings as JSON, indented. The value that a claim is about stands beside it; all of its
/// values are in `values`.
pub fn findings_json(findings: &[Finding], seed_count: u64) -> String {
    let document = Document {
        schema: FINDINGS_SCHEMA,
        seed_count,
        findings: findings.iter().map(json_finding).collect(),
    };
    let mut text = serde_json::to_string_pretty(&document).expect("keys are texts");
    text.push('\n');
    text
}

fn json_finding(finding: &Finding) -> JsonFinding<'_> {
    let judgement = &finding.judgement;
    let value = |measured: &'_ Measured| (measured.published, measured.samples.spread());
    let (paper_value, ours) = judgement.values.first().map_or((None, None), value);
    let (controller, scheduler) = match finding.claim.subject {
        Subject::SetUp => (None, None),
        Subject::Controller(name) => (Some(name), None),
        Subject::Scheduler(name) => (None, Some(name)),
    };
    JsonFinding {
        id: finding.claim.id,
        paper: finding.claim.paper.key,
        figure: finding.claim.figure,
        claim: finding.claim.claim,
        controller,
        scheduler,
        verdict: finding.verdict,
        paper_value,
        ours,
        why: finding.why(Column::Ours).or(finding.why(Column::Published)),
        values: judgement.values.iter().map(json_value).collect(),
        expects: &judgement.expects,
        as_published: finding
            .as_published
            .as_ref()
            .map(|published| JsonAsPublished {
                controller: published.controller,
                verdict: published.verdict,
                why: finding.why(Column::Published),
                values: published.judgement.values.iter().map(json_value).collect(),
                expects: &published.judgement.expects,
            }),
    }
}

fn json_value(measured: &Measured) -> JsonValue<'_> {
    JsonValue {
        name: &measured.name,
        unit: unit_name(measured.unit),
        paper_value: measured.published,
        ours: measured.samples.spread(),
    }
}

/// The findings as aligned text: the paper's algorithm as published, and ours.
pub fn findings_table(findings: &[Finding], seed_count: u64) -> String {
    let heading = [
        "claim",
        "where",
        "as published",
        "ours",
        "paper",
        "as published",
        "ours",
        "about",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(findings.iter().map(row));
    let mut text = format!(
        "{seed_count} seeds: median (min-max); \"as published\" is the paper's algorithm\n\n{}\n",
        grid(&rows)
    );
    for (column, name) in COLUMNS {
        if let Some([holds, differs, unknown]) = count(findings, column) {
            text.push_str(&format!(
                "{name}: {holds} hold, {differs} differ, {unknown} cannot be known\n"
            ));
        }
    }
    for finding in findings {
        for (column, name) in COLUMNS {
            text.push_str(&what_differs(finding, column, name));
        }
    }
    let without_chance: String = findings.iter().map(without_chance).collect();
    if !without_chance.is_empty() {
        text.push('\n');
        text.push_str(&without_chance);
    }
    text
}

/// Both columns, as reports name them.
pub(super) const COLUMNS: [(Column, &str); 2] =
    [(Column::Published, "as published"), (Column::Ours, "ours")];

fn row(finding: &Finding) -> Vec<String> {
    let first = |column| {
        finding
            .column(column)
            .and_then(|(judgement, _)| judgement.values.first())
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let verdict = |column| {
        finding
            .column(column)
            .map(|(_, verdict)| verdict.name().to_owned())
    };
    let value = finding.judgement.values.first();
    vec![
        finding.claim.id.to_owned(),
        finding.claim.figure.to_owned(),
        or_dash(verdict(Column::Published)),
        or_dash(verdict(Column::Ours)),
        or_dash(value.and_then(|value| Some(value.write(value.published?)))),
        or_dash(first(Column::Published).map(Measured::all)),
        or_dash(first(Column::Ours).map(Measured::all)),
        or_dash(value.map(|value| value.name.clone())),
    ]
}

/// What of a finding has no chance in it, a line a column; nothing if all has.
fn without_chance(finding: &Finding) -> String {
    let line = |(column, name)| {
        let (judgement, _) = finding.column(column)?;
        let sentence = judgement.without_chance.sentence()?;
        Some(format!("{}, {name}: {sentence}\n", finding.claim.id))
    };
    COLUMNS.into_iter().filter_map(line).collect()
}

/// The expectations that a column does not meet, and why; nothing if it holds.
fn what_differs(finding: &Finding, column: Column, name: &str) -> String {
    let Some((judgement, verdict)) = finding.column(column) else {
        return String::new();
    };
    if verdict == Verdict::Holds {
        return String::new();
    }
    let claim = finding.claim;
    let mut text = format!("\n{}, {name}: {}\n", claim.id, claim.claim);
    for expect in judgement.expects.iter().filter(|expect| !expect.is_met) {
        text.push_str(&format!("  not so: {}\n", expect.text));
    }
    if let Some(why) = finding.why(column) {
        text.push_str(&format!("  {why}\n"));
    }
    text
}

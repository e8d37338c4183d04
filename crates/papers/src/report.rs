//! Findings as JSON and as text.

use serde::Serialize;

use super::claim::{Basis, Subject};
use super::finding::{Column, Finding, Others};
use super::fingerprint::fingerprint;
use super::judgement::{Expect, Measured, Verdict};
use super::provenance::{COMMIT, RunProvenance};
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Spread, grid};

/// Version of the JSON form. A version may add fields, but never removes one or changes its
/// meaning.
pub const FINDINGS_SCHEMA: &str = "anabranch-findings/1";

/// Columns and their names in reports.
pub(super) const COLUMNS: [(Column, &str); 3] = [
    (Column::Published, "as published, bare endpoint"),
    (Column::PublishedOnOurs, "as published, our endpoint"),
    (Column::Ours, "ours"),
];

/// Numbers of findings that hold, differ and cannot be known; `None` if there are no findings.
type Count = Option<[usize; 3]>;

fn count<'a>(findings: impl Iterator<Item = &'a Finding>, column: Column) -> Count {
    let verdicts: Vec<Verdict> = findings.filter_map(|found| found.verdict(column)).collect();
    let counts = [Verdict::Holds, Verdict::Differs, Verdict::CannotBeKnown]
        .map(|verdict| verdicts.iter().filter(|other| **other == verdict).count());
    (!verdicts.is_empty()).then_some(counts)
}

fn by_basis(findings: &[Finding], basis: Basis) -> impl Iterator<Item = &Finding> {
    findings
        .iter()
        .filter(move |found| found.claim.basis == basis)
}

/// Counts the claims that hold, differ and cannot be known: measured claims by column, and apart
/// from them claims about the set-up and by construction.
pub(super) fn counts(findings: &[Finding]) -> Vec<(String, [usize; 3])> {
    let mut counts = Vec::new();
    for (column, name) in COLUMNS {
        let count = count(by_basis(findings, Basis::Measured), column);
        counts.extend(count.map(|count| (format!("measured, {name}"), count)));
    }
    for basis in [Basis::SetUp, Basis::ByConstruction] {
        // The program's default algorithm: columns share the set-up and the construction.
        let mut count = [0; 3];
        for finding in by_basis(findings, basis) {
            count[finding.judged.verdict as usize] += 1;
        }
        if count != [0; 3] {
            counts.push((basis.name().to_owned(), count));
        }
    }
    counts
}

/// Returns the number of measured claims that hold with ours, and those of them that do not hold
/// with the paper's algorithm, the strongest control of ours. `None` if nothing was run as
/// published.
pub(super) fn against_control(findings: &[Finding]) -> Option<(usize, Vec<&'static str>)> {
    let measured: Vec<&Finding> = findings
        .iter()
        .filter(|found| found.claim.basis == Basis::Measured && found.as_published.is_some())
        .collect();
    let holding = measured
        .iter()
        .filter(|found| found.judged.verdict == Verdict::Holds);
    let ids = holding
        .clone()
        .filter(|found| found.verdict(Column::Published) != Some(Verdict::Holds))
        .map(|found| found.claim.id);
    (!measured.is_empty()).then(|| (holding.count(), ids.collect()))
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    commit: Option<&'static str>,
    fingerprint: String,
    seed_count: u64,
    findings: Vec<JsonFinding<'a>>,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    id: &'a str,
    paper: &'a str,
    figure: &'a str,
    claim: &'a str,
    criterion: &'a str,
    basis: Basis,
    controller: Option<&'a str>,
    scheduler: Option<&'a str>,
    verdict: Verdict,
    seed_count: u64,
    paper_value: Option<f64>,
    ours: Option<Spread>,
    why: Option<String>,
    headline: Option<&'a str>,
    values: Vec<JsonValue<'a>>,
    expects: &'a [Expect],
    runs: &'a [RunProvenance],
    as_published: Option<JsonAsPublished<'a>>,
    on_our_endpoint: Option<JsonColumn<'a>>,
    others: Option<JsonOthers<'a>>,
}

#[derive(Serialize)]
struct JsonOthers<'a> {
    tried: &'a [&'static str],
    passed: &'a [&'static str],
}

#[derive(Serialize)]
struct JsonColumn<'a> {
    verdict: Verdict,
    seed_count: u64,
    values: Vec<JsonValue<'a>>,
    expects: &'a [Expect],
    runs: &'a [RunProvenance],
}

#[derive(Serialize)]
struct JsonAsPublished<'a> {
    controller: &'a str,
    verdict: Verdict,
    seed_count: u64,
    why: Option<String>,
    values: Vec<JsonValue<'a>>,
    expects: &'a [Expect],
    runs: &'a [RunProvenance],
}

#[derive(Serialize)]
struct JsonValue<'a> {
    name: &'a str,
    unit: &'static str,
    paper_value: Option<f64>,
    ours: Option<Spread>,
}

/// Returns a unit's name in JSON.
fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => "ratio",
        Unit::Milliseconds => "ms",
        Unit::BitsPerSecond => "bits_per_second",
        Unit::Bytes => "bytes",
        Unit::Number => "number",
    }
}

/// Returns the findings as indented JSON. The value that a claim is about stands beside it;
/// `values` has all of its values.
pub fn findings_json(findings: &[Finding], seed_count: u64) -> String {
    let document = Document {
        schema: FINDINGS_SCHEMA,
        commit: COMMIT,
        fingerprint: fingerprint(),
        seed_count,
        findings: findings.iter().map(json_finding).collect(),
    };
    let mut text = serde_json::to_string_pretty(&document).expect("keys are texts");
    text.push('\n');
    text
}

fn json_finding(finding: &Finding) -> JsonFinding<'_> {
    let judgement = &finding.judged.judgement;
    let (paper_value, ours) = judgement.values.first().map_or((None, None), |measured| {
        (measured.published, measured.samples.spread())
    });
    let (controller, scheduler) = match finding.claim.subject {
        Subject::Scenario => (None, None),
        Subject::Controller(name) => (Some(name), None),
        Subject::Scheduler(name) => (None, Some(name)),
    };
    JsonFinding {
        id: finding.claim.id,
        paper: finding.claim.paper.key,
        figure: finding.claim.figure,
        claim: finding.claim.claim,
        criterion: finding.claim.criterion,
        basis: finding.claim.basis,
        controller,
        scheduler,
        verdict: finding.judged.verdict,
        seed_count: finding.judged.seed_count,
        paper_value,
        ours,
        why: finding.why(Column::Ours).or(finding.why(Column::Published)),
        headline: Some(&*judgement.headline).filter(|text| !text.is_empty()),
        values: judgement.values.iter().map(json_value).collect(),
        expects: &judgement.expects,
        runs: &finding.judged.runs,
        as_published: finding.as_published.as_ref().map(|published| {
            let judgement = &published.judged.judgement;
            JsonAsPublished {
                controller: published.controller,
                verdict: published.judged.verdict,
                seed_count: published.judged.seed_count,
                why: finding.why(Column::Published),
                values: judgement.values.iter().map(json_value).collect(),
                expects: &judgement.expects,
                runs: &published.judged.runs,
            }
        }),
        on_our_endpoint: finding.on_our_endpoint.as_ref().map(|judged| JsonColumn {
            verdict: judged.verdict,
            seed_count: judged.seed_count,
            values: judged.judgement.values.iter().map(json_value).collect(),
            expects: &judged.judgement.expects,
            runs: &judged.runs,
        }),
        others: finding.others.as_ref().map(|others| JsonOthers {
            tried: &others.tried,
            passed: &others.passed,
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

/// Returns the findings as aligned text: the paper's algorithm as published, and ours.
pub fn findings_table(findings: &[Finding], seed_count: u64) -> String {
    let heading = [
        "claim",
        "where",
        "kind",
        "as published",
        "on our endpoint",
        "ours",
        "seeds",
        "paper",
        "as published",
        "on our endpoint",
        "ours",
        "others that pass",
        "about",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(findings.iter().map(row));
    let mut text = format!(
        "up to {seed_count} seeds: median (min-max); \"as published\" is the paper's \
         algorithm on a bare endpoint\n\n{}\n",
        grid(&rows)
    );
    for (name, [holds, differs, unknown]) in counts(findings) {
        text.push_str(&format!(
            "{name}: {holds} hold, {differs} differ, {unknown} cannot be known\n"
        ));
    }
    text.extend(against_control(findings).map(control_sentence));
    for (id, headline) in headlines(findings) {
        text.push_str(&format!("{id}: {headline}\n"));
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

/// Returns sentences for the summary, each with the ID of its claim.
pub(super) fn headlines(findings: &[Finding]) -> Vec<(&'static str, &str)> {
    findings
        .iter()
        .map(|finding| (finding.claim.id, &*finding.judged.judgement.headline))
        .filter(|(_, headline)| !headline.is_empty())
        .collect()
}

pub(super) fn control_sentence((holding, ids): (usize, Vec<&str>)) -> String {
    let count = ids.len();
    let mut text = format!(
        "control: of {holding} measured claims that hold with our form, {count} do not with the \
         published one"
    );
    if count > 0 {
        text.push_str(": ");
        text.push_str(&ids.join(", "));
    }
    text.push('\n');
    text
}

fn row(finding: &Finding) -> Vec<String> {
    fn first(column: Column, finding: &Finding) -> Option<&Measured> {
        finding
            .column(column)
            .and_then(|judged| judged.judgement.values.first())
    }
    fn or_dash(text: Option<String>) -> String {
        text.unwrap_or_else(|| "-".to_owned())
    }
    fn verdict(column: Column, finding: &Finding) -> Option<String> {
        finding.verdict(column).map(|it| it.name().to_owned())
    }
    let value = finding.judged.judgement.values.first();
    vec![
        finding.claim.id.to_owned(),
        finding.claim.figure.to_owned(),
        finding.claim.basis.name().to_owned(),
        or_dash(verdict(Column::Published, finding)),
        or_dash(verdict(Column::PublishedOnOurs, finding)),
        or_dash(verdict(Column::Ours, finding)),
        or_dash(seeds(finding)),
        or_dash(value.and_then(|value| Some(value.write(value.published?)))),
        or_dash(first(Column::Published, finding).map(Measured::all)),
        or_dash(first(Column::PublishedOnOurs, finding).map(Measured::all)),
        or_dash(first(Column::Ours, finding).map(Measured::all)),
        or_dash(finding.others.as_ref().map(Others::text)),
        or_dash(value.map(|value| value.name.clone())),
    ]
}

/// Returns the numbers of seeds of a finding's columns; `None` if there was nothing to run.
fn seeds(finding: &Finding) -> Option<String> {
    let columns = COLUMNS
        .into_iter()
        .filter_map(|(column, _)| finding.column(column));
    let mut counts: Vec<u64> = columns.map(|judged| judged.seed_count).collect();
    counts.dedup();
    let texts: Vec<String> = counts.iter().map(u64::to_string).collect();
    (counts != [0]).then(|| texts.join(", "))
}

/// Returns a line for each column with cases without chance; empty if chance has a part in all.
fn without_chance(finding: &Finding) -> String {
    COLUMNS
        .into_iter()
        .filter_map(|(column, name)| {
            let judged = finding.column(column)?;
            let sentence = judged.judgement.without_chance.sentence()?;
            Some(format!("{}, {name}: {sentence}\n", finding.claim.id))
        })
        .collect()
}

/// Returns the expectations that a column does not meet, and the reason; empty if it holds.
fn what_differs(finding: &Finding, column: Column, name: &str) -> String {
    let Some(judged) = finding.column(column) else {
        return String::new();
    };
    if judged.verdict == Verdict::Holds {
        return String::new();
    }
    let claim = finding.claim;
    let mut text = format!("\n{}, {name}: {}\n", claim.id, claim.claim);
    if !claim.criterion.is_empty() {
        text.push_str(&format!("  our criterion: {}\n", claim.criterion));
    }
    for expect in judged
        .judgement
        .expects
        .iter()
        .filter(|expect| !expect.is_met)
    {
        text.push_str(&format!("  not so: {}\n", expect.text));
    }
    if let Some(why) = finding.why(column) {
        text.push_str(&format!("  {why}\n"));
    }
    text
}

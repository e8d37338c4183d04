//! What was found, as programs and terminals read it.

use serde::Serialize;

use super::claim::{Claim, Subject};
use super::judgement::{Expect, Judgement, Measured, Verdict};
use crate::metrics::Unit;
use crate::report::{Spread, grid};

/// The version of the JSON form. Fields may be added under one version; none changes its meaning or
/// goes away.
pub const FINDINGS_SCHEMA: &str = "anabranch-findings/1";

/// One claim and what became of it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The claim.
    pub claim: &'static Claim,
    /// The numbers and pictures.
    pub judgement: Judgement,
    /// What they come to.
    pub verdict: Verdict,
}

impl Finding {
    pub(super) fn new(claim: &'static Claim, judgement: Judgement) -> Finding {
        Finding {
            claim,
            verdict: judgement.verdict(),
            judgement,
        }
    }

    /// Why ours differ, or why nobody can know; nothing if the claim holds.
    pub fn why(&self) -> Option<&str> {
        let is_asked = self.verdict != Verdict::Holds && !self.judgement.why.is_empty();
        is_asked.then_some(self.judgement.why.as_str())
    }
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
        why: finding.why(),
        values: judgement.values.iter().map(json_value).collect(),
        expects: &judgement.expects,
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

/// The findings as aligned text.
pub fn findings_table(findings: &[Finding], seed_count: u64) -> String {
    let heading = ["claim", "where", "verdict", "paper", "ours", "about"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for finding in findings {
        let value = finding.judgement.values.first();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let paper = value.and_then(|value| Some(value.write(value.published?)));
        rows.push(vec![
            finding.claim.id.to_owned(),
            finding.claim.figure.to_owned(),
            finding.verdict.name().to_owned(),
            or_dash(paper),
            or_dash(value.map(Measured::all)),
            or_dash(value.map(|value| value.name.clone())),
        ]);
    }
    let count = |verdict: Verdict| {
        let such = findings.iter().filter(|finding| finding.verdict == verdict);
        such.count()
    };
    let mut text = format!(
        "{seed_count} seeds: median (min-max)\n\n{}\n{} hold, {} differ, {} cannot be known\n",
        grid(&rows),
        count(Verdict::Holds),
        count(Verdict::Differs),
        count(Verdict::CannotBeKnown)
    );
    for finding in findings {
        if finding.verdict == Verdict::Holds {
            continue;
        }
        text.push_str(&format!("\n{} {}\n", finding.claim.id, finding.claim.claim));
        let broken = finding
            .judgement
            .expects
            .iter()
            .filter(|expect| !expect.is_met);
        for expect in broken {
            text.push_str(&format!("  not so: {}\n", expect.text));
        }
        if let Some(why) = finding.why() {
            text.push_str(&format!("  {why}\n"));
        }
    }
    text
}

//! Fig. 5: four rate-based flows and four of Reno, with ten of Reno the other way.

use super::{FOUR_AND_FOUR, PAPER, TFRC, controlled, group, mean_variation};
use crate::case::Case;
use crate::charts::sending_rates;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Judgement, Measured};
use crate::record::{RunRecord, Span};
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Chart, Lines};

/// Time after the starts.
pub(super) const STEADY: Span = (50.0, 1000.0);
/// Capacity in the figure, in bit/s.
const CAPACITY: f64 = 2e6;

pub(super) fn case(name: &str, controller: &str) -> Case {
    let case = Case::new(name, "grieco-arc/four-and-four.toml", FOUR_AND_FOUR);
    controlled(case, 0, controller)
}

fn both(controller: &str) -> Vec<Case> {
    vec![case("ARC", controller), case("TFRC", TFRC)]
}

/// Returns the variation of a group's rates beside another group in the same runs.
fn variation(evidence: &Evidence, case: &str, flows: &str) -> Measured {
    let samples = evidence.each(case, |run| mean_variation(run, flows, STEADY));
    let who = if flows == "rated" { case } else { "Reno" };
    let name = format!("{who} in the runs of {case}: variation of the 1 s rates");
    Measured::new(name, Unit::Number, samples)
}

/// Expects rates that are at least 30 % smoother than Reno's.
fn expect_smoothness(judgement: &mut Judgement, evidence: &Evidence, case: &str) {
    let (ours, reno) = (
        variation(evidence, case, "rated"),
        variation(evidence, case, "reno"),
    );
    judgement.report(&ours);
    judgement.report(&reno);
    judgement.expect(ours.at_most(0.7 * reno.samples.median()));
}

/// Expects a fair share for Reno, since a flow that never yields is smooth, too.
fn expect_cross_traffic(judgement: &mut Judgement, evidence: &Evidence) {
    let samples = evidence.each("ARC", |run| {
        let flows = group(run, "reno");
        let sum: f64 = flows.iter().map(|flow| run.rate(flow, STEADY)).sum();
        sum / CAPACITY
    });
    let reno = Measured::new(
        "the four Reno flows' share beside ARC",
        Unit::Share,
        samples,
    );
    judgement.report(&reno);
    judgement.expect(reno.at_least(0.3));
}

pub(super) const FIGURE_5: Claim = Claim {
    id: "S2-F5",
    paper: &PAPER,
    figure: "Fig. 5, §4.1.2",
    claim: "Beside Reno, ARC and TFRC send more smoothly than Reno.",
    criterion: "The 1 s rates vary at most 0.7 times as much as Reno's in the same runs. Beside \
            ARC, Reno has at least 30 % of the link.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: both,
    judge: |evidence| {
        let mut judgement = Judgement::new();
        expect_smoothness(&mut judgement, evidence, "ARC");
        expect_smoothness(&mut judgement, evidence, "TFRC");
        expect_cross_traffic(&mut judgement, evidence);
        for (name, case, flows) in [
            ("(a): ARC", "ARC", "rated"),
            ("(b): TFRC", "TFRC", "rated"),
            ("(c): Reno beside TFRC", "TFRC", "reno"),
        ] {
            judgement.draw(rates(name, evidence.shown(case), flows));
        }
        judgement
    },
};

fn rates(name: &str, run: &RunRecord, flows: &str) -> Chart {
    Chart::Lines(Lines {
        y_end: Some(1200.0),
        ..sending_rates(format!("Fig. 5 {name}"), run, group(run, flows))
    })
}

pub(super) const SMOOTHER: Claim = Claim {
    id: "S2-C4",
    paper: &PAPER,
    figure: "Abstract",
    claim: "ARC oscillates less than Reno.",
    criterion: "The 1 s rates vary at most 0.7 times as much as Reno's in the same runs, and Reno \
            has at least 30 % of the link.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: |controller| vec![case("ARC", controller)],
    judge: |evidence| {
        let mut judgement = Judgement::new();
        expect_smoothness(&mut judgement, evidence, "ARC");
        expect_cross_traffic(&mut judgement, evidence);
        judgement
    },
};

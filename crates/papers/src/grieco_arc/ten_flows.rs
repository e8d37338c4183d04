//! Figs. 3 and 4: ten flows of one controller, and UDP that takes half of the link in turns.

use super::{PAPER, TEN_FLOWS, TFRC, TFRC_15, TFRC_15_NAME, TFRC_NS2, group, mean_variation};
use crate::case::Case;
use crate::charts::sending_rates;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Judgement, Measured};
use crate::record::{RunRecord, Span};
use anabranch_lab::metrics::{Unit, jain_index};
use anabranch_lab::{Chart, Line, Lines};

/// Silence of UDP, except for a minute in which the flows take the free rate.
const OFF: [Span; 2] = [(260.0, 400.0), (660.0, 800.0)];
/// Times of UDP, except for the start and 5 s in which the flows give way.
const ON: [Span; 3] = [(100.0, 200.0), (405.0, 600.0), (805.0, 1000.0)];

pub(super) fn case(name: &str, controller: &str) -> Case {
    Case::new(name, "grieco-arc/ten-flows.toml", TEN_FLOWS).controller(controller)
}

fn both(controller: &str) -> Vec<Case> {
    vec![case("ARC", controller), case("TFRC", TFRC)]
}

fn variation(evidence: &Evidence, name: &str) -> Measured {
    let samples = evidence.each(name, |run| worst(&OFF, |span| mean(run, span)));
    let text = format!("{name}: variation of the 1 s rates while UDP is silent, mean");
    Measured::new(text, Unit::Number, samples)
}

pub(super) const FIGURE_3: Claim = Claim {
    id: "S2-F3",
    paper: &PAPER,
    figure: "Fig. 3, §4.1.1",
    claim: "Ten ARC flows on 10 Mbit/s have rates close to each other and track the rate that UDP \
            leaves; TFRC's oscillate much more.",
    criterion: "ARC's 1 s rates vary at most half as much as TFRC's (c = 1.1 and 1.5) while UDP is \
            silent. The sum of ARC's rates is within 5 % of the free capacity, but for 60 s after \
            this has grown.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: |controller| {
        let mut cases = both(controller);
        cases.push(case(TFRC_15_NAME, TFRC_15));
        cases.push(case("ns-2's default TFRC", TFRC_NS2).only_shown());
        cases
    },
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let (arc, tfrc) = (variation(evidence, "ARC"), variation(evidence, "TFRC"));
        judgement.report(&arc);
        judgement.report(&tfrc);
        let other = variation(evidence, TFRC_15_NAME);
        judgement.report(&other);
        judgement.report(&variation(evidence, "ns-2's default TFRC"));
        for tfrc in [tfrc, other] {
            judgement.expect(arc.at_most(0.5 * tfrc.samples.median()));
        }
        for (what, spans, free) in [("silent", &OFF[..], 10e6), ("sends", &ON[..], 5e6)] {
            let samples =
                evidence.each("ARC", |run| worst(spans, |span| deviation(run, span, free)));
            let text = format!("ARC: sum of the rates beside the free capacity while UDP {what}");
            let deviation = Measured::new(text, Unit::Share, samples);
            judgement.report(&deviation);
            judgement.expect(deviation.at_most(0.05));
        }
        let samples = evidence.each("ARC", |run| worst(&ON, |span| mean(run, span)));
        let text = "ARC: variation of the 1 s rates while UDP sends, mean";
        judgement.report(&Measured::new(text, Unit::Number, samples));
        for name in ["ARC", "TFRC", "ns-2's default TFRC"] {
            judgement.draw(rates(name, evidence.shown(name)));
        }
        judgement
    },
};

fn mean(run: &RunRecord, span: Span) -> f64 {
    mean_variation(run, "flow", span)
}

fn worst(spans: &[Span], measure: impl Fn(Span) -> f64) -> f64 {
    spans.iter().map(|span| measure(*span)).fold(0.0, f64::max)
}

/// Returns the distance of the flows' sum from the rate that UDP leaves, as a share of that rate.
fn deviation(run: &RunRecord, span: Span, free: f64) -> f64 {
    (sum(run, span) / free - 1.0).abs()
}

fn sum(run: &RunRecord, span: Span) -> f64 {
    let flows = group(run, "flow");
    flows.iter().map(|flow| run.rate(flow, span)).sum()
}

fn rates(name: &str, run: &RunRecord) -> Chart {
    let title = format!("Fig. 3: ten flows of {name}");
    Chart::Lines(sending_rates(title, run, &run.series().flows))
}

/// Measures Jain's index of the bytes received up to `at` seconds.
fn jain(evidence: &Evidence, name: &str, at: f64) -> Measured {
    let samples = evidence.each(name, |run| jain_at(run, at));
    let text = format!("{name}: Jain's index up to {at} s");
    Measured::new(text, Unit::Number, samples)
}

pub(super) const FIGURE_4: Claim = Claim {
    id: "S2-F4",
    paper: &PAPER,
    figure: "Fig. 4, §4.1.1",
    claim: "Jain's index of the bytes that ten ARC flows have received since the start is 0.9 \
            before 100 s, and largest after 200 s; TFRC's is significantly unfair in the first \
            200 s, and reaches 0.9 at the end.",
    criterion: "Largest: 0.99 at 250 s, at 95 % of the link. Significantly unfair: less than the \
            0.9 that the paper calls acceptable, at 200 s. Reaches 0.9: has it or more at the end.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: both,
    judge: |evidence| {
        let mut judgement = Judgement::new()
            .because("ns-2.35's own TFRC is fairer than the paper's figure has it: 0.94 at 100 s.");
        let arc_at_100 = jain(evidence, "ARC", 100.0);
        let arc_at_1000 = jain(evidence, "ARC", 1000.0);
        let early = jain(evidence, "TFRC", 100.0);
        let late = jain(evidence, "TFRC", 200.0);
        let end = jain(evidence, "TFRC", 1000.0);
        let samples = evidence.each("ARC", |run| sum(run, OFF[0]) / 10e6);
        let used = Measured::new("ARC: share of the link, 260-400 s", Unit::Share, samples);
        let arc_at_250 = jain(evidence, "ARC", 250.0);
        let values = [
            &arc_at_100,
            &arc_at_250,
            &arc_at_1000,
            &early,
            &late,
            &end,
            &used,
        ];
        values.iter().for_each(|value| judgement.report(value));
        judgement.expect(arc_at_100.at_least(0.9));
        judgement.expect(arc_at_250.at_least(0.99));
        judgement.expect(used.at_least(0.95));
        judgement.expect(late.less_than(0.9));
        judgement.expect(end.at_least(0.9));
        judgement.draw(fairness(evidence));
        judgement
    },
};

/// Returns Jain's index over the bytes of each flow that have arrived since the start.
pub(super) fn jain_at(run: &RunRecord, at: f64) -> f64 {
    let flows = group(run, "flow");
    let arrived = flows.iter().map(|flow| run.rate(flow, (0.0, at)));
    jain_index(arrived).unwrap_or(f64::NAN)
}

fn fairness(evidence: &Evidence) -> Chart {
    let lines = ["ARC", "TFRC"].map(|name| {
        let run = evidence.shown(name);
        Line::new(name, run.cumulative_jain(&group(run, "flow")))
    });
    Chart::Lines(Lines {
        title: "Fig. 4: fairness of ten flows".to_owned(),
        x: "time, s".to_owned(),
        y: "Jain's index".to_owned(),
        lines: lines.to_vec(),
        y_end: Some(1.0),
        ..Lines::default()
    })
}

pub(super) const STEADY: Claim = Claim {
    id: "S2-C3",
    paper: &PAPER,
    figure: "Abstract",
    claim: "ARC's rates do not oscillate while the load does not change.",
    criterion: "The 1 s rates vary by 0.02 at most while UDP is silent, with 95 % of the link \
            used.",
    basis: Basis::Measured,
    subject: Subject::Controller("arc"),
    cases: |controller| vec![case("ARC", controller)],
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let samples = evidence.each("ARC", |run| worst(&OFF, |span| mean(run, span)));
        let text = "variation of the 1 s rates while UDP is silent, mean of the flows";
        let variation = Measured::new(text, Unit::Number, samples);
        let samples = evidence.each("ARC", |run| sum(run, OFF[0]) / 10e6);
        let used = Measured::new("share of the link, 260-400 s", Unit::Share, samples);
        judgement.report(&variation);
        judgement.report(&used);
        judgement.expect(variation.at_most(0.02));
        judgement.expect(used.at_least(0.95));
        judgement
    },
};

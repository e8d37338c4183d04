//! §1: time that a player must wait before it can play without a stall.

use super::four_and_four::{STEADY, case};
use super::{PAPER, TFRC, TFRC_NS2, group};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Judgement, Measured};
use crate::record::RunRecord;
use anabranch_lab::compare::deviation;
use anabranch_lab::metrics::{FlowSeries, Unit};

/// Returns the bytes that arrived in each second of the steady time.
fn arrived(flow: &FlowSeries) -> &[u64] {
    &flow.delivered_bytes[STEADY.0 as usize..STEADY.1 as usize]
}

/// Returns the least delay, in seconds, after which video of a flow's own mean rate plays on to the
/// end.
fn playback_delay_of(flow: &FlowSeries) -> f64 {
    let arrived = arrived(flow);
    let mean = arrived.iter().sum::<u64>() as f64 / arrived.len() as f64;
    let mut total = 0.0;
    let behind = arrived.iter().enumerate().map(|(place, bytes)| {
        total += *bytes as f64;
        (place + 1) as f64 - total / mean
    });
    behind.fold(0.0, f64::max)
}

/// Returns the mean over a group's flows.
fn playback_delay(run: &RunRecord, name: &str) -> f64 {
    let flows = group(run, name);
    let delays = flows.iter().map(|flow| playback_delay_of(flow));
    delays.sum::<f64>() / flows.len() as f64
}

/// Returns how much the quality of a video varies that follows a flow's rate, averaged over the
/// flow's own playback delay: standard deviation over mean.
fn fluctuation(flow: &FlowSeries) -> f64 {
    let window = (playback_delay_of(flow).ceil() as usize).max(1);
    let windows = arrived(flow).chunks_exact(window);
    let rates: Vec<f64> = windows.map(|one| one.iter().sum::<u64>() as f64).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    deviation(&rates).map_or(f64::NAN, |deviation| deviation / mean)
}

/// Returns the least and the largest fluctuation of a group's flows.
fn fluctuations(run: &RunRecord, name: &str) -> (f64, f64) {
    let all = group(run, name).into_iter().map(fluctuation);
    all.fold((f64::INFINITY, 0.0), |(least, largest), one| {
        (least.min(one), largest.max(one))
    })
}

fn delay(evidence: &Evidence, case: &str, flows: &str, name: &str) -> Measured {
    let samples = evidence.each(case, |run| playback_delay(run, flows));
    Measured::new(
        format!("{name}: s of start-up delay, video of the mean rate"),
        Unit::Number,
        samples,
    )
}

pub(super) const DELAY: Claim = Claim {
    id: "S2-C10",
    paper: &PAPER,
    figure: "§1, citing de Cuetos and Ross",
    claim: "Reno's playback delay is three times TFRC's.",
    criterion: "1.5 to 5 times, for the flows of Fig. 5, each with video of its own mean rate.",
    basis: Basis::Measured,
    subject: Subject::Controller(TFRC),
    cases: |controller| {
        fn beside(name: &str, controller: &str) -> Case {
            case(name, controller)
        }
        let default = beside("ns-2's TFRC", TFRC_NS2).only_shown();
        vec![beside("TFRC", controller), default]
    },
    judge: |evidence| {
        let mut judgement = Judgement::new().because(
            "The cited number is from de Cuetos and Ross's own traces; it is tested here on the \
             flows of Fig. 5, each at its own mean rate.",
        );
        let tfrc = delay(evidence, "TFRC", "rated", "TFRC");
        let reno = delay(evidence, "TFRC", "reno", "Reno");
        let ratio = Measured::new(
            "Reno's delay over TFRC's",
            Unit::Number,
            reno.samples.over(&tfrc.samples),
        );
        judgement.report(&ratio.clone().beside(3.0));
        judgement.report(&tfrc);
        judgement.report(&reno);
        judgement.report(&delay(
            evidence,
            "ns-2's TFRC",
            "rated",
            "ns-2's default TFRC",
        ));
        judgement.expect(ratio.at_least(1.5));
        judgement.expect(ratio.at_most(5.0));
        judgement
    },
};

pub(super) const QUALITY: Claim = Claim {
    id: "S2-C11",
    paper: &PAPER,
    figure: "§1, citing de Cuetos and Ross",
    claim: "The quality fluctuations provided by Reno and by TFRC lie in the same range.",
    criterion: "For the flows of Fig. 5, each with video that follows its rate, averaged over the \
                flow's own playback delay: the ranges of the four flows' variations overlap.",
    basis: Basis::Measured,
    subject: Subject::Controller(TFRC),
    cases: |controller| vec![case("TFRC", controller)],
    judge: |evidence| {
        let overlap = evidence.each("TFRC", |run| {
            let (tfrc, reno) = (fluctuations(run, "rated"), fluctuations(run, "reno"));
            tfrc.1.min(reno.1) - tfrc.0.max(reno.0)
        });
        let overlap = Measured::new("overlap of the two ranges", Unit::Number, overlap);
        let mut judgement = Judgement::new().because(
            "Reno's playback delay is not three times TFRC's in each run, and a delay that \
             averages out one flow's variation does not average out another's.",
        );
        judgement.report(&overlap);
        for (name, flow) in [("TFRC", "rated"), ("Reno", "reno")] {
            let least = evidence.each("TFRC", |run| fluctuations(run, flow).0);
            let largest = evidence.each("TFRC", |run| fluctuations(run, flow).1);
            for (extreme, samples) in [("least", least), ("largest", largest)] {
                let text = format!("{name}, {extreme}: variation of the quality");
                judgement.report(&Measured::new(text, Unit::Number, samples));
            }
        }
        judgement.expect(overlap.at_least(0.0));
        judgement
    },
};

pub(super) const RENO: Claim = Claim {
    id: "S2-m4",
    paper: &PAPER,
    figure: "§1",
    claim: "Smooth playback of Reno's varying rate takes a large buffer.",
    criterion: "Large: 5 s of video of the flow's own mean rate.",
    basis: Basis::Measured,
    subject: Subject::Controller("reno"),
    cases: |controller| {
        let case = case("beside TFRC", TFRC).set("flows.1.controller", controller);
        vec![case.set("flows.1.fixed-rate", "200 kbit/s")]
    },
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let reno = delay(evidence, "beside TFRC", "reno", "Reno");
        judgement.report(&reno);
        judgement.expect(reno.at_least(5.0));
        judgement
    },
};

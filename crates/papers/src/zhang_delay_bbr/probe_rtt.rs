//! §4.1: the cost of measuring the least round-trip time.

use anabranch_units::Duration;

use super::{PAPER, SHARED, STEADY, setting, test_bed};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use crate::record::{RunRecord, is_state};
use anabranch_lab::metrics::Unit;

const FINE: Duration = Duration::from_millis(50);
const STATE: &str = "ProbeRTT";

/// Makes a case with video below the path's capacity, so that a backlog is due to ProbeRTT.
fn video(name: &str, controller: &str) -> Case {
    test_bed(name, controller)
        .set("flow-defaults.source.max", "10 Mbit/s")
        .set("flow-defaults.target-fraction", "80 %")
}

pub(super) const GENTLE: Claim = Claim {
    id: "S0-C2",
    paper: &PAPER,
    figure: "§4.1",
    claim: "Four packets in flight during ProbeRTT make frames wait at the sender. Delay-BBR sends \
            at three quarters of the rate instead, and enters the state many times in 10 s.",
    criterion: "The longest frame delay is less than QUIC-BBR's. Many times: twice.",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        vec![
            video("three quarters", controller),
            video("four packets", "bbr-quic"),
            setting(2).three_flows("under load", controller).every(FINE),
        ]
    },
    judge: |evidence| {
        let [gentle, usual] = ["three quarters", "four packets"].map(|case| {
            let samples = evidence.each(case, |run| {
                let list = &run.series().flows[0].frame_delay_max_nanos;
                let largest = list.iter().skip(20).max().copied().unwrap_or(0);
                largest as f64 / 1e6
            });
            Measured::new(
                format!("{case}: longest frame delay"),
                Unit::Milliseconds,
                samples,
            )
        });
        let samples = evidence.each("under load", |run| {
            let flows = run.series().flows.iter();
            let entries: f64 = flows.map(|flow| run.entries(flow, STATE, SHARED)).sum();
            entries / run.series().flows.len() as f64 / (SHARED.1 - SHARED.0) * 10.0
        });
        let entries = Measured::new("under load: ProbeRTT, times in 10 s", Unit::Number, samples);
        let mut judgement = Judgement::new();
        for value in [&gentle, &usual, &entries] {
            judgement.report(value);
        }
        judgement.expect(gentle.below(&usual));
        judgement.expect(entries.at_least(2.0));
        judgement
    },
};

pub(super) const INTERVAL: Claim = Claim {
    id: "S0-m2",
    paper: &PAPER,
    figure: "§4.1",
    claim: "BBR enters ProbeRTT if it has not seen the least round-trip time for 10 s, for at most \
            200 ms.",
    criterion: "As the standard has it: for at least 200 ms and a round trip. Four times in 40 s ± \
            25 %, for 200 to 400 ms.",
    basis: Basis::ByConstruction,
    subject: Subject::Controller("bbr-quic"),
    cases: |controller| vec![test_bed("bbr", controller).every(FINE)],
    judge: |evidence| {
        let entries = evidence.each("bbr", |run| {
            run.entries(&run.series().flows[0], STATE, STEADY)
        });
        let entries = Measured::new("ProbeRTT, times in 40 s", Unit::Number, entries);
        let stay = Measured::new(
            "mean stay in ProbeRTT",
            Unit::Milliseconds,
            evidence.each("bbr", mean_stay_ms),
        );
        let mut judgement = Judgement::new();
        judgement.report(&stay.clone().beside(200.0));
        judgement.report(&entries);
        judgement.expect(entries.within(0.25, 4.0));
        judgement.expect(stay.at_least(200.0));
        // Two rounds and the sampling interval.
        judgement.expect(stay.at_most(400.0));
        judgement
    },
};

fn mean_stay_ms(run: &RunRecord) -> f64 {
    let states = &run.series().flows[0].states;
    let stays: Vec<f64> = states
        .windows(2)
        .filter(|pair| is_state(&pair[0].1, STATE))
        .map(|pair| (pair[1].0 - pair[0].0) as f64)
        .collect();
    stays.iter().sum::<f64>() / stays.len() as f64
}

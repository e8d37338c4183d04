//! §4.1: the start of BBR.

use anabranch_units::Duration;

use super::{PAPER, test_bed};
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use crate::record::{RunRecord, is_state};
use anabranch_lab::metrics::Unit;

/// The test bed's round-trip time without a queue.
const ROUND_MS: u64 = 50;
/// Capacity that is high enough for some rounds of doubling.
const CAPACITY: f64 = 100e6;

pub(super) const CLAIM: Claim = Claim {
    id: "S0-m1",
    paper: &PAPER,
    figure: "§4.1",
    claim: "In Startup, BBR doubles its rate every round trip, and leaves it when the bandwidth \
            has grown by less than a quarter three times.",
    criterion: "Growth of 2 ± 15 % a round trip; Startup ends 2 to 8 round trips of the empty path \
            after 90 % of the capacity arrives.",
    basis: Basis::ByConstruction,
    subject: Subject::Controller("bbr-quic"),
    cases: |controller| {
        let case = test_bed("start", controller)
            .set("links.bottleneck.rate", "100 Mbit/s")
            .set("links.bottleneck.queue", "625 kB")
            .set("flow-defaults.source.max", "300 Mbit/s")
            .set("duration", "5 s")
            .set("statistics.from", "0 s")
            .every(Duration::from_millis(ROUND_MS));
        vec![case]
    },
    judge: |evidence| {
        let growth = Measured::new(
            "growth of the bytes sent in a round trip, rounds 2 to 5",
            Unit::Number,
            evidence.each("start", growth),
        );
        let stay = Measured::new(
            "rounds of Startup after 90 % of the capacity arrives",
            Unit::Number,
            evidence.each("start", rounds_at_capacity),
        );
        let mut judgement = Judgement::new().because(
            "Rounds are counted as those of the empty path; the queue that Startup fills makes its \
             own twice as long.",
        );
        judgement.report(&growth.clone().beside(2.0));
        judgement.report(&stay.clone().beside(3.0));
        judgement.expect(growth.within(0.15, 2.0));
        judgement.expect(stay.at_least(2.0));
        // Startup's own queue lengthens its rounds.
        judgement.expect(stay.at_most(8.0));
        judgement
    },
};

fn growth(run: &RunRecord) -> f64 {
    let sent = &run.series().flows[0].sent_bytes;
    let ratio = sent[5] as f64 / sent[2] as f64;
    libm::cbrt(ratio)
}

fn rounds_at_capacity(run: &RunRecord) -> f64 {
    let flow = &run.series().flows[0];
    let full = CAPACITY / 8.0 * ROUND_MS as f64 / 1e3 * 0.9;
    let reached = flow
        .delivered_bytes
        .iter()
        .position(|bytes| *bytes as f64 >= full);
    let left = flow
        .states
        .iter()
        .find(|(_, state)| !is_state(state, "Startup"));
    match (reached, left) {
        (Some(reached), Some((left_ms, _))) => *left_ms as f64 / ROUND_MS as f64 - reached as f64,
        _ => f64::NAN,
    }
}

//! §4.1: a path's bandwidth must be found even when there is little video.

use super::{PAPER, STEADY, test_bed};
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use anabranch_lab::metrics::Unit;

/// Capacity of the test bed, in bit/s.
const CAPACITY: f64 = 10e6;

pub(super) const CLAIM: Claim = Claim {
    id: "S0-m11",
    paper: &PAPER,
    figure: "§4.1",
    claim: "Where there is no video to send, padding has to be sent to probe for bandwidth.",
    criterion: "1 Mbit/s of video on 10 Mbit/s: the estimate is at least 90 % of the capacity \
            with padding, and at most 50 % without (a delivery rate cannot exceed the sending \
            rate).",
    basis: Basis::ByConstruction,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        [("with padding", "always"), ("without padding", "never")]
            .map(|(name, padding)| {
                test_bed(name, controller)
                    .set("flow-defaults.source.max", "1 Mbit/s")
                    .set("flow-defaults.padding", padding)
            })
            .to_vec()
    },
    judge: |evidence| {
        let [padded, bare] = ["with padding", "without padding"].map(|case| {
            let samples = evidence.each(case, |run| run.estimated_bandwidth(STEADY) / CAPACITY);
            let name = format!("{case}: bandwidth estimate over the capacity, 1 Mbit/s of video");
            Measured::new(name, Unit::Number, samples)
        });
        let mut judgement = Judgement::new();
        judgement.report(&padded);
        judgement.report(&bare);
        judgement.expect(padded.at_least(0.9));
        judgement.expect(bare.at_most(0.5));
        judgement
    },
};

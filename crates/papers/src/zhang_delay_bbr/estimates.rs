//! §5.1: the sum of the flows' estimates, and the capacity.

use super::{PAPER, SHARED, setting};
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use anabranch_lab::metrics::Unit;

pub(super) const CLAIM: Claim = Claim {
    id: "S0-C7",
    paper: &PAPER,
    figure: "§5.1",
    claim: "All flows insist on their largest bandwidth estimates, and the total exceeds the \
            capacity: that is why the queue fills.",
    criterion: "Case 2, 100 to 300 s: the estimates add up to more than the capacity. Alone, the \
            first flow's is at least 0.8 of it.",
    basis: Basis::Measured,
    subject: Subject::Controller("bbr-quic"),
    cases: |controller| vec![setting(2).three_flows("case 2", controller)],
    judge: |evidence| {
        let capacity = setting(2).bits_per_second();
        let samples = evidence.each("case 2", |run| run.estimated_bandwidth(SHARED) / capacity);
        let name = "sum of the flows' estimates over the capacity, 100-300 s";
        let estimate = Measured::new(name, Unit::Number, samples);
        // A constant estimate would pass without this: alone, a flow must find the capacity.
        let samples = evidence.each("case 2", |run| {
            run.estimated_bandwidth((20.0, 40.0)) / capacity
        });
        let name = "first flow's estimate over the capacity while alone, 20-40 s";
        let alone = Measured::new(name, Unit::Number, samples);
        let mut judgement = Judgement::new();
        judgement.report(&estimate);
        judgement.report(&alone);
        judgement.expect(estimate.more_than(1.0));
        judgement.expect(alone.at_least(0.8));
        judgement
    },
};

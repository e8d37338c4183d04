//! §1: the back-off of WebRTC's controller.

use anabranch_units::Duration;

use super::{PAPER, test_bed};
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use crate::record::RunRecord;
use anabranch_lab::metrics::Unit;

/// Time at which the link falls to a third.
const FALL_S: usize = 30;

pub(super) const CLAIM: Claim = Claim {
    id: "S0-m3",
    paper: &PAPER,
    figure: "§1",
    claim: "WebRTC's back-off factor is 0.8 when a link is congested.",
    criterion: "0.85 ± 10 %, as draft and code have it (0.8 is an older value): the least estimate \
            within 5 s after the link falls to a third, over the new capacity.",
    basis: Basis::ByConstruction,
    subject: Subject::Controller("gcc"),
    cases: |controller| {
        let case = test_bed("gcc", controller)
            .set("links.bottleneck.rate", "3 Mbit/s")
            .set("links.bottleneck.queue", "300 ms")
            .set(
                "links.bottleneck.rate-schedule",
                "[{ at = \"30 s\", rate = \"1 Mbit/s\" }]",
            )
            .every(Duration::from_millis(100));
        vec![case]
    },
    judge: |evidence| {
        let factor = Measured::new(
            "least estimate within 5 s of the fall, over the new capacity",
            Unit::Number,
            evidence.each("gcc", factor),
        );
        let before = Measured::new(
            "estimate before the fall, over the new capacity",
            Unit::Number,
            evidence.each("gcc", |run| run.estimated_bandwidth((25.0, 30.0)) / 1e6),
        );
        let mut judgement = Judgement::new();
        judgement.report(&factor.clone().beside(0.8));
        judgement.report(&before);
        judgement.expect(before.at_least(2.0));
        judgement.expect(factor.within(0.1, 0.85));
        judgement
    },
};

fn factor(run: &RunRecord) -> f64 {
    let estimates = &run.series().flows[0].bandwidth_bits_per_second;
    let after = estimates.iter().skip(FALL_S * 10).take(50);
    after.min().map_or(f64::NAN, |least| *least as f64 / 1e6)
}

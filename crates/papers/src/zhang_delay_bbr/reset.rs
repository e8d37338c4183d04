//! §5.1: the purpose of the reset of the smoothed round-trip time.

use super::PAPER;
use super::reno::beside_reno;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use crate::record::Span;
use anabranch_lab::metrics::Unit;

/// Time beside Reno, which runs from 50 to 200 s.
const BESIDE: Span = (60.0, 200.0);

pub(super) const CLAIM: Claim = Claim {
    id: "S0-C9",
    paper: &PAPER,
    figure: "§5.1, on Fig. 7",
    claim: "The reset of the smoothed round-trip time in ProbeRTT keeps Delay-BBR from entering \
            that state too often beside Reno, and from yielding too much bandwidth.",
    criterion: "In the setting of Fig. 7, 60 to 200 s: fewer entries, and a higher rate, than \
                without the reset, all else equal.",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        vec![
            beside_reno("with the reset", controller),
            beside_reno("without it", "live-bbr:reset=off"),
        ]
    },
    judge: |evidence| {
        let mut judgement = Judgement::new().because(
            "Our form goes by the floor of round-trip times, which old packets do not lift, and \
             leaves ProbeRTT by other rules: with and without the reset its entries differ by less \
             than seeds do.",
        );
        judgement.ablation = "the claim's own two cases, with and without the reset.".to_owned();
        let [with, without] = ["with the reset", "without it"].map(|case| {
            let samples = evidence.each(case, |run| run.rate(run.flow("video"), BESIDE));
            let name = format!("{case}: Delay-BBR beside Reno, 60-200 s");
            Measured::new(name, Unit::BitsPerSecond, samples)
        });
        let [seldom, often] = ["with the reset", "without it"].map(|case| {
            let samples = evidence.each(case, |run| {
                let entries = run.entries(run.flow("video"), "ProbeRTT", BESIDE);
                entries / (BESIDE.1 - BESIDE.0) * 10.0
            });
            let name = format!("{case}: ProbeRTT beside Reno, times in 10 s");
            Measured::new(name, Unit::Number, samples)
        });
        for value in [&with, &without, &seldom, &often] {
            judgement.report(value);
        }
        judgement.expect(without.below(&with));
        judgement.expect(seldom.below(&often));
        judgement
    },
};

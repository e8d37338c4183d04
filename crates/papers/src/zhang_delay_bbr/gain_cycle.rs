//! §4.1: the reason for which probing is gentler than BBR's.

use super::rates::mean_variation;
use super::{PAPER, setting};
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Judgement, Measured};
use anabranch_lab::metrics::Unit;

pub(super) const CLAIM: Claim = Claim {
    id: "S0-C1",
    paper: &PAPER,
    figure: "§4.1",
    claim: "Gains of 1.11 and 0.9 instead of BBR's 1.25 and 0.75 keep the sending rate stable.",
    criterion: "Case 2, 100 to 300 s: the 1 s rates vary less than with the other gains, all else \
            equal. Alone, the first flow takes 80 % of the link.",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        vec![
            setting(2).three_flows("1.11 and 0.9", controller),
            setting(2).three_flows("1.25 and 0.75", "live-bbr:cycle=bbr"),
        ]
    },
    judge,
};

fn judge(evidence: &Evidence) -> Judgement {
    fn variation(case: &str, evidence: &Evidence) -> Measured {
        let samples = evidence.each(case, mean_variation);
        let name = format!("{case}: variation of the 1 s rates, 100-300 s, mean of the flows");
        Measured::new(name, Unit::Number, samples)
    }

    let mut judgement = Judgement::new();
    let (gentle, usual) = (
        variation("1.11 and 0.9", evidence),
        variation("1.25 and 0.75", evidence),
    );
    judgement.report(&gentle);
    judgement.report(&usual);
    judgement.expect(gentle.below(&usual));
    // A constant rate is more stable still, but it does not probe.
    let samples = evidence.each("1.11 and 0.9", |run| {
        run.sent_rate(&run.series().flows[0], (20.0, 40.0))
    });
    let alone = Measured::new(
        "first flow while alone, 20-40 s",
        Unit::BitsPerSecond,
        samples,
    );
    judgement.report(&alone);
    judgement.expect(alone.at_least(0.8 * setting(2).bits_per_second()));
    judgement
}

//! Figs. 4, 6 and 8: the viewer's picture.

use super::figure::{Part, Parts, judge_where, over_points};
use super::measures::viewer;
use super::{BBR, PAPER, SCENARIOS, Scenario, cases};
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::Judgement;
use crate::record::RunRecord;
use anabranch_lab::metrics::Unit;

fn underflows(run: &RunRecord) -> u64 {
    viewer(run).underflows
}

fn discards(run: &RunRecord) -> u64 {
    viewer(run).discarded
}

fn is_excellent(run: &RunRecord) -> bool {
    (underflows(run), discards(run)) == (1, 0)
}

/// Returns whether a run has more underflows or discards than another, and fewer of neither.
fn is_worse(run: &RunRecord, than: &RunRecord) -> bool {
    let [ours, others] = [run, than].map(|run| [underflows(run), discards(run)]);
    ours != others && ours.iter().zip(others).all(|(ours, other)| *ours >= other)
}

/// Returns whether discards and underflows differ by half at most, or by a second of pictures and
/// one underflow.
fn is_comparable(run: &RunRecord, to: &RunRecord) -> bool {
    fn is_near(one: u64, other: u64, least: u64) -> bool {
        one.abs_diff(other) <= least || one.max(other) * 2 <= one.min(other) * 3
    }
    is_near(underflows(run), underflows(to), 1) && is_near(discards(run), discards(to), 24)
}

const IN_A: Parts = &[
    Part {
        name: "BBR: one underflow and no discards in A",
        is_so: |at| is_excellent(at.bbr(Scenario::A)),
    },
    Part {
        name: "CUBIC: one underflow and no discards in A",
        is_so: |at| is_excellent(at.cubic(Scenario::A)),
    },
];

const IN_B: Parts = &[
    Part {
        name: "BBR is worse in B than in A",
        is_so: |at| is_worse(at.bbr(Scenario::B), at.bbr(Scenario::A)),
    },
    Part {
        name: "CUBIC is worse in B than in A",
        is_so: |at| is_worse(at.cubic(Scenario::B), at.cubic(Scenario::A)),
    },
    Part {
        name: "fewer underflows with BBR than with CUBIC in B",
        is_so: |at| underflows(at.bbr(Scenario::B)) < underflows(at.cubic(Scenario::B)),
    },
    Part {
        name: "more discards with BBR than with CUBIC in B",
        is_so: |at| discards(at.bbr(Scenario::B)) > discards(at.cubic(Scenario::B)),
    },
];

const IN_C: Parts = &[
    Part {
        name: "BBR is worse in C than in A and B",
        is_so: |at| {
            let worst = at.bbr(Scenario::C);
            is_worse(worst, at.bbr(Scenario::A)) && is_worse(worst, at.bbr(Scenario::B))
        },
    },
    Part {
        name: "BBR has more underflows in C than CUBIC, and twice the discards",
        is_so: |at| {
            let (bbr, cubic) = (at.bbr(Scenario::C), at.cubic(Scenario::C));
            underflows(bbr) > underflows(cubic) && discards(bbr) > 2 * discards(cubic)
        },
    },
    Part {
        name: "CUBIC is in C as in B",
        is_so: |at| is_comparable(at.cubic(Scenario::C), at.cubic(Scenario::B)),
    },
];

pub(super) const PARTS: [Parts; 3] = [IN_A, IN_B, IN_C];

/// Reports the numbers of both, at all points.
fn numbers(judgement: &mut Judgement, evidence: &Evidence, scenario: Scenario, published: bool) {
    type Count = fn(&RunRecord) -> u64;
    let counts: [(&str, Count, f64); 2] =
        [("underflows", underflows, 1.0), ("discards", discards, 0.0)];
    for (what, count, paper) in counts {
        let name = format!("BBR in {scenario:?}: {what}");
        let bbr = over_points(evidence, &name, Unit::Number, |at| {
            count(at.bbr(scenario)) as f64
        });
        let name = format!("CUBIC in {scenario:?}: {what}");
        let cubic = over_points(evidence, &name, Unit::Number, |at| {
            count(at.cubic(scenario)) as f64
        });
        for value in [bbr, cubic] {
            judgement.report(&if published {
                value.beside(paper)
            } else {
                value
            });
        }
    }
}

pub(super) const FIGURE_4: Claim = Claim {
    id: "S1-F4",
    paper: &PAPER,
    figure: "Fig. 4, §VI.A",
    claim: "Scenario A: one buffer underflow and no picture discards, with BBR and with CUBIC.",
    criterion: "At more than half of the points; the underflow is the wait at the start.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&[Scenario::A], bbr),
    judge: |evidence| {
        let why = "Two links of 2.8 Mbit/s carry 5.33 Mbit/s of film, 72 B of 1,500 being headers, \
                   which leaves 2 % above the mean of 5.24. A film whose groups of pictures vary \
                   exceeds that for longer than the player has read ahead.";
        let mut judgement = judge_where(evidence, &[], IN_A, why);
        numbers(&mut judgement, evidence, Scenario::A, true);
        judgement
    },
};

pub(super) const FIGURE_6: Claim = Claim {
    id: "S1-F6",
    paper: &PAPER,
    figure: "Fig. 6, §VI.B",
    claim: "Scenario B: the video is worse than in A with both; BBR has fewer underflows and more \
            discards than CUBIC.",
    criterion: "At more than half of the points where Fig. 4 is met. Worse: more underflows or \
                discards, and of neither fewer.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&[Scenario::A, Scenario::B], bbr),
    judge: |evidence| {
        let why = "Nothing in the paper's network makes CUBIC worse in B: its window does not \
                   depend on the delay, and its paths carry the same in A and B, with half-duplex \
                   air, jitter of LTE and packets that overtake too. BBR loses little on the Wi-Fi \
                   in B (Fig. 7), which links above 2.8 Mbit/s make up for.";
        let mut judgement = judge(evidence, IN_B, why);
        numbers(&mut judgement, evidence, Scenario::B, false);
        judgement
    },
};

pub(super) const FIGURE_8: Claim = Claim {
    id: "S1-F8",
    paper: &PAPER,
    figure: "Fig. 8, §VI.C",
    claim: "Scenario C: the video is much worse with BBR; with CUBIC it is as in B.",
    criterion: "At more than half of the points where Fig. 4 is met. BBR: worse than in A and B, \
                more underflows than CUBIC and \
                twice its discards. CUBIC: within half of B's counts, or one underflow and 24 \
                pictures.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| cases(&SCENARIOS, bbr),
    judge: |evidence| {
        let why = "The delay each way starves BBR's Wi-Fi by its round trip. One way it takes \
                   packets that overtake when the delay falls. If the delay lasts \
                   for a whole cycle of 10 s, the shorter round trip leaves BBR's filter, and C is \
                   no worse than B: only half a cycle with the delay shows the figure.";
        let mut judgement = judge(evidence, IN_C, why);
        numbers(&mut judgement, evidence, Scenario::C, false);
        judgement
    },
};

/// Judges a figure where Fig. 4 is met, by the same reading and form of BBR.
pub(super) fn judge(evidence: &Evidence, parts: Parts, why: &str) -> Judgement {
    judge_where(evidence, PARTS[0], parts, why)
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen as run;
    use super::*;

    #[test]
    fn worse_is_more_of_one_and_fewer_of_none() {
        assert!(is_worse(&run(2, 0), &run(1, 0)) && is_worse(&run(1, 9), &run(1, 0)));
        assert!(!is_worse(&run(1, 0), &run(1, 0)));
        assert!(!is_worse(&run(3, 0), &run(2, 9)) && !is_worse(&run(2, 9), &run(3, 0)));
    }

    #[test]
    fn excellent_is_the_start_alone() {
        assert!(is_excellent(&run(1, 0)));
        assert!(!is_excellent(&run(2, 0)) && !is_excellent(&run(1, 1)));
    }

    #[test]
    fn comparable_is_half_as_much_again_or_a_second() {
        assert!(is_comparable(&run(1, 0), &run(2, 24)) && is_comparable(&run(3, 90), &run(2, 60)));
        assert!(!is_comparable(&run(1, 0), &run(3, 0)));
        assert!(!is_comparable(&run(1, 0), &run(1, 25)));
        assert!(!is_comparable(&run(2, 91), &run(2, 60)));
    }
}

//! §II, citing the authors' earlier paper: BBR over paths that lose packets.

use super::measures::viewer;
use super::{BBR, CUBIC, PAPER, SPACE, STUDY};
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement, Measured, Samples};
use crate::record::RunRecord;
use anabranch_lab::metrics::{DownloadStatistics, Unit};

/// Settings with which each packet is lost with this chance both ways, and the delay does not
/// change.
const LOSS: [(&str, &str); 4] = [
    ("links.wifi.loss", "1 %"),
    ("links.lte.loss", "1 %"),
    ("links.wifi-air.delay-schedule", "[]"),
    ("links.wifi-air-back.delay-schedule", "[]"),
];

fn lossy(name: &str, controller: &str) -> Case {
    let case = Case::new(name, "kondo-mptcp/study.toml", STUDY);
    let case = LOSS
        .iter()
        .fold(case, |case, (key, value)| case.set(key, value));
    case.set("flows.0.controller", controller).seeds(1)
}

/// Returns whether BBR has fewer discards or underflows than CUBIC, and more of neither.
fn is_superior(bbr: &DownloadStatistics, cubic: &DownloadStatistics) -> bool {
    let [ours, others] = [bbr, cubic].map(|film| [film.discarded, film.underflows]);
    ours != others && ours.iter().zip(others).all(|(ours, other)| *ours <= other)
}

/// Returns whether the film is displayed without a stop, so that no film can be better.
fn is_perfect(bbr: &DownloadStatistics) -> bool {
    (bbr.discarded, bbr.underflows) == (0, 1)
}

pub(super) const LOSSY: Claim = Claim {
    id: "S1-C4",
    paper: &PAPER,
    figure: "§II, citing the authors' paper of 2022",
    claim: "Over paths that lose packets BBR's video is better than that of other TCPs.",
    criterion: "At more than half of the points, with 1 % loss on both paths: fewer discards or \
                underflows \
                than CUBIC and more of neither, or a film without a stop.",
    basis: Basis::Measured,
    subject: Subject::Controller(BBR),
    cases: |bbr| SPACE.cases(&[lossy("BBR", bbr), lossy("CUBIC", CUBIC)]),
    judge: |evidence| {
        let mut judgement = Judgement::new();
        let better = SPACE.met_points(|point| {
            let [bbr, cubic] = ["BBR", "CUBIC"].map(|who| viewer(evidence.shown(&point.of(who))));
            let is_so = is_superior(&bbr, &cubic) || is_perfect(&bbr);
            vec![Expect::that("", is_so)]
        });
        better.report("BBR is better", &mut judgement);
        for who in ["BBR", "CUBIC"] {
            type Of = fn(&RunRecord) -> f64;
            let numbers: [(&str, Of); 2] = [
                ("discards", |run| viewer(run).discarded as f64),
                ("underflows", |run| viewer(run).underflows as f64),
            ];
            for (what, of) in numbers {
                let name = format!("{who}: {what}, over the points");
                let samples = over(evidence, who, of);
                judgement.report(&Measured::new(name, Unit::Number, samples));
            }
        }
        judgement.because(better.sentence())
    },
};

fn over(evidence: &Evidence, who: &str, of: fn(&RunRecord) -> f64) -> Samples {
    let points = SPACE.points();
    let values = points
        .iter()
        .map(|point| of(evidence.shown(&point.of(who))));
    Samples(values.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(underflows: u64, discarded: u64) -> DownloadStatistics {
        DownloadStatistics {
            underflows,
            discarded,
            ..DownloadStatistics::default()
        }
    }

    #[test]
    fn superior_is_fewer_of_one_and_more_of_none() {
        assert!(is_superior(&seen(1, 0), &seen(1, 9)) && is_superior(&seen(1, 0), &seen(2, 0)));
        assert!(!is_superior(&seen(1, 0), &seen(1, 0)));
        assert!(!is_superior(&seen(2, 0), &seen(1, 9)) && !is_superior(&seen(1, 9), &seen(2, 0)));
        assert!(is_perfect(&seen(1, 0)) && !is_perfect(&seen(1, 1)) && !is_perfect(&seen(2, 0)));
    }
}

//! Fig. 1: the framework at work over two paths.

use super::PAPER;
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::judgement::{Judgement, Measured};
use anabranch_lab::metrics::Unit;

const TWO_PATHS: &str = include_str!("../../../../scenarios/two-paths.toml");

pub(super) const FIGURE_1: Claim = Claim {
    id: "S0-F1",
    paper: &PAPER,
    figure: "Fig. 1, §3.1",
    claim: "One video over two paths: each has a controller, a pacer and feedback of its own, and \
            the receiver puts frames together from both.",
    criterion: "Two paths of ours: each carries at least 5 % of the packets and sends feedback, \
            and at least 99 % of the frames arrive whole and in time.",
    basis: Basis::SetUp,
    subject: Subject::Scenario,
    cases: |_| vec![Case::new("two paths", "two-paths.toml", TWO_PATHS)],
    judge: |evidence| {
        let share = evidence.each("two paths", |run| {
            let paths = run.statistics.flows[0].paths.iter();
            let sent: Vec<f64> = paths.map(|path| path.traffic.packets_sent as f64).collect();
            let least = sent.iter().copied().fold(f64::INFINITY, f64::min);
            least / sent.iter().sum::<f64>()
        });
        let name = "least share of the packets that a path carries";
        let share = Measured::new(name, Unit::Share, share);
        let feedback = evidence.each("two paths", |run| {
            let paths = run.statistics.flows[0].paths.iter();
            let ratios = paths.map(|path| path.traffic.feedback_ratio.unwrap_or(f64::NAN));
            ratios.fold(f64::INFINITY, f64::min)
        });
        let name = "least ratio of a path's feedback to its traffic";
        let feedback = Measured::new(name, Unit::Share, feedback);
        let whole = evidence.each("two paths", |run| {
            let frames = &run.statistics.flows[0].frames;
            frames.complete_on_time_ratio.unwrap_or(f64::NAN)
        });
        let whole = Measured::new("frames complete in time", Unit::Share, whole);
        let mut judgement = Judgement::new();
        for value in [&whole, &share, &feedback] {
            judgement.report(value);
        }
        judgement.expect(share.at_least(0.05));
        judgement.expect(feedback.at_least(0.001));
        judgement.expect(whole.at_least(0.99));
        judgement
    },
};

//! §1: the time until flows have their shares of the link.

use super::compared::{GCC_CONTROLLER, as_gcc};
use super::{PAPER, SHOWN, Setting, setting};
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Judgement, Measured};
use crate::record::RunRecord;
use anabranch_lab::metrics::Unit;

/// Start of the third flow, and end of all.
const THIRD: f64 = 80.0;
const END: f64 = 300.0;
/// Span of the mean rates, in s.
const SPAN: f64 = 10.0;
/// Margin of Fig. 8's claim.
const NEAR: f64 = 0.25;

/// Returns the time from the third flow's start after which each flow has its share over any 10 s,
/// in s.
fn until_fair(run: &RunRecord, fair: f64) -> f64 {
    let flows = &run.series().flows;
    let ends = (SPAN as u32..=(END - THIRD) as u32).map(|after| THIRD + f64::from(after));
    let last_unfair = ends.rev().find(|end| {
        let rates = flows.iter().map(|flow| run.rate(flow, (end - SPAN, *end)));
        let mut off = rates.map(|rate| (rate / fair - 1.0).abs());
        !off.all(|off| off <= NEAR)
    });
    last_unfair.unwrap_or(THIRD) - THIRD
}

/// Returns the time from the first flow's start until it has 90 % of `usable`, in s.
fn until_full(run: &RunRecord, usable: f64) -> f64 {
    let seconds = run.seconds_until(&run.series().flows[0], 0.0, 0.9 * usable);
    if seconds.is_nan() { END } else { seconds }
}

fn name(number: usize, who: &str) -> String {
    format!("case {number}, {who}")
}

/// Returns two times of a case: until the link is used, and until it is shared.
fn times(evidence: &Evidence, setting: &Setting, who: &str) -> [Measured; 2] {
    let case = name(setting.number.into(), who);
    // No flow's video exceeds 3 Mbit/s.
    let usable = setting.bits_per_second().min(3e6);
    let fair = setting.bits_per_second() / 3.0;
    let full = evidence.each(&case, |run| until_full(run, usable));
    let shared = evidence.each(&case, |run| until_fair(run, fair));
    [
        Measured::new(format!("{case}: s to 90 % of the link"), Unit::Number, full),
        Measured::new(format!("{case}: s to fair shares"), Unit::Number, shared),
    ]
}

pub(super) const CLAIM: Claim = Claim {
    id: "S0-C10",
    paper: &PAPER,
    figure: "§1, Figs. 8 and 9",
    claim: "Delay-BBR converges fast to the available bandwidth, and so do flows that share it.",
    criterion: "Cases 1, 4 and 7, beside GCC, of which the paper says that it ramps up slowly: \
                the first flow has 90 % of its usable rate earlier, and after the third has \
                started the three flows are earlier within 25 % of their shares, over any 10 s to \
                the end.",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        let both = SHOWN.map(|number| {
            let flows =
                |who, controller| setting(number).three_flows(name(number, who), controller);
            let gcc = as_gcc(flows("GCC", GCC_CONTROLLER));
            [flows("Delay-BBR", controller), gcc]
        });
        both.into_iter().flatten().collect()
    },
    judge: |evidence| {
        let mut judgement = Judgement::new().because(
            "With a full queue from the first start on, the published flows' rates follow their \
             parts of the queue, and shares change slowly.",
        );
        for number in SHOWN {
            let ours = times(evidence, setting(number), "Delay-BBR");
            let gcc = times(evidence, setting(number), "GCC");
            for (ours, gcc) in ours.iter().zip(&gcc) {
                judgement.report(ours);
                judgement.report(gcc);
                judgement.expect(ours.below(gcc));
            }
        }
        judgement
    },
};

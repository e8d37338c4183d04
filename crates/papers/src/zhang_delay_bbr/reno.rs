//! Fig. 7: Delay-BBR and TCP Reno on one bottleneck.

use super::PAPER;
use crate::case::Case;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Judgement, Measured};
use crate::record::{RunRecord, Span};
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Chart, Line, Lines};

pub(super) const SCENARIO: &str = include_str!("../../../../scenarios/zhang-delay-bbr/reno.toml");
/// Capacity of case 2, in bit/s.
const CAPACITY: f64 = 3e6;

/// Makes a case with a video of this controller beside TCP Reno.
pub(super) fn beside_reno(name: &str, controller: &str) -> Case {
    Case::new(name, "zhang-delay-bbr/reno.toml", SCENARIO).controller(controller)
}

pub(super) const FIGURE_7: Claim = Claim {
    id: "S0-F7",
    paper: &PAPER,
    figure: "Fig. 7, §5.1",
    claim: "Case 2, Reno from 50 to 200 s: Delay-BBR keeps a reasonably high throughput, yields \
            while Reno is active, and then rises rapidly to near the capacity.",
    criterion: "Reasonably high: a fifth of the capacity. Rapidly: 90 % of it within 15 s, over 3 \
            s. Near: 90 % of it from 215 to 300 s.",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        vec![
            beside_reno("reno", controller),
            beside_reno(BBRS_CYCLE, "live-bbr:cycle=bbr").only_shown(),
        ]
    },
    judge,
};

/// Case in which probes are BBR's, of 25 % instead of 11 %.
const BBRS_CYCLE: &str = "BBR's cycle";

fn judge(evidence: &Evidence) -> Judgement {
    fn rate(what: &str, span: Span, evidence: &Evidence) -> Measured {
        let samples = evidence.each("reno", |run| run.rate(run.flow("video"), span));
        Measured::new(what, Unit::BitsPerSecond, samples)
    }

    fn rise_of(case: &str, what: &str, evidence: &Evidence) -> Measured {
        let samples = evidence.each(case, |run| {
            run.seconds_until(run.flow("video"), 200.0, 0.9 * CAPACITY)
        });
        Measured::new(what, Unit::Number, samples)
    }
    let ablated = rise_of(BBRS_CYCLE, "the same with BBR's cycle", evidence);
    let mut judgement = Judgement::new()
        .ablated(format!(
            "with BBR's probes of 25 % (`cycle=bbr`) the rise takes {} s.",
            ablated.all()
        ))
        .because(
            "A probe raises the rate by 11 % for one of eight round trips of 0.2 s. The estimate \
         takes one sample a round, which only overlaps the probe, and so gains 7 % a cycle on \
         average: to come from a third of the capacity to 90 % of it takes 15 cycles, some 25 s.",
        );
    let beside = rate("Delay-BBR beside Reno, 60-200 s", (60.0, 200.0), evidence);
    let before = rate("Delay-BBR before Reno, 20-50 s", (20.0, 50.0), evidence);
    let after = rate("Delay-BBR after Reno, 215-300 s", (215.0, 300.0), evidence);
    let rise = rise_of(
        "reno",
        "s from Reno's end to 90 % of the capacity",
        evidence,
    );
    let values = [&beside, &before, &after, &rise, &ablated];
    values.iter().for_each(|value| judgement.report(value));
    let reno = evidence.each("reno", |run| run.rate(run.flow("reno"), (60.0, 200.0)));
    judgement.report(&Measured::new("Reno, 60-200 s", Unit::BitsPerSecond, reno));
    judgement.expect(beside.at_least(0.2 * CAPACITY));
    judgement.expect(beside.below(&before));
    judgement.expect(rise.at_most(15.0));
    judgement.expect(after.at_least(0.9 * CAPACITY));
    judgement.draw(picture(evidence.shown("reno")));
    judgement
}

fn picture(run: &RunRecord) -> Chart {
    fn line(label: &str, flow: &str, run: &RunRecord) -> Line {
        Line::new(label, run.sent_kbits(run.flow(flow)))
    }
    Chart::Lines(Lines {
        title: "Fig. 7: Delay-BBR, Reno from 50 to 200 s".to_owned(),
        x: "time, s".to_owned(),
        y: "sending rate, kbit/s".to_owned(),
        lines: vec![
            line("Delay-BBR", "video", run),
            line("Reno (not in the paper's)", "reno", run),
        ],
        ..Lines::default()
    })
}

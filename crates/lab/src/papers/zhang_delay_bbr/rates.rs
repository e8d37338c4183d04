//! Figs. 5, 6, 8, 9 and 10: how three flows share a bottleneck over time.

use super::{PAPER, SHARED, SHOWN, Setting, setting};
use crate::chart::{Chart, Line, Lines};
use crate::metrics::Unit;
use crate::papers::claim::Claim;
use crate::papers::evidence::{Evidence, RunRecord};
use crate::papers::judgement::{Judgement, Measured, Samples};

pub(super) const FIGURE_6: Claim = Claim {
    id: "S0-F6",
    paper: &PAPER,
    figure: "Fig. 6",
    claim: "Case 2: three Delay-BBR flows are stable and converge near 1 Mbit/s each.",
    controller: Some("delay-bbr"),
    cases: |controller| vec![setting(2).three_flows("case 2", controller)],
    judge: |evidence| {
        let mut judgement = Judgement::new();
        converge(&mut judgement, evidence, setting(2), "case 2", 0.2);
        let variation = Measured::new(
            "variation of the 1 s rates, 100-300 s, worst flow",
            Unit::Number,
            evidence.each("case 2", worst_variation),
        );
        judgement.report(&variation);
        judgement.expect(variation.at_most(0.15));
        judgement.draw(sending_rates(
            "Fig. 6: Delay-BBR, case 2",
            evidence.shown("case 2"),
        ));
        judgement
    },
};

pub(super) const FIGURE_8: Claim = Claim {
    id: "S0-F8",
    paper: &PAPER,
    figure: "Fig. 8",
    claim: "Cases 1, 4 and 7: Delay-BBR flows converge to the line of fair shares.",
    controller: Some("delay-bbr"),
    cases: |controller| {
        let case = |number| setting(number).three_flows(format!("case {number}"), controller);
        SHOWN.map(case).to_vec()
    },
    judge: |evidence| {
        let mut judgement = Judgement::new();
        for number in SHOWN {
            let case = format!("case {number}");
            let jain = jain(evidence, &case);
            judgement.report(&jain);
            judgement.expect(jain.at_least(0.95));
            converge(&mut judgement, evidence, setting(number), &case, 0.25);
            let title = format!("Fig. 8: Delay-BBR, {case}");
            judgement.draw(sending_rates(&title, evidence.shown(&case)));
        }
        judgement
    },
};

/// Jain's index once all flows have had time to find their shares.
fn jain(evidence: &Evidence, case: &str) -> Measured {
    let samples = evidence.each(case, |run| run.jain(SHARED));
    Measured::new(
        format!("{case}: Jain's index, 100-300 s"),
        Unit::Number,
        samples,
    )
}

/// The first flow takes the whole link while it is alone; later each has a third, but for a share
/// `margin` of it. Without the first, flows that nothing moves would do.
fn converge(
    judgement: &mut Judgement,
    evidence: &Evidence,
    setting: &Setting,
    case: &str,
    margin: f64,
) {
    let fair = setting.bits_per_second() / 3.0;
    let rates =
        |place: usize| evidence.each(case, |run| run.sent_rate(&run.series.flows[place], SHARED));
    let rates = [rates(0), rates(1), rates(2)];
    let measured = |what: &str, samples: Samples| {
        Measured::new(format!("{case}: {what}"), Unit::BitsPerSecond, samples)
    };
    let least = measured("least flow, 100-300 s", Samples::least(&rates));
    let largest = measured("largest flow, 100-300 s", Samples::largest(&rates));
    let alone = evidence.each(case, |run| {
        run.sent_rate(&run.series.flows[0], (20.0, 40.0))
    });
    let alone = measured("first flow while alone, 20-40 s", alone);
    judgement.report(&least);
    judgement.report(&largest);
    judgement.report(&alone);
    judgement.expect(least.within(margin, fair));
    judgement.expect(largest.within(margin, fair));
    judgement.expect(alone.at_least(0.8 * setting.bits_per_second()));
}

fn worst_variation(run: &RunRecord) -> f64 {
    let flows = run.series.flows.iter();
    flows
        .map(|flow| run.variation(flow, SHARED))
        .fold(0.0, f64::max)
}

/// Sending rates over time, as the paper draws them.
fn sending_rates(title: &str, run: &RunRecord) -> Chart {
    let flows = run.series.flows.iter();
    let lines = flows.map(|flow| Line {
        label: flow.name.clone(),
        points: run.sent_kbits(flow),
    });
    Chart::Lines(Lines {
        title: title.to_owned(),
        x: "time, s".to_owned(),
        y: "sending rate, kbit/s".to_owned(),
        lines: lines.collect(),
        y_end: None,
    })
}

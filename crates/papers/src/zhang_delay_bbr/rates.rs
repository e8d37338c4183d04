//! Figs. 5, 6, 8, 9 and 10: how three flows share a bottleneck over time.

use super::compared::{GCC_CONTROLLER, WEBRTC_BBR_CONTROLLER, as_gcc, as_webrtc_bbr, lossy};
use super::{PAPER, SHARED, SHOWN, Setting, setting};
use crate::case::Case;
use crate::charts;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Judgement, Measured, Samples};
use crate::record::RunRecord;
use anabranch_lab::Chart;
use anabranch_lab::metrics::Unit;

pub(super) const FIGURE_6: Claim = Claim {
    id: "S0-F6",
    paper: &PAPER,
    figure: "Fig. 6, §5.1",
    claim: "Case 2: three Delay-BBR flows are stable and converge near 1 Mbit/s each.",
    criterion: "From 100 to 300 s. Stable: the 1 s rates vary at most half as much as QUIC-BBR's. \
            Near: within 20 %. Alone, the first flow takes 80 % of the link.",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        vec![
            setting(2).three_flows("case 2", controller),
            setting(2).three_flows("QUIC-BBR", "bbr-quic"),
        ]
    },
    judge: |evidence| {
        let mut judgement = Judgement::new().because(
            "The flows converge, and Delay-BBR varies half as much as QUIC-BBR, give or take a few \
             hundredths: a run's variation is 0.064 to 0.120, so that few seeds may say otherwise.",
        );
        converge(&mut judgement, evidence, setting(2), "case 2", 0.2);
        let cases = [("Delay-BBR", "case 2"), ("QUIC-BBR", "QUIC-BBR")];
        let [ours, quic] = cases.map(|(name, case)| {
            let name = format!("{name}: variation of the 1 s rates, 100-300 s, mean of the flows");
            Measured::new(name, Unit::Number, evidence.each(case, mean_variation))
        });
        judgement.report(&ours);
        judgement.report(&quic);
        judgement.expect(ours.at_most(0.5 * quic.samples.median()));
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
    figure: "Fig. 8, §5.1",
    claim: "Cases 1, 4 and 7: Delay-BBR flows converge to the line of fair shares.",
    criterion: "From 100 to 300 s Jain's index is at least 0.95 and each flow within 25 % of its \
            share. Alone, the first flow takes 80 % of what its video can use.",
    basis: Basis::Measured,
    subject: Subject::Controller("live-bbr"),
    cases: |controller| {
        SHOWN
            .map(|number| setting(number).three_flows(format!("case {number}"), controller))
            .to_vec()
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

/// Returns Jain's index for the time in which all flows have found their shares.
fn jain(evidence: &Evidence, case: &str) -> Measured {
    let samples = evidence.each(case, |run| run.jain(SHARED));
    Measured::new(
        format!("{case}: Jain's index, 100-300 s"),
        Unit::Number,
        samples,
    )
}

/// Expects the first flow to take the whole link while it is alone, and each flow to get a third
/// later, within a share `margin`. Without the first, flows of constant rate would pass.
fn converge(
    judgement: &mut Judgement,
    evidence: &Evidence,
    setting: &Setting,
    case: &str,
    margin: f64,
) {
    let fair = setting.bits_per_second() / 3.0;
    let rates = [0, 1, 2].map(|place| {
        evidence.each(case, |run| {
            run.sent_rate(&run.series().flows[place], SHARED)
        })
    });
    let first = evidence.each(case, |run| {
        run.sent_rate(&run.series().flows[0], (20.0, 40.0))
    });
    let [least, largest, alone] = [
        ("least flow, 100-300 s", Samples::least(&rates)),
        ("largest flow, 100-300 s", Samples::largest(&rates)),
        ("first flow while alone, 20-40 s", first),
    ]
    .map(|(what, samples)| Measured::new(format!("{case}: {what}"), Unit::BitsPerSecond, samples));
    judgement.report(&least);
    judgement.report(&largest);
    judgement.report(&alone);
    judgement.expect(least.within(margin, fair));
    judgement.expect(largest.within(margin, fair));
    // No flow's video exceeds 3 Mbit/s.
    judgement.expect(alone.at_least(0.8 * setting.bits_per_second().min(3e6)));
}

/// Returns the mean variation over the flows.
pub(super) fn mean_variation(run: &RunRecord) -> f64 {
    let flows = run.series().flows.iter();
    let sum: f64 = flows.map(|flow| run.variation(flow, SHARED)).sum();
    sum / run.series().flows.len() as f64
}

fn worst_variation(run: &RunRecord) -> f64 {
    let flows = run.series().flows.iter();
    flows
        .map(|flow| run.variation(flow, SHARED))
        .fold(0.0, f64::max)
}

/// Draws sending rates over time, as the paper does.
fn sending_rates(title: &str, run: &RunRecord) -> Chart {
    Chart::Lines(charts::sending_rates(title, run, &run.series().flows))
}

/// Measures the 1 s rate of any flow that `pick` takes from any two.
fn extreme_rate(evidence: &Evidence, name: &str, pick: fn(f64, f64) -> f64) -> Measured {
    let samples = evidence.each("case 2", |run| {
        let rates = run
            .series()
            .flows
            .iter()
            .flat_map(|flow| run.sent_rates(flow, SHARED));
        rates.reduce(pick).unwrap_or(f64::NAN)
    });
    Measured::new(name, Unit::BitsPerSecond, samples)
}

pub(super) const FIGURE_5: Claim = Claim {
    id: "S0-F5",
    paper: &PAPER,
    figure: "Fig. 5, §5.1",
    claim: "Case 2: QUIC-BBR flows are fair on average, but their rates swing between 500 and 1500 \
            kbit/s.",
    criterion: "From 100 to 300 s each flow's mean is within 25 % of its share, and the highest 1 \
            s rate is at least twice the lowest.",
    basis: Basis::Measured,
    subject: Subject::Controller("bbr-quic"),
    cases: |controller| vec![setting(2).three_flows("case 2", controller)],
    judge: |evidence| {
        let fair = setting(2).bits_per_second() / 3.0;
        let lowest = extreme_rate(evidence, "lowest 1 s rate, 100-300 s", f64::min).beside(500e3);
        let highest =
            extreme_rate(evidence, "highest 1 s rate, 100-300 s", f64::max).beside(1500e3);
        let swing = highest.samples.over(&lowest.samples);
        let swing = Measured::new("highest over lowest 1 s rate", Unit::Number, swing).beside(3.0);
        let mut judgement = Judgement::new();
        judgement.report(&swing);
        judgement.report(&lowest);
        judgement.report(&highest);
        judgement.expect(swing.at_least(2.0));
        for place in 0..3 {
            let samples = evidence.each("case 2", |run| {
                run.sent_rate(&run.series().flows[place], SHARED)
            });
            let name = format!("flow {}, mean of 100-300 s", place + 1);
            let mean = Measured::new(name, Unit::BitsPerSecond, samples);
            judgement.report(&mean);
            judgement.expect(mean.within(0.25, fair));
        }
        judgement.draw(sending_rates(
            "Fig. 5: QUIC-BBR, case 2",
            evidence.shown("case 2"),
        ));
        judgement
    },
};

pub(super) const FIGURE_9: Claim = Claim {
    id: "S0-F9",
    paper: &PAPER,
    figure: "Fig. 9, §5.1",
    claim: "Cases 1, 4 and 7: WebRTC's GCC flows converge to the line of fair shares.",
    criterion: "From 100 to 300 s Jain's index is at least 0.9 and each flow within 25 % of its \
            share. Alone, the first flow takes 80 % of what its video can use.",
    basis: Basis::Measured,
    subject: Subject::Controller(GCC_CONTROLLER),
    cases: |controller| {
        let mut cases = with_and_without_loss(controller, as_gcc);
        cases.extend(variants(controller, as_gcc));
        cases
    },
    judge: |evidence| {
        let mut judgement = Judgement::new().because(
            "Jain's index is above 0.9 in all cases; in case 4 the first flow keeps 1.7 times the \
             others' rate, from 120 s to the end. An overuse leaves every flow 85 % of its rate, \
             and away from its last maximum a rate grows by 8 % a second: both keep the ratio of \
             two flows; only the additive growth near the maximum evens them out.",
        );
        for number in SHOWN {
            let case = format!("case {number}");
            expect_by_all(&mut judgement, number, |case, judgement| {
                let jain = jain(evidence, case);
                judgement.report(&jain);
                judgement.expect(jain.at_least(0.9));
                converge(judgement, evidence, setting(number), case, 0.25);
            });
            draw_both(&mut judgement, evidence, "Fig. 9: GCC", &case);
        }
        judgement.ablated(VARIANTS_ABLATION)
    },
};

pub(super) const FIGURE_10: Claim = Claim {
    id: "S0-F10",
    paper: &PAPER,
    figure: "Fig. 10, §5.1",
    claim: "Cases 1, 4 and 7: WebRTC-BBR's rates oscillate, and one flow is held at a minimal \
            rate.",
    criterion: "From 100 to 300 s Jain's index is at most 0.9, the least flow has at most half of \
            its share, and the worst variation of 1 s rates is at least 0.1.",
    basis: Basis::Measured,
    subject: Subject::Controller(WEBRTC_BBR_CONTROLLER),
    cases: |controller| {
        let mut cases = with_and_without_loss(controller, as_webrtc_bbr);
        cases.extend(variants(controller, as_webrtc_bbr));
        cases
    },
    judge: |evidence| {
        let mut judgement = Judgement::new().because(
            "In case 7 no flow's video takes more than 3 of the 5 Mbit/s, so that the others have \
             2 to share. With video of 5 Mbit/s the least flow gets 150 to 320 kbit/s there, too.",
        );
        for number in SHOWN {
            let case = format!("case {number}");
            expect_by_all(&mut judgement, number, |case, judgement| {
                expect_starvation(evidence, number, case, judgement);
            });
            draw_both(&mut judgement, evidence, "Fig. 10: WebRTC-BBR", &case);
        }
        judgement.ablated(VARIANTS_ABLATION)
    },
};

/// Expects oscillation, and one flow held at a minimal rate.
fn expect_starvation(evidence: &Evidence, number: usize, case: &str, judgement: &mut Judgement) {
    let jain = jain(evidence, case);
    let samples = evidence.each(case, worst_variation);
    let name = format!("{case}: variation of the 1 s rates, worst flow");
    let variation = Measured::new(name, Unit::Number, samples);
    let samples = evidence.each(case, |run| {
        let flows = run.series().flows.iter();
        let rates = flows.map(|flow| run.sent_rate(flow, SHARED));
        rates.fold(f64::INFINITY, f64::min)
    });
    let name = format!("{case}: least flow, 100-300 s");
    let least = Measured::new(name, Unit::BitsPerSecond, samples);
    let fair = setting(number).bits_per_second() / 3.0;
    judgement.expect(jain.at_most(0.9));
    judgement.expect(least.at_most(0.5 * fair));
    judgement.expect(variation.at_least(0.1));
    for value in [&jain, &least, &variation] {
        judgement.report(value);
    }
}

/// Names of settings that the paper does not print: video that can use the whole link (the authors'
/// program has 3 Mbit/s at most), starts that are not exact, and both.
const VARIANTS: [&str; 3] = [
    ", video up to the link's rate",
    ", starts within 100 ms",
    ", video up to the link's rate, starts within 100 ms",
];
const VARIANTS_ABLATION: &str = "the cases with video up to the link's rate, and with starts \
            within \
                                 100 ms, which the paper does not print.";

/// Returns the shown cases with each of [`VARIANTS`].
fn variants(controller: &str, padding: fn(Case) -> Case) -> Vec<Case> {
    let mut cases = Vec::new();
    for number in SHOWN {
        for (at, variant) in VARIANTS.into_iter().enumerate() {
            let name = format!("case {number}{variant}");
            let mut case = padding(setting(number).three_flows(name, controller));
            if at != 1 {
                let rate = format!("{} Mbit/s", setting(number).megabits);
                case = case.set("flow-defaults.source.max", &rate);
            }
            if at != 0 {
                case = case.set("flow-defaults.start-jitter", "100 ms");
            }
            cases.push(case);
        }
    }
    cases
}

/// Adds the expectations of a shown case. One is open where one of [`VARIANTS`] gives another
/// outcome.
fn expect_by_all(judgement: &mut Judgement, number: usize, expect: impl Fn(&str, &mut Judgement)) {
    let mut judged = Judgement::new();
    expect(&format!("case {number}"), &mut judged);
    for variant in VARIANTS {
        let mut other = Judgement::new();
        expect(&format!("case {number}{variant}"), &mut other);
        for (expect, other) in judged.expects.iter_mut().zip(&other.expects) {
            expect.is_open |= expect.is_met != other.is_met;
        }
        judged.values.extend(other.values);
    }
    judgement.values.extend(judged.values);
    judgement.expects.extend(judged.expects);
}

/// Returns the shown cases without and with the error model of the authors' test program.
fn with_and_without_loss(controller: &str, padding: fn(Case) -> Case) -> Vec<Case> {
    SHOWN
        .map(|number| padding(setting(number).three_flows(format!("case {number}"), controller)))
        .into_iter()
        .chain(SHOWN.map(|number| {
            let name = format!("case {number}{WITH_LOSS}");
            lossy(padding(setting(number).three_flows(name, controller))).only_shown()
        }))
        .collect()
}

const WITH_LOSS: &str = ", 10 % lost by chance";

/// Draws the judged case, and beside it the same with loss.
fn draw_both(judgement: &mut Judgement, evidence: &Evidence, title: &str, case: &str) {
    let with_loss = format!("{case}{WITH_LOSS}");
    judgement.report(&jain(evidence, &with_loss));
    for case in [case, &with_loss] {
        judgement.draw(sending_rates(
            &format!("{title}, {case}"),
            evidence.shown(case),
        ));
    }
}

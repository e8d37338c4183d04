//! §2: what the paper says of its reference 24, whose M/M/1 queues it doubts.

use super::frame_delay::in_most;
use super::{CONFIGURATIONS, Configuration, PAPER, frame_delay_ms};
use crate::claim::{Basis, Case, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement, Measured};
use crate::record::RunRecord;
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Bar, BarKind, Bars, Chart};

/// Delay-BBR, Zhu et al.'s allocation, and the AIMD that they compare it with.
const LABELS: [&str; 3] = ["Delay-BBR", "Zhu et al.", "Zhu et al., AIMD"];

pub(super) const COMPARISON: Claim = Claim {
    id: "S0-R24",
    paper: &PAPER,
    figure: "§2, reference 24",
    claim: "Whether M/M/1 queues, by which Zhu et al. allocate rates, show the true state of a \
            link is questionable.",
    criterion: "If they did, flows with these rates would do better than with Delay-BBR: less \
            frame delay, no more loss and four fifths of the goodput, each in 6 of 10 \
            configurations of the candidate Table 3. That they differ confirms the doubt.",
    basis: Basis::Measured,
    subject: Subject::Controller("zhu"),
    cases: |controller| {
        let cases = |configuration: &Configuration| {
            let allocated = |label: &str, controller: &str| -> Case {
                let case = configuration
                    .case(configuration.name(label))
                    .controller(controller);
                // The allocation leaves room itself, and asks for padding when it probes.
                case.set("flow-defaults.target-fraction", "100 %")
                    .set("flow-defaults.path-target-min", "0 bit/s")
                    .set("flow-defaults.padding", "while-probing")
                    .set("flow-defaults.min-rate", "100 kbit/s")
            };
            [
                configuration
                    .case(configuration.name(LABELS[0]))
                    .controller("live-bbr"),
                allocated(LABELS[1], controller),
                allocated(LABELS[2], "zhu:policy=aimd").only_shown(),
            ]
        };
        CONFIGURATIONS.iter().flat_map(cases).collect()
    },
    judge: |evidence| {
        let mut judgement = Judgement::new().because(WHY);
        let mut each: [Vec<Expect>; 3] = Default::default();
        for configuration in &CONFIGURATIONS {
            let of = |text: &str, unit, measure: fn(&RunRecord) -> f64| {
                LABELS.map(|label| measured(evidence, configuration, label, text, unit, measure))
            };
            let delay = of("frame delay", Unit::Milliseconds, frame_delay_ms);
            let rate = of("goodput", Unit::BitsPerSecond, |run| {
                run.statistics.flows[0].goodput_bits_per_second
            });
            let loss = of("loss", Unit::Share, |run| {
                run.statistics.flows[0]
                    .traffic
                    .loss_ratio
                    .unwrap_or(f64::NAN)
            });
            for place in 0..3 {
                for value in [&delay[place], &rate[place], &loss[place]] {
                    judgement.report(value);
                }
            }
            each[0].push(delay[1].below(&delay[0]));
            each[1].push(loss[1].at_most(loss[0].samples.median()));
            each[2].push(rate[1].at_least(0.8 * rate[0].samples.median()));
        }
        let texts = [
            "less frame delay than Delay-BBR",
            "no more loss than Delay-BBR",
            "four fifths of Delay-BBR's goodput",
        ];
        for (text, each) in texts.into_iter().zip(&each) {
            judgement.expect(in_most(text, each));
        }
        judgement.draw(bars(evidence));
        judgement
    },
};

const WHY: &str = "About half of the goodput buys short queues where links are wide \
     (configurations 6 to 10). Where flows share a link of 1 Mbit/s (1 to 5) a tenth to a third \
     is lost: drop-tail queues that other flows share are no M/M/1 queues.";

fn measured(
    evidence: &Evidence,
    configuration: &Configuration,
    label: &str,
    text: &str,
    unit: Unit,
    measure: fn(&RunRecord) -> f64,
) -> Measured {
    let name = configuration.name(label);
    let samples = evidence.each(&name, measure);
    Measured::new(format!("{name}: {text}"), unit, samples)
}

fn bars(evidence: &Evidence) -> Chart {
    let bar = |configuration: &Configuration, label: &str| {
        let samples = evidence.each(&configuration.name(label), frame_delay_ms);
        samples.spread().map(Bar::from)
    };
    Chart::Bars(Bars {
        title: "Average frame delay, candidate Table 3".to_owned(),
        y: "ms".to_owned(),
        groups: CONFIGURATIONS
            .iter()
            .map(|configuration| configuration.number.to_string())
            .collect(),
        kinds: LABELS
            .iter()
            .map(|label| BarKind {
                label: (*label).to_owned(),
                bars: CONFIGURATIONS.iter().map(|of| bar(of, label)).collect(),
            })
            .collect(),
    })
}

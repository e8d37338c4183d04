//! §2: the paper's sentences about its reference 24, whose M/M/1 queues it doubts.

use super::{CONFIGURATIONS, Configuration, PAPER, frame_delay_ms};
use crate::case::Case;
use crate::charts::bars;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement, Measured, Samples};
use crate::record::RunRecord;
use anabranch_lab::Chart;
use anabranch_lab::metrics::{LinkStatistics, Unit};

/// Delay-BBR, Zhu et al.'s allocation, and the AIMD that they compare it with.
const LABELS: [&str; 3] = ["Delay-BBR", "Zhu et al.", "Zhu et al., AIMD"];
/// The links of the configurations.
const LINKS: [&str; 2] = ["l1", "l2"];
/// Least factor by which a theory must be wrong to be doubted.
const OFF: f64 = 2.0;

/// Gives a case the settings of the flows by which Zhu et al. allocate.
fn allocated(case: Case) -> Case {
    // The allocation leaves room by itself, and asks for padding when it probes.
    case.set("flow-defaults.target-fraction", "100 %")
        .set("flow-defaults.path-target-min", "0 bit/s")
        .set("flow-defaults.padding", "while-probing")
        .set("flow-defaults.min-rate", "100 kbit/s")
}

pub(super) const COMPARISON: Claim = Claim {
    id: "S0-R24",
    paper: &PAPER,
    figure: "§2, reference 24",
    claim: "Whether M/M/1 queues, by which Zhu et al. allocate rates, show the true state of a \
            link is questionable.",
    criterion: "The mean wait in the queue of a link is compared with that of an M/M/1 queue with \
            the same load and packets. The theory is off by a factor of two or more on most of 20 \
            links, under Zhu et al.'s allocation as under Delay-BBR. The links are those of the \
            candidate Table 3: the sentence is about any.",
    basis: Basis::Measured,
    subject: Subject::Scenario,
    cases: |_| {
        let mut cases = Vec::new();
        for configuration in &CONFIGURATIONS {
            let [ours, zhu, aimd] =
                LABELS.map(|label| configuration.case(configuration.name(label)));
            cases.extend([
                ours.controller("live-bbr"),
                allocated(zhu.controller("zhu")),
                allocated(aimd.controller("zhu:policy=aimd")).only_shown(),
            ]);
        }
        cases
    },
    judge: |evidence| {
        let mut judgement = Judgement::new().because(WHY);
        let mut off: [Vec<Expect>; 2] = Default::default();
        for configuration in &CONFIGURATIONS {
            for link in LINKS {
                for place in 0..2 {
                    let wait = wait_over_theory(evidence, configuration, LABELS[place], link);
                    judgement.report(&wait);
                    off[place].push(is_off(&wait));
                }
            }
            of_flows(&mut judgement, evidence, configuration);
        }
        for (label, off) in LABELS.into_iter().zip(&off) {
            let count = off.iter().filter(|expect| expect.is_met).count();
            let text = format!(
                "{label}: the theory is off by a factor of {OFF} on {count} of {} links, expected \
                 more than half",
                off.len()
            );
            judgement.expect(Expect::at_least_of(text, off.len() / 2 + 1, off));
        }
        judgement.draw(picture(evidence));
        judgement
    },
};

const WHY: &str = "Where flows leave room, the queue of paced packets is shorter than that of an \
     M/M/1 system.";

/// Returns the mean wait before transmission over that of an M/M/1 queue with this load: ρ / (1 -
/// ρ) times the time that a packet takes.
fn wait_over_theory(
    evidence: &Evidence,
    configuration: &Configuration,
    label: &str,
    link: &str,
) -> Measured {
    let name = configuration.name(label);
    let samples = evidence.each(&name, |run| {
        let link = run.statistics.links.iter().find(|one| one.name == link);
        link.map_or(f64::NAN, ratio)
    });
    let name = format!("{name}, {link}: mean wait over that of an M/M/1 queue");
    Measured::new(name, Unit::Number, samples)
}

fn ratio(link: &LinkStatistics) -> f64 {
    // The load stays below one, so that the theory has a wait at all.
    let load = link.utilisation.unwrap_or(f64::NAN).min(1.0 - 1e-6);
    let packet_bits = PACKET_BYTES * 8.0;
    let capacity = link.throughput_bits_per_second / load;
    let service_ms = packet_bits / capacity * 1e3;
    link.queue_wait_mean_ms / (load / (1.0 - load) * service_ms)
}

/// Size of a full packet on the wire, as most packets are.
const PACKET_BYTES: f64 = 1_040.0;

/// Expects a ratio of two or more, or of a half or less.
fn is_off(wait: &Measured) -> Expect {
    let samples = wait.samples.0.iter().map(|ratio| ratio.max(1.0 / ratio));
    let off = Measured::new("", Unit::Number, Samples(samples.collect()));
    off.at_least(OFF)
}

/// Reports delay, goodput and loss of the flows.
fn of_flows(judgement: &mut Judgement, evidence: &Evidence, configuration: &Configuration) {
    type Quantity = (&'static str, Unit, fn(&RunRecord) -> f64);
    let quantities: [Quantity; 3] = [
        ("frame delay", Unit::Milliseconds, frame_delay_ms),
        ("goodput", Unit::BitsPerSecond, |run| {
            run.statistics.flows[0].goodput_bits_per_second
        }),
        ("loss", Unit::Share, |run| {
            let traffic = &run.statistics.flows[0].traffic;
            traffic.loss_ratio.unwrap_or(f64::NAN)
        }),
    ];
    for (text, unit, measure) in quantities {
        for label in LABELS {
            let name = configuration.name(label);
            let samples = evidence.each(&name, measure);
            judgement.report(&Measured::new(format!("{name}: {text}"), unit, samples));
        }
    }
}

fn picture(evidence: &Evidence) -> Chart {
    let title = "Average frame delay, candidate Table 3";
    let groups = CONFIGURATIONS.iter().map(|of| of.number.to_string());
    let kinds = LABELS.map(|label| {
        let configurations = CONFIGURATIONS.iter();
        let samples = configurations.map(|of| evidence.each(&of.name(label), frame_delay_ms));
        (label.to_owned(), samples.collect())
    });
    bars(title, "ms", 1.0, groups, kinds)
}

//! Effect of frames of even size, which no scheduler has: most of a frame's delay is the wait
//! behind a key frame.

use super::PAPER;
use super::experiment::{EXCESS, EXCESS_P99, Experiment, GOODPUT, OURS, labels};
use super::scenarios::{EXPERIMENTS, USUAL};
use crate::case::Case;
use crate::charts::bars;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::{Expect, Judgement, Measured, Samples};
use anabranch_lab::metrics::Unit;
use anabranch_lab::{Chart, ORACLE};

/// Target of the delay, over that of the best scheduler with key frames of five times the others.
const RATIO: f64 = 0.7;
/// Share by which the goodput may differ.
const SAME_GOODPUT: f64 = 0.1;
/// Scenarios whose video has key frames of five times the others.
const NAMES: [&str; 3] = ["three-paths", "outage", "four-paths"];
/// Key frames of twice the others, and of the others' size, as with intra refresh.
const SHAPES: [(&str, &str); 2] = [("key-2x", "2"), ("even", "1")];
/// Schedulers that are no peers: one sends everything twice, one knows everything.
const NO_PEERS: [&str; 2] = ["redundant", ORACLE];

pub(super) const EVEN_FRAMES: Claim = Claim {
    id: "own-even-frames",
    paper: &PAPER,
    figure: "even frames",
    claim: "Three paths, an outage and four paths: with frames of even size (intra refresh), the \
            usual scheduler's frame delay above propagation, 95th percentile, is at most 0.7 x \
            that of the best scheduler with key frames of five times the others.",
    criterion: "In the median scenario; goodput at most 10 % below. Key frames of twice the \
                others and the 99th percentile are shown beside it. The source has sizes and no \
                pictures: the cost of intra refresh in quality is not part of it.",
    basis: Basis::Measured,
    subject: Subject::Scenario,
    cases,
    judge,
};

fn experiments() -> impl Iterator<Item = Experiment> {
    EXPERIMENTS
        .into_iter()
        .filter(|experiment| NAMES.contains(&experiment.name))
}

fn cases(_: &str) -> Vec<Case> {
    experiments()
        .flat_map(|experiment| {
            let shaped = SHAPES.map(|(label, ratio)| {
                let case = experiment.case(label).scheduler(USUAL);
                case.set("flows.0.source.key-ratio", ratio).only_shown()
            });
            let alone = experiment.cases(OURS).into_iter().map(Case::only_shown);
            alone.chain(shaped).collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the delay of the scheduler with the least.
fn best(evidence: &Evidence, experiment: &Experiment) -> Measured {
    let peers = labels().filter(|label| !NO_PEERS.contains(label));
    peers
        .map(|label| experiment.measured(evidence, label, &EXCESS))
        .min_by(|one, other| one.samples.median().total_cmp(&other.samples.median()))
        .expect("there are schedulers")
}

fn judge(evidence: &Evidence) -> Judgement {
    let mut judgement = Judgement::new();
    let mut goodput_holds = Vec::new();
    let ratios = SHAPES.map(|(label, _)| {
        let name = format!("{label}: delay over that of the best scheduler alone, each scenario");
        Measured::new(
            name,
            Unit::Number,
            Samples(
                experiments()
                    .map(|experiment| {
                        let best = best(evidence, &experiment);
                        experiment.median(evidence, label, &EXCESS) / best.samples.median()
                    })
                    .collect(),
            ),
        )
    });
    ratios.iter().for_each(|ratio| judgement.report(ratio));
    for experiment in experiments() {
        judgement.report(&best(evidence, &experiment));
        for label in [USUAL, SHAPES[0].0, SHAPES[1].0] {
            for quantity in [&EXCESS, &EXCESS_P99, &GOODPUT] {
                judgement.report(&experiment.measured(evidence, label, quantity));
            }
        }
        let even = experiment.median(evidence, SHAPES[1].0, &GOODPUT);
        let ratio = even / experiment.median(evidence, USUAL, &GOODPUT);
        goodput_holds.push(Expect::by("", ratio - (1.0 - SAME_GOODPUT)));
    }
    judgement.expect(ratios[1].at_most(RATIO));
    judgement.expect(Expect::all_of(
        "goodput at most 10 % below that with key frames of five times the others",
        &goodput_holds,
    ));
    judgement.draw(picture(evidence));
    judgement
}

fn picture(evidence: &Evidence) -> Chart {
    let [five, two, one] = [USUAL, SHAPES[0].0, SHAPES[1].0].map(|label| {
        experiments()
            .map(|experiment| experiment.measured(evidence, label, &EXCESS).samples)
            .collect()
    });
    let best = experiments()
        .map(|experiment| best(evidence, &experiment).samples)
        .collect();
    let kinds = [
        ("5 x, min-cost".to_owned(), five),
        ("5 x, the best scheduler".to_owned(), best),
        ("2 x, min-cost".to_owned(), two),
        ("1 x, min-cost".to_owned(), one),
    ];
    let title = "Frame delay above propagation, by the size of key frames";
    let groups = experiments().map(|experiment| experiment.name.to_owned());
    bars(title, "95th percentile, ms", 1.0, groups, kinds)
}

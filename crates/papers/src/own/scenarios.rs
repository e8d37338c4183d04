//! One claim per scenario: it keeps the promises of its file, with the default scheduler and with
//! ours.

use anabranch_units::Duration;

use super::PAPER;
use super::experiment::{
    EXCESS, Experiment, GAP, GOODPUT, LATE, OURS, OURS_WITH_FEC, OVERHEAD, labels,
};
use crate::case::Case;
use crate::charts::bars;
use crate::claim::{Basis, Claim, Subject};
use crate::evidence::Evidence;
use crate::judgement::Judgement;
use anabranch_lab::{Chart, Line, Lines};

/// Scheduler of flows that name none.
pub(super) const USUAL: &str = "min-cost";
/// Schedulers whose delay is drawn over time.
const DRAWN: [&str; 4] = [OURS, OURS_WITH_FEC, USUAL, "wrr"];

macro_rules! experiment {
    ($name:literal, $files:expr) => {
        Experiment {
            name: $name,
            folder: "multipath",
            text: include_str!(concat!("../../../../scenarios/multipath/", $name, ".toml")),
            files: $files,
            interval: Duration::from_millis(200),
            has_promises: true,
        }
    };
}

/// A file of `scenarios/traces`, as scenarios name it.
macro_rules! trace {
    ($name:literal) => {
        (
            concat!("../traces/", $name),
            include_str!(concat!("../../../../scenarios/traces/", $name)),
        )
    };
}

/// Experiments of the claims below, in their order.
pub(super) const EXPERIMENTS: [Experiment; 11] = [
    experiment!("outage", &[]),
    experiment!("outage-for-good", &[]),
    experiment!("stall", &[]),
    experiment!("hand-over", &[]),
    experiment!(
        "cellular",
        &[trace!("walking.trace"), trace!("driving.trace")]
    ),
    experiment!("idle-looks-good", &[]),
    experiment!("metered", &[]),
    experiment!("three-paths", &[]),
    experiment!("four-paths", &[]),
    experiment!("shared-bottleneck", &[]),
    experiment!("start-up", &[]),
];

macro_rules! claim {
    ($place:literal, $id:literal, $claim:literal $(, $why:literal)?) => {
        Claim {
            id: $id,
            paper: &PAPER,
            figure: EXPERIMENTS[$place].name,
            claim: $claim,
            criterion: "Every run meets the expectations of the scenario's file, with min-cost \
                        and with anabranch; other schedulers are shown beside them.",
            basis: Basis::Measured,
            subject: Subject::Scenario,
            cases: |_| cases(&EXPERIMENTS[$place]),
            judge: |evidence| judge(evidence, &EXPERIMENTS[$place])$(.because($why))?,
        }
    };
}

pub(super) const OUTAGE: Claim = claim!(
    0,
    "own-outage",
    "One of two paths is dead for 5 s: the picture goes on, packets in flight on the path arrive \
     by the other in time, and the path is used again once it is back."
);

pub(super) const OUTAGE_FOR_GOOD: Claim = claim!(
    1,
    "own-outage-for-good",
    "One of two paths dies for good: the picture goes on at the other's rate."
);

pub(super) const STALL: Claim = claim!(
    2,
    "own-stall",
    "One of two paths stalls for 0.6 s and loses nothing: no frame waits for it."
);

pub(super) const HAND_OVER: Claim = claim!(
    3,
    "own-hand-over",
    "Out of the Wi-Fi and into the cell: the video moves without a gap.",
    "If Wi-Fi halves under a key frame, more bytes are captured before a report shows it than can \
     arrive in time by any path: in some runs a frame is given up, and the picture waits for the \
     next key frame."
);

pub(super) const CELLULAR: Claim = claim!(
    4,
    "own-cellular",
    "Two modems whose rates swing, by cellular traces: most frames are in time."
);

pub(super) const IDLE_LOOKS_GOOD: Claim = claim!(
    5,
    "own-idle-looks-good",
    "A path that is good while nothing is on it does not lure the video back again and again."
);

pub(super) const METERED: Claim = claim!(
    6,
    "own-metered",
    "A path that costs money carries video only while the free one does not suffice.",
    "With anabranch somewhat fewer frames can be decoded in time than the file asks for."
);

pub(super) const THREE_PATHS: Claim = claim!(
    7,
    "own-three-paths",
    "Three uneven paths, one with bursts of loss: their rates add up, and frames are in time."
);

pub(super) const FOUR_PATHS: Claim = claim!(
    8,
    "own-four-paths",
    "Four modems: their rates add up, and frames are in time."
);

pub(super) const SHARED_BOTTLENECK: Claim = claim!(
    9,
    "own-shared-bottleneck",
    "Two paths through one bottleneck: they do not push each other into loss and delay."
);

pub(super) const START_UP: Claim = claim!(
    10,
    "own-start-up",
    "The first five seconds: frames are in time from the first on, and the rate is found."
);

/// Schedulers whose promises count.
const JUDGED: [&str; 2] = [USUAL, OURS];

fn cases(experiment: &Experiment) -> Vec<Case> {
    let judged = JUDGED.map(|label| experiment.named(label));
    let cases = experiment.cases(OURS).into_iter();
    cases
        .map(|case| {
            if judged.contains(&case.name) {
                case
            } else {
                case.only_shown()
            }
        })
        .collect()
}

fn judge(evidence: &Evidence, experiment: &Experiment) -> Judgement {
    let mut judgement = Judgement::new();
    for label in labels() {
        judgement.report(&experiment.measured(evidence, label, &EXCESS));
    }
    for label in [OURS, OURS_WITH_FEC, USUAL] {
        for quantity in [&LATE, &GAP, &GOODPUT, &OVERHEAD] {
            judgement.report(&experiment.measured(evidence, label, quantity));
        }
    }
    for label in JUDGED {
        for expect in evidence.promises(&experiment.named(label)) {
            judgement.expect(expect);
        }
    }
    judgement.draw(delays(evidence, experiment));
    judgement.draw(lines(evidence, experiment));
    judgement
}

fn delays(evidence: &Evidence, experiment: &Experiment) -> Chart {
    let samples = labels().map(|label| experiment.measured(evidence, label, &EXCESS).samples);
    let kind = "by scheduler; oracle knows rates and queues".to_owned();
    bars(
        format!("{}: frame delay above propagation", experiment.name),
        "95th percentile, ms",
        1.0,
        labels().map(str::to_owned),
        [(kind, samples.collect())],
    )
}

fn lines(evidence: &Evidence, experiment: &Experiment) -> Chart {
    Chart::Lines(Lines {
        title: format!("{}: frame delay (mean of each 200 ms)", experiment.name),
        x: "time, s".to_owned(),
        y: "frame delay, ms".to_owned(),
        lines: DRAWN
            .map(|label| {
                let run = evidence.shown(&experiment.named(label));
                Line::new(label, run.frame_delays_ms(&run.series().flows[0]))
            })
            .into(),
        ..Lines::default()
    })
}

#[cfg(test)]
mod tests {
    use crate::own::CLAIMS;

    #[test]
    fn every_scenario_has_the_claim_of_its_name() {
        for (experiment, claim) in super::EXPERIMENTS.iter().zip(CLAIMS) {
            assert_eq!(claim.id, format!("own-{}", experiment.name));
            assert_eq!(claim.figure, experiment.name);
        }
    }
}

//! A scenario, run with every scheduler.

use anabranch_lab::ORACLE;
use anabranch_schedulers::SCHEDULERS;
use anabranch_units::Duration;

use crate::case::Case;
use crate::evidence::Evidence;
use crate::judgement::Measured;
use anabranch_lab::metrics::{FlowStatistics, Unit};

/// Our scheduler, and our scheduler with its FEC policy.
pub(super) const OURS: &str = "anabranch";
pub(super) const OURS_WITH_FEC: &str = "anabranch-with-FEC";
const FEC: &str = "adaptive:cap=0.15";
/// Name of the bound's runs.
const BOUND: &str = ORACLE;

/// A scenario whose first flow is the video that counts.
#[derive(Clone, Copy)]
pub(super) struct Experiment {
    pub(super) name: &'static str,
    /// Folder below `scenarios`.
    pub(super) folder: &'static str,
    pub(super) text: &'static str,
    /// Files that the scenario names, and their texts.
    pub(super) files: &'static [(&'static str, &'static str)],
    /// Recording interval.
    pub(super) interval: Duration,
    /// Whether the expectations of its file for `anabranch-lab run` count.
    pub(super) has_promises: bool,
}

impl Experiment {
    /// Returns a case for every scheduler, with `subject` in the place of ours.
    pub(super) fn cases(&self, subject: &str) -> Vec<Case> {
        let with_fec = self.case(OURS_WITH_FEC).scheduler(subject);
        let mut cases = vec![
            self.case(OURS).scheduler(subject),
            with_fec.set("flows.0.fec", FEC),
            self.case(BOUND).scheduler(ORACLE),
        ];
        cases.extend(others().map(|name| self.case(name).scheduler(name)));
        cases
    }

    /// Returns one of the cases, without a scheduler of its own.
    pub(super) fn case(&self, label: &str) -> Case {
        let Experiment { name, folder, .. } = self;
        let file = format!("{folder}/{name}.toml");
        let case = Case::new(self.named(label), file, self.text)
            .with_files(self.files)
            .every(self.interval);
        if self.has_promises {
            case.with_promises()
        } else {
            case
        }
    }

    /// Returns the name of a case.
    pub(super) fn named(&self, label: &str) -> String {
        format!("{}, {label}", self.name)
    }

    /// Returns a number of the video, run by run.
    pub(super) fn measured(
        &self,
        evidence: &Evidence,
        label: &str,
        quantity: &Quantity,
    ) -> Measured {
        let case = self.named(label);
        let samples = evidence.each(&case, |run| {
            (quantity.of)(&run.statistics.flows[0]).unwrap_or(f64::NAN)
        });
        Measured::new(format!("{case}: {}", quantity.name), quantity.unit, samples)
    }

    /// Returns the median of a number of the video over the runs.
    pub(super) fn median(&self, evidence: &Evidence, label: &str, quantity: &Quantity) -> f64 {
        self.measured(evidence, label, quantity).samples.median()
    }
}

/// Returns the names of an experiment's cases, ours first and the bound last.
pub(super) fn labels() -> impl Iterator<Item = &'static str> {
    let ours = [OURS, OURS_WITH_FEC].into_iter();
    ours.chain(others()).chain([BOUND])
}

/// Returns all schedulers but ours.
pub(super) fn others() -> impl Iterator<Item = &'static str> {
    let names = SCHEDULERS.iter().map(|entry| entry.name);
    names.filter(|name| *name != OURS)
}

/// A measured quantity of a flow.
pub(super) struct Quantity {
    name: &'static str,
    unit: Unit,
    of: fn(&FlowStatistics) -> Option<f64>,
}

/// 95th percentile of the frame delay above the fastest path's propagation, in which a frame that
/// is never complete counts with its deadline.
pub(super) const EXCESS: Quantity = Quantity {
    name: "95th percentile of the frame delay above propagation",
    unit: Unit::Milliseconds,
    of: |flow| flow.frames.delay_excess_of_all_ms.map(|delay| delay.p95),
};

/// Frames that could not be decoded in time.
pub(super) const LATE: Quantity = Quantity {
    name: "frames not decodable in time",
    unit: Unit::Share,
    of: |flow| {
        flow.frames
            .decodable_on_time_ratio
            .map(|on_time| 1.0 - on_time)
    },
};

/// The longest time without a new picture.
pub(super) const GAP: Quantity = Quantity {
    name: "longest gap",
    unit: Unit::Milliseconds,
    of: |flow| flow.frames.longest_gap_ms,
};

/// The same, 99th percentile.
pub(super) const EXCESS_P99: Quantity = Quantity {
    name: "99th percentile of the frame delay above propagation",
    unit: Unit::Milliseconds,
    of: |flow| flow.frames.delay_excess_of_all_ms.map(|delay| delay.p99),
};

/// Goodput of the pictures.
pub(super) const GOODPUT: Quantity = Quantity {
    name: "goodput",
    unit: Unit::BitsPerSecond,
    of: |flow| Some(flow.goodput_bits_per_second),
};

/// Bytes sent beyond the pictures, over the pictures.
pub(super) const OVERHEAD: Quantity = Quantity {
    name: "overhead",
    unit: Unit::Share,
    of: |flow| flow.overhead_ratio,
};

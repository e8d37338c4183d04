//! The bench: two paths that differ in delay only.

use crate::case::Case;
use crate::evidence::Evidence;
use crate::judgement::Measured;
use anabranch_lab::metrics::Unit;

const BENCH: &str = include_str!("../../../../scenarios/zhang-multipath/bench.toml");

/// One-way delays of the paths, in ms.
pub(super) const NEAR_MS: f64 = 20.0;
pub(super) const FAR_MS: f64 = 60.0;

pub(super) fn bench(name: &str, scheduler: &str) -> Case {
    Case::new(name, "zhang-multipath/bench.toml", BENCH).scheduler(scheduler)
}

/// Sets frames of equal size every 40 ms, of 10 kB at 2 Mbit/s.
pub(super) fn smooth(case: Case, rate: &str) -> Case {
    case.set("flow-defaults.source.fps", "25")
        .set("flow-defaults.source.rate", rate)
}

/// Returns the share of the media's packets that a path carries.
pub(super) fn path_share(evidence: &Evidence, case: &str, path: usize) -> Measured {
    let samples = evidence.each(case, |run| {
        let path = &run.statistics.flows[0].paths[path];
        path.media_ratio.unwrap_or(f64::NAN)
    });
    Measured::new("share of the near path", Unit::Share, samples)
}

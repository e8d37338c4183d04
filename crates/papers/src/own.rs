//! Our own experiments, beyond those of the papers: live video over paths that fail, that change,
//! that are shared, and that are more than two.

mod aim;
mod even_frames;
mod experiment;
mod scenarios;

use super::case::Algorithms;
use super::claim::{Claim, Paper};

const PAPER: Paper = Paper {
    key: "own",
    citation: "Anabranch's own experiments: live video over paths that fail, change and are shared",
    algorithms: Algorithms::Own,
};

/// Claims about single scenarios, then claims about our scheduler over all of them.
pub(super) const CLAIMS: &[&Claim] = &[
    &scenarios::OUTAGE,
    &scenarios::OUTAGE_FOR_GOOD,
    &scenarios::STALL,
    &scenarios::HAND_OVER,
    &scenarios::CELLULAR,
    &scenarios::IDLE_LOOKS_GOOD,
    &scenarios::METERED,
    &scenarios::THREE_PATHS,
    &scenarios::FOUR_PATHS,
    &scenarios::SHARED_BOTTLENECK,
    &scenarios::START_UP,
    &aim::FOLLOWING,
    &aim::ALONE,
    &aim::WITH_FEC,
    &even_frames::EVEN_FRAMES,
];

//! Every scheduler by its name.

use anabranch_core::scheduler::{Scheduler, SchedulerFactory};
use anabranch_units::known_names;

// All algorithms: a new one needs only its entry here.
use super::*;

/// An entry of the registry.
#[derive(Clone, Copy)]
pub struct SchedulerEntry {
    /// The name used in scenario files and on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    pub(super) build: fn() -> Box<dyn Scheduler>,
}

impl core::fmt::Debug for SchedulerEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

/// All schedulers, by name.
pub const SCHEDULERS: &[SchedulerEntry] = &[
    SchedulerEntry {
        name: "anabranch",
        summary: "min-cost with the delay's margin, waiting counted twice (ours)",
        build: anabranch::build,
    },
    SchedulerEntry {
        name: "bbr-earliest",
        summary: "the least RTprop/2 + bytes ahead / bandwidth, of the paths with room",
        build: bdp::build_earliest,
    },
    SchedulerEntry {
        name: "bbr-sticky",
        summary: "largest-bdp, left only for 1.25 times as much or without room",
        build: bdp::build_sticky,
    },
    SchedulerEntry {
        name: "blest",
        summary: "spd, unless a slow path could block the fast one (Ferlin et al. 2016)",
        build: blest::build,
    },
    SchedulerEntry {
        name: "daps",
        summary: "places in a list of coming arrivals, by rate and delay (Kuhn et al. 2014)",
        build: daps::build,
    },
    SchedulerEntry {
        name: "dems",
        summary: "frames from both ends, repeated where the paths meet (Guo et al. 2017)",
        build: dems::build,
    },
    SchedulerEntry {
        name: "earliest-completion",
        summary: "a path only if no other delivers the backlog earlier (ours; streams' default)",
        build: earliest_completion::build,
    },
    SchedulerEntry {
        name: "ecf",
        summary: "spd, unless waiting for the fast path ends earlier (Lim et al. 2017)",
        build: ecf::build,
    },
    SchedulerEntry {
        name: "edcld",
        summary: "shares that level the paths' delays (Prabhavat et al. 2011; Zhang & Lei eq. 17)",
        build: edcld::build,
    },
    SchedulerEntry {
        name: "largest-bdp",
        summary: "the largest bandwidth-delay product with room (Kondo et al., future work)",
        build: bdp::build,
    },
    SchedulerEntry {
        name: "let",
        summary: "the largest window / round-trip time with room (Matsufuji et al.)",
        build: spd::build_let,
    },
    SchedulerEntry {
        name: "let-delivered",
        summary: "let, by the delivery rate if it is below window / round-trip time",
        build: spd::build_let_delivered,
    },
    SchedulerEntry {
        name: "linux",
        summary: "bursts of 64 KiB to the path that drains first (Linux 6.x's MPTCP)",
        build: linux::build,
    },
    SchedulerEntry {
        name: "lpc",
        summary: "the path with the most free window (Matsufuji et al.)",
        build: spd::build_lpc,
    },
    SchedulerEntry {
        name: "mdp",
        summary: "a Markov decision process over the paths' backlogs (Bui et al. 2010)",
        build: mdp::build,
    },
    SchedulerEntry {
        name: "min-cost",
        summary: "the path with the least RTT/2 + queue/rate (Zhang & Lei §4.2; media's default)",
        build: min_cost::build,
    },
    SchedulerEntry {
        name: "oms",
        summary: "the path that delivers first, shares kept (Cetinkaya & Knightly 2004)",
        build: oms::build,
    },
    SchedulerEntry {
        name: "qaware",
        summary: "local queue at its measured rate + RTT/2 (Shreedhar et al. 2018)",
        build: qaware::build,
    },
    SchedulerEntry {
        name: "redundant",
        summary: "every packet on every path (MPTCP's redundant scheduler)",
        build: redundant::build,
    },
    SchedulerEntry {
        name: "round-robin",
        summary: "one packet per path in turn",
        build: round_robin::build,
    },
    SchedulerEntry {
        name: "sfl",
        summary: "each frame poured over the paths like water (Wu et al. 2015)",
        build: sfl::build,
    },
    SchedulerEntry {
        name: "spd",
        summary: "the least round-trip time with room (MPTCP's former default)",
        build: spd::build,
    },
    SchedulerEntry {
        name: "sticky",
        summary: "the same path until it has no room (Nagayama et al. 2019)",
        build: sticky::build,
    },
    SchedulerEntry {
        name: "stms",
        summary: "slow paths run ahead of the fast one by their delay (Shi et al. 2018)",
        build: stms::build,
    },
    SchedulerEntry {
        name: "tcp-state",
        summary: "spd among the paths that repair no losses (Nagayama et al. 2018)",
        build: tcp_state::build,
    },
    SchedulerEntry {
        name: "wrr",
        summary: "shares by bandwidth, interleaved (Zhang & Lei eq. 16)",
        build: wrr::build,
    },
];

/// No scheduler has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no scheduler is called {name:?}; known are {}",
    known_names(name, SCHEDULERS.iter().map(|entry| entry.name))
)]
#[non_exhaustive]
pub struct UnknownScheduler {
    /// The requested name.
    pub name: String,
}

/// Name of the default scheduler of media.
pub const DEFAULT: &str = "min-cost";

/// Name of the default scheduler of streams over several paths.
pub const STREAM_DEFAULT: &str = "earliest-completion";

/// Returns the scheduler [`DEFAULT`].
pub fn default_scheduler() -> SchedulerFactory {
    by_name(DEFAULT).expect("the default is registered")
}

/// Returns the scheduler [`STREAM_DEFAULT`].
pub fn default_stream_scheduler() -> SchedulerFactory {
    by_name(STREAM_DEFAULT).expect("the default is registered")
}

/// Returns a scheduler by its name in [`SCHEDULERS`].
///
/// # Errors
/// [`UnknownScheduler`], which lists the known names.
pub fn by_name(name: &str) -> Result<SchedulerFactory, UnknownScheduler> {
    SCHEDULERS
        .iter()
        .find(|entry| entry.name == name)
        .map(|entry| SchedulerFactory::new(entry.name, entry.build))
        .ok_or_else(|| UnknownScheduler {
            name: name.to_owned(),
        })
}

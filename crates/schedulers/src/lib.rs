//! The packet schedulers of Anabranch, its reinjections and its policies of forward error
//! correction: one file for each algorithm.
//!
//! All schedulers implement [`Scheduler`](anabranch_core::scheduler::Scheduler), the contract
//! between a session and the algorithm that decides which packet takes which path. A session knows
//! none of them: it gets a [`SchedulerFactory`], which [`by_name`] finds.
//!
//! ```
//! use anabranch_core::{Config, MediaSession};
//! use anabranch_units::{Instant, Seed};
//!
//! let scheduler = anabranch_schedulers::by_name("wrr")?;
//! let config = Config::new(anabranch_controllers::default_controller(), scheduler);
//! assert!(MediaSession::new(config, Seed(1), Instant::ZERO).is_ok());
//! # Ok::<(), anabranch_schedulers::UnknownScheduler>(())
//! ```
//!
//! Most schedulers choose a path for one packet after the other, and most of these by a cost per
//! path: they implement [`PathChoice`] or [`PathCost`], and [`OneByOne`] makes schedulers of them.
//! [`REINJECTIONS`] holds the other choice of a stream: when segments in flight on one path are
//! sent on another as well. [`FEC_POLICIES`] holds policies of forward error correction, which
//! choose the repairs of each frame of media.
//!
//! Start at `round_robin.rs`, the shortest, then `min_cost.rs` for a cost and `redundant.rs` for
//! the whole trait. Shared parts: `one_by_one.rs`, `frame_wise.rs` (whole frames at once),
//! `room.rs` (waiting for a window) and `binding.rs`. To add an algorithm, `anabranch-lab new
//! scheduler NAME` writes its file, its `mod` line here and its entry in `registry.rs`;
//! `contract.rs` then tests the duties of every scheduler.

mod anabranch;
mod bdp;
mod binding;
mod blest;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
#[cfg(test)]
mod contract;
mod daps;
mod dems;
mod earliest_completion;
mod ecf;
mod edcld;
mod fec;
mod frame_wise;
mod linux;
mod mdp;
mod min_cost;
mod oms;
mod one_by_one;
mod qaware;
mod redundant;
mod registry;
mod reinjection;
mod room;
mod round_robin;
mod sfl;
mod spd;
mod sticky;
mod stms;
mod tcp_state;
#[cfg(test)]
mod template;
#[cfg(test)]
mod testing;
mod wrr;

pub use anabranch_core::scheduler::SchedulerFactory;
pub use fec::{FEC_DEFAULT, FEC_POLICIES, FecPolicyEntry, UnknownFecPolicy, fec_policy};
pub use one_by_one::{OneByOne, PathChoice, PathCost, transfer_cost};
pub use registry::{
    DEFAULT, SCHEDULERS, STREAM_DEFAULT, SchedulerEntry, UnknownScheduler, by_name,
    default_scheduler, default_stream_scheduler,
};
pub use reinjection::{REINJECTIONS, ReinjectionEntry, linux_reinjection, xlink_reinjection};

/// Template of the file that `anabranch-lab new scheduler` writes, except for its names: a cost per
/// path. It is compiled with the tests, and keeps the contract.
pub const TEMPLATE: &str = include_str!("template.rs");

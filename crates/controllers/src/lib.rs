//! The congestion controllers of Anabranch: one file or folder for each algorithm.
//!
//! All implement [`CongestionController`](anabranch_core::control::CongestionController), the
//! contract between a session and the algorithm that decides how fast a path may send. A session
//! knows none of them: it gets a [`Controller`], which [`by_name`] finds.
//!
//! ```
//! // For `anabranch_core::Config::new`, beside a scheduler.
//! let controller = anabranch_controllers::by_name("cubic:hystart=classic")?;
//! assert_eq!(controller.name(), "cubic:hystart=classic");
//! # Ok::<(), anabranch_controllers::UnknownController>(())
//! ```
//!
//! Start at `fixed.rs`, the shortest, then `new_reno.rs` for a window and `delay_bbr/live.rs` for
//! the default. Shared parts: `window.rs` (TCP's windows), `one_way_delay.rs`, `rate_meter.rs`,
//! `rate_use.rs`, `reduction.rs` (PRR) and `backlog_share.rs`. To add an algorithm,
//! `anabranch-lab new controller NAME` writes its file, its `mod` line here and its entry in
//! `registry.rs`. `contract.rs` then tests the contract of every controller.

mod arc;
mod backlog_share;
mod balia;
mod bbr;
mod bic;
mod ccp;
mod ccpd;
mod compound;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
#[cfg(test)]
mod contract;
mod copa;
mod coupled;
mod cubic;
mod delay_bbr;
mod fixed;
mod gcc;
mod lia;
mod nada;
mod new_reno;
mod olia;
mod one_way_delay;
mod poise;
mod rap;
mod rate_meter;
mod rate_use;
mod reduction;
mod registry;
mod reno;
#[cfg(test)]
mod scenarios;
mod scream;
#[cfg(test)]
mod template;
#[cfg(test)]
mod testing;
mod tfrc;
mod vegas;
mod window;
mod wvegas;
mod zhu;

pub use anabranch_core::control::Controller;
pub use registry::{
    CONTROLLERS, ControllerEntry, DEFAULT, UnknownController, by_name, default_controller,
};

/// Template of the file that `anabranch-lab new controller` writes, except for its names: a window
/// of AIMD. It is compiled with the tests, and keeps the contract.
pub const TEMPLATE: &str = include_str!("template.rs");

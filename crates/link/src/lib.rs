//! Network links as sans-IO elements that compose, one idea per element.
//!
//! An [`Element`] is handed packets and the time, and returns the time at which it next gives one
//! back. It owns no clock, so the simulator drives it in virtual time and the emulator in real
//! time, unchanged.
//!
//! | element | idea |
//! |---|---|
//! | [`DropTail`] | serialises at a rate or by a [`Trace`], first in, first out |
//! | [`Delay`] | propagation, of any number of packets at a time, with or without jitter |
//! | [`Loss`] | loses packets at random, in front of the inner element |
//! | [`Outage`] | at times loses all packets in the inner element, or on their way to it |
//! | [`Chain`] | one element after another |
//!
//! A [`Link`] is the usual composition, built from a [`LinkConfig`]:
//!
//! ```text
//! Outage { DropTail { Loss { Delay } } }
//! ```
//!
//! or, if a [`Discipline`] manages the queue, a bottleneck whose packets' departures are unknown
//! until they leave:
//!
//! ```text
//! Outage { Chain { Bottleneck → Loss { Delay } } }
//! ```
//!
//! A randomly lost packet has therefore used its share of the bottleneck, like one corrupted on the
//! air. Only the bottleneck's queue is limited; packets in propagation are not part of it.
//!
//! ```
//! use anabranch_link::{LinkConfig, Packet, QueueLimit};
//! use anabranch_units::{DataRate, Duration, Instant, Seed};
//!
//! let config = LinkConfig {
//!     rate: Some(DataRate::from_megabits_per_second(1)),
//!     delay: Duration::from_millis(20),
//!     queue: QueueLimit::Time(Duration::from_millis(200)),
//!     ..LinkConfig::default()
//! };
//! let mut link = config.build(Seed(1))?;
//! assert!(link.push(Instant::ZERO, Packet::of_size(1250)).is_ok());
//! // 10 ms to serialise and 20 ms to propagate.
//! assert_eq!(link.next_at(), Some(Instant::from_millis(30)));
//! assert!(link.pop(Instant::from_millis(30)).is_some());
//! # Ok::<(), anabranch_link::LinkConfigError>(())
//! ```

mod bottleneck;
mod chain;
mod change;
mod config;
mod delay;
mod detour;
mod discipline;
mod drop_tail;
mod element;
mod forecast;
mod jitter;
mod link;
mod loss;
mod moves;
mod outage;
mod packet;
mod queue;
mod schedule;
mod statistics;
mod trace;
mod transmitter;

pub use anabranch_units::Ecn;
pub use chain::Chain;
pub use change::LinkChange;
pub use config::{LinkConfig, LinkConfigError};
pub use delay::Delay;
pub use detour::DetourModel;
pub use discipline::{
    CoDelOptions, Discipline, DualPi2Options, DualQueueScheduler, FqCoDelOptions, PieOptions,
    RedOptions,
};
pub use drop_tail::DropTail;
pub use element::{DropCause, Dropped, Element};
pub use forecast::{Departure, Forecast};
pub use jitter::{JitterAmount, JitterModel, JitterOrder, JitterShape};
pub use link::Link;
pub use loss::{Loss, LossModel};
pub use outage::Outage;
pub use packet::Packet;
pub use queue::{ParseQueueLimitError, QueueLimit};
pub use schedule::Schedule;
pub use statistics::{DropCounts, LinkStatistics, QueueStatistics};
pub use trace::{Trace, TraceError};

//! Packet schedulers: which packet takes which path.
//!
//! [`SCHEDULERS`] lists those of the library, and [`by_name`] returns one. One's own implements
//! [`PathCost`], [`PathChoice`] or [`Scheduler`], and needs no registration:
//!
//! ```
//! use anabranch::scheduler::{OneByOne, PacketView, PathCost, SchedulerFactory, transfer_cost};
//! use anabranch::units::{Duration, Instant};
//! use anabranch::{PathView, SecretKey, Sender};
//!
//! /// Prefers the path with the least loss; of equal paths, the faster one.
//! #[derive(Debug)]
//! struct LeastLoss;
//!
//! impl PathCost for LeastLoss {
//!     fn cost(&mut self, _now: Instant, _packet: &PacketView, path: &PathView) -> Duration {
//!         Duration::from_secs(1).mul_f64(path.risk.loss_ratio) + transfer_cost(path, 0)
//!     }
//! }
//!
//! let least_loss =
//!     SchedulerFactory::new("least-loss", || Box::new(OneByOne::new(LeastLoss)));
//! let config = Sender::builder()
//!     .key(SecretKey::generate())
//!     .peer(SecretKey::generate().public_key())
//!     .to("192.0.2.1:7000")
//!     .scheduler(least_loss)
//!     .build()?;
//! assert_eq!(config.transport.scheduler.name(), "least-loss");
//! # Ok::<(), anabranch::StartError>(())
//! ```

pub use anabranch_core::Factory;
pub use anabranch_core::reinjection::{
    Awaited, Occasion, Reinjection, Reinjector, ReinjectorFactory, Request, Segments,
};
pub use anabranch_core::scheduler::{
    Assignment, PacketKind, PacketView, Scheduler, SchedulerEvent, SchedulerFactory, SendQueue,
    cheapest, eligible_paths, fastest, usable,
};
pub use anabranch_core::{Forecast, PathRtt, PathSet, PathView, Priority, Risk, SessionView};
pub use anabranch_schedulers::{
    DEFAULT, OneByOne, PathChoice, PathCost, REINJECTIONS, ReinjectionEntry, SCHEDULERS,
    STREAM_DEFAULT, SchedulerEntry, UnknownScheduler, by_name, default_scheduler,
    default_stream_scheduler, linux_reinjection, transfer_cost, xlink_reinjection,
};

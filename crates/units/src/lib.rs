//! The quantities that all parts of Anabranch share: time, rate, size and randomness.
//!
//! The crate uses no clock, socket or random source of the platform. Every type parses and prints a
//! readable notation (`"100 ms"`, `"3 Mbit/s"`, `"64 kB"`), which scenario files, command lines and
//! reports share.

mod bytes;
mod ecn;
mod eviction;
mod importance;
mod limiter;
mod names;
mod network;
pub mod options;
mod percentile;
mod punctuality;
mod quantity;
mod rate;
mod repeat_budget;
mod seed;
mod shared_memory;
mod time;

pub use bytes::ByteCount;
pub use ecn::Ecn;
pub use eviction::{Occupant, Right, evicted};
pub use importance::Importance;
pub use limiter::{Bucket, Limiter, Limits, Rate};
pub use names::{known_names, nearest_name};
pub use network::Network;
pub use percentile::{median, percentile, percentile_place};
pub use punctuality::{Lateness, Punctuality};
pub use quantity::ParseQuantityError;
pub use rate::DataRate;
pub use repeat_budget::{REPEATED_PERCENT, RepeatBudget};
pub use seed::{Rng, Seed};
pub use shared_memory::{MemoryShare, SharedMemory};
pub use time::{Duration, Instant};

//! The quantities that every part of Anabranch speaks in: time, rate, size and chance.
//!
//! Nothing here knows a clock, a socket or the platform's random source. Every type reads and
//! writes itself as people do (`"100 ms"`, `"3 Mbit/s"`, `"64 kB"`), so scenario files, command
//! lines and reports share one notation.

mod bytes;
mod ecn;
mod importance;
mod names;
mod percentile;
mod punctuality;
mod quantity;
mod rate;
mod seed;
mod time;

pub use bytes::ByteCount;
pub use ecn::Ecn;
pub use importance::Importance;
pub use names::{known_names, nearest_name};
pub use percentile::{median, percentile, percentile_place};
pub use punctuality::{Lateness, Punctuality};
pub use quantity::ParseQuantityError;
pub use rate::DataRate;
pub use seed::{Rng, Seed};
pub use time::{Duration, Instant};

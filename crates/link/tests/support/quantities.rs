//! Short names of quantities.

use anabranch_units::{DataRate, Duration, Instant};

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn at_ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

pub fn megabits(megabits: u64) -> DataRate {
    DataRate::from_megabits_per_second(megabits)
}

//! Delivery time of an amount of data over all paths together.

use anabranch_units::{DataRate, Duration, Instant};

use super::Path;
use crate::path_view::PathState;

/// Maximum number of paths considered; more would hardly change the result.
const MAX_WAYS: usize = 8;

/// Capacity of all paths together, as a fluid that is poured over them so that it arrives as early
/// as possible: the level that an amount of bytes reaches is its delivery time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    /// Time over an idle path, and the path's rate, the nearest path first.
    ways: [(Duration, DataRate); MAX_WAYS],
    count: usize,
    /// Bytes in the network's queues, which leave first.
    backed_up_bytes: u64,
    is_interrupted: bool,
}

impl Level {
    /// Sums up active paths and those that are expected back, as if these answered now: frames
    /// that a returning path would carry are not given up before their own last moment.
    pub(crate) fn of<'a>(
        paths: impl Iterator<Item = &'a Path>,
        now: Instant,
        lifetime: Duration,
    ) -> Level {
        let mut level = Level::default();
        for path in paths {
            let forecast = path.forecast(now);
            match path.rate_after_interruption(now, lifetime) {
                Some(rate) => {
                    level.add(forecast.least_transit, forecast.rate.max(rate));
                    level.is_interrupted = true;
                }
                None if path.state() == PathState::Active => {
                    level.add(forecast.least_transit, forecast.rate);
                    level.backed_up_bytes += forecast.backed_up_bytes;
                }
                None => {}
            }
        }
        level
    }

    /// Returns whether one of the paths is expected back or has just come back.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    fn add(&mut self, transit: Duration, rate: DataRate) {
        if self.count == MAX_WAYS || rate.is_zero() {
            return;
        }
        self.ways[self.count] = (transit, rate);
        self.count += 1;
        self.ways[..self.count].sort_unstable_by_key(|(transit, _)| *transit);
    }

    /// Returns the rate of all paths together.
    pub(crate) fn rate(&self) -> DataRate {
        let rates = self.ways[..self.count].iter().map(|(_, rate)| *rate);
        rates
            .sum::<DataRate>()
            .max(DataRate::from_bits_per_second(1))
    }

    /// Returns the time over the nearest path, if it is idle.
    pub(crate) fn least_transit(&self) -> Duration {
        self.ways[0].0
    }

    /// Returns the time until `bytes` bytes have left, on all paths.
    pub(crate) fn drain_time(&self, bytes: u64) -> Duration {
        self.time_for(bytes).saturating_sub(self.least_transit())
    }

    /// Returns the time until `bytes` bytes have arrived.
    pub(crate) fn time_for(&self, bytes: u64) -> Duration {
        let mut left_bytes = bytes + self.backed_up_bytes;
        let mut rate = DataRate::ZERO;
        for (index, (transit, own)) in self.ways[..self.count].iter().enumerate() {
            rate = [rate, *own].into_iter().sum();
            let farther = self.ways[..self.count].get(index + 1);
            let until = farther.map_or(Duration::MAX, |(next, _)| *next - *transit);
            if rate.time_for(left_bytes) <= until {
                return *transit + rate.time_for(left_bytes);
            }
            left_bytes = left_bytes.saturating_sub(rate.bytes_in(until));
        }
        Duration::from_secs(3_600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_nearest_path_carries_alone_until_the_farther_one_delivers() {
        let mut level = Level::default();
        level.add(ms(70), DataRate::from_megabits_per_second(8));
        level.add(ms(30), DataRate::from_megabits_per_second(4));
        assert_eq!(level.rate(), DataRate::from_megabits_per_second(12));
        assert_eq!(level.least_transit(), ms(30));
        // 4 Mbit/s for 40 ms are 20 kB; then 12 Mbit/s are 1.5 kB a millisecond.
        assert_eq!(level.time_for(10_000), ms(50));
        assert_eq!(level.time_for(20_000), ms(70));
        assert_eq!(level.time_for(35_000), ms(80));
        level.backed_up_bytes = 15_000;
        assert_eq!(level.time_for(20_000), ms(80));
        assert_eq!(level.drain_time(20_000), ms(50));
    }

    #[test]
    fn without_a_path_nothing_arrives() {
        assert!(Level::default().time_for(1) > Duration::from_secs(60));
    }
}

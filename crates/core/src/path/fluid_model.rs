//! Delivery time of an amount of data over all paths together.

use anabranch_units::{DataRate, Duration, Instant};

use super::Path;
use crate::path_view::{PathState, PathView};

/// Maximum number of paths considered; more would hardly change the result.
const MAX_PATHS: usize = 8;

/// Capacity of all paths together, as a fluid that is poured over them so that it arrives as early
/// as possible: the level that an amount of bytes reaches is its delivery time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FluidModel {
    /// Time over an idle path, and the path's rate, the nearest path first.
    paths: [(Duration, DataRate); MAX_PATHS],
    count: usize,
    /// Bytes in the network's queues, which leave first.
    backed_up_bytes: u64,
    is_interrupted: bool,
}

impl FluidModel {
    /// Sums up active paths and those that are expected back, as if these answered now: frames
    /// that a returning path would carry are not given up before their own last moment.
    pub(crate) fn of<'a>(
        paths: impl Iterator<Item = (&'a Path, &'a PathView)>,
        now: Instant,
        lifetime: Duration,
    ) -> FluidModel {
        let mut model = FluidModel::default();
        for (path, view) in paths {
            let forecast = &view.forecast;
            match path.rate_after_interruption(now, lifetime) {
                Some(rate) => {
                    model.add(forecast.min_one_way_delay, forecast.rate.max(rate));
                    model.is_interrupted = true;
                }
                None if path.state() == PathState::Active => {
                    model.add(forecast.min_one_way_delay, forecast.rate);
                    model.backed_up_bytes += forecast.backed_up_bytes;
                }
                None => {}
            }
        }
        model
    }

    /// Returns whether one of the paths is expected back or has just come back.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    fn add(&mut self, one_way_delay: Duration, rate: DataRate) {
        if self.count == MAX_PATHS || rate.is_zero() {
            return;
        }
        self.paths[self.count] = (one_way_delay, rate);
        self.count += 1;
        self.paths[..self.count].sort_unstable_by_key(|(one_way_delay, _)| *one_way_delay);
    }

    /// Returns the rate of all paths together.
    pub(crate) fn rate(&self) -> DataRate {
        let rates = self.paths[..self.count].iter().map(|(_, rate)| *rate);
        rates
            .sum::<DataRate>()
            .max(DataRate::from_bits_per_second(1))
    }

    /// Returns the time over the nearest path, if it is idle.
    pub(crate) fn nearest(&self) -> Duration {
        self.paths[0].0
    }

    /// Returns the time until `bytes` bytes have left, on all paths.
    pub(crate) fn drain_time(&self, bytes: u64) -> Duration {
        self.time_for(bytes).saturating_sub(self.nearest())
    }

    /// Returns the time until `bytes` bytes have arrived.
    pub(crate) fn time_for(&self, bytes: u64) -> Duration {
        let mut left_bytes = bytes + self.backed_up_bytes;
        let mut rate = DataRate::ZERO;
        for (index, (one_way_delay, own)) in self.paths[..self.count].iter().enumerate() {
            rate = [rate, *own].into_iter().sum();
            let farther = self.paths[..self.count].get(index + 1);
            let until = farther.map_or(Duration::MAX, |(next, _)| *next - *one_way_delay);
            if rate.time_for(left_bytes) <= until {
                return *one_way_delay + rate.time_for(left_bytes);
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
        let mut model = FluidModel::default();
        model.add(ms(70), DataRate::from_megabits_per_second(8));
        model.add(ms(30), DataRate::from_megabits_per_second(4));
        assert_eq!(model.rate(), DataRate::from_megabits_per_second(12));
        assert_eq!(model.nearest(), ms(30));
        // 4 Mbit/s for 40 ms are 20 kB; then 12 Mbit/s are 1.5 kB a millisecond.
        assert_eq!(model.time_for(10_000), ms(50));
        assert_eq!(model.time_for(20_000), ms(70));
        assert_eq!(model.time_for(35_000), ms(80));
        model.backed_up_bytes = 15_000;
        assert_eq!(model.time_for(20_000), ms(80));
        assert_eq!(model.drain_time(20_000), ms(50));
    }

    #[test]
    fn without_a_path_nothing_arrives() {
        assert!(FluidModel::default().time_for(1) > Duration::from_secs(60));
    }
}

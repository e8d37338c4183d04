//! Computation of the encoder's target bitrate.

use anabranch_units::{DataRate, Duration};

use crate::config::{MediaConfig, SourceLimits};

/// Backlog, as a time at the paths' rate, that is a frame on its way out and does not reduce the
/// target.
const FREE_BACKLOG: Duration = Duration::from_millis(60);

/// Time within which an excess of the backlog must drain.
const DRAIN_WITHIN: Duration = Duration::from_millis(500);

/// Bandwidth of the active paths together, by their controllers' target rates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Bandwidth {
    pub(crate) total: DataRate,
    /// The share of it that the encoder gets.
    fraction: f64,
    /// Sum of the amounts by which paths' shares fall short of
    /// [`Laboratory::path_target_min`](crate::Laboratory::path_target_min).
    shortfall: DataRate,
}

impl Bandwidth {
    pub(crate) fn of(
        path_min: DataRate,
        fraction: f64,
        path_rates: impl Iterator<Item = DataRate>,
    ) -> Self {
        let mut bandwidth = Bandwidth {
            fraction,
            ..Bandwidth::default()
        };
        for rate in path_rates {
            bandwidth.total += rate;
            if !path_min.is_zero() {
                let share = rate.mul_f64(fraction);
                bandwidth.shortfall += path_min.saturating_sub(share);
            }
        }
        bandwidth
    }

    fn excess_bytes(self, backlog_bytes: u64) -> Option<u64> {
        backlog_bytes.checked_sub(self.total.bytes_in(FREE_BACKLOG))
    }

    /// Returns the encoder's share, less the rate that drains the excess.
    fn share_without(self, excess_bytes: Option<u64>) -> DataRate {
        let target = self.total.mul_f64(self.fraction) + self.shortfall;
        match excess_bytes {
            None => target,
            Some(excess) => target.saturating_sub(DataRate::from_bytes_per(excess, DRAIN_WITHIN)),
        }
    }
}

/// Inputs of the target. They mostly stay the same from report to report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Demand {
    bandwidth: Bandwidth,
    /// Backlog beyond that of a frame on its way out.
    excess_bytes: Option<u64>,
    /// Cost of repairs and retransmissions per byte of media, for which the target leaves room.
    overhead: f64,
}

impl Demand {
    pub(crate) fn new(bandwidth: Bandwidth, backlog_bytes: u64, overhead: f64) -> Self {
        Demand {
            bandwidth,
            excess_bytes: bandwidth.excess_bytes(backlog_bytes),
            overhead,
        }
    }
}

/// Returns the encoder's share of the active paths' bandwidth, less the rate that drains the
/// backlog. A source that does not follow gets its would-be target all the same, unbounded.
pub(crate) fn target_bitrate(config: &MediaConfig, demand: &Demand) -> DataRate {
    let mut target = demand.bandwidth.share_without(demand.excess_bytes);
    if demand.overhead > 0.0 {
        target = target.mul_f64(1.0 / (1.0 + demand.overhead));
    }
    match config.source {
        SourceLimits::Fixed => target,
        SourceLimits::Adaptive { min, max } => target.clamp(min, max),
    }
}

/// Returns the backlog in the network at which a path of this rate contributes nothing to the
/// target. A larger one must not reduce the contribution of other paths.
pub(crate) fn most_drained_bytes(fraction: f64, rate: DataRate) -> u64 {
    rate.mul_f64(fraction).bytes_in(DRAIN_WITHIN)
}

/// Returns the rate of media, repairs and retransmissions together.
pub(crate) fn target_total(bandwidth: Bandwidth, backlog_bytes: u64) -> DataRate {
    bandwidth.share_without(bandwidth.excess_bytes(backlog_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: fn(u64) -> DataRate = DataRate::from_megabits_per_second;

    fn target(source: SourceLimits, backlog_bytes: u64) -> DataRate {
        let config = MediaConfig {
            source,
            ..MediaConfig::default()
        };
        let bandwidth = Bandwidth::of(DataRate::ZERO, 0.8, [MBIT(4), MBIT(3)].into_iter());
        target_bitrate(&config, &Demand::new(bandwidth, backlog_bytes, 0.0))
    }

    #[test]
    fn zhang_lei_is_a_share_of_all_paths() {
        assert_eq!(
            target(SourceLimits::Fixed, 0),
            DataRate::from_kilobits_per_second(5_600)
        );
    }

    #[test]
    fn no_path_counts_for_less_than_the_least_of_a_path() {
        let bandwidth = Bandwidth::of(MBIT(1), 0.8, [MBIT(4), MBIT(1)].into_iter());
        let demand = Demand::new(bandwidth, 0, 0.0);
        let target = target_bitrate(&MediaConfig::default(), &demand);
        assert_eq!(target, DataRate::from_kilobits_per_second(3_200 + 1_000));
    }

    #[test]
    fn a_backlog_is_drained_at_the_encoders_cost() {
        let a_frame = MBIT(7).bytes_in(FREE_BACKLOG);
        assert_eq!(
            target(SourceLimits::Fixed, a_frame),
            target(SourceLimits::Fixed, 0)
        );
        let excess_bytes = 50_000;
        let less = DataRate::from_kilobits_per_second(4_800);
        assert_eq!(target(SourceLimits::Fixed, a_frame + excess_bytes), less);
    }

    #[test]
    fn media_leaves_room_for_repairs_and_retransmissions() {
        fn target(overhead: f64, config: &MediaConfig, bandwidth: Bandwidth) -> DataRate {
            target_bitrate(config, &Demand::new(bandwidth, 0, overhead))
        }

        let config = MediaConfig::default();
        let bandwidth = Bandwidth::of(DataRate::ZERO, 0.8, [MBIT(7)].into_iter());
        assert_eq!(
            target(0.0, &config, bandwidth),
            DataRate::from_kilobits_per_second(5_600)
        );
        assert_eq!(target(0.4, &config, bandwidth), MBIT(4));
    }

    #[test]
    fn the_source_bounds_it() {
        let source = SourceLimits::Adaptive {
            min: MBIT(1),
            max: MBIT(4),
        };
        assert_eq!(
            (target(source, 0), target(source, 10_000_000)),
            (MBIT(4), MBIT(1))
        );
    }
}

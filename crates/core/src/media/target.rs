//! What the encoder is asked to produce.

use anabranch_units::{DataRate, Duration};

use crate::config::{MediaConfig, SourceLimits};

/// A backlog of up to this long at the paths' rate is a frame on its way out, and asks for nothing.
const FREE_BACKLOG: Duration = Duration::from_millis(60);

/// What is more shall be gone within this time.
const DRAIN_WITHIN: Duration = Duration::from_millis(500);

/// The encoder's share of the active paths' bandwidth (0.8 of it by default; Zhang & Lei's code),
/// less what the backlog needs. `path_rates` are the controllers' target rates. A source that does
/// not follow gets its would-be target all the same, unbounded. No path counts for less than
/// [`MediaConfig::path_target_min`].
pub(crate) fn target_bitrate(
    config: &MediaConfig,
    path_rates: impl Iterator<Item = DataRate>,
    backlog_bytes: u64,
) -> DataRate {
    let (mut bandwidth, mut shortfall) = (DataRate::ZERO, DataRate::ZERO);
    for rate in path_rates {
        let share = rate.mul_f64(config.target_fraction);
        bandwidth += rate;
        shortfall += config.path_target_min.saturating_sub(share);
    }
    let excess_bytes = backlog_bytes.saturating_sub(bandwidth.bytes_in(FREE_BACKLOG));
    let target = (bandwidth.mul_f64(config.target_fraction) + shortfall)
        .saturating_sub(DataRate::from_bytes_per(excess_bytes, DRAIN_WITHIN));
    match config.source {
        SourceLimits::Fixed => target,
        SourceLimits::Adaptive { min, max } => target.clamp(min, max),
    }
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
        target_bitrate(&config, [MBIT(4), MBIT(3)].into_iter(), backlog_bytes)
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
        let config = MediaConfig {
            path_target_min: MBIT(1),
            ..MediaConfig::default()
        };
        let target = target_bitrate(&config, [MBIT(4), MBIT(1)].into_iter(), 0);
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

//! The bitrate for an encoder that follows the links.

use anabranch_units::{DataRate, Duration};

/// Share of the links' rates for media: an encoder that follows has peaks, and lost packets are
/// sent again. The share of [`RateKind::Bandwidth`] in the crate `core` is 0.8 for the same reason.
///
/// [`RateKind::Bandwidth`]: https://docs.rs/anabranch-core
const SHARE: f64 = 0.8;
/// Share of a datagram that is media: 1,316 of 1,360 bytes.
const MEDIA_SHARE: f64 = 0.967;
/// Time in which the backlog is to drain; the crate `core` has the same. A longer one keeps
/// pictures waiting when a link's rate falls, and a shorter one lowers the target after each key
/// frame.
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// Returns the bitrate of media that links of `rates` carry while `backlog` bytes wait.
pub(super) fn target(rates: impl Iterator<Item = DataRate>, backlog: u64) -> DataRate {
    let total: DataRate = rates.sum();
    let drain = DataRate::from_bytes_per(backlog, DRAIN_TIME);
    let free = total.mul_f64(SHARE * MEDIA_SHARE).saturating_sub(drain);
    free.max(total.mul_f64(SHARE / 4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_leaves_room_for_the_backlog() {
        let rates = [3, 1].map(DataRate::from_megabits_per_second);
        let empty = target(rates.into_iter(), 0);
        assert!((3.0..3.2).contains(&empty.megabits_per_second()), "{empty}");
        let busy = target(rates.into_iter(), 62_500);
        assert!((2.0..2.2).contains(&busy.megabits_per_second()), "{busy}");
        assert_eq!(
            target(rates.into_iter(), 1 << 30),
            DataRate::from_kilobits_per_second(800)
        );
        assert_eq!(target([].into_iter(), 0), DataRate::ZERO);
    }
}

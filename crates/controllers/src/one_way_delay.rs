//! Queuing delay of the forward direction: one-way delay above the least of the last ten minutes.
//!
//! The clocks of the two ends need not agree, and may drift apart: the base is forgotten by the
//! minute (RFC 6817 §4.2, RFC 8298 §4.1.2.1).

use anabranch_core::recovery::AckedPacket;
use anabranch_units::{Duration, Instant};

const BIN_COUNT: usize = 10;
const BIN: Duration = Duration::from_secs(60);

/// Returns arrival time less departure time in milliseconds, or `None` without an arrival time. It
/// contains the offset between the two clocks.
pub(super) fn one_way_delay_millis(acked: &AckedPacket) -> Option<f64> {
    let received = acked.received_at?.as_nanos();
    let sent = acked.sent.sent_at.as_nanos();
    // Clocks may differ by any amount; an i64 holds 292 years of it.
    Some(received.wrapping_sub(sent).cast_signed() as f64 / 1e6)
}

/// The least one-way delay, in ten bins of a minute.
#[derive(Clone, Debug)]
pub(super) struct BaseDelay {
    bins_millis: [f64; BIN_COUNT],
    newest: usize,
    bin_began_at: Option<Instant>,
}

impl Default for BaseDelay {
    fn default() -> Self {
        BaseDelay {
            bins_millis: [f64::INFINITY; BIN_COUNT],
            newest: 0,
            bin_began_at: None,
        }
    }
}

impl BaseDelay {
    /// Takes a packet's one-way delay and returns the queuing delay in it.
    pub(super) fn queue_delay_millis(&mut self, now: Instant, one_way_delay_millis: f64) -> f64 {
        let began_at = *self.bin_began_at.get_or_insert(now);
        let passed = now.saturating_since(began_at).as_nanos() / BIN.as_nanos();
        if passed > 0 {
            for _ in 0..passed.min(BIN_COUNT as u64) {
                self.newest = (self.newest + 1) % BIN_COUNT;
                self.bins_millis[self.newest] = f64::INFINITY;
            }
            self.bin_began_at = Some(began_at + BIN * passed);
        }
        let bin = &mut self.bins_millis[self.newest];
        *bin = bin.min(one_way_delay_millis);
        let base_millis = self
            .bins_millis
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min);
        one_way_delay_millis - base_millis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_what_exceeds_the_least_delay_whatever_the_clocks_say() {
        let mut base = BaseDelay::default();
        let now = Instant::from_secs(5);
        assert_eq!(base.queue_delay_millis(now, -4_000.0), 0.0);
        assert_eq!(base.queue_delay_millis(now, -3_960.0), 40.0);
        assert_eq!(base.queue_delay_millis(now, -4_010.0), 0.0);
    }

    #[test]
    fn a_base_is_forgotten_after_ten_minutes() {
        fn queue_at(base: &mut BaseDelay, seconds: u64) -> f64 {
            base.queue_delay_millis(Instant::from_secs(seconds), 50.0)
        }

        let mut base = BaseDelay::default();
        base.queue_delay_millis(Instant::ZERO, 20.0);
        assert_eq!(queue_at(&mut base, 9 * 60 + 59), 30.0);
        assert_eq!(queue_at(&mut base, 10 * 60 + 1), 0.0);
        let mut base = BaseDelay::default();
        base.queue_delay_millis(Instant::ZERO, 20.0);
        assert_eq!(queue_at(&mut base, 100_000), 0.0);
    }
}

//! RACK's patience with reordering (RFC 8985 §6.2).
//!
//! Packet numbers are never used twice, so that what RFC 8985 learns from DSACK, that a
//! retransmission was needless, is seen directly: the packet that counted as lost has arrived.

use anabranch_units::Duration;

use super::rtt::RttEstimator;

/// Acknowledged packets beyond a hole after which the wait for it ends, unless reordering has been
/// seen (RFC 8985 §6.2 step 4: DupThresh).
const DUPLICATE_THRESHOLD: u64 = 3;
/// Recoveries for which a widened window is kept (RFC 8985 §6.2 step 4).
const PERSISTENCE: u32 = 16;

/// State of the reordering window: the time for which a packet may be overtaken.
#[derive(Debug)]
pub(super) struct Rack {
    is_reordering_seen: bool,
    /// `RACK.reo_wnd_mult`.
    window_multiplier: u32,
    /// `RACK.reo_wnd_persist`.
    persistence: u32,
    /// The window was widened in the round that ends with this packet.
    widened_until: u64,
    /// The packet that left first after the last recovery had begun.
    recovery_ends_with: u64,
    is_in_recovery: bool,
}

impl Default for Rack {
    fn default() -> Self {
        Rack {
            is_reordering_seen: false,
            window_multiplier: 1,
            persistence: PERSISTENCE,
            widened_until: 0,
            recovery_ends_with: 0,
            is_in_recovery: false,
        }
    }
}

impl Rack {
    /// Records a packet that has arrived after one that was sent later.
    pub(super) fn on_reordering(&mut self) {
        self.is_reordering_seen = true;
    }

    /// Widens the window, once a round, since a packet that counted as lost has arrived.
    pub(super) fn on_spurious(&mut self, packet_number: u64, next_packet_number: u64) {
        self.persistence = PERSISTENCE;
        if packet_number >= self.widened_until {
            self.window_multiplier = self.window_multiplier.saturating_add(1);
            self.widened_until = next_packet_number;
        }
    }

    /// Handles losses up to `newest`. Returns whether that begins a recovery.
    pub(super) fn on_lost(&mut self, newest: u64, next_packet_number: u64) -> bool {
        if self.is_in_recovery && newest < self.recovery_ends_with {
            return false;
        }
        self.recovery_ends_with = next_packet_number;
        self.is_in_recovery = true;
        true
    }

    /// Updates the state after an arrival; `oldest_outstanding` is the oldest missing packet.
    pub(super) fn on_progress(&mut self, oldest_outstanding: Option<u64>) {
        if self.is_in_recovery && oldest_outstanding.is_none_or(|n| n >= self.recovery_ends_with) {
            self.is_in_recovery = false;
            self.persistence = self.persistence.saturating_sub(1);
            if self.persistence == 0 {
                self.window_multiplier = 1;
            }
        }
    }

    pub(super) fn is_in_recovery(&self) -> bool {
        self.is_in_recovery
    }

    /// Returns `RACK.reo_wnd`, with `acked_beyond` packets acknowledged beyond the oldest hole.
    pub(super) fn reordering_window(&self, rtt: &RttEstimator, acked_beyond: u64) -> Duration {
        let is_certain = self.is_in_recovery || acked_beyond >= DUPLICATE_THRESHOLD;
        if !self.is_reordering_seen && is_certain {
            return Duration::ZERO;
        }
        let quarter = rtt.min_rtt().unwrap_or(Duration::ZERO) / 4;
        (quarter * u64::from(self.window_multiplier)).min(rtt.smoothed())
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Instant;

    use super::*;

    fn rtt() -> RttEstimator {
        let mut rtt = RttEstimator::default();
        rtt.on_sample(Instant::ZERO, Duration::from_millis(80));
        rtt
    }

    #[test]
    fn rfc8985_6_2_no_patience_without_reordering_once_three_have_overtaken() {
        let mut rack = Rack::default();
        assert_eq!(rack.reordering_window(&rtt(), 2), Duration::from_millis(20));
        assert_eq!(rack.reordering_window(&rtt(), 3), Duration::ZERO);
        assert!(rack.on_lost(4, 9));
        assert_eq!(rack.reordering_window(&rtt(), 1), Duration::ZERO);
        rack.on_reordering();
        assert_eq!(rack.reordering_window(&rtt(), 3), Duration::from_millis(20));
    }

    #[test]
    fn rfc8985_6_2_needless_retransmissions_widen_once_a_round_up_to_srtt() {
        let mut rack = Rack::default();
        rack.on_reordering();
        rack.on_spurious(3, 10);
        rack.on_spurious(5, 10);
        assert_eq!(rack.reordering_window(&rtt(), 0), Duration::from_millis(40));
        for number in 2..9 {
            rack.on_spurious(number * 10, number * 10 + 10);
        }
        assert_eq!(rack.reordering_window(&rtt(), 0), Duration::from_millis(80));
    }

    #[test]
    fn rfc8985_6_2_sixteen_recoveries_in_peace_narrow_again() {
        let mut rack = Rack::default();
        rack.on_reordering();
        rack.on_spurious(0, 1);
        for recovery in 1..=16 {
            assert_eq!(rack.reordering_window(&rtt(), 0), Duration::from_millis(40));
            assert!(rack.on_lost(recovery, recovery + 1));
            assert!(!rack.on_lost(recovery, recovery + 1));
            rack.on_progress(None);
        }
        assert_eq!(rack.reordering_window(&rtt(), 0), Duration::from_millis(20));
    }
}

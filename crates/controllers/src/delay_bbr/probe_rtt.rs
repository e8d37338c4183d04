//! ProbeRTT: the state that drains the excess in flight (Algorithm 5).

use anabranch_core::recovery::SentPacket;
use anabranch_units::{DataRate, Duration, Instant};

use super::profile::{Expiry, ExpiryStay, Profile};

/// Pacing gain: three quarters of the bandwidth instead of BBR's four packets.
pub(super) const GAIN: f64 = 0.75;
/// Pacing gain of [`ExpiryStay::HalfRateRound`].
const HALF_RATE_GAIN: f64 = 0.5;
/// Largest duration in least round-trip times after an entry by expiry.
const MAX_ROUND_TRIPS: u64 = 4;

/// State of one stay in ProbeRTT.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeRtt {
    entered_at: Instant,
    /// First packet sent after the entry.
    pub(super) first_packet: u64,
    /// `bdp_`, fixed at the entry.
    bdp_bytes: u64,
    /// Whether the least round-trip time had expired.
    is_by_expiry: bool,
    min_rtt_at_entry: Duration,
    /// The least round-trip time of the stay, and when it was seen.
    least: Option<(Duration, Instant)>,
}

impl ProbeRtt {
    /// Enters ProbeRTT (Algorithm 5, lines 2 to 7).
    pub(super) fn enter(
        now: Instant,
        first_packet: u64,
        bdp_bytes: u64,
        min_rtt: Duration,
        is_by_expiry: bool,
    ) -> Self {
        ProbeRtt {
            entered_at: now,
            first_packet,
            bdp_bytes,
            is_by_expiry,
            min_rtt_at_entry: min_rtt,
            least: None,
        }
    }

    /// Takes a round-trip time of the stay.
    pub(super) fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        if self.least.is_none_or(|(least, _)| rtt <= least) {
            self.least = Some((rtt, now));
        }
    }

    /// Whether delay, not expiry, is the cause of the stay.
    pub(super) fn is_by_congestion(&self) -> bool {
        !self.is_by_expiry
    }

    /// Returns the pacing gain of the stay.
    pub(super) fn gain(&self, profile: &Profile) -> f64 {
        match profile.expiry_stay {
            ExpiryStay::HalfRateRound if self.is_by_expiry => HALF_RATE_GAIN,
            _ => GAIN,
        }
    }

    /// Whether the stay is over (Algorithm 5, line 10). If expiry raises the least round-trip time,
    /// it lasts at most four of them: a path that has become longer never drains to the old
    /// product.
    pub(super) fn is_over(
        &self,
        now: Instant,
        bytes_in_flight: u64,
        acked_until: u64,
        profile: &Profile,
    ) -> bool {
        let has_lasted = now.saturating_since(self.entered_at);
        let is_drained = profile.comparison.is_below(bytes_in_flight, self.bdp_bytes);
        (is_drained && !self.is_too_early(acked_until, profile.expiry_stay))
            || (profile.expiry == Expiry::Raise
                && self.is_by_expiry
                && has_lasted > self.min_rtt_at_entry * MAX_ROUND_TRIPS)
    }

    /// Whether the least duration of a stay for expiry, a round, has not passed yet.
    fn is_too_early(&self, acked_until: u64, expiry_stay: ExpiryStay) -> bool {
        let is_full_round = expiry_stay == ExpiryStay::HalfRateRound && self.is_by_expiry;
        is_full_round && acked_until <= self.first_packet
    }

    /// Returns the least round-trip time after a stay for its expiry, and when it was seen.
    pub(super) fn renewed_min_rtt(&self, now: Instant) -> Option<(Duration, Instant)> {
        self.is_by_expiry
            .then(|| self.least.unwrap_or((self.min_rtt_at_entry, now)))
    }
}

/// Returns the send rate of a packet and those before it, over the interval of its rate sample.
pub(super) fn send_rate(packet: &SentPacket) -> DataRate {
    let delivery = &packet.delivery;
    let bytes = delivery.sent_bytes - delivery.sent_bytes_at_last_acked;
    DataRate::from_bytes_per(
        bytes,
        packet.sent_at.saturating_since(delivery.first_sent_at),
    )
}

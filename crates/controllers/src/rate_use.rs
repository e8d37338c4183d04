//! Use of the allowed rate by a paced flow: an unused rate is no evidence on the path, and must not
//! grow.

use anabranch_units::Instant;

/// Below this share of the allowed rate, the source is the limit.
pub(super) const USED_SHARE: f64 = 0.8;

/// Allowed and sent bytes since the last verdict.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateUse {
    packet_bytes: f64,
    bytes_per_second: f64,
    changed_at: Option<Instant>,
    allowed_bytes: f64,
    sent_bytes: f64,
}

impl RateUse {
    pub(super) fn new(packet_bytes: f64) -> Self {
        RateUse {
            packet_bytes,
            bytes_per_second: 0.0,
            changed_at: None,
            allowed_bytes: 0.0,
            sent_bytes: 0.0,
        }
    }

    pub(super) fn on_sent(&mut self, now: Instant, bytes: u32) {
        self.changed_at.get_or_insert(now);
        self.sent_bytes += f64::from(bytes);
    }

    /// Sets the allowed rate from `now` on.
    pub(super) fn on_rate(&mut self, now: Instant, bytes_per_second: f64) {
        self.count(now);
        self.bytes_per_second = bytes_per_second;
    }

    /// Whether the rate was the limit since the last verdict.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.take_share(now) >= USED_SHARE
    }

    /// Returns the sent bytes since the last verdict as a share of the allowed bytes, and starts
    /// the next period. The packet that the pacer holds counts for the source. Infinite if nothing
    /// was allowed.
    pub(super) fn take_share(&mut self, now: Instant) -> f64 {
        self.count(now);
        let sent_bytes = core::mem::take(&mut self.sent_bytes) + self.packet_bytes;
        sent_bytes / core::mem::take(&mut self.allowed_bytes)
    }

    fn count(&mut self, now: Instant) {
        if let Some(changed_at) = &mut self.changed_at {
            self.allowed_bytes +=
                self.bytes_per_second * now.saturating_since(*changed_at).as_secs_f64();
            *changed_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_a_second(sent_bytes: u32) -> bool {
        let mut used = RateUse::new(1_000.0);
        used.on_sent(Instant::ZERO, 0);
        used.on_rate(Instant::ZERO, 50_000.0);
        used.on_sent(Instant::ZERO, sent_bytes);
        used.take(Instant::from_secs(1))
    }

    #[test]
    fn four_fifths_of_the_rate_less_a_packet_is_enough() {
        assert!(after_a_second(39_000) && !after_a_second(38_999));
    }

    #[test]
    fn every_verdict_starts_afresh() {
        let mut used = RateUse::new(1_000.0);
        used.on_sent(Instant::ZERO, 50_000);
        used.on_rate(Instant::ZERO, 50_000.0);
        assert!(used.take(Instant::from_secs(1)));
        assert!(!used.take(Instant::from_secs(2)));
    }
}

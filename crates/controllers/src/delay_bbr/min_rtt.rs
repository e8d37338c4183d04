//! The least round-trip time and its expiry: Algorithm 3, lines 4 to 10.

use anabranch_units::{Duration, Instant};

use super::profile::Comparison;

/// `kMinRttExpiry`.
const EXPIRY: Duration = Duration::from_secs(10);
/// `kSimilarMinRtt`: multiple up to which a round-trip time confirms the least one.
const SIMILARITY: f64 = 1.125;

/// Least round-trip time, and when it was last seen or confirmed.
#[derive(Debug, Default)]
pub(super) struct MinRtt {
    pub(super) value: Option<Duration>,
    confirmed_at: Instant,
    /// Largest round-trip time that confirms it.
    similar_until: Duration,
    /// Least round-trip time of packets of full size. They take longer over a slow link than the
    /// small packets that give most least ones.
    of_full: Option<Duration>,
}

impl MinRtt {
    /// Value before the first sample.
    pub(super) const INITIAL: Duration = Duration::from_millis(200);

    /// Returns the value, or [`MinRtt::INITIAL`] before the first sample.
    pub(super) fn or_initial(&self) -> Duration {
        self.value.unwrap_or(Self::INITIAL)
    }

    /// Takes a round-trip time: a new minimum replaces the value; a similar one confirms it.
    pub(super) fn on_rtt(&mut self, now: Instant, rtt: Duration, comparison: Comparison) {
        match self.value {
            Some(min) if rtt >= min => {
                if comparison.is_below(rtt, self.similar_until) {
                    self.confirmed_at = now;
                }
            }
            _ => self.replace(rtt, now),
        }
    }

    /// Algorithm 2, line 3. An unknown value does not expire.
    pub(super) fn has_expired(&self, now: Instant) -> bool {
        self.value.is_some() && now.saturating_since(self.confirmed_at) > EXPIRY
    }

    /// Takes a value, lower or higher, that was seen at that moment.
    pub(super) fn replace(&mut self, rtt: Duration, seen_at: Instant) {
        self.value = Some(rtt);
        self.similar_until = rtt.mul_f64(SIMILARITY);
        self.confirmed_at = seen_at;
        self.of_full = None;
    }

    /// Takes a round-trip time of a packet of full size. Returns the least one of these, including
    /// it.
    pub(super) fn on_full_rtt(&mut self, rtt: Duration) -> Duration {
        *self
            .of_full
            .insert(self.of_full.map_or(rtt, |least| least.min(rtt)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_rtt_expires_after_ten_seconds() {
        let mut min_rtt = MinRtt::default();
        assert!(!min_rtt.has_expired(Instant::from_secs(3_600)));
        let rtt = Duration::from_millis(100);
        min_rtt.on_rtt(Instant::from_secs(60), rtt, Comparison::Inclusive);
        assert!(!min_rtt.has_expired(Instant::from_secs(70)));
        assert!(min_rtt.has_expired(Instant::from_millis(70_001)));
        min_rtt.on_rtt(
            Instant::from_secs(69),
            rtt.mul_f64(1.125),
            Comparison::Inclusive,
        );
        assert!(
            !min_rtt.has_expired(Instant::from_secs(79)),
            "a similar one"
        );
    }

    #[test]
    fn packets_of_full_size_have_a_least_round_trip_time_of_their_own_until_the_path_is_another() {
        let millis = Duration::from_millis;
        let mut min_rtt = MinRtt::default();
        min_rtt.on_rtt(Instant::ZERO, millis(60), Comparison::Inclusive);
        assert_eq!(min_rtt.on_full_rtt(millis(75)), millis(75));
        assert_eq!(min_rtt.on_full_rtt(millis(71)), millis(71));
        assert_eq!(min_rtt.on_full_rtt(millis(80)), millis(71));
        min_rtt.replace(millis(100), Instant::from_secs(1));
        assert_eq!(min_rtt.on_full_rtt(millis(111)), millis(111));
    }
}

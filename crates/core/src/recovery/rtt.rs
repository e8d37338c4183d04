//! Round-trip time estimation (RFC 6298 §2, RFC 9002 §5).

use anabranch_units::{Duration, Instant};

use super::jitter::JitterEstimator;

/// A path's round-trip time: latest, least, smoothed and its variation.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEstimator {
    latest: Option<Duration>,
    min: Option<Duration>,
    smoothed: Duration,
    variation: Duration,
    sampled_at: Instant,
    jitter: JitterEstimator,
    first_heard_at: Option<Instant>,
}

impl RttEstimator {
    /// Round-trip time that is assumed before the first sample (RFC 9002 §6.2.2).
    pub const INITIAL: Duration = Duration::from_millis(333);

    /// Timers cannot be finer than this (RFC 9002 §6.1.2).
    pub const GRANULARITY: Duration = Duration::from_millis(1);

    /// Time for which a busy host may keep a packet or a report waiting. On a quiet, short path the
    /// variation falls far below it, and every such delay would pass for silence.
    pub const HOST_DELAY: Duration = Duration::from_millis(10);

    /// Age above which the newest sample no longer describes the path: a queue comes and goes
    /// within less.
    const STALE_AFTER: Duration = Duration::from_secs(2);

    /// Takes a sample: the variation first, with the old smoothed value (RFC 6298 §2.3). After a
    /// long silence it is as if it were the first.
    pub fn on_sample(&mut self, now: Instant, rtt: Duration) {
        let is_stale = now.saturating_since(self.sampled_at) >= Self::STALE_AFTER;
        if self.latest.is_none() || is_stale {
            self.smoothed = rtt;
            self.variation = rtt / 2;
        } else {
            self.variation = (self.variation * 3 + self.smoothed.abs_diff(rtt)) / 4;
            self.smoothed = (self.smoothed * 7 + rtt) / 8;
        }
        self.latest = Some(rtt);
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
        self.sampled_at = now;
    }

    /// Takes the round-trip time of any packet, sampled or not, into jitter and floor. The first
    /// flight leaves at once, and queues by itself: it says nothing of either.
    pub fn on_packet(&mut self, sent_at: Instant, rtt: Duration) {
        let heard_at = *self.first_heard_at.get_or_insert(sent_at + rtt);
        if sent_at < heard_at {
            return;
        }
        let min_rtt = self.min.map_or(rtt, |min| min.min(rtt));
        self.jitter.on_packet(sent_at, rtt, min_rtt);
    }

    /// Returns the variation of round-trip times that no queue causes: a smaller difference is
    /// noise.
    pub fn jitter(&self) -> Duration {
        self.jitter.jitter()
    }

    /// Returns the excess over the least round-trip time that a packet may have without meeting a
    /// queue: the jitter. Until that is known, it is the least round-trip time: twice the variation
    /// after a first sample (RFC 6298 §2.2).
    pub fn idle_delay_margin(&self) -> Duration {
        if self.jitter.is_known() {
            self.jitter()
        } else {
            self.min.unwrap_or(self.smoothed())
        }
    }

    /// Returns the round-trip time without jitter: the least of recently sent packets, in a span in
    /// which jitter spares one. Without jitter it is the latest.
    pub fn floor(&self) -> Option<Duration> {
        self.jitter.floor()
    }

    /// Returns the queueing delay without noise: the floor above the least round-trip time.
    pub fn queueing_delay(&self) -> Duration {
        let above = self.floor().zip(self.min);
        above.map_or(Duration::ZERO, |(floor, min)| {
            floor.saturating_sub(min + self.jitter())
        })
    }

    /// Returns whether there has been a sample.
    pub fn has_sample(&self) -> bool {
        self.latest.is_some()
    }

    /// Returns the newest sample.
    pub fn latest(&self) -> Option<Duration> {
        self.latest
    }

    /// Returns when the newest sample was taken; the origin before the first one.
    pub fn sampled_at(&self) -> Instant {
        self.sampled_at
    }

    /// Returns the least sample.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min
    }

    /// Returns the smoothed round-trip time; [`RttEstimator::INITIAL`] before the first sample.
    pub fn smoothed(&self) -> Duration {
        if self.has_sample() {
            self.smoothed
        } else {
            Self::INITIAL
        }
    }

    /// Returns the mean deviation; half of [`RttEstimator::INITIAL`] before the first sample.
    pub fn variation(&self) -> Duration {
        if self.has_sample() {
            self.variation
        } else {
            Self::INITIAL / 2
        }
    }

    /// Returns SRTT + max(4 RTTVAR, 10 ms) (RFC 9002 §6.2.1, except for the 10 ms).
    pub fn probe_timeout(&self) -> Duration {
        self.smoothed() + (self.variation() * 4).max(Self::HOST_DELAY)
    }

    /// Returns the time from sending after which a packet is lost if later ones have arrived: 9/8
    /// of the larger of smoothed and latest (RFC 9002 §6.1.2).
    pub fn time_threshold(&self) -> Duration {
        let rtt = self.smoothed().max(self.latest.unwrap_or(Duration::ZERO));
        (rtt * 9 / 8).max(Self::GRANULARITY)
    }
}

/// Returns the round-trip time of a packet whose report was held back for `held_back`; `None` if
/// that exceeds the time since it was sent.
pub(super) fn sample(now: Instant, sent_at: Instant, held_back: Duration) -> Option<Duration> {
    let elapsed = now.saturating_since(sent_at);
    let is_possible = held_back <= elapsed + RttEstimator::GRANULARITY;
    is_possible.then(|| elapsed.saturating_sub(held_back))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(samples: impl IntoIterator<Item = u64>) -> RttEstimator {
        let mut rtt = RttEstimator::default();
        for millis in samples {
            rtt.on_sample(Instant::ZERO, Duration::from_millis(millis));
        }
        rtt
    }

    #[test]
    fn rfc6298_2_2_first_sample() {
        let rtt = after([100]);
        assert_eq!(rtt.smoothed(), Duration::from_millis(100));
        assert_eq!(rtt.variation(), Duration::from_millis(50));
        assert_eq!(rtt.probe_timeout(), Duration::from_millis(300));
    }

    #[test]
    fn rfc6298_2_3_variation_uses_the_old_smoothed_value() {
        let rtt = after([100, 200]);
        assert_eq!(rtt.variation(), Duration::from_micros(62_500));
        assert_eq!(rtt.smoothed(), Duration::from_micros(112_500));
    }

    #[test]
    fn sample_after_two_seconds_of_silence_resets() {
        fn at(rtt: &mut RttEstimator, at: u64, millis: u64) -> Duration {
            rtt.on_sample(Instant::from_millis(at), Duration::from_millis(millis));
            rtt.smoothed()
        }
        let mut rtt = RttEstimator::default();
        assert_eq!(at(&mut rtt, 1_000, 1_600), Duration::from_millis(1_600));
        assert_eq!(at(&mut rtt, 2_999, 800), Duration::from_millis(1_500));
        assert_eq!(at(&mut rtt, 4_999, 40), Duration::from_millis(40));
        assert_eq!(rtt.variation(), Duration::from_millis(20));
    }

    #[test]
    fn constant_rtt_converges_and_a_step_is_followed_within_23_samples() {
        let constant = after([80; 40]);
        assert_eq!(constant.smoothed(), Duration::from_millis(80));
        let stepped = after([80; 40].into_iter().chain([160; 23]));
        assert!(
            stepped.smoothed() > Duration::from_millis(152),
            "{:?}",
            stepped.smoothed()
        );
        assert_eq!(stepped.min_rtt(), Some(Duration::from_millis(80)));
    }

    #[test]
    fn before_any_sample_the_initial_value_stands_in() {
        let rtt = RttEstimator::default();
        assert_eq!(rtt.smoothed(), RttEstimator::INITIAL);
        assert_eq!((rtt.latest(), rtt.min_rtt()), (None, None));
    }
}

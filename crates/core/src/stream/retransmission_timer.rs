//! The retransmission timer (RFC 6298), and how ns-2.35 and 4.3BSD estimate for it in whole ticks.

use anabranch_units::{Duration, Instant};

use crate::config::StreamConfig;
use crate::recovery::RttEstimator;

/// RFC 6298 §2.5: at least 60 s.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
/// The granularity `G`: ns-2's tick, and that of a kernel that counts 100 a second.
const GRANULARITY: Duration = Duration::from_millis(10);
/// Number of doublings from which the timeout is [`MAX_TIMEOUT`], however short it was.
const MAX_BACKOFF: u32 = 16;

/// Round-trip time in ticks of [`GRANULARITY`], as a clock with ticks measures it: smoothed in
/// eighths, its variation in quarters. Integer division leaves a remainder in the variation, which
/// therefore never falls below three quarters: three ticks of the timeout.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    smoothed_eighths: i64,
    variation_quarters: i64,
}

impl Ticks {
    fn first(ticks: i64) -> Self {
        Ticks {
            smoothed_eighths: ticks * 8,
            variation_quarters: ticks * 2,
        }
    }

    fn on_sample(&mut self, ticks: i64) {
        let error = ticks - self.smoothed_eighths / 8;
        self.smoothed_eighths = (self.smoothed_eighths + error).max(1);
        let change = error.abs() - self.variation_quarters / 4;
        self.variation_quarters = (self.variation_quarters + change).max(1);
    }

    fn timeout(&self) -> Duration {
        let ticks = (self.variation_quarters * 8 + self.smoothed_eighths) / 8;
        GRANULARITY * ticks as u64
    }
}

/// Timer after which silence causes a retransmission.
#[derive(Debug)]
pub(crate) struct RetransmissionTimer {
    expires_at: Option<Instant>,
    /// `RTO` before back-off.
    base: Duration,
    min: Duration,
    /// Number of times that the timeout has been doubled since the last round-trip time.
    backoff: u32,
    /// Expiries since the last acknowledgement that advanced.
    expiry_count: u32,
    ticks: Option<Ticks>,
}

impl RetransmissionTimer {
    pub(crate) fn new(config: &StreamConfig) -> Self {
        let min = config.min_retransmission_timeout.min(MAX_TIMEOUT);
        RetransmissionTimer {
            ticks: None,
            min,
            base: config.initial_retransmission_timeout.max(min),
            backoff: 0,
            expiry_count: 0,
            expires_at: None,
        }
    }

    /// Sets the timeout by a new sample, and ends back-off (RFC 6298 §2.3 and 5.7).
    /// `unmeasured_delay` is the possible delay of acknowledgements beyond the samples.
    pub(crate) fn on_sample(&mut self, rtt: &RttEstimator, unmeasured_delay: Duration) {
        let timeout = rtt.smoothed() + (rtt.variation() * 4).max(GRANULARITY) + unmeasured_delay;
        self.base = timeout.max(self.min);
        self.backoff = 0;
    }

    /// Adds a sample in ticks: a segment that was sent `rtt` ago has been acknowledged.
    pub(crate) fn on_tick_sample(&mut self, now: Instant, rtt: Duration) {
        let count = (tick(now) - tick(now.saturating_sub(rtt))).max(1) as i64;
        let ticks = match self.ticks {
            Some(mut ticks) => {
                ticks.on_sample(count);
                ticks
            }
            None => Ticks::first(count),
        };
        self.ticks = Some(ticks);
        self.base = ticks.timeout().max(self.min);
        self.backoff = 0;
    }

    /// Returns `RTO`.
    pub(crate) fn timeout(&self) -> Duration {
        (self.base * (1_u64 << self.backoff)).min(MAX_TIMEOUT)
    }

    pub(crate) fn expires_at(&self) -> Option<Instant> {
        self.expires_at
    }

    /// Starts the timer when a packet leaves (RFC 6298 §5.1).
    pub(crate) fn start(&mut self, now: Instant) {
        if self.expires_at.is_none() {
            self.restart(now);
        }
    }

    pub(crate) fn restart(&mut self, now: Instant) {
        self.expires_at = Some(now + self.timeout());
    }

    /// Restarts or stops the timer when new data has been acknowledged (RFC 6298 §5.2, 5.3).
    pub(crate) fn on_progress(&mut self, now: Instant, is_outstanding: bool) {
        self.expiry_count = 0;
        if is_outstanding {
            self.restart(now);
        } else {
            self.expires_at = None;
        }
    }

    /// Returns whether it has expired since data was last acknowledged.
    pub(crate) fn has_expired(&self) -> bool {
        self.expiry_count > 0
    }

    pub(crate) fn stop(&mut self) {
        self.expires_at = None;
    }

    /// Doubles the timeout and starts again (RFC 6298 §5.5, 5.6). Returns the number of expiries in
    /// a row.
    pub(crate) fn on_expiry(&mut self, now: Instant) -> u32 {
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
        self.expiry_count = self.expiry_count.saturating_add(1);
        self.restart(now);
        self.expiry_count
    }
}

/// Returns the number of whole ticks until a moment.
fn tick(at: Instant) -> u64 {
    (at - Instant::ZERO).as_nanos() / GRANULARITY.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer() -> RetransmissionTimer {
        RetransmissionTimer::new(&StreamConfig::default())
    }

    fn rtt(samples: &[u64]) -> RttEstimator {
        let mut rtt = RttEstimator::default();
        for millis in samples {
            rtt.on_sample(Instant::ZERO, Duration::from_millis(*millis));
        }
        rtt
    }

    #[test]
    fn rfc6298_2_1_one_second_before_any_sample() {
        assert_eq!(timer().timeout(), Duration::from_secs(1));
    }

    #[test]
    fn rfc6298_2_2_the_first_sample_makes_it_three_times_the_sample() {
        let mut timer = timer();
        timer.on_sample(&rtt(&[100]), Duration::ZERO);
        assert_eq!(timer.timeout(), Duration::from_millis(300));
    }

    #[test]
    fn rfc6298_2_4_never_below_the_floor_nor_above_the_ceiling() {
        let mut timer = timer();
        timer.on_sample(&rtt(&[10; 40]), Duration::ZERO);
        assert_eq!(timer.timeout(), Duration::from_millis(200));
        timer.on_sample(&rtt(&[300; 60]), Duration::ZERO);
        assert_eq!(timer.timeout(), Duration::from_millis(310));
        (0..40).for_each(|_| _ = timer.on_expiry(Instant::ZERO));
        assert_eq!(timer.timeout(), Duration::from_secs(60));
    }

    #[test]
    fn in_ticks_the_variation_is_never_less_than_three() {
        fn count(now: u64, rtt: u64) -> Option<i64> {
            let mut timer = RetransmissionTimer::new(&StreamConfig::default());
            timer.on_tick_sample(Instant::from_millis(now), Duration::from_millis(rtt));
            timer.ticks.map(|ticks| ticks.smoothed_eighths / 8)
        }

        let mut timer = timer();
        let sample = Duration::from_millis(400);
        timer.on_tick_sample(Instant::from_secs(1), sample);
        assert_eq!(timer.timeout(), Duration::from_millis(1_200));
        for second in 2..60 {
            timer.on_tick_sample(Instant::from_secs(second), sample);
        }
        assert_eq!(timer.timeout(), Duration::from_millis(430));
        // A clock with ticks distinguishes 9 ms from 11 ms only by their position.
        assert_eq!(count(1_009, 229), Some(22));
        assert_eq!(count(1_001, 229), Some(23));
    }

    #[test]
    fn rfc6298_5_5_two_expiries_make_it_four_times_as_long_until_a_sample() {
        let mut timer = timer();
        let rtt = rtt(&[100]);
        timer.on_sample(&rtt, Duration::ZERO);
        timer.start(Instant::ZERO);
        let first = timer.expires_at().unwrap();
        assert_eq!(first, Instant::from_millis(300));
        assert_eq!(timer.on_expiry(first), 1);
        let second = timer.expires_at().unwrap();
        assert_eq!(second, Instant::from_millis(900));
        assert_eq!(timer.on_expiry(second), 2);
        assert_eq!(timer.timeout(), Duration::from_millis(1_200));
        // Karn: an acknowledgement that gives no sample does not end back-off.
        timer.on_progress(second, true);
        assert_eq!(timer.timeout(), Duration::from_millis(1_200));
        timer.on_sample(&rtt, Duration::ZERO);
        assert_eq!(timer.timeout(), Duration::from_millis(300));
        assert_eq!(timer.on_expiry(second), 1);
    }

    #[test]
    fn rfc6298_5_1_to_5_3_started_by_the_first_restarted_by_progress_stopped_by_the_last() {
        let mut timer = timer();
        timer.start(Instant::ZERO);
        timer.start(Instant::from_millis(500));
        assert_eq!(timer.expires_at(), Some(Instant::from_secs(1)));
        timer.on_progress(Instant::from_millis(600), true);
        assert_eq!(timer.expires_at(), Some(Instant::from_millis(1_600)));
        timer.on_progress(Instant::from_millis(700), false);
        assert_eq!(timer.expires_at(), None);
    }
}

//! Separation of a path's delay into queueing delay and noise.
//!
//! A standing queue delays every packet. Jitter spares some: radios that wait for their turn, and
//! hosts, now and then deliver a packet as soon as the path allows. So the least round-trip time of
//! a span shows the queue, if the span is long enough for such a packet to come. The necessary
//! length depends on the path, and is measured.

use anabranch_units::{Duration, Instant};

/// Number of stretches from which the *jitter* is taken: in half of them round-trip times both rise
/// and fall by at least this much. A queue rises or falls in most stretches, and does both only
/// where it turns, so its own changes do not count.
const STRETCHES: usize = 8;
/// A stretch lasts for the least round-trip time, no less than this (four pictures of video), …
const SHORTEST_STRETCH: Duration = Duration::from_millis(100);
/// … at least this multiple of the jitter, since a delayed packet hides later ones, …
const STRETCH_JITTERS: u64 = 4;
/// … and until it has this number of samples: of ten uniformly distributed ones the extremes are
/// nine elevenths of the range apart.
const STRETCH_SAMPLES: u32 = 10;
/// Number of stretches below which the jitter is taken as twice the measured one.
const FEW_STRETCHES: usize = STRETCHES / 2;
/// Length of the floor's span as a multiple of the jitter: a delayed packet delays later ones for
/// as long.
const FLOOR_SPANS: u64 = 3;
/// Number of parts of the floor's span.
const PARTS: usize = 4;

/// Estimator of the jitter of a path's round-trip times, and of their floor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JitterEstimator {
    stretch: Stretch,
    /// Amounts by which the round-trip times of the last stretches rose and fell, in a ring.
    swings: [Duration; STRETCHES],
    stretch_count: usize,
    jitter: Duration,
    /// The least round-trip times of the last parts of the floor's span, in a ring.
    parts: [Part; PARTS],
    newest_part: usize,
    floor: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    began_at: Instant,
    least: Duration,
    most: Duration,
    /// The largest difference to an earlier, smaller one.
    rise: Duration,
    /// The largest difference to an earlier, larger one.
    fall: Duration,
    sample_count: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    began_at: Instant,
    /// Zero if there was none.
    least: Duration,
}

impl Stretch {
    fn on_rtt(&mut self, rtt: Duration) {
        self.least = self.least.min(rtt);
        self.most = self.most.max(rtt);
        self.rise = self.rise.max(rtt - self.least);
        self.fall = self.fall.max(self.most - rtt);
        self.sample_count += 1;
    }
}

impl JitterEstimator {
    /// Adds a packet that left at `sent_at` with this round-trip time, on a path whose least one is
    /// `min_rtt`.
    pub(super) fn on_packet(&mut self, sent_at: Instant, rtt: Duration, min_rtt: Duration) {
        let before = self.jitter;
        self.record_swing(sent_at, rtt, min_rtt);
        self.record_floor(sent_at, rtt, self.jitter != before);
    }

    /// Returns the variation of round-trip times within a round trip, whatever the queue does.
    pub(super) fn jitter(&self) -> Duration {
        self.jitter
    }

    /// Returns whether enough samples have come for an estimate.
    pub(super) fn is_known(&self) -> bool {
        self.stretch_count > 0
    }

    /// Returns the least round-trip time of recently sent packets: the latest if there is no
    /// jitter.
    pub(super) fn floor(&self) -> Option<Duration> {
        self.floor
    }

    fn record_swing(&mut self, sent_at: Instant, rtt: Duration, min_rtt: Duration) {
        let stretch = &mut self.stretch;
        if stretch.sample_count == 0 {
            *stretch = Stretch {
                began_at: sent_at,
                least: rtt,
                most: rtt,
                ..Stretch::default()
            };
        }
        stretch.on_rtt(rtt);
        let lasted = sent_at.saturating_since(stretch.began_at);
        let length = min_rtt
            .max(SHORTEST_STRETCH)
            .max(self.jitter * STRETCH_JITTERS);
        if stretch.sample_count < STRETCH_SAMPLES || lasted < length {
            return;
        }
        self.end_stretch();
    }

    #[cold]
    fn end_stretch(&mut self) {
        let stretch = &mut self.stretch;
        self.swings[self.stretch_count % STRETCHES] = stretch.rise.min(stretch.fall);
        self.stretch_count += 1;
        stretch.sample_count = 0;
        let mut known = self.swings;
        let known = &mut known[..self.stretch_count.min(STRETCHES)];
        known.sort_unstable();
        self.jitter = if known.len() < FEW_STRETCHES {
            known[known.len() / 2] * 2
        } else {
            known[(known.len() - 1) / 2]
        };
    }

    fn record_floor(&mut self, sent_at: Instant, rtt: Duration, has_span_changed: bool) {
        let span = self.jitter * FLOOR_SPANS;
        let newest = &mut self.parts[self.newest_part];
        if newest.least.is_zero()
            || sent_at.saturating_since(newest.began_at) >= span / PARTS as u64
        {
            self.newest_part = (self.newest_part + 1) % PARTS;
            self.parts[self.newest_part] = Part {
                began_at: sent_at,
                least: rtt,
            };
        } else if rtt < newest.least {
            newest.least = rtt;
        } else if !has_span_changed {
            return;
        }
        let newest = self.parts[self.newest_part];
        let recent = self.parts.iter().filter(|part| {
            !part.least.is_zero() && newest.began_at.saturating_since(part.began_at) < span
        });
        let least = recent.map(|part| part.least).min();
        self.floor = Some(least.unwrap_or(newest.least));
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;

    const MIN_RTT: Duration = Duration::from_millis(60);

    /// Returns the estimator after this many seconds of packets every 2 ms. Each is delayed by the
    /// queue of the millisecond and by a uniform amount up to `jitter_millis`.
    fn after(seconds: u64, jitter_millis: u64, queue: impl Fn(u64) -> f64) -> JitterEstimator {
        let mut rng = Seed(1).rng();
        let mut estimator = JitterEstimator::default();
        for millis in (0..seconds * 1_000).step_by(2) {
            let noise = rng.next_f64() * jitter_millis as f64;
            let rtt = MIN_RTT + Duration::from_secs_f64((noise + queue(millis)) / 1e3);
            estimator.on_packet(Instant::from_millis(millis), rtt, MIN_RTT);
        }
        estimator
    }

    #[test]
    fn jitter_is_measured_and_the_floor_is_the_path_without_it() {
        for jitter in [10, 40, 80] {
            let estimator = after(4, jitter, |_| 0.0);
            let measured = estimator.jitter().as_millis_f64();
            assert!(
                (0.8..1.0).contains(&(measured / jitter as f64)),
                "{jitter} ms: {measured}"
            );
            let floor = (estimator.floor().unwrap() - MIN_RTT).as_millis_f64();
            assert!(floor < 0.15 * jitter as f64, "{jitter} ms: {floor}");
        }
    }

    #[test]
    fn a_standing_queue_lifts_the_floor_and_is_no_jitter() {
        let estimator = after(4, 20, |millis| if millis < 3_000 { 0.0 } else { 50.0 });
        let floor = (estimator.floor().unwrap() - MIN_RTT).as_millis();
        assert!((50..53).contains(&floor), "{floor}");
        assert!(estimator.jitter() < Duration::from_millis(21));
    }

    #[test]
    fn a_queue_that_comes_and_goes_within_seconds_is_no_jitter() {
        // Grows by 60 ms in 600 ms of each second, and is gone in the rest.
        let estimator = after(5, 0, |millis| match millis % 1_000 {
            part @ 0..600 => part as f64 / 10.0,
            _ => 0.0,
        });
        assert!(estimator.jitter() < Duration::from_millis(1));
    }

    #[test]
    fn a_queue_that_fills_is_no_jitter_even_at_the_start() {
        let estimator = after(1, 0, |millis| millis as f64 / 2.0);
        assert_eq!(estimator.jitter(), Duration::ZERO);
    }

    #[test]
    fn without_jitter_the_floor_is_the_latest_round_trip_time() {
        let estimator = after(4, 0, |millis| millis as f64 / 100.0);
        // The queue grows by a hundredth: by 1 ms in a stretch, three of which are the span.
        let floor = (estimator.floor().unwrap() - MIN_RTT).as_millis_f64();
        assert!((39.9..=40.0).contains(&floor), "{floor}");
    }

    #[test]
    fn before_anything_is_known_nothing_is_jitter() {
        let mut estimator = JitterEstimator::default();
        assert_eq!(
            (estimator.jitter(), estimator.floor()),
            (Duration::ZERO, None)
        );
        estimator.on_packet(Instant::from_secs(1), MIN_RTT, MIN_RTT);
        estimator.on_packet(Instant::from_secs(1), MIN_RTT * 2, MIN_RTT);
        assert_eq!(estimator.floor(), Some(MIN_RTT * 2));
        assert_eq!(estimator.jitter(), Duration::ZERO);
    }
}

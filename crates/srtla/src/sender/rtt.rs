//! Round-trip times of a link, from the echoes of keepalives and from acknowledgements.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

/// Age up to which a round-trip time bounds those of packets in flight. Ten keepalives of a busy
/// link fall into it.
const RECENT: Duration = Duration::from_secs(1);
/// Number of samples that are kept although they are older: an idle link has few.
const LEAST_SAMPLES: usize = 3;
/// Maximum number of samples; more arrive from a receiver that invents them.
const MAX_SAMPLES: usize = 256;
/// Length of a half of the period over which the minimum counts. Chosen: a step of the delay that
/// lasts longer is a route's and no queue.
const HALF: Duration = Duration::from_secs(5);
/// Weight of a new difference in the jitter (RFC 3550 §6.4.1).
const JITTER_SHARE: u64 = 16;
/// Factor of the jitter below which a higher round trip is no queue.
const JITTERS: u64 = 4;
/// Round trip before the first sample. Chosen: that of a mobile network.
const INITIAL: Duration = Duration::from_millis(100);

/// Round-trip times of one link.
#[derive(Debug, Default)]
pub(super) struct Rtt {
    samples: VecDeque<(Instant, Duration)>,
    /// Minimum of the present half and of the one before.
    minimum: Option<(Duration, Duration)>,
    half_at: Instant,
    /// Mean distance of a round trip from the median of itself and its neighbours. Of a queue that
    /// grows or drains it is zero, however few samples there are.
    jitter: Duration,
}

impl Rtt {
    pub(super) fn on_sample(&mut self, now: Instant, sample: Duration) {
        fn is_old(at: Instant, now: Instant) -> bool {
            now.saturating_since(at) > RECENT
        }

        let mut last = self.samples.iter().rev().map(|&(_, sample)| sample);
        if let (Some(last), Some(before)) = (last.next(), last.next()) {
            let median = last.clamp(before.min(sample), before.max(sample));
            let kept = self.jitter * (JITTER_SHARE - 1);
            self.jitter = (kept + last.abs_diff(median)) / JITTER_SHARE;
        }
        self.samples.push_back((now, sample));
        while self.samples.len() > MAX_SAMPLES
            || (self.samples.len() > LEAST_SAMPLES
                && self.samples.front().is_some_and(|(at, _)| is_old(*at, now)))
        {
            self.samples.pop_front();
        }
        let (mut present, mut before) = self.minimum.unwrap_or((sample, sample));
        if now.saturating_since(self.half_at) > HALF {
            self.half_at = now;
            (before, present) = (present, sample);
        }
        self.minimum = Some((present.min(sample), before));
    }

    /// Forgets the samples, as those of another network.
    pub(super) fn forget(&mut self) {
        *self = Rtt::default();
    }

    /// Returns the smallest round trip of the last 5 to 10 s.
    pub(super) fn base(&self) -> Duration {
        let known = self.minimum.map(|(present, before)| present.min(before));
        known.unwrap_or(INITIAL)
    }

    /// Returns the last round trip.
    pub(super) fn latest(&self) -> Duration {
        let last = self.samples.back();
        last.map_or(INITIAL, |&(_, sample)| sample)
    }

    /// Returns the largest recent round trip.
    pub(super) fn highest(&self) -> Duration {
        let samples = self.samples.iter().map(|&(_, sample)| sample);
        samples.max().unwrap_or(INITIAL)
    }

    /// Returns the queueing delay: the smallest round trip since `since` over the base, without
    /// jitter. Without a sample since then the last one counts: a queue that grows delays samples.
    pub(super) fn queueing(&self, since: Instant) -> Duration {
        let newest = self.samples.iter().rev();
        let late = newest.take_while(|(at, _)| *at >= since);
        let least = late.map(|&(_, sample)| sample).min();
        self.beyond_jitter(least.unwrap_or(self.latest()))
    }

    /// Returns by how much a round trip exceeds the base and the jitter.
    pub(super) fn beyond_jitter(&self, rtt: Duration) -> Duration {
        rtt.saturating_sub(self.base() + self.jitter * JITTERS)
    }

    /// Returns the delay to the receiver. The return path has half of the base; longer round trips
    /// are put down to the way there, where the queue of our own packets is.
    pub(super) fn forward(&self) -> Duration {
        self.latest().saturating_sub(self.base() / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn a_queue_is_a_round_trip_above_the_base() {
        let mut rtt = Rtt::default();
        assert_eq!((rtt.base(), rtt.highest()), (INITIAL, INITIAL));
        for (time, sample) in [(0, 40), (100, 90), (200, 70)] {
            rtt.on_sample(at(time), ms(sample));
        }
        assert_eq!(
            (rtt.base(), rtt.latest(), rtt.highest()),
            (ms(40), ms(70), ms(90))
        );
        // The median of 40, 90 and 70 ms is 70 ms, so the jitter is 20 / 16 = 1.25 ms.
        assert_eq!(rtt.queueing(at(100)), ms(25));
        assert_eq!(rtt.queueing(at(300)), ms(25), "the last sample counts");
        assert_eq!(rtt.forward(), ms(50));
    }

    #[test]
    fn a_queue_that_grows_or_drains_is_no_jitter() {
        let mut rtt = Rtt::default();
        for (time, sample) in [40, 60, 200, 500, 800, 400, 120, 41]
            .into_iter()
            .enumerate()
        {
            rtt.on_sample(at(100 * time as u64), ms(sample));
        }
        // Only the peak is none of the medians: (800 - 500) / 16 ms, twice kept by 15 / 16.
        assert!(rtt.jitter < ms(17), "{}", rtt.jitter);
        let mut rtt = Rtt::default();
        for time in 0..200 {
            rtt.on_sample(at(100 * time), ms(if time % 2 == 0 { 40 } else { 80 }));
        }
        assert!(rtt.jitter > ms(39), "{}", rtt.jitter);
    }

    #[test]
    fn peaks_count_for_a_second_and_the_base_for_ten() {
        let mut rtt = Rtt::default();
        rtt.on_sample(at(0), ms(20));
        for time in 1..=200 {
            rtt.on_sample(at(100 * time), ms(if time == 10 { 500 } else { 60 }));
            let expected = if (10..=20).contains(&time) { 500 } else { 60 };
            assert_eq!(rtt.highest(), ms(expected), "{time}");
            let base = if time <= 100 { 20 } else { 60 };
            assert!(
                time == 101 || rtt.base() == ms(base),
                "{time} {}",
                rtt.base()
            );
        }
        for _ in 0..10 * MAX_SAMPLES {
            rtt.on_sample(at(20_000), ms(1));
        }
        assert_eq!(rtt.samples.len(), MAX_SAMPLES);
    }
}

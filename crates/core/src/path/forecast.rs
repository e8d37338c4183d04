//! When what flies on a path or is bound to it will be there, by the rate at which packets come out
//! of it.

use anabranch_units::{DataRate, Duration, Instant};

use super::Path;
use crate::forecast::Forecast;
use crate::path_view::PathView;
use crate::recovery::{Digest, RttEstimator};

/// Over how long the rate is measured: a few reports.
const MEMORY: Duration = Duration::from_millis(150);
/// A path that carries so many times as much, or as little, has changed.
const RATE_CHANGE: f64 = 1.25;
/// What is so much older than an answer over the empty path takes, and more than jitter explains,
/// has met a queue.
const STANDING_QUEUE: Duration = Duration::from_millis(20);
/// What comes out of a congested path may be less than it carries by this. An encoder that is asked
/// for less than the controller drains a queue with leaves the sender application-limited, of which
/// the controller learns nothing.
const BELIEVED_MORE: f64 = 1.1;
/// By how many mean deviations of the round-trip time a packet may be later than expected.
const DOUBT_IN_DEVIATIONS: u64 = 2;

/// Bytes that have been acknowledged, which fade over [`MEMORY`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Outflow {
    bytes: f64,
    /// The share of the memory, which fades too, of which nothing is known: the path stood still.
    unknown: f64,
    at: Instant,
}

impl Outflow {
    pub(super) fn new(now: Instant) -> Self {
        Outflow {
            bytes: 0.0,
            unknown: 0.0,
            at: now,
        }
    }

    /// The path has moved since then, after it had stood still.
    fn restart(&mut self, moves_since: Instant) {
        *self = Outflow {
            unknown: 1.0,
            ..Outflow::new(moves_since)
        };
    }

    pub(super) fn add(&mut self, now: Instant, bytes: u64) {
        self.fade(now);
        self.bytes += bytes as f64;
    }

    /// Fades what has been added until now.
    fn fade(&mut self, now: Instant) {
        let kept = self.kept(now);
        self.bytes *= kept;
        self.unknown *= kept;
        self.at = now;
    }

    /// Never zero.
    pub(super) fn rate(&self, now: Instant) -> DataRate {
        let kept = self.kept(now);
        let bytes = (self.bytes * kept).max(1.0) as u64;
        match self.unknown == 0.0 {
            // As mostly; and dividing by a constant is quick.
            true => DataRate::from_bytes_per(bytes, MEMORY),
            false => DataRate::from_bytes_per(bytes, MEMORY.mul_f64(1.0 - self.unknown * kept)),
        }
    }

    /// What share is left of what was added until the last time.
    fn kept(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_since(self.at);
        if elapsed.is_zero() {
            return 1.0;
        }
        libm::exp(-elapsed.as_secs_f64() / MEMORY.as_secs_f64())
    }
}

impl Path {
    /// A report has come: forecasts of this moment share one computation of what has faded.
    pub(crate) fn fade_outflow(&mut self, now: Instant) {
        self.outflow.fade(now);
    }

    /// The first report has come after the path had stood still: what comes out of it is measured
    /// anew. An average over the pause would be far below what the path carries, for longer than
    /// the frames have that were caught in it, and what has been lost of them would be given up.
    #[cold]
    pub(crate) fn restart_outflow(&mut self, now: Instant) {
        let gathered_in = self.schedule.wanted.longest_delay();
        let gathered_in = gathered_in.max(RttEstimator::HOST_DELAY);
        self.outflow.restart(now.saturating_sub(gathered_in));
    }

    /// Takes note of what has come out of the path.
    pub(crate) fn note_outflow(&mut self, now: Instant, digest: &Digest) {
        let acked = digest.acked.iter();
        let bytes = acked.map(|packet| u64::from(packet.sent.bytes)).sum();
        self.outflow.add(now, bytes);
    }

    /// When packets will arrive. A controller may take longer to see that a path has slowed down
    /// than media can wait: what comes out of it counts, where that is less than was believed.
    pub(crate) fn forecast(&self, now: Instant) -> Forecast {
        let rtt = self.recovery.rtt();
        let least_rtt = rtt.min_rtt().unwrap_or(rtt.smoothed());
        let mut forecast = Forecast {
            made_at: now,
            ready_at: self.ready_at(),
            least_transit: least_rtt / 2,
            transit: match rtt.latest() {
                Some(latest) => latest / 2,
                // As long as the first answer has been waited for.
                None => {
                    let usual = PathView::UNKNOWN_RTT;
                    (usual + self.recovery.overdue(now, usual)) / 2
                }
            },
            doubt: rtt.variation() * DOUBT_IN_DEVIATIONS,
            rate: self.believed_rate(),
            again_bytes: self.bound.retransmission_bytes(),
            backed_up_bytes: 0,
        };
        if let Some(outflow) = self.backed_up_rate(now) {
            // Little's law: all that is in flight comes before a new packet, but for what has
            // arrived and not been told yet.
            let in_flight = self.recovery.bytes_in_flight();
            let after = outflow.time_for(in_flight).saturating_sub(least_rtt / 2);
            forecast.rate = outflow;
            forecast.transit = after.max(forecast.least_transit);
            forecast.backed_up_bytes = in_flight.saturating_sub(outflow.bytes_in(least_rtt));
        }
        forecast
    }

    /// What the path carries by its controller's word. Never zero.
    pub(super) fn believed_rate(&self) -> DataRate {
        let control = &self.control;
        let rate = match (control.target_rate, control.congestion_window) {
            (DataRate::ZERO, Some(window)) => {
                DataRate::from_bytes_per(window, self.recovery.rtt().smoothed())
            }
            (DataRate::ZERO, None) => control.pacing_rate.unwrap_or(DataRate::ZERO),
            (rate, _) => rate,
        };
        rate.max(DataRate::from_bits_per_second(1))
    }

    /// What the path carries, if it is the only one: while it is congested what comes out of it,
    /// whether its controller believes in more, as a token bucket shows, or in less, since it
    /// drains a queue. Zero if the controller tells no rate.
    pub(crate) fn carried_rate(&self, now: Instant) -> DataRate {
        let believed = self.control.target_rate;
        match self.backed_up_rate(now) {
            Some(outflow) if believed > outflow => believed.min(outflow.mul_f64(BELIEVED_MORE)),
            Some(outflow) if !believed.is_zero() => outflow,
            _ => believed,
        }
    }

    /// The rate at which packets come out of the path, if it is not what was believed: more is in
    /// flight than the path would have been done with, and the oldest has met a queue.
    fn backed_up_rate(&self, now: Instant) -> Option<DataRate> {
        if self.believes_controller {
            return None;
        }
        let rtt = self.recovery.rtt();
        let min_rtt = rtt.min_rtt()?;
        let answer_time = min_rtt + self.schedule.wanted.longest_delay();
        let oldest_at = self.recovery.oldest_sent_at()?;
        let queue = STANDING_QUEUE.max(rtt.jitter());
        if now.saturating_since(oldest_at) <= answer_time + queue {
            return None;
        }
        let is_more_than_in = |time: Duration| {
            let done_with = self.control.target_rate.bytes_in(time);
            self.recovery.bytes_in_flight() > done_with
        };
        if !is_more_than_in(answer_time) {
            return None;
        }
        let outflow = self.outflow.rate(now);
        // Jitter delays some packets, which are in flight for longer by it, and seldom all of a
        // span, unless nothing comes back at all. It makes no path faster. And a window over a
        // round trip is no estimate that it could be held against: it grows with the window.
        let believed = self.control.target_rate;
        if self.control.pacing_rate.is_none() || outflow >= believed {
            return Some(outflow);
        }
        let stands = |floor: Duration| floor > min_rtt + STANDING_QUEUE;
        let is_silent = self
            .recovery
            .silent_since()
            .is_some_and(|since| now.saturating_since(since) > answer_time + queue);
        let is_all_late = is_silent || rtt.floor().is_none_or(stands);
        (is_all_late && is_more_than_in(answer_time + rtt.jitter())).then_some(outflow)
    }

    /// After how long so many bytes in flight are acknowledged at the rate at which packets come
    /// out of the path; zero unless the latest sample has met a queue, since the path carries more
    /// than comes out otherwise. Slow start doubles a queue in a round trip at most.
    pub(crate) fn queue_drains_in(&self, now: Instant, bytes: u64) -> Duration {
        let rtt = self.recovery.rtt();
        match rtt.latest().zip(rtt.min_rtt()) {
            Some((latest, least)) if latest > least + STANDING_QUEUE => {
                self.outflow.rate(now).time_for(bytes).min(latest * 2)
            }
            _ => Duration::ZERO,
        }
    }

    /// Takes note of the rate by which packets are bound.
    pub(crate) fn note_rate(&mut self) {
        self.noted_rate = self.control.target_rate;
    }

    /// Whether the path is believed to carry far less or more than was noted.
    pub(crate) fn has_rate_changed(&self) -> bool {
        let (noted, rate) = (self.noted_rate, self.control.target_rate);
        rate > noted.mul_f64(RATE_CHANGE) || noted > rate.mul_f64(RATE_CHANGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_what_comes_out_within_a_few_times_its_memory() {
        let mut outflow = Outflow::new(Instant::ZERO);
        let kilobits = |outflow: &Outflow, millis| {
            outflow.rate(Instant::from_millis(millis)).bits_per_second() / 1_000
        };
        for millis in (10..=1_000).step_by(10) {
            outflow.add(Instant::from_millis(millis), 1_250);
        }
        assert!((1_000..1_060).contains(&kilobits(&outflow, 1_000)));
        for millis in (1_040..=1_400).step_by(40) {
            outflow.add(Instant::from_millis(millis), 1_500);
        }
        assert!((330..400).contains(&kilobits(&outflow, 1_400)));
        assert_eq!(kilobits(&outflow, 60_000), 0);
        assert!(!outflow.rate(Instant::from_secs(60)).is_zero());
    }

    #[test]
    fn after_a_standstill_the_rate_is_that_of_the_time_since() {
        let mut outflow = Outflow::new(Instant::ZERO);
        for millis in (10..=400).step_by(10) {
            outflow.add(Instant::from_millis(millis), 1_250);
        }
        outflow.restart(Instant::from_secs(1));
        for millis in (1_010..=2_000).step_by(10) {
            outflow.add(Instant::from_millis(millis), 2_500);
            let kilobits = outflow.rate(Instant::from_millis(millis)).bits_per_second() / 1_000;
            assert!(
                (2_000..2_250).contains(&kilobits),
                "{kilobits} at {millis} ms"
            );
        }
    }
}

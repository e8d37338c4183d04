//! When what flies on a path or is bound to it will be there, by the rate at which packets come out
//! of it.

use anabranch_units::{DataRate, Duration, Instant};

use super::Path;
use crate::path_view::PathView;
use crate::recovery::Digest;
use crate::scheduler::transfer_cost;

/// Over how long the rate is measured: a few reports.
const MEMORY: Duration = Duration::from_millis(150);
/// A path that carries so many times as much, or as little, has changed.
const RATE_CHANGE: f64 = 1.25;
/// What is so much older than an answer over the empty path takes, and more than jitter explains,
/// has met a queue.
const STANDING_QUEUE: Duration = Duration::from_millis(20);

/// Bytes that have been acknowledged, which fade over [`MEMORY`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Outflow {
    bytes: f64,
    at: Instant,
}

impl Outflow {
    pub(super) fn new(now: Instant) -> Self {
        Outflow {
            bytes: 0.0,
            at: now,
        }
    }

    pub(super) fn add(&mut self, now: Instant, bytes: u64) {
        self.bytes = self.faded_bytes(now) + bytes as f64;
        self.at = now;
    }

    /// Never zero.
    pub(super) fn rate(&self, now: Instant) -> DataRate {
        let bytes = self.faded_bytes(now).max(1.0) as u64;
        DataRate::from_bytes_per(bytes, MEMORY)
    }

    fn faded_bytes(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_since(self.at).as_secs_f64();
        self.bytes * libm::exp(-elapsed / MEMORY.as_secs_f64())
    }
}

/// What a path carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    pub(crate) rate: DataRate,
    /// What is in flight beyond what comes out of it within a round trip without queues, if it is
    /// backed up.
    pub(crate) backed_up_bytes: u64,
}

/// What a packet has before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    transit: Duration,
    rate: DataRate,
    /// What leaves before it.
    pub(crate) bytes: u64,
}

impl Ahead {
    /// When a packet of `bytes` bytes would be there.
    pub(crate) fn wait(&self, bytes: u64) -> Duration {
        self.transit + self.rate.time_for(self.bytes + bytes)
    }
}

impl Path {
    /// Counts what a report has acknowledged. Only where there is another path does it matter.
    pub(crate) fn note_outflow(&mut self, now: Instant, digest: &Digest) {
        let acked = digest.acked.iter();
        let bytes = acked.map(|packet| u64::from(packet.sent.bytes)).sum();
        self.outflow.add(now, bytes);
    }

    /// The rate at which packets come out of the path, if it is less than was believed: more is in
    /// flight than the path would have been done with, and the oldest has met a queue.
    pub(crate) fn backed_up_rate(&self, now: Instant) -> Option<DataRate> {
        let min_rtt = self.recovery.rtt().min_rtt()?;
        let answer_time = min_rtt + self.schedule.wanted.longest_delay();
        let oldest = self.recovery.outstanding().next()?;
        let queue = STANDING_QUEUE.max(self.recovery.rtt().jitter());
        let is_queued = now.saturating_since(oldest.sent_at) > answer_time + queue;
        let believed = self.control.target_rate.bytes_in(answer_time);
        (is_queued && self.recovery.bytes_in_flight() > believed).then(|| self.outflow.rate(now))
    }

    /// Bytes on the wire of what is to be sent again, which leaves first.
    pub(crate) fn retransmission_bytes(&self) -> u64 {
        self.bound.retransmission_bytes()
    }

    /// What the path carries by its controller's word.
    pub(crate) fn believed(&self) -> Carried {
        Carried {
            rate: self.control.target_rate,
            backed_up_bytes: 0,
        }
    }

    /// What the path carries: what its controller believes, or what comes out of it if it is backed
    /// up. A controller may take longer to see that than media can wait.
    pub(crate) fn carried(&self, now: Instant) -> Carried {
        let believed = self.believed();
        let Some(outflow) = self.backed_up_rate(now) else {
            return believed;
        };
        let min_rtt = self.recovery.rtt().min_rtt().unwrap_or_default();
        let in_flight = self.recovery.bytes_in_flight();
        Carried {
            rate: outflow.min(believed.rate),
            backed_up_bytes: in_flight.saturating_sub(outflow.bytes_in(min_rtt)),
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

    /// How long what is bound to the path last will be under way.
    pub(crate) fn queue_wait(&self, now: Instant) -> Duration {
        match self.backed_up_rate(now) {
            Some(rate) => rate.time_for(self.recovery.bytes_in_flight() + self.queued_bytes()),
            None => self
                .control
                .pacing_rate
                .map_or(Duration::ZERO, |rate| rate.time_for(self.queued_bytes())),
        }
    }

    /// What a packet that is bound to the path has before it, none of those that are sent for the
    /// first time counted. `view` is the path's.
    pub(crate) fn ahead(&self, now: Instant, view: &PathView) -> Ahead {
        let bytes = self.bound.retransmission_bytes();
        match self.backed_up_rate(now) {
            Some(rate) => Ahead {
                transit: rate.time_for(self.recovery.bytes_in_flight()),
                rate,
                bytes,
            },
            None => Ahead {
                transit: self.ready_at().saturating_since(now) + transfer_cost(view, 0)
                    - view.drain_rate().time_for(view.queued_bytes),
                rate: view.drain_rate(),
                bytes,
            },
        }
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
}

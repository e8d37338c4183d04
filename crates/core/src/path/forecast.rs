//! Arrival times of packets in flight on a path or bound to it, by its delivery rate.

use anabranch_units::{DataRate, Duration, Instant};

use super::Path;
use crate::forecast::Forecast;
use crate::path_view::PathView;
use crate::recovery::{Digest, RttEstimator};
use crate::sender_rules::SenderRule;

/// Time constant of the measured rate: a few reports.
const MEMORY: Duration = Duration::from_millis(150);
/// Factor by which a path's rate must change, up or down, to count as changed.
const RATE_CHANGE: f64 = 1.25;
/// Excess of a packet's age over the answer time of an empty path from which it has met a queue, if
/// jitter does not explain more.
const STANDING_QUEUE: Duration = Duration::from_millis(20);
/// Factor by which a congested path's rate may exceed its delivery rate. If the encoder is asked
/// for less than the controller uses to drain a queue, the sender becomes application-limited, and
/// the controller learns nothing.
const RATE_MARGIN: f64 = 1.1;
/// Factor by which the bytes in flight of one of several paths must exceed what its estimate
/// explains, for the path to be congested. It carries a part of a source of fixed rate, and its
/// estimate is a lower bound.
const LOWER_BOUND_EXCESS: u64 = 2;
/// Number of mean deviations of the round-trip time by which a packet may be later than expected.
const DELAY_MARGIN_DEVIATIONS: u64 = 2;

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

    /// Restarts the measurement on a path that has moved since `moves_since`, after a standstill.
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

    /// Fades the sums up to `now`.
    fn fade(&mut self, now: Instant) {
        let kept = self.kept(now);
        self.bytes *= kept;
        self.unknown *= kept;
        self.at = now;
    }

    /// Returns the delivery rate. Never zero.
    pub(super) fn rate(&self, now: Instant) -> DataRate {
        let kept = self.kept(now);
        let bytes = (self.bytes * kept).max(1.0) as u64;
        if self.unknown == 0.0 {
            // The usual case; dividing by a constant is quick.
            DataRate::from_bytes_per(bytes, MEMORY)
        } else {
            DataRate::from_bytes_per(bytes, MEMORY.mul_f64(1.0 - self.unknown * kept))
        }
    }

    /// Returns the share of the sums that remains at `now`.
    fn kept(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_since(self.at);
        if elapsed.is_zero() {
            return 1.0;
        }
        libm::exp(-elapsed.as_secs_f64() / MEMORY.as_secs_f64())
    }
}

impl Path {
    /// Fades the outflow when a report has come: forecasts of this moment share the computation.
    pub(crate) fn fade_outflow(&mut self, now: Instant) {
        self.outflow.fade(now);
    }

    /// Restarts the measurement of the delivery rate at the first report after a standstill. An
    /// average over the pause would stay far below the path's rate for longer than the lifetime of
    /// the frames caught in it. Their lost fragments would be given up.
    #[cold]
    pub(crate) fn restart_outflow(&mut self, now: Instant) {
        let gathered_in = self
            .schedule
            .wanted
            .longest_delay()
            .max(RttEstimator::HOST_DELAY);
        self.outflow.restart(now.saturating_sub(gathered_in));
    }

    /// Adds the newly acknowledged bytes to the outflow.
    pub(crate) fn record_outflow(&mut self, now: Instant, digest: &Digest) {
        let acked = digest.acked.iter();
        let bytes = acked.map(|packet| u64::from(packet.sent.bytes)).sum();
        self.outflow.add(now, bytes);
    }

    /// Returns the forecast of arrivals.
    pub(crate) fn forecast(&self, now: Instant) -> Forecast {
        let rtt = self.recovery.rtt();
        let min_one_way_delay = rtt.min_rtt().unwrap_or(rtt.smoothed()) / 2;
        let mut forecast = Forecast {
            made_at: now,
            ready_at: self.ready_at(),
            min_one_way_delay,
            one_way_delay: match rtt.latest() {
                Some(latest) => latest / 2,
                // Time for which the first answer has been missing.
                None => {
                    let usual = PathView::UNKNOWN_RTT;
                    (usual + self.recovery.overdue(now, usual)) / 2
                }
            },
            delay_margin: rtt.variation() * DELAY_MARGIN_DEVIATIONS,
            rate: self.estimated_rate(),
            queue_rate: None,
            is_congested: false,
            backed_up_bytes: 0,
            queueing_delay: rtt.queueing_delay(),
        };
        if self.rules.has(SenderRule::QueueForecast) && rtt.has_sample() {
            self.add_queue(now, &mut forecast);
        }
        forecast
    }

    /// Returns whether the path may stand by for its losses: not at a bare endpoint, and not if an
    /// encoder follows the paths.
    pub(crate) fn may_be_spoiler(&self) -> bool {
        self.has_fixed_source && self.rules.has(SenderRule::Spoilers)
    }

    /// Adds the network's queue to a forecast. The last samples of an idle path, and their
    /// deviation, describe a queue that is gone. A new packet arrives behind those in flight
    /// (Little's law), except for those that have arrived and whose report is on its way.
    fn add_queue(&self, now: Instant, forecast: &mut Forecast) {
        let rtt = self.recovery.rtt();
        let in_flight = self.recovery.bytes_in_flight();
        let least = forecast.min_one_way_delay;
        if let Some(outflow) = self.backed_up_rate(now) {
            // A controller may take longer to notice a slower path than media can wait.
            forecast.rate = outflow;
            forecast.queue_rate = Some(outflow);
            forecast.is_congested = true;
            forecast.backed_up_bytes = in_flight.saturating_sub(outflow.bytes_in(least * 2));
            let backed_up = outflow.time_for(forecast.backed_up_bytes);
            forecast.queueing_delay = forecast.queueing_delay.max(backed_up);
        } else if self.is_idle() {
            // Without a pacer they queue ahead, since they left at once.
            let burst_bytes = match self.control.pacing_rate {
                None => in_flight,
                Some(_) => 0,
            };
            forecast.one_way_delay = least + forecast.rate.time_for(burst_bytes);
            forecast.delay_margin = forecast.delay_margin.min(rtt.idle_delay_margin());
        } else {
            forecast.queue_rate = self.standing_queue_rate(now);
        }
        if let Some(rate) = forecast.queue_rate {
            let behind_all = rate.time_for(in_flight).saturating_sub(least);
            forecast.one_way_delay = behind_all.max(least);
        }
    }

    /// Returns whether no sample of the round-trip time has come since the path was idle.
    fn is_idle(&self) -> bool {
        let oldest_sent_at = self.recovery.oldest_sent_at();
        oldest_sent_at.is_none_or(|at| at > self.recovery.rtt().sampled_at())
    }

    /// Returns the rate at which the bytes in flight are acknowledged, if the latest sample has met
    /// a queue: otherwise the path can carry more than it delivers. Slow start at most doubles a
    /// queue in a round trip.
    fn standing_queue_rate(&self, now: Instant) -> Option<DataRate> {
        let rtt = self.recovery.rtt();
        let latest = rtt.latest()?;
        if latest <= rtt.min_rtt()? + STANDING_QUEUE {
            return None;
        }
        let slowest = DataRate::from_bytes_per(self.recovery.bytes_in_flight(), latest * 2);
        Some(self.outflow.rate(now).max(slowest))
    }

    /// Returns the least time to the receiver, if a round-trip time is known.
    pub(super) fn min_one_way_delay(&self) -> Option<Duration> {
        self.recovery.rtt().min_rtt().map(|rtt| rtt / 2)
    }

    /// Returns the path's rate as its controller estimates it. Never zero.
    pub(super) fn estimated_rate(&self) -> DataRate {
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

    /// Returns the rate of an only path; zero if the controller states no rate. On a congested path
    /// it is the delivery rate, whether its controller believes in more, as with a token bucket, or
    /// in less, since it drains a queue.
    pub(crate) fn carried_rate(&self, forecast: &Forecast) -> DataRate {
        let estimate = self.control.target_rate;
        if !forecast.is_congested || estimate.is_zero() {
            estimate
        } else if estimate > forecast.rate {
            estimate.min(forecast.rate.mul_f64(RATE_MARGIN))
        } else {
            forecast.rate
        }
    }

    /// Returns the delivery rate of a congested path, else `None`. A path is congested if its
    /// oldest packet in flight is older than an empty path's answer, 20 ms and its jitter explain,
    /// and more bytes are in flight than its estimate delivers in the time of that answer and
    /// jitter. With a source of fixed rate, it must be twice as many of one of several paths.
    fn backed_up_rate(&self, now: Instant) -> Option<DataRate> {
        if !self.rules.has(SenderRule::Congestion) {
            return None;
        }
        let rtt = self.recovery.rtt();
        let answer_time = rtt.min_rtt()? + self.schedule.wanted.longest_delay();
        let oldest_at = self.recovery.oldest_sent_at()?;
        let queue = STANDING_QUEUE.max(rtt.jitter());
        if now.saturating_since(oldest_at) <= answer_time + queue {
            return None;
        }
        // Jitter keeps packets in flight for longer.
        let done_with = self
            .control
            .target_rate
            .bytes_in(answer_time + rtt.jitter());
        let explained = if self.has_fixed_source && !self.liveness.is_only() {
            done_with * LOWER_BOUND_EXCESS
        } else {
            done_with
        };
        let is_congested = self.recovery.bytes_in_flight() > explained;
        is_congested.then(|| self.outflow.rate(now))
    }

    /// Records the rate by which packets are bound.
    pub(crate) fn record_rate(&mut self) {
        self.rebinding_rate = self.control.target_rate;
    }

    /// Returns whether the path's estimated rate is far below or above the noted one.
    pub(crate) fn has_rate_changed(&self) -> bool {
        let (previous, rate) = (self.rebinding_rate, self.control.target_rate);
        rate > previous.mul_f64(RATE_CHANGE) || previous > rate.mul_f64(RATE_CHANGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outflow_rate_adapts_within_a_few_memories() {
        fn kilobits(outflow: &Outflow, millis: u64) -> u64 {
            outflow.rate(Instant::from_millis(millis)).bits_per_second() / 1_000
        }

        let mut outflow = Outflow::new(Instant::ZERO);
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

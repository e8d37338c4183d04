//! Signals of NADA: queuing delay, loss and marking ratios, loss interval (RFC 8698 §5.1).

use anabranch_core::recovery::Feedback;
use anabranch_units::{Duration, Instant};

use super::super::one_way_delay::{BaseDelay, one_way_delay_millis};
use super::super::rate_meter::RateMeter;

/// `LOGWIN`.
pub(super) const OBSERVATION_WINDOW: Duration = Duration::from_millis(500);
/// `QEPS`, ms: delay above which a queue builds up.
const QUEUE_BUILDUP_MILLIS: f64 = 10.0;
/// `ALPHA`: weight of a new ratio.
const RATIO_WEIGHT: f64 = 0.1;
/// Samples that the minimum filter holds (§5.1.1).
const MIN_FILTER: usize = 15;
/// Weights of the last eight loss intervals, the newest first (RFC 5348 §5.4).
const INTERVAL_WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// Mean distance between loss events, in packets.
#[derive(Clone, Debug, Default)]
pub(super) struct LossInterval {
    /// Closed intervals, the newest first; zero for none.
    intervals: [f64; 8],
    /// Packets since the last loss event.
    pub(super) packets_since: f64,
    /// Send time of the first lost packet of the last event.
    event_sent_at: Option<Instant>,
}

impl LossInterval {
    /// Counts a packet that has arrived or is lost.
    pub(super) fn on_packet(&mut self) {
        self.packets_since += 1.0;
    }

    /// Handles the loss of a packet sent at `sent_at`. Losses within a round-trip time are one
    /// event.
    pub(super) fn on_lost(&mut self, sent_at: Instant, rtt: Duration) {
        if self.event_sent_at.is_some_and(|at| sent_at <= at + rtt) {
            return;
        }
        self.event_sent_at = Some(sent_at);
        self.intervals.rotate_right(1);
        self.intervals[0] = self.packets_since.max(1.0);
        self.packets_since = 0.0;
    }

    /// Returns `loss_int`; `None` before the first loss. With the open interval it is `I_mean` of
    /// RFC 5348 §5.4: the open one takes the first weight, and the oldest is dropped, if that gives
    /// more.
    pub(super) fn mean(&self, has_open: bool) -> Option<f64> {
        let closed_count = self
            .intervals
            .iter()
            .filter(|interval| **interval > 0.0)
            .count();
        let weights = &INTERVAL_WEIGHTS[..closed_count];
        let closed = weighted_sum(self.intervals.into_iter(), weights);
        let with_open = if has_open {
            let open = core::iter::once(self.packets_since);
            weighted_sum(open.chain(self.intervals), weights)
        } else {
            0.0
        };
        (closed_count > 0).then(|| closed.max(with_open) / weights.iter().sum::<f64>())
    }
}

fn weighted_sum(values: impl Iterator<Item = f64>, weights: &[f64]) -> f64 {
    let products = values.zip(weights).map(|(value, weight)| value * weight);
    products.sum()
}

/// All signals of one path.
#[derive(Debug)]
pub(super) struct Signals {
    base: BaseDelay,
    /// The last queuing delays in milliseconds, in a ring.
    delays_millis: [f64; MIN_FILTER],
    delay_count: usize,
    /// `d_queue`, ms.
    pub(super) queue_delay_millis: f64,
    /// `p_loss`, `p_mark`.
    pub(super) loss_ratio: f64,
    pub(super) mark_ratio: f64,
    pub(super) loss_interval: LossInterval,
    /// Packets in the observation window, of each kind.
    lost: RateMeter,
    marked: RateMeter,
    all: RateMeter,
    received: RateMeter,
    lost_at: Option<Instant>,
    built_up_at: Option<Instant>,
}

impl Default for Signals {
    fn default() -> Self {
        fn meter() -> RateMeter {
            RateMeter::new(OBSERVATION_WINDOW)
        }
        Signals {
            base: BaseDelay::default(),
            delays_millis: [f64::INFINITY; MIN_FILTER],
            delay_count: 0,
            queue_delay_millis: 0.0,
            loss_ratio: 0.0,
            mark_ratio: 0.0,
            loss_interval: LossInterval::default(),
            lost: meter(),
            marked: meter(),
            all: meter(),
            received: meter(),
            lost_at: None,
            built_up_at: None,
        }
    }
}

impl Signals {
    pub(super) fn on_feedback(&mut self, now: Instant, feedback: &Feedback<'_>) {
        for acked in feedback.acked {
            self.loss_interval.on_packet();
            let Some(received_at) = acked.received_at else {
                continue;
            };
            self.received.on_bytes(received_at, acked.sent.bytes.into());
            if let Some(delay_millis) = one_way_delay_millis(acked) {
                let queue_millis = self.base.queue_delay_millis(now, delay_millis);
                self.on_queue_delay(now, queue_millis);
            }
        }
        for lost in feedback.lost {
            self.lost_at = Some(now);
            self.loss_interval
                .on_lost(lost.sent_at, feedback.rtt.smoothed());
            self.loss_interval.on_packet();
        }
        let (lost, acked) = (feedback.lost.len() as u64, feedback.acked.len() as u64);
        self.lost.on_bytes(now, lost);
        self.marked.on_bytes(now, feedback.ce_count);
        self.all.on_bytes(now, lost + acked);
    }

    /// Takes the ratios of the observation window into their averages, once per update.
    pub(super) fn update_ratios(&mut self) {
        self.loss_ratio += RATIO_WEIGHT * (self.share(&self.lost) - self.loss_ratio);
        self.mark_ratio += RATIO_WEIGHT * (self.share(&self.marked) - self.mark_ratio);
    }

    fn on_queue_delay(&mut self, now: Instant, queue_millis: f64) {
        if queue_millis >= QUEUE_BUILDUP_MILLIS {
            self.built_up_at = Some(now);
        }
        self.delays_millis[self.delay_count % MIN_FILTER] = queue_millis;
        self.delay_count += 1;
        self.queue_delay_millis = self
            .delays_millis
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min);
    }

    fn share(&self, of: &RateMeter) -> f64 {
        match (of.bits_per_second(), self.all.bits_per_second()) {
            (Some(some), Some(all)) if all > 0.0 => (some / all).min(1.0),
            _ => 0.0,
        }
    }

    /// Returns `r_recv`, bit/s.
    pub(super) fn received_rate(&self) -> Option<f64> {
        self.received.bits_per_second()
    }

    /// Whether there was neither loss nor a queue in the observation window.
    pub(super) fn is_clear(&self, now: Instant) -> bool {
        fn is_recent(at: Option<Instant>, now: Instant) -> bool {
            at.is_some_and(|at| now < at + OBSERVATION_WINDOW)
        }
        !is_recent(self.lost_at, now) && !is_recent(self.built_up_at, now)
    }

    /// Restarts the measurements after an outage: earlier arrivals are no evidence on the path.
    pub(super) fn restart(&mut self) {
        self.received.restart();
        self.delays_millis = [f64::INFINITY; MIN_FILTER];
        self.queue_delay_millis = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn lose_after(interval: &mut LossInterval, packets: usize, at_millis: u64) {
        (0..packets).for_each(|_| interval.on_packet());
        interval.on_lost(Instant::from_millis(at_millis), RTT);
    }

    #[test]
    fn rfc5348_5_4_loss_interval_is_a_weighted_mean_of_eight() {
        let mut interval = LossInterval::default();
        assert_eq!(interval.mean(false), None);
        for event in 1..=9_u64 {
            lose_after(&mut interval, 100 * event as usize, 1_000 * event);
        }
        let newest_first = [900.0, 800.0, 700.0, 600.0, 500.0, 400.0, 300.0, 200.0];
        let sum: f64 = newest_first
            .iter()
            .zip(INTERVAL_WEIGHTS)
            .map(|(interval, weight)| interval * weight)
            .sum();
        assert!((interval.mean(false).unwrap() - sum / 6.0).abs() < 1e-9);
    }

    #[test]
    fn rfc5348_5_4_the_open_interval_counts_where_it_raises_the_mean() {
        let mut interval = LossInterval::default();
        lose_after(&mut interval, 100, 1_000);
        lose_after(&mut interval, 50, 2_000);
        interval.packets_since = 20.0;
        assert_eq!(interval.mean(true), Some(75.0));
        interval.packets_since = 250.0;
        assert_eq!(interval.mean(true), Some(150.0));
        assert_eq!(interval.mean(false), Some(75.0));
    }

    #[test]
    fn rfc5348_5_2_losses_within_a_round_trip_are_one_event() {
        let mut interval = LossInterval::default();
        lose_after(&mut interval, 50, 1_000);
        lose_after(&mut interval, 5, 1_100);
        assert_eq!(
            (interval.mean(false), interval.packets_since),
            (Some(50.0), 5.0)
        );
        lose_after(&mut interval, 25, 1_101);
        assert_eq!(interval.mean(false), Some(40.0));
    }

    #[test]
    fn rfc8698_5_1_1_queue_delay_is_the_least_of_fifteen() {
        let mut signals = Signals::default();
        for sample in 0..20 {
            signals.on_queue_delay(Instant::ZERO, f64::from(sample));
        }
        assert_eq!(signals.queue_delay_millis, 5.0);
    }

    #[test]
    fn rfc8698_4_2_a_path_is_clear_after_half_a_second_without_loss_or_queue() {
        let mut signals = Signals::default();
        let at = Instant::from_millis;
        assert!(signals.is_clear(at(0)));
        signals.on_queue_delay(at(1_000), 9.9);
        assert!(signals.is_clear(at(1_000)));
        signals.on_queue_delay(at(1_000), 10.0);
        assert!(!signals.is_clear(at(1_499)));
        assert!(signals.is_clear(at(1_500)));
        signals.lost_at = Some(at(1_400));
        assert!(!signals.is_clear(at(1_500)));
    }
}

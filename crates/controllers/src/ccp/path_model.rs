//! Path model of CCP and CCPD: capacity, storage and backlog.

use anabranch_core::recovery::{AckedPacket, Feedback};
use anabranch_units::{Duration, Instant};

/// Divisor of the arrivals' gap: a packet was sent back to back with the one before it if their
/// send gap is at most this part of it.
const PAIR_DIVISOR: u64 = 2;
/// Pairs in a run, of which the least delayed one is believed.
const RUN_PAIRS: u32 = 100;
/// Least storage in bandwidth-delay products. Where all losses are random, no round trip shows the
/// buffer.
const MIN_STORAGE: f64 = 1.5;
/// Safety: rounds over which losses are counted, loss ratio above which it acts, and the factor
/// that it then applies to the storage.
const SAFETY_ROUNDS: u64 = 10;
const SAFETY_LOSS_RATIO: f64 = 0.1;
const SAFETY_FACTOR: f64 = 0.9;
/// Factor per second by which the largest round-trip time decays while idle.
const KEPT_PER_IDLE_SECOND: f64 = 0.99;

/// Model of the path. Amounts are in segments, rates in segments per second.
#[derive(Debug)]
pub(crate) struct PathModel {
    segment_bytes: f64,
    /// Packet pair of this run with the least sum of delays (CapProbe), and its rate.
    best_pair: Option<(Duration, f64)>,
    pair_count: u32,
    /// Rate of the best pair of the last whole run.
    last_run_rate: Option<f64>,
    /// Largest delivery rate, used while there is no pair.
    max_delivery_rate: f64,
    rtt: Duration,
    min_rtt: Option<Duration>,
    max_rtt: Duration,
    /// Last acknowledged packet.
    previous: Option<AckedPacket>,
    /// Factor that the safety applies to the storage.
    storage_factor: f64,
    /// First packet that counts for the safety; earlier ones were sent in slow start.
    counted_from: Option<u64>,
    counting_since: Instant,
    acked_count: u64,
    lost_count: u64,
}

impl PathModel {
    pub(super) fn new(segment_bytes: u64) -> Self {
        PathModel {
            segment_bytes: segment_bytes as f64,
            best_pair: None,
            pair_count: 0,
            last_run_rate: None,
            max_delivery_rate: 0.0,
            rtt: Duration::ZERO,
            min_rtt: None,
            max_rtt: Duration::ZERO,
            previous: None,
            storage_factor: 1.0,
            counted_from: None,
            counting_since: Instant::ZERO,
            acked_count: 0,
            lost_count: 0,
        }
    }

    /// Returns `c_hat`.
    pub(crate) fn capacity(&self) -> f64 {
        let this_run = self.best_pair.map(|(_, rate)| rate);
        let by_pairs = self.last_run_rate.or(this_run);
        by_pairs.unwrap_or(self.max_delivery_rate)
    }

    /// Returns the bandwidth-delay product.
    pub(crate) fn pipe(&self) -> f64 {
        self.capacity() * self.min_rtt.unwrap_or(Duration::ZERO).as_secs_f64()
    }

    /// Returns `x`, the backlog in the path's buffer.
    pub(crate) fn backlog(&self) -> f64 {
        let waiting = self.rtt.saturating_sub(self.min_rtt.unwrap_or(self.rtt));
        self.capacity() * waiting.as_secs_f64()
    }

    /// Returns `B`, the capacity of pipe and buffer.
    pub(crate) fn storage(&self) -> f64 {
        let held = self.capacity() * self.max_rtt.as_secs_f64() * self.storage_factor;
        held.max(MIN_STORAGE * self.pipe())
    }

    pub(super) fn on_idle(&mut self, idle: Duration) {
        let kept = libm::pow(KEPT_PER_IDLE_SECOND, idle.as_secs_f64());
        let least = self.min_rtt.unwrap_or(Duration::ZERO);
        self.max_rtt = self.max_rtt.mul_f64(kept).max(least);
    }

    /// Handles the end of slow start: packets from this one on count for the safety.
    pub(super) fn begin_counting(&mut self, now: Instant, next_packet_number: u64) {
        self.counted_from = Some(next_packet_number);
        self.counting_since = now;
    }

    pub(super) fn on_feedback(&mut self, now: Instant, feedback: &Feedback<'_>) {
        if let Some(sample) = feedback.delivery {
            let rate = sample.delivery_rate.bits_per_second() as f64 / 8.0 / self.segment_bytes;
            self.max_delivery_rate = self.max_delivery_rate.max(rate);
        }
        for acked in feedback.acked {
            self.on_acked(acked, feedback);
        }
        self.count(now, feedback);
    }

    fn on_acked(&mut self, acked: &AckedPacket, feedback: &Feedback<'_>) {
        let number = acked.sent.packet_number;
        // A spurious loss had a round-trip time beyond the path's storage.
        let is_spurious = feedback
            .spurious
            .iter()
            .any(|other| other.sent.packet_number == number);
        if let Some(rtt) = acked.rtt
            && !is_spurious
        {
            self.rtt = rtt;
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
            self.max_rtt = self.max_rtt.max(rtt);
        }
        if let Some(previous) = self.previous.replace(*acked)
            && previous.sent.packet_number + 1 == number
            && let Some(pair) = self.pair(&previous, acked)
        {
            self.on_pair(pair);
        }
    }

    fn on_pair(&mut self, pair: (Duration, f64)) {
        if self.best_pair.is_none_or(|(least, _)| pair.0 < least) {
            self.best_pair = Some(pair);
        }
        self.pair_count += 1;
        if self.pair_count == RUN_PAIRS {
            self.last_run_rate = self.best_pair.take().map(|(_, rate)| rate);
            self.pair_count = 0;
        }
    }

    /// Returns the sum of a packet pair's delays and the rate of its dispersion, if it is a pair.
    fn pair(&self, first: &AckedPacket, second: &AckedPacket) -> Option<(Duration, f64)> {
        let sent_apart = second.sent.sent_at.saturating_since(first.sent.sent_at);
        let dispersion = second.received_at?.saturating_since(first.received_at?);
        if dispersion.is_zero() || sent_apart > dispersion / PAIR_DIVISOR {
            return None;
        }
        let segments = f64::from(second.sent.bytes) / self.segment_bytes;
        Some((
            first.rtt? + second.rtt?,
            segments / dispersion.as_secs_f64(),
        ))
    }

    fn count(&mut self, now: Instant, feedback: &Feedback<'_>) {
        let Some(from) = self.counted_from else {
            return;
        };
        let acked = feedback.acked.iter().map(|acked| acked.sent.packet_number);
        let lost = feedback.lost.iter().map(|lost| lost.packet_number);
        self.acked_count += acked.filter(|number| *number >= from).count() as u64;
        self.lost_count += lost.filter(|number| *number >= from).count() as u64;
        let period = feedback.rtt.smoothed() * SAFETY_ROUNDS;
        if now.saturating_since(self.counting_since) < period {
            return;
        }
        let count = (self.acked_count + self.lost_count) as f64;
        if self.lost_count as f64 > SAFETY_LOSS_RATIO * count {
            self.storage_factor *= SAFETY_FACTOR;
        }
        (self.acked_count, self.lost_count) = (0, 0);
        self.counting_since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::PathId;
    use anabranch_core::recovery::{DeliverySnapshot, PacketContent, RttEstimator, SentPacket};

    #[test]
    fn a_round_trip_of_a_packet_that_had_been_given_up_shows_no_storage() {
        let acked = AckedPacket {
            sent: SentPacket {
                packet_number: 0,
                sent_at: Instant::ZERO,
                bytes: 1_000,
                bytes_in_flight: 1_000,
                delivery: DeliverySnapshot::default(),
                content: PacketContent::Padding,
            },
            received_at: None,
            rtt: Some(Duration::from_secs(4)),
            delivered_bytes: 1_000,
        };
        for (spurious, expected) in [
            (vec![acked], Duration::ZERO),
            (vec![], Duration::from_secs(4)),
        ] {
            let mut path = PathModel::new(1_000);
            let feedback = Feedback {
                path: PathId(0),
                acked: &[acked],
                lost: &[],
                spurious: &spurious,
                rtt: &RttEstimator::default(),
                delivery: None,
                prior_bytes_in_flight: 0,
                bytes_in_flight: 0,
                delivered_bytes: 1_000,
                lost_bytes: 0,
                is_app_limited: false,
                is_window_limited: true,
                reported_at: Instant::ZERO,
                ce_count: 0,
            };
            path.on_feedback(Instant::from_secs(5), &feedback);
            assert_eq!(path.max_rtt, expected);
        }
    }
}

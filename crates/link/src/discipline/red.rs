//! Random early detection (Floyd & Jacobson 1993), with the gentle variant (Floyd 2000): packets
//! are dropped on arrival with a probability that grows with an average of the queue.
//!
//! Deviations: drops are spaced as the paper derives (§8), its pseudocode's count after a drop
//! being one higher. The probability does not depend on the packet's size (RFC 7567 §4.4). The
//! queue is measured in bytes if the thresholds are amounts or times, and in packets if they are
//! packets.

use anabranch_units::{DataRate, Duration, Instant, Rng, Seed};

use super::{Ledger, QueueDiscipline, Refused};
use crate::packet::Packet;
use crate::queue::{Capacity, Fifo, Load, QueueLimit};

/// Parameters of RED. The defaults are those of ns-2. The queue consists of the waiting packets,
/// without the packet in service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedOptions {
    /// Average queue from which packets are dropped (min_th).
    pub min_threshold: QueueLimit,
    /// Average queue at which `max_probability` is reached (max_th). In packets if the other is.
    pub max_threshold: QueueLimit,
    /// Drop probability as the average reaches `max_threshold` (max_p).
    pub max_probability: f64,
    /// Weight of an arrival's sample in the average (w_q).
    pub weight: f64,
    /// Whether the probability grows further, up to 1 at twice `max_threshold`, instead of jumping
    /// to 1.
    pub is_gentle: bool,
    /// Size of a typical packet in bytes: its transmission time is the step in which the average
    /// falls while the queue is empty.
    pub mean_packet_bytes: u32,
    /// Whether to mark. Where the probability is 1 packets are dropped nevertheless (RFC 3168 §7).
    pub ecn: bool,
}

impl Default for RedOptions {
    fn default() -> Self {
        RedOptions {
            min_threshold: QueueLimit::Packets(5),
            max_threshold: QueueLimit::Packets(15),
            max_probability: 0.1,
            weight: 0.002,
            is_gentle: true,
            mean_packet_bytes: 500,
            ecn: false,
        }
    }
}

impl RedOptions {
    pub(super) fn mistake(&self) -> Option<&'static str> {
        fn is_share(value: f64) -> bool {
            value > 0.0 && value <= 1.0
        }
        if !is_share(self.max_probability) || !is_share(self.weight) {
            return Some("RED's max-probability and weight must lie above 0 and not above 1");
        }
        // Only the order of the thresholds matters here, at any rate.
        let rate = DataRate::from_megabits_per_second(1);
        match thresholds(self, rate) {
            Some((min, max, _)) if min < max => None,
            _ => Some("RED's thresholds must be two of a kind, min below max"),
        }
    }
}

/// Returns both thresholds, and whether they count bytes.
fn thresholds(options: &RedOptions, rate: DataRate) -> Option<(f64, f64, bool)> {
    fn bytes(limit: QueueLimit, rate: DataRate) -> Option<f64> {
        match limit {
            QueueLimit::Bytes(bytes) => Some(bytes as f64),
            QueueLimit::Time(span) => Some(rate.bytes_in(span) as f64),
            QueueLimit::Packets(_) | QueueLimit::Unlimited => None,
        }
    }
    match (options.min_threshold, options.max_threshold) {
        (QueueLimit::Packets(min), QueueLimit::Packets(max)) => {
            Some((min as f64, max as f64, false))
        }
        (min, max) => Some((bytes(min, rate)?, bytes(max, rate)?, true)),
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Red {
    options: RedOptions,
    min_threshold: f64,
    max_threshold: f64,
    is_in_bytes: bool,
    /// Transmission time of a typical packet (s).
    packet_time: Duration,
    capacity: Capacity,
    fifo: Fifo,
    /// Average length of the queue, in packets or bytes (avg).
    average: f64,
    /// Time from which on the queue has been empty (q_time).
    empty_since: Option<Instant>,
    /// Packets in a row that could have been dropped and were not (count).
    spared_count: u32,
    rng: Rng,
}

impl Red {
    pub(super) fn new(options: RedOptions, capacity: Capacity, rate: DataRate, seed: Seed) -> Self {
        let unlimited = (f64::INFINITY, f64::INFINITY, true);
        let (min_threshold, max_threshold, is_in_bytes) =
            thresholds(&options, rate).unwrap_or(unlimited);
        Red {
            options,
            min_threshold,
            max_threshold,
            is_in_bytes,
            packet_time: rate.time_for(u64::from(options.mean_packet_bytes)),
            capacity,
            fifo: Fifo::default(),
            average: 0.0,
            empty_since: Some(Instant::ZERO),
            spared_count: 0,
            rng: seed.rng(),
        }
    }

    fn update_average(&mut self, now: Instant) {
        match self.empty_since {
            Some(empty_since) => {
                let idle = now.saturating_since(empty_since).as_secs_f64();
                let packets = idle / self.packet_time.as_secs_f64().max(f64::MIN_POSITIVE);
                self.average *= libm::pow(1.0 - self.options.weight, packets);
                // The time is accounted, in case this packet is dropped.
                self.empty_since = Some(now);
            }
            None => {
                let load = self.fifo.load();
                let queue = if self.is_in_bytes {
                    load.bytes as f64
                } else {
                    load.packets as f64
                };
                self.average += self.options.weight * (queue - self.average);
            }
        }
    }

    /// Returns the drop probability before packets since the last drop are considered (p_b).
    fn base_probability(&self) -> f64 {
        let (min, max) = (self.min_threshold, self.max_threshold);
        let max_probability = self.options.max_probability;
        if self.average < min {
            0.0
        } else if self.average < max {
            max_probability * (self.average - min) / (max - min)
        } else if self.options.is_gentle && self.average < 2.0 * max {
            max_probability + (1.0 - max_probability) * (self.average - max) / max
        } else {
            1.0
        }
    }

    /// Returns whether this packet is hit, at random: uniformly the 1st to the 1/p_b-th since the
    /// last hit.
    fn is_hit(&mut self, base_probability: f64) -> bool {
        let remaining = 1.0 - f64::from(self.spared_count) * base_probability;
        // By rounding, the product may be slightly below 1.
        let is_last = remaining < base_probability * 1.000_001;
        let is_hit =
            base_probability > 0.0 && (is_last || self.rng.chance(base_probability / remaining));
        self.spared_count = if is_hit || base_probability <= 0.0 {
            0
        } else {
            self.spared_count + 1
        };
        is_hit
    }
}

impl QueueDiscipline for Red {
    fn enqueue(
        &mut self,
        now: Instant,
        mut packet: Packet,
        in_service: Load,
        ledger: &mut Ledger,
    ) -> Result<(), Refused> {
        self.update_average(now);
        let load = self.fifo.load().plus(in_service).plus(Load::of(&packet));
        if !self.capacity.holds(load) {
            return Err(Refused::full(packet));
        }
        let probability = self.base_probability();
        if self.is_hit(probability) {
            let may_mark = self.options.ecn && probability < 1.0;
            if !(may_mark && ledger.is_marked(&mut packet)) {
                return Err(Refused::early(packet));
            }
        }
        self.fifo.push(now, packet);
        self.empty_since = None;
        Ok(())
    }

    fn dequeue(&mut self, now: Instant, _ledger: &mut Ledger) -> Option<Packet> {
        let packet = self.fifo.pop()?;
        if self.fifo.load().is_empty() {
            self.empty_since = Some(now);
        }
        Some(packet)
    }

    fn load(&self) -> Load {
        self.fifo.load()
    }

    fn evict(&mut self) -> Option<Packet> {
        self.fifo.pop()
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Packet)) {
        self.fifo.iter().for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(options: RedOptions) -> Red {
        let rate = DataRate::from_megabits_per_second(4);
        let capacity = QueueLimit::Unlimited.capacity(rate);
        Red::new(options, capacity, rate, Seed(1))
    }

    #[test]
    fn the_average_follows_the_paper() {
        let mut red = red(RedOptions::default());
        let mut ledger = Ledger::default();
        for _ in 0..4 {
            let packet = Packet::of_size(500);
            let is_taken = red.enqueue(Instant::ZERO, packet, Load::default(), &mut ledger);
            assert!(is_taken.is_ok());
        }
        // Samples at arrivals: empty, then 1, 2, 3.
        let expected = [1.0, 2.0, 3.0].into_iter().fold(0.0, |average, queue| {
            (1.0 - 0.002) * average + 0.002 * queue
        });
        assert!((red.average - expected).abs() < 1e-15, "{}", red.average);
        // Empty at 5 ms; a packet of 500 bytes takes 1 ms, so at 105 ms 100 could have been sent.
        while red.dequeue(Instant::from_millis(5), &mut ledger).is_some() {}
        red.update_average(Instant::from_millis(105));
        let decayed = expected * libm::pow(0.998, 100.0);
        assert!((red.average - decayed).abs() < 1e-15, "{}", red.average);
    }

    #[test]
    fn the_probability_follows_the_paper_and_the_gentle_note() {
        fn at(average: f64, is_gentle: bool) -> f64 {
            let mut red = red(RedOptions {
                is_gentle,
                ..RedOptions::default()
            });
            red.average = average;
            red.base_probability()
        }
        for (average, plain, gentle) in [
            (4.9, 0.0, 0.0),
            (5.0, 0.0, 0.0),
            (10.0, 0.05, 0.05),
            (15.0, 1.0, 0.1),
            (22.5, 1.0, 0.55),
            (30.0, 1.0, 1.0),
        ] {
            assert!((at(average, false) - plain).abs() < 1e-12, "{average}");
            assert!((at(average, true) - gentle).abs() < 1e-12, "{average}");
        }
    }

    #[test]
    fn drops_are_spaced_uniformly() {
        // Gaps between drops are uniform on 1 … 1/p_b (method 2 of the paper): 1 … 20 here.
        let mut red = red(RedOptions::default());
        let mut gaps = [0_u32; 21];
        let mut gap = 0;
        for _ in 0..1_050_000 {
            gap += 1;
            if red.is_hit(0.05) {
                gaps[gap] += 1;
                gap = 0;
            }
        }
        assert_eq!(gaps[0], 0);
        let drop_count: u32 = gaps.iter().sum();
        for (gap, count) in gaps.iter().enumerate().skip(1) {
            let share = f64::from(*count) / f64::from(drop_count);
            assert!((share - 0.05).abs() < 0.004, "{gap}: {share}");
        }
    }
}

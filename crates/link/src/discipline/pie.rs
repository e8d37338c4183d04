//! Proportional integral controller enhanced (RFC 8033): packets are dropped on arrival with a
//! probability that a controller adapts to the queue's delay and its trend.
//!
//! Deviations: the delay is the age of the first waiting packet (§5.2 allows timestamps), and so no
//! departure rate is estimated. The controller is always active (§4.5's optional switch by
//! occupancy would depend on the queue's limit). The probability does not depend on the packet's
//! size.

use anabranch_units::{Duration, Instant, Rng, Seed};

use super::{Ledger, MIN_UPDATE_INTERVAL, QueueDiscipline, Refused};
use crate::packet::Packet;
use crate::queue::{Capacity, Fifo, Load};

/// Gains of the delay's error and of its change, per second (alpha, beta; §4.2).
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// Packets in a queue of no more bytes than two of these are never dropped early (MEAN_PKTSIZE).
const MEAN_PACKET_BYTES: u64 = 1_500;
/// Above this probability packets are dropped, not marked (mark_ecnth, §5.1).
const MAX_MARK_PROBABILITY: f64 = 0.1;

/// Parameters of PIE; the defaults are those of RFC 8033 §4 and §5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieOptions {
    /// The delay that the controller steers to (QDELAY_REF).
    pub target: Duration,
    /// Interval between updates of the probability (T_UPDATE).
    pub update_interval: Duration,
    /// Duration for which a burst into an idle queue passes unharmed (MAX_BURST).
    pub max_burst: Duration,
    /// Whether drops are kept from coming too close or too far from each other (§5.4).
    pub is_derandomised: bool,
    /// Whether to mark, up to a probability of 10 %.
    pub ecn: bool,
}

impl Default for PieOptions {
    fn default() -> Self {
        PieOptions {
            target: Duration::from_millis(15),
            update_interval: Duration::from_millis(15),
            max_burst: Duration::from_millis(150),
            is_derandomised: false,
            ecn: false,
        }
    }
}

impl PieOptions {
    pub(super) fn mistake(&self) -> Option<&'static str> {
        let is_wrong = self.target.is_zero() || self.update_interval < MIN_UPDATE_INTERVAL;
        is_wrong.then_some("PIE needs a target above zero and an update-interval of 100 us or more")
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Pie {
    options: PieOptions,
    capacity: Capacity,
    fifo: Fifo,
    update_at: Instant,
    /// Drop probability (drop_prob_).
    probability: f64,
    /// The delay at the last update (qdelay_old_).
    delay: Duration,
    burst_allowance: Duration,
    /// Sum of the probabilities since the last drop (accu_prob_).
    accumulated_probability: f64,
    rng: Rng,
}

impl Pie {
    pub(super) fn new(options: PieOptions, capacity: Capacity, seed: Seed) -> Self {
        Pie {
            options,
            capacity,
            fifo: Fifo::default(),
            update_at: Instant::ZERO + options.update_interval,
            probability: 0.0,
            delay: Duration::ZERO,
            burst_allowance: options.max_burst,
            accumulated_probability: 0.0,
            rng: seed.rng(),
        }
    }

    /// Makes the updates that were due by `now`, as no packet has entered or left since the last
    /// call.
    fn catch_up(&mut self, now: Instant) {
        while self.update_at <= now {
            if self.is_at_rest() {
                let interval = self.options.update_interval;
                let passed = now.saturating_since(self.update_at).as_nanos() / interval.as_nanos();
                self.update_at += interval * (passed + 1);
                return;
            }
            self.update(self.fifo.head_age(self.update_at));
            self.update_at += self.options.update_interval;
        }
    }

    /// Returns whether updates change nothing until a packet arrives.
    fn is_at_rest(&self) -> bool {
        self.fifo.load().is_empty()
            && self.delay.is_zero()
            && self.probability == 0.0
            && self.burst_allowance == self.options.max_burst
    }

    /// Performs the periodic update of the probability (§4.2, §5.5, §4.4).
    fn update(&mut self, delay: Duration) {
        let seconds = delay.as_secs_f64();
        let error = seconds - self.options.target.as_secs_f64();
        let change = seconds - self.delay.as_secs_f64();
        let mut step = (ALPHA * error + BETA * change) * self.tuning();
        if self.probability >= 0.1 {
            step = step.min(0.02);
        }
        self.probability += step;
        if delay.is_zero() && self.delay.is_zero() {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        let was_short = self.is_short(self.delay);
        self.delay = delay;
        self.burst_allowance = self
            .burst_allowance
            .saturating_sub(self.options.update_interval);
        if self.probability == 0.0 && was_short && self.is_short(delay) {
            self.burst_allowance = self.options.max_burst;
        }
    }

    /// Returns the factor of the steps, which is small while the probability is (§4.2).
    fn tuning(&self) -> f64 {
        match self.probability {
            p if p < 0.000_001 => 1.0 / 2_048.0,
            p if p < 0.000_01 => 1.0 / 512.0,
            p if p < 0.000_1 => 1.0 / 128.0,
            p if p < 0.001 => 1.0 / 32.0,
            p if p < 0.01 => 1.0 / 8.0,
            p if p < 0.1 => 1.0 / 2.0,
            _ => 1.0,
        }
    }

    fn is_short(&self, delay: Duration) -> bool {
        delay < self.options.target / 2
    }

    /// Returns whether an arriving packet is hit, at random (§4.1).
    fn is_hit(&mut self) -> bool {
        if !self.burst_allowance.is_zero() {
            return false;
        }
        let is_calm = self.is_short(self.delay) && self.probability < 0.2;
        if is_calm || self.fifo.load().bytes <= 2 * MEAN_PACKET_BYTES {
            return false;
        }
        if !self.options.is_derandomised {
            return self.rng.chance(self.probability);
        }
        if self.probability == 0.0 {
            self.accumulated_probability = 0.0;
        }
        self.accumulated_probability += self.probability;
        let is_hit = match self.accumulated_probability {
            sum if sum < 0.85 => false,
            sum if sum >= 8.5 => true,
            _ => self.rng.chance(self.probability),
        };
        if is_hit {
            self.accumulated_probability = 0.0;
        }
        is_hit
    }
}

impl QueueDiscipline for Pie {
    fn enqueue(
        &mut self,
        now: Instant,
        mut packet: Packet,
        in_service: Load,
        ledger: &mut Ledger,
    ) -> Result<(), Refused> {
        self.catch_up(now);
        let load = self.fifo.load().plus(in_service).plus(Load::of(&packet));
        if !self.capacity.holds(load) {
            return Err(Refused::full(packet));
        }
        if self.is_hit() {
            let may_mark = self.options.ecn && self.probability <= MAX_MARK_PROBABILITY;
            if !(may_mark && ledger.is_marked(&mut packet)) {
                return Err(Refused::early(packet));
            }
        }
        self.fifo.push(now, packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Instant, _ledger: &mut Ledger) -> Option<Packet> {
        self.catch_up(now);
        self.fifo.pop()
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
    use crate::queue::QueueLimit;
    use anabranch_units::DataRate;

    fn pie(options: PieOptions) -> Pie {
        let capacity = QueueLimit::Unlimited.capacity(DataRate::ZERO);
        Pie::new(options, capacity, Seed(1))
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_update_is_the_equation_of_section_4_2() {
        // Δp = tuning · (0.125 · (30 - 15) ms + 1.25 · (30 - 20) ms) = tuning · 0.014375.
        let tunings = [
            (0.000_000_5, 2_048.0),
            (0.000_005, 512.0),
            (0.000_05, 128.0),
            (0.000_5, 32.0),
            (0.005, 8.0),
            (0.05, 2.0),
            (0.5, 1.0),
            // Each bound belongs to the next step.
            (0.000_001, 512.0),
            (0.000_01, 128.0),
            (0.000_1, 32.0),
            (0.001, 8.0),
            (0.01, 2.0),
        ];
        for (probability, divisor) in tunings {
            let mut pie = pie(PieOptions::default());
            (pie.probability, pie.delay) = (probability, ms(20));
            pie.update(ms(30));
            let expected = probability + 0.014_375 / divisor;
            assert!((pie.probability - expected).abs() < 1e-15, "{probability}");
        }
    }

    #[test]
    fn large_steps_are_capped_and_an_idle_queue_decays() {
        let mut pie = pie(PieOptions::default());
        (pie.probability, pie.delay) = (0.2, ms(20));
        pie.update(ms(200));
        assert!((pie.probability - 0.22).abs() < 1e-15);
        pie.delay = Duration::ZERO;
        pie.update(Duration::ZERO);
        let expected = (0.22 - 0.125 * 0.015) * 0.98;
        assert!((pie.probability - expected).abs() < 1e-15);
    }

    #[test]
    fn a_burst_is_allowed_for_150_ms_and_again_after_calm() {
        let mut pie = pie(PieOptions::default());
        for _ in 0..20 {
            pie.fifo.push(Instant::ZERO, Packet::of_size(1_500));
        }
        pie.probability = 1.0;
        for update in 0..10 {
            assert!(!pie.is_hit(), "update {update}");
            pie.probability = 1.0;
            pie.update(ms(100));
        }
        pie.probability = 1.0;
        assert!(pie.is_hit());
        pie.probability = 0.0;
        pie.update(ms(7));
        assert!(pie.burst_allowance.is_zero(), "the former delay was long");
        pie.probability = 0.0;
        pie.update(ms(7));
        assert_eq!(pie.burst_allowance, ms(150));
    }

    /// Returns the number of hits among 1,000 packets while packets of these sizes wait.
    fn hits(queued_bytes: [u32; 2], delay: Duration, probability: f64) -> usize {
        let mut pie = pie(PieOptions {
            max_burst: Duration::ZERO,
            ..PieOptions::default()
        });
        for bytes in queued_bytes {
            pie.fifo.push(Instant::ZERO, Packet::of_size(bytes));
        }
        (pie.probability, pie.delay) = (probability, delay);
        (0..1_000).filter(|_| pie.is_hit()).count()
    }

    #[test]
    fn section_4_1_two_packets_or_half_of_the_target_below_20_percent_are_never_too_much() {
        assert_eq!(hits([1_500, 1_500], ms(20), 1.0), 0);
        assert_eq!(hits([1_500, 1_501], ms(20), 1.0), 1_000);
        let short = Duration::from_micros(7_499);
        assert_eq!(hits([3_000, 3_000], short, 0.199), 0);
        let of_a_fifth = 150..250;
        assert!(of_a_fifth.contains(&hits([3_000, 3_000], short, 0.2)));
        let half = Duration::from_micros(7_500);
        assert!(of_a_fifth.contains(&hits([3_000, 3_000], half, 0.199)));
    }

    #[test]
    fn an_idle_queue_is_updated_at_multiples_of_the_interval() {
        let mut pie = pie(PieOptions::default());
        pie.catch_up(Instant::from_millis(10_007));
        assert_eq!(pie.update_at, Instant::from_millis(10_020));
        pie.catch_up(Instant::from_millis(10_020));
        assert_eq!(pie.update_at, Instant::from_millis(10_035));
    }

    #[test]
    fn derandomised_drops_are_neither_close_nor_far() {
        let mut pie = pie(PieOptions {
            is_derandomised: true,
            max_burst: Duration::ZERO,
            ..PieOptions::default()
        });
        for _ in 0..20 {
            pie.fifo.push(Instant::ZERO, Packet::of_size(1_500));
        }
        // A sixteenth, so that the sums are exact.
        (pie.probability, pie.delay) = (0.062_5, ms(20));
        let (mut gap, mut gaps) = (0_u64, Vec::new());
        for _ in 0..200_000 {
            gap += 1;
            if pie.is_hit() {
                gaps.push(gap);
                gap = 0;
            }
        }
        // From 0.85 / p on drops are random, and at 8.5 / p one is certain.
        assert!(gaps.iter().all(|gap| (14..=136).contains(gap)));
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean - 29.0).abs() < 0.8, "{mean}");
    }

    #[test]
    fn being_called_late_changes_no_update() {
        let mut often = pie(PieOptions::default());
        let mut rarely = often.clone();
        for pie in [&mut often, &mut rarely] {
            pie.fifo.push(Instant::ZERO, Packet::of_size(1_500));
        }
        (1..=1_000).for_each(|millis| often.catch_up(Instant::from_millis(millis)));
        rarely.catch_up(Instant::from_secs(1));
        assert_eq!(often.probability, rarely.probability);
        assert_eq!(
            (often.delay, often.update_at),
            (rarely.delay, rarely.update_at)
        );
        assert!(often.probability > 0.01);
    }
}

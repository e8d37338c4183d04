//! DualPI2 (RFC 9332 §4 and appendix A). A shallow queue holds L4S traffic, and is marked by a step
//! in its delay. Another queue holds the rest, under a PI controller whose probability is squared
//! for the latter and coupled to the former.
//!
//! Deviations: the controller uses the longer of both queues' delays, as Linux does, so that it
//! also controls an overload of L4S traffic alone. Probabilities are turned into drops and marks by
//! accumulation (`recur` of appendix A), not at random.

use anabranch_units::{Duration, Ecn, Instant};

use super::{Ledger, MIN_UPDATE_INTERVAL, QueueDiscipline, Refused};
use crate::element::DropCause;
use crate::packet::Packet;
use crate::queue::{Capacity, Fifo, Load};

/// Parameters of DualPI2; the defaults are those of RFC 9332 appendix A.1, with a step instead of a
/// ramp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Options {
    /// The classic queue's delay that the controller steers to.
    pub target: Duration,
    /// The longest round-trip time for which the controller is stable (RTT_max); its gains and its
    /// update interval follow from it.
    pub max_rtt: Duration,
    /// Delay from which packets of the L4S queue are marked.
    pub step_threshold: Duration,
    /// Factor between the L4S queue's probability and the controller's (k).
    pub coupling: f64,
    /// Scheduler of the two queues.
    pub scheduler: DualQueueScheduler,
}

/// Scheduling of the two queues of DualPI2 (RFC 9332 §4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DualQueueScheduler {
    /// Weighted round robin: the classic queue is guaranteed a tenth of the bytes.
    WeightedRoundRobin,
    /// The order of arrival, but the L4S queue's packets count as twice the target earlier.
    TimeShiftedFifo,
}

/// Inverse of the classic queue's share of the bytes that both queues send.
const CLASSIC_SHARE: i64 = 10;
/// Packets in the L4S queue up to which none is marked by the step (Th_len).
const UNMARKED_PACKETS: usize = 1;

impl Default for DualPi2Options {
    fn default() -> Self {
        DualPi2Options {
            target: Duration::from_millis(15),
            max_rtt: Duration::from_millis(100),
            step_threshold: Duration::from_millis(1),
            coupling: 2.0,
            scheduler: DualQueueScheduler::WeightedRoundRobin,
        }
    }
}

impl DualPi2Options {
    pub(super) fn mistake(&self) -> Option<&'static str> {
        let is_coupling = self.coupling > 0.0 && self.coupling.is_finite();
        let is_valid = is_coupling && self.update_interval() >= MIN_UPDATE_INTERVAL;
        (!is_valid).then_some(
            "DualPI2 needs a coupling above zero, a target of 100 us and a max-rtt of 300 us \
             or more",
        )
    }

    /// Returns Tupdate = min(target, RTT_max / 3).
    fn update_interval(&self) -> Duration {
        self.target.min(self.max_rtt / 3)
    }

    /// Returns alpha = 0.1 · Tupdate / RTT_max² and beta = 0.3 / RTT_max; both per second.
    fn gains(&self) -> (f64, f64) {
        let max_rtt = self.max_rtt.as_secs_f64();
        let interval = self.update_interval().as_secs_f64();
        (0.1 * interval / (max_rtt * max_rtt), 0.3 / max_rtt)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct DualPi2 {
    options: DualPi2Options,
    capacity: Capacity,
    classic: SubQueue,
    l4s: SubQueue,
    update_at: Instant,
    /// The controller's output (p').
    base_probability: f64,
    /// The delay at the last update (prevq).
    delay: Duration,
    /// Credit in bytes of nine tenths; below zero it is the classic queue's turn.
    l4s_credit: i64,
}

#[derive(Clone, Debug, Default)]
struct SubQueue {
    fifo: Fifo,
    /// Probability not yet turned into a drop or mark.
    accumulated: f64,
}

impl SubQueue {
    /// Returns whether this packet is hit, so that hits have the given share in the long run
    /// (recur).
    fn is_hit(&mut self, probability: f64) -> bool {
        self.accumulated += probability;
        let is_hit = self.accumulated >= 1.0;
        if is_hit {
            self.accumulated -= 1.0;
        }
        is_hit
    }
}

impl DualPi2 {
    pub(super) fn new(options: DualPi2Options, capacity: Capacity) -> Self {
        DualPi2 {
            options,
            capacity,
            classic: SubQueue::default(),
            l4s: SubQueue::default(),
            update_at: Instant::ZERO + options.update_interval(),
            base_probability: 0.0,
            delay: Duration::ZERO,
            l4s_credit: 0,
        }
    }

    /// Makes the updates that were due by `now`, as no packet has entered or left since the last
    /// call.
    fn catch_up(&mut self, now: Instant) {
        let interval = self.options.update_interval();
        while self.update_at <= now {
            let is_at_rest =
                self.load().is_empty() && self.delay.is_zero() && self.base_probability == 0.0;
            if is_at_rest {
                let passed = now.saturating_since(self.update_at).as_nanos() / interval.as_nanos();
                self.update_at += interval * (passed + 1);
                return;
            }
            let classic_delay = self.classic.fifo.head_age(self.update_at);
            self.update(classic_delay.max(self.l4s.fifo.head_age(self.update_at)));
            self.update_at += interval;
        }
    }

    fn update(&mut self, delay: Duration) {
        let (alpha, beta) = self.options.gains();
        let seconds = delay.as_secs_f64();
        let error = seconds - self.options.target.as_secs_f64();
        let change = seconds - self.delay.as_secs_f64();
        let probability = self.base_probability + alpha * error + beta * change;
        self.base_probability = probability.clamp(0.0, 1.0);
        self.delay = delay;
    }

    /// Returns p_C = p'².
    fn classic_probability(&self) -> f64 {
        self.base_probability * self.base_probability
    }

    /// Returns p_CL = k · p'.
    fn coupled_probability(&self) -> f64 {
        self.options.coupling * self.base_probability
    }

    fn is_l4s_next(&self, now: Instant) -> bool {
        if self.classic.fifo.load().is_empty() || self.l4s.fifo.load().is_empty() {
            return self.classic.fifo.load().is_empty();
        }
        match self.options.scheduler {
            DualQueueScheduler::WeightedRoundRobin => self.l4s_credit >= 0,
            DualQueueScheduler::TimeShiftedFifo => {
                let shifted = self.l4s.fifo.head_age(now) + self.options.target * 2;
                shifted >= self.classic.fifo.head_age(now)
            }
        }
    }

    /// Takes the next packet of the L4S queue, unless it had to be dropped.
    fn dequeue_l4s(&mut self, now: Instant, ledger: &mut Ledger) -> Option<Packet> {
        let is_long = self.l4s.fifo.load().packets > UNMARKED_PACKETS;
        let is_late = self.l4s.fifo.head_age(now) >= self.options.step_threshold;
        let mut packet = self.l4s.fifo.pop()?;
        let coupled = self.coupled_probability();
        // Marks have reached their limit: packets of flows that do not react are dropped as in the
        // classic queue.
        if coupled >= 1.0 && self.l4s.is_hit(self.classic_probability()) {
            ledger.drop_queued(now, DropCause::EarlyDrop, packet);
            return None;
        }
        if (is_long && is_late) || coupled >= 1.0 || self.l4s.is_hit(coupled) {
            ledger.is_marked(&mut packet);
        }
        Some(packet)
    }

    /// Takes the next packet of the classic queue, unless it had to be dropped.
    fn dequeue_classic(&mut self, now: Instant, ledger: &mut Ledger) -> Option<Packet> {
        let mut packet = self.classic.fifo.pop()?;
        let probability = self.classic_probability();
        if self.classic.is_hit(probability) {
            let may_mark = self.coupled_probability() < 1.0;
            if !(may_mark && ledger.is_marked(&mut packet)) {
                ledger.drop_queued(now, DropCause::EarlyDrop, packet);
                return None;
            }
        }
        Some(packet)
    }

    /// Accounts a sent packet. While both queues wait, nine bytes of the L4S queue equal one of the
    /// classic queue.
    fn account(&mut self, is_l4s: bool, packet: &Packet) {
        let size = i64::from(packet.size_bytes);
        let has_rival = if is_l4s {
            !self.classic.fifo.load().is_empty()
        } else {
            !self.l4s.fifo.load().is_empty()
        };
        self.l4s_credit = match (has_rival, is_l4s) {
            (false, _) => 0,
            (true, true) => self.l4s_credit - size,
            (true, false) => self.l4s_credit + size * (CLASSIC_SHARE - 1),
        };
    }
}

impl QueueDiscipline for DualPi2 {
    fn enqueue(
        &mut self,
        now: Instant,
        packet: Packet,
        in_service: Load,
        _ledger: &mut Ledger,
    ) -> Result<(), Refused> {
        self.catch_up(now);
        let load = self.load().plus(in_service).plus(Load::of(&packet));
        if !self.capacity.holds(load) {
            return Err(Refused::full(packet));
        }
        let queue = match packet.ecn {
            Ecn::Ect1 | Ecn::Ce => &mut self.l4s,
            Ecn::NotEct | Ecn::Ect0 => &mut self.classic,
        };
        queue.fifo.push(now, packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Instant, ledger: &mut Ledger) -> Option<Packet> {
        self.catch_up(now);
        while !self.load().is_empty() {
            let is_l4s = self.is_l4s_next(now);
            let packet = if is_l4s {
                self.dequeue_l4s(now, ledger)
            } else {
                self.dequeue_classic(now, ledger)
            };
            if let Some(packet) = packet {
                self.account(is_l4s, &packet);
                return Some(packet);
            }
        }
        None
    }

    fn load(&self) -> Load {
        self.classic.fifo.load().plus(self.l4s.fifo.load())
    }

    fn evict(&mut self) -> Option<Packet> {
        self.classic.fifo.pop().or_else(|| self.l4s.fifo.pop())
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Packet)) {
        let packets = self.classic.fifo.iter().chain(self.l4s.fifo.iter());
        packets.for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::QueueLimit;
    use anabranch_units::DataRate;

    fn dual(options: DualPi2Options) -> DualPi2 {
        let capacity = QueueLimit::Unlimited.capacity(DataRate::ZERO);
        DualPi2::new(options, capacity)
    }

    fn packet(ecn: Ecn) -> Packet {
        Packet {
            ecn,
            ..Packet::of_size(1_000)
        }
    }

    #[test]
    fn the_controller_has_the_gains_of_appendix_a() {
        let mut dual = dual(DualPi2Options::default());
        (dual.base_probability, dual.delay) = (0.1, Duration::from_millis(18));
        dual.update(Duration::from_millis(20));
        let expected = 0.1 + 0.15 * 0.005 + 3.0 * 0.002;
        assert!((dual.base_probability - expected).abs() < 1e-15);
    }

    #[test]
    fn classic_drops_are_the_square_of_half_the_l4s_marks() {
        // With p' held at 0.2: p_C = 0.04 and p_CL = 0.4, so p_C = (p_CL / k)².
        let mut dual = dual(DualPi2Options {
            step_threshold: Duration::MAX,
            ..DualPi2Options::default()
        });
        let mut ledger = Ledger::default();
        dual.base_probability = 0.2;
        for _ in 0..10_000 {
            for ecn in [Ecn::NotEct, Ecn::Ect1] {
                let packet = packet(ecn);
                let is_taken = dual.enqueue(Instant::ZERO, packet, Load::default(), &mut ledger);
                assert!(is_taken.is_ok());
            }
        }
        while dual.dequeue(Instant::ZERO, &mut ledger).is_some() {}
        let marked_count = ledger.statistics.marked_packets;
        assert!(marked_count.abs_diff(4_000) <= 1, "{marked_count}");
        assert!(ledger.dropped.len().abs_diff(400) <= 1);
        assert!(
            ledger
                .dropped
                .iter()
                .all(|drop| drop.packet.ecn == Ecn::NotEct)
        );
    }

    /// Returns the marks of `count` packets that arrive at once and leave together after this time,
    /// while the controller is at rest.
    fn marks(ecn: Ecn, count: usize, after: Duration) -> Vec<bool> {
        let mut dual = dual(DualPi2Options::default());
        let mut ledger = Ledger::default();
        for _ in 0..count {
            let is_taken = dual.enqueue(Instant::ZERO, packet(ecn), Load::default(), &mut ledger);
            assert!(is_taken.is_ok());
        }
        let sent = (0..count).map(|_| dual.dequeue(Instant::ZERO + after, &mut ledger));
        sent.map(|packet| packet.unwrap().ecn == Ecn::Ce).collect()
    }

    #[test]
    fn l4s_packets_are_marked_after_a_millisecond_unless_alone() {
        let step = Duration::from_millis(1);
        assert_eq!(marks(Ecn::Ect1, 3, step), [true, true, false]);
        let before = step.saturating_sub(Duration::from_nanos(1));
        assert_eq!(marks(Ecn::Ect1, 3, before), [false; 3]);
        assert_eq!(marks(Ecn::Ect1, 1, step * 9), [false]);
        assert_eq!(marks(Ecn::Ect0, 3, step * 9), [false; 3]);
    }

    #[test]
    fn classic_packets_are_marked_instead_of_dropped_while_marks_can_say_more() {
        fn hit(base_probability: f64) -> (u64, usize) {
            let mut dual = dual(DualPi2Options::default());
            let mut ledger = Ledger::default();
            dual.base_probability = base_probability;
            for _ in 0..1_000 {
                let packet = packet(Ecn::Ect0);
                let is_taken = dual.enqueue(Instant::ZERO, packet, Load::default(), &mut ledger);
                assert!(is_taken.is_ok());
            }
            while dual.dequeue(Instant::ZERO, &mut ledger).is_some() {}
            (ledger.statistics.marked_packets, ledger.dropped.len())
        }
        // p_C = p'², and p_CL = 2 p'.
        let (marked, dropped) = hit(0.4);
        assert!(
            marked.abs_diff(160) <= 1 && dropped == 0,
            "{marked} {dropped}"
        );
        let (marked, dropped) = hit(0.6);
        assert!(
            marked == 0 && dropped.abs_diff(360) <= 1,
            "{marked} {dropped}"
        );
    }

    #[test]
    fn an_idle_queue_is_updated_at_multiples_of_the_interval() {
        let mut dual = dual(DualPi2Options::default());
        dual.catch_up(Instant::from_millis(10_007));
        assert_eq!(dual.update_at, Instant::from_millis(10_020));
        dual.catch_up(Instant::from_millis(10_020));
        assert_eq!(dual.update_at, Instant::from_millis(10_035));
        // With a packet in it, updates are made one by one.
        let (packet, mut ledger) = (packet(Ecn::NotEct), Ledger::default());
        let is_taken = dual.enqueue(
            Instant::from_millis(10_021),
            packet,
            Load::default(),
            &mut ledger,
        );
        assert!(is_taken.is_ok());
        dual.catch_up(Instant::from_millis(10_200));
        assert!(dual.base_probability > 0.0);
        assert!(dual.delay > Duration::from_millis(150), "{}", dual.delay);
    }

    #[test]
    fn overload_drops_from_both_queues_alike() {
        // p' = 0.6 couples to 1.2: everything of the L4S queue is marked, and 0.36 of both dropped.
        let mut dual = dual(DualPi2Options::default());
        let mut ledger = Ledger::default();
        dual.base_probability = 0.6;
        let mut marked_count = 0;
        for _ in 0..10_000 {
            for ecn in [Ecn::Ect0, Ecn::Ect1] {
                let packet = packet(ecn);
                let is_taken = dual.enqueue(Instant::ZERO, packet, Load::default(), &mut ledger);
                assert!(is_taken.is_ok());
            }
        }
        while let Some(packet) = dual.dequeue(Instant::ZERO, &mut ledger) {
            marked_count += u64::from(packet.ecn == Ecn::Ce);
        }
        assert!(ledger.dropped.len().abs_diff(7_200) <= 2);
        assert!(marked_count.abs_diff(6_400) <= 1, "{marked_count}");
    }

    #[test]
    fn the_classic_queue_is_sure_of_a_tenth_of_the_bytes() {
        let mut dual = dual(DualPi2Options::default());
        let mut ledger = Ledger::default();
        for _ in 0..1_000 {
            for ecn in [Ecn::NotEct, Ecn::Ect1] {
                let packet = packet(ecn);
                let is_taken = dual.enqueue(Instant::ZERO, packet, Load::default(), &mut ledger);
                assert!(is_taken.is_ok());
            }
        }
        let sent = (0..1_000).filter_map(|_| dual.dequeue(Instant::ZERO, &mut ledger));
        let classic_count = sent.filter(|packet| packet.ecn == Ecn::NotEct).count();
        assert!(classic_count.abs_diff(100) <= 1, "{classic_count}");
    }

    #[test]
    fn the_time_shifted_fifo_lets_classic_packets_go_that_waited_much_longer() {
        fn sent(dual: &mut DualPi2, ledger: &mut Ledger) -> Option<bool> {
            let packet = dual.dequeue(Instant::from_millis(32), ledger);
            packet.map(|packet| packet.ecn == Ecn::NotEct)
        }

        let mut dual = dual(DualPi2Options {
            scheduler: DualQueueScheduler::TimeShiftedFifo,
            ..DualPi2Options::default()
        });
        let mut ledger = Ledger::default();
        let arrivals = [(0, Ecn::NotEct), (29, Ecn::Ect1), (31, Ecn::Ect1)];
        for (millis, ecn) in arrivals {
            let at = Instant::from_millis(millis);
            let is_taken = dual.enqueue(at, packet(ecn), Load::default(), &mut ledger);
            assert!(is_taken.is_ok());
        }
        let order = [(); 3].map(|()| sent(&mut dual, &mut ledger));
        assert_eq!(order, [Some(false), Some(true), Some(false)]);
    }
}

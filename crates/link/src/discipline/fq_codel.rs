//! Flow queues under CoDel (RFC 8290): flows are hashed into queues, which are served in turn by
//! bytes. Queues that have just become busy come first.
//!
//! Deviation: a queue counts as short by its own bytes, not by the total (as in CoDel).

use std::collections::VecDeque;

use anabranch_units::{Instant, Seed};

use super::codel::{CoDelOptions, Control};
use super::{Ledger, QueueDiscipline, Refused};
use crate::element::DropCause;
use crate::packet::Packet;
use crate::queue::{Capacity, Fifo, Load};

/// Maximum number of packets dropped at a time from the fattest queue when there is no room (RFC
/// 8290 §4.1).
const MAX_DROP_BATCH: usize = 64;

/// Parameters of FQ-CoDel; the defaults are those of RFC 8290 §4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDelOptions {
    /// CoDel's, of each queue.
    pub codel: CoDelOptions,
    /// Number of queues; flows whose hashes agree share one.
    pub bucket_count: u32,
    /// Bytes that a queue may send in its turn.
    pub quantum: u32,
}

impl Default for FqCoDelOptions {
    fn default() -> Self {
        FqCoDelOptions {
            codel: CoDelOptions::default(),
            bucket_count: 1_024,
            quantum: 1_514,
        }
    }
}

impl FqCoDelOptions {
    pub(super) fn mistake(&self) -> Option<&'static str> {
        match (self.bucket_count, self.quantum) {
            (0, _) | (_, 0) => Some("FQ-CoDel needs a bucket and a quantum"),
            _ => self.codel.mistake(),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    fifo: Fifo,
    control: Control,
    /// Bytes that it may still send in its turn; negative if it sent more.
    credits: i64,
    /// Whether it is in a list.
    is_listed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct FqCoDel {
    options: FqCoDelOptions,
    capacity: Capacity,
    perturbation: Seed,
    buckets: Vec<Bucket>,
    new_buckets: VecDeque<usize>,
    old_buckets: VecDeque<usize>,
    load: Load,
}

impl FqCoDel {
    pub(super) fn new(options: FqCoDelOptions, capacity: Capacity, seed: Seed) -> Self {
        FqCoDel {
            options,
            capacity,
            perturbation: seed,
            buckets: vec![Bucket::default(); options.bucket_count as usize],
            new_buckets: VecDeque::new(),
            old_buckets: VecDeque::new(),
            load: Load::default(),
        }
    }

    fn bucket_of(&self, flow: u32) -> usize {
        let hash = Seed(self.perturbation.0 ^ u64::from(flow)).rng().next_u64();
        (hash % self.buckets.len() as u64) as usize
    }

    fn listed(&self) -> impl Iterator<Item = usize> {
        self.new_buckets.iter().chain(&self.old_buckets).copied()
    }

    /// Drops half of the queue with the most bytes, from its head.
    fn drop_from_fattest(&mut self, now: Instant, ledger: &mut Ledger) {
        // The first of equal ones, however the iterator breaks ties.
        let fattest = self
            .listed()
            .min_by_key(|&index| core::cmp::Reverse(self.buckets[index].fifo.load().bytes));
        let Some(index) = fattest else {
            return;
        };
        let fifo = &mut self.buckets[index].fifo;
        let drop_count = (fifo.load().packets / 2).clamp(1, MAX_DROP_BATCH);
        for packet in core::iter::from_fn(|| fifo.pop()).take(drop_count) {
            self.load = self.load.minus(Load::of(&packet));
            ledger.drop_queued(now, DropCause::QueueFull, packet);
        }
    }
}

impl QueueDiscipline for FqCoDel {
    fn enqueue(
        &mut self,
        now: Instant,
        packet: Packet,
        in_service: Load,
        ledger: &mut Ledger,
    ) -> Result<(), Refused> {
        if !self.capacity.holds(in_service.plus(Load::of(&packet))) {
            return Err(Refused::full(packet));
        }
        self.load = self.load.plus(Load::of(&packet));
        let index = self.bucket_of(packet.flow);
        let bucket = &mut self.buckets[index];
        bucket.fifo.push(now, packet);
        if !bucket.is_listed {
            bucket.is_listed = true;
            bucket.credits = i64::from(self.options.quantum);
            self.new_buckets.push_back(index);
        }
        while !self.capacity.holds(self.load.plus(in_service)) {
            self.drop_from_fattest(now, ledger);
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Instant, ledger: &mut Ledger) -> Option<Packet> {
        loop {
            let is_new = !self.new_buckets.is_empty();
            let list = if is_new {
                &mut self.new_buckets
            } else {
                &mut self.old_buckets
            };
            let index = *list.front()?;
            let bucket = &mut self.buckets[index];
            if bucket.credits <= 0 {
                bucket.credits += i64::from(self.options.quantum);
                list.pop_front();
                self.old_buckets.push_back(index);
                continue;
            }
            let before = bucket.fifo.load();
            let codel = &self.options.codel;
            let head = bucket.control.dequeue(now, &mut bucket.fifo, codel, ledger);
            self.load = self.load.minus(before.minus(bucket.fifo.load()));
            if let Some(packet) = head {
                bucket.credits -= i64::from(packet.size_bytes);
                return Some(packet);
            }
            list.pop_front();
            // An emptied new queue waits for its turn among the old ones before it may be new
            // again, or sparse packets could starve them.
            if is_new {
                self.old_buckets.push_back(index)
            } else {
                bucket.is_listed = false
            }
        }
    }

    fn load(&self) -> Load {
        self.load
    }

    fn evict(&mut self) -> Option<Packet> {
        let index = self
            .listed()
            .find(|&index| !self.buckets[index].fifo.load().is_empty())?;
        let packet = self.buckets[index].fifo.pop()?;
        self.load = self.load.minus(Load::of(&packet));
        Some(packet)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Packet)) {
        for index in self.listed() {
            self.buckets[index].fifo.iter().for_each(&mut *visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::QueueLimit;
    use anabranch_units::DataRate;

    #[test]
    fn the_fattest_queue_makes_room() {
        fn packet(flow: u32, id: u64) -> Packet {
            Packet {
                flow,
                id,
                ..Packet::of_size(1_000)
            }
        }

        let capacity = QueueLimit::Packets(10).capacity(DataRate::ZERO);
        let mut queue = FqCoDel::new(FqCoDelOptions::default(), capacity, Seed(1));
        let mut ledger = Ledger::default();
        for id in 0..9 {
            let is_taken =
                queue.enqueue(Instant::ZERO, packet(1, id), Load::default(), &mut ledger);
            assert!(is_taken.is_ok());
        }
        for id in 9..11 {
            let is_taken =
                queue.enqueue(Instant::ZERO, packet(2, id), Load::default(), &mut ledger);
            assert!(is_taken.is_ok());
        }
        let ids: Vec<u64> = ledger.dropped.iter().map(|drop| drop.packet.id).collect();
        assert_eq!(ids, [0, 1, 2, 3]);
        assert_eq!((queue.load.packets, queue.load.bytes), (7, 7_000));
    }

    #[test]
    fn flows_spread_over_the_buckets_by_the_seed() {
        fn queue(seed: u64, capacity: Capacity) -> FqCoDel {
            FqCoDel::new(FqCoDelOptions::default(), capacity, Seed(seed))
        }

        let capacity = QueueLimit::Unlimited.capacity(DataRate::ZERO);
        let (one, other) = (queue(1, capacity), queue(2, capacity));
        let mut hit = vec![false; 1_024];
        (0..1_024).for_each(|flow| hit[one.bucket_of(flow)] = true);
        // On average, 1 - 1/e of the buckets are hit, with a deviation of 10.
        let hit_count = hit.iter().filter(|is_hit| **is_hit).count();
        assert!(hit_count.abs_diff(647) < 40, "{hit_count}");
        let moved = (0..1_024).filter(|flow| one.bucket_of(*flow) != other.bucket_of(*flow));
        assert!(moved.count() > 1_000);
    }
}

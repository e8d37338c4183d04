//! One medium for both directions, as Wi-Fi's air: the directions send in turns.
//!
//! Each direction has a drop-tail queue of its own. While both have packets they send in turns:
//! 802.11's distributed coordination gives each station with a packet the same chance of the next
//! frame. Deviations: the turns are exact and not by chance, and no frames collide.

use super::{Ledger, QueueDiscipline, Refused};
use crate::packet::Packet;
use crate::queue::{Capacity, Fifo, Load};
use anabranch_units::Instant;

#[derive(Clone, Debug)]
pub(crate) struct HalfDuplex {
    /// Capacity of each direction's queue.
    capacity: Capacity,
    /// By direction: there, and back.
    queues: [Fifo; 2],
    /// The direction of the last packet sent, which is the one in service if there is any.
    last: usize,
}

impl HalfDuplex {
    pub(super) fn new(capacity: Capacity) -> Self {
        HalfDuplex {
            capacity,
            queues: Default::default(),
            last: 1,
        }
    }

    /// Returns the direction that sends next, after `last`.
    fn after(&self, last: usize) -> usize {
        if self.queues[1 - last].load().is_empty() {
            last
        } else {
            1 - last
        }
    }
}

impl QueueDiscipline for HalfDuplex {
    fn enqueue(
        &mut self,
        now: Instant,
        packet: Packet,
        in_service: Load,
        _ledger: &mut Ledger,
    ) -> Result<(), Refused> {
        let direction = usize::from(packet.is_back);
        let queue = &mut self.queues[direction];
        let sending = if direction == self.last {
            in_service
        } else {
            Load::default()
        };
        let load = queue.load().plus(sending).plus(Load::of(&packet));
        if !self.capacity.holds(load) {
            return Err(Refused::full(packet));
        }
        queue.push(now, packet);
        Ok(())
    }

    fn dequeue(&mut self, _now: Instant, _ledger: &mut Ledger) -> Option<Packet> {
        let direction = self.after(self.last);
        let packet = self.queues[direction].pop()?;
        self.last = direction;
        Some(packet)
    }

    fn load(&self) -> Load {
        let [there, back] = &self.queues;
        there.load().plus(back.load())
    }

    fn evict(&mut self) -> Option<Packet> {
        self.queues.iter_mut().find_map(Fifo::pop)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Packet)) {
        let mut queues = [self.queues[0].iter(), self.queues[1].iter()];
        let mut next = 1 - self.last;
        loop {
            let packet = queues[next].next().or_else(|| queues[1 - next].next());
            let Some(packet) = packet else { return };
            visit(packet);
            next = 1 - usize::from(packet.is_back);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::QueueLimit;
    use anabranch_units::DataRate;

    fn packet(id: u64, is_back: bool) -> Packet {
        Packet {
            id,
            is_back,
            ..Packet::of_size(1_000)
        }
    }

    fn queue(packets: usize) -> HalfDuplex {
        HalfDuplex::new(QueueLimit::Packets(packets).capacity(DataRate::MAX))
    }

    #[test]
    fn directions_take_turns_while_both_have_packets() {
        let (mut queue, mut ledger) = (queue(10), Ledger::default());
        for (id, is_back) in [(0, false), (1, false), (2, false), (3, true), (4, true)] {
            let result = queue.enqueue(
                Instant::ZERO,
                packet(id, is_back),
                Load::default(),
                &mut ledger,
            );
            assert!(result.is_ok());
        }
        let mut seen = Vec::new();
        queue.for_each(&mut |packet| seen.push(packet.id));
        let dequeued = core::iter::from_fn(|| queue.dequeue(Instant::ZERO, &mut ledger));
        let sent: Vec<u64> = dequeued.map(|packet| packet.id).collect();
        assert_eq!(sent, [0, 3, 1, 4, 2]);
        assert_eq!(seen, sent);
    }

    #[test]
    fn each_direction_has_its_queue_and_counts_its_own_packet_in_service() {
        fn is_taken(
            queue: &mut HalfDuplex,
            is_back: bool,
            in_service: Load,
            ledger: &mut Ledger,
        ) -> bool {
            let packet = packet(0, is_back);
            let result = queue.enqueue(Instant::ZERO, packet, in_service, ledger);
            result.is_ok()
        }

        let (mut queue, mut ledger) = (queue(2), Ledger::default());
        let sending = Load::of_bytes(1_000);
        assert!(is_taken(&mut queue, false, Load::default(), &mut ledger));
        assert!(
            queue
                .dequeue(Instant::ZERO, &mut Ledger::default())
                .is_some()
        );
        let there = [0; 2].map(|_| is_taken(&mut queue, false, sending, &mut ledger));
        assert_eq!(there, [true, false]);
        let back = [0; 3].map(|_| is_taken(&mut queue, true, sending, &mut ledger));
        assert_eq!(back, [true, true, false]);
    }
}

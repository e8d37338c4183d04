//! First in, first out; what does not fit on arrival is refused. ECN-capable packets may be marked
//! above a threshold, as data centre switches do (RFC 8257 §3.1).

use anabranch_units::Instant;

use super::{Ledger, QueueDiscipline, Refused};
use crate::packet::Packet;
use crate::queue::{Capacity, Fifo, Load};

#[derive(Clone, Debug)]
pub(crate) struct DropTail {
    fifo: Fifo,
    capacity: Capacity,
    mark_above: Option<Capacity>,
}

impl DropTail {
    pub(super) fn new(capacity: Capacity, mark_above: Option<Capacity>) -> Self {
        DropTail {
            fifo: Fifo::default(),
            capacity,
            mark_above,
        }
    }
}

impl DropTail {
    pub(super) fn capacity(&self) -> Capacity {
        self.capacity
    }
}

impl QueueDiscipline for DropTail {
    #[inline]
    fn enqueue(
        &mut self,
        now: Instant,
        mut packet: Packet,
        in_service: Load,
        ledger: &mut Ledger,
    ) -> Result<(), Refused> {
        let load = self.fifo.load().plus(in_service).plus(Load::of(&packet));
        if !self.capacity.holds(load) {
            return Err(Refused::full(packet));
        }
        if self.mark_above.is_some_and(|limit| !limit.holds(load)) {
            ledger.is_marked(&mut packet);
        }
        self.fifo.push(now, packet);
        Ok(())
    }

    #[inline]
    fn dequeue(&mut self, _now: Instant, _ledger: &mut Ledger) -> Option<Packet> {
        self.fifo.pop()
    }

    #[inline]
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

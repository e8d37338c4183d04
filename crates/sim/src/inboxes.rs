//! What arrives in a window, by whom it is for.

use anabranch_units::{Ecn, Instant};

use crate::flow::{FlowId, Side};

/// A datagram that comes to the end of its route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    /// Which packet, for [`Network::arrive`](crate::network::Network::arrive).
    pub(crate) id: u32,
    pub(crate) flow: FlowId,
    pub(crate) side: Side,
    pub(crate) ecn: Ecn,
    /// The place of the next one for the same end, or [`NONE`].
    next: u32,
}

const NONE: u32 = u32::MAX;

impl Arrival {
    pub(crate) fn new(at: Instant, id: u32, flow: FlowId, side: Side, ecn: Ecn) -> Arrival {
        Arrival {
            at,
            id,
            flow,
            side,
            ecn,
            next: NONE,
        }
    }
}

/// All that arrives in a window. It lies in the order of time, and each end's is a list through it:
/// so nobody need look at a thousand flows, or sort by them, to put it before them.
#[derive(Debug, Default)]
pub(crate) struct Inboxes {
    arrivals: Vec<Arrival>,
    /// By flow and side.
    lists: Vec<[List; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: List = List {
        first: NONE,
        last: NONE,
    };
}

impl Inboxes {
    /// Empty ones for so many flows.
    pub(crate) fn new(flow_count: usize) -> Inboxes {
        Inboxes {
            arrivals: Vec::new(),
            lists: vec![[List::EMPTY; 2]; flow_count],
        }
    }

    /// Begins a window with what arrives in it, in any order: arrivals of one instant keep theirs.
    /// What has been [put](Inboxes::put) before ends by then must have been taken by them.
    pub(crate) fn fill(&mut self, fill: impl FnOnce(&mut Vec<Arrival>)) {
        self.arrivals.clear();
        fill(&mut self.arrivals);
        // As links give it, mostly.
        self.arrivals.sort_by_key(|arrival| arrival.at);
    }

    /// How many have arrived.
    pub(crate) fn count(&self) -> usize {
        self.arrivals.len()
    }

    /// One of those that have arrived, by its place in the order of time.
    pub(crate) fn arrival(&self, place: usize) -> &Arrival {
        &self.arrivals[place]
    }

    /// Puts an arrival before the end that it is for, after those that are there. Whether it is the
    /// first.
    pub(crate) fn put(&mut self, place: usize) -> bool {
        let Arrival { flow, side, .. } = self.arrivals[place];
        let list = &mut self.lists[flow.index()][side as usize];
        let is_first = list.first == NONE;
        match is_first {
            true => list.first = place as u32,
            false => self.arrivals[list.last as usize].next = place as u32,
        }
        list.last = place as u32;
        is_first
    }

    /// When the first arrives that an end has not taken.
    #[inline]
    pub(crate) fn next_at(&self, flow: FlowId, side: Side) -> Option<Instant> {
        let list = &self.lists[flow.index()][side as usize];
        let first = self.arrivals.get(list.first as usize);
        first.map(|arrival| arrival.at)
    }

    /// Takes it.
    pub(crate) fn take(&mut self, flow: FlowId, side: Side) -> Option<Arrival> {
        let list = &mut self.lists[flow.index()][side as usize];
        let arrival = *self.arrivals.get(list.first as usize)?;
        list.first = arrival.next;
        Some(arrival)
    }

    /// All that an end has not taken.
    pub(crate) fn iter(&self, flow: FlowId, side: Side) -> impl Iterator<Item = &Arrival> {
        let list = &self.lists[flow.index()][side as usize];
        let first = self.arrivals.get(list.first as usize);
        std::iter::successors(first, |arrival| self.arrivals.get(arrival.next as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(millis: u64, id: u32, flow: u32, side: Side) -> Arrival {
        Arrival::new(
            Instant::from_millis(millis),
            id,
            FlowId(flow),
            side,
            Ecn::NotEct,
        )
    }

    #[test]
    fn each_end_takes_its_own_in_the_order_of_time() {
        let (sender, receiver) = (Side::Sender, Side::Receiver);
        let mut inboxes = Inboxes::new(2);
        for _ in 0..2 {
            inboxes.fill(|arrivals| {
                arrivals.extend([
                    arrival(1, 10, 0, sender),
                    arrival(4, 11, 0, sender),
                    arrival(2, 12, 1, receiver),
                    arrival(2, 13, 0, sender),
                    arrival(4, 14, 0, sender),
                    arrival(3, 15, 0, receiver),
                ]);
            });
            let firsts: Vec<bool> = (0..inboxes.count()).map(|at| inboxes.put(at)).collect();
            assert_eq!(firsts, [true, true, false, true, false, false]);
            assert_eq!(inboxes.iter(FlowId(0), sender).count(), 4);
            let mut taken = |flow, side| {
                let arrivals = std::iter::from_fn(|| inboxes.take(FlowId(flow), side));
                arrivals.map(|arrival| arrival.id).collect::<Vec<_>>()
            };
            assert_eq!(taken(0, sender), [10, 13, 11, 14]);
            assert_eq!(taken(0, receiver), [15]);
            assert_eq!(taken(1, receiver), [12]);
            assert_eq!(taken(1, sender), [0; 0]);
            assert_eq!(inboxes.next_at(FlowId(0), sender), None);
        }
    }
}

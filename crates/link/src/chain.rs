//! One element after another.

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant};

use crate::element::{Dropped, Element};
use crate::packet::Packet;

/// Two elements in a row; chains of chains make longer ones, without dynamic dispatch.
///
/// A packet enters the second at the very instant at which it left the first, however late the
/// driver calls. [`next_at`](Element::next_at) is the time at which a packet leaves the whole
/// chain, so that a driver is not woken for steps inside.
#[derive(Clone, Debug)]
pub struct Chain<A, B> {
    first: A,
    second: B,
    /// Packets that the second refused.
    dropped: VecDeque<Dropped>,
}

impl<A: Element, B: Element> Chain<A, B> {
    /// Creates a chain of `first` and, behind it, `second`.
    pub fn new(first: A, second: B) -> Self {
        Chain {
            first,
            second,
            dropped: VecDeque::new(),
        }
    }

    /// Returns the element at which packets enter.
    pub fn first(&self) -> &A {
        &self.first
    }

    /// Returns the element at which packets leave.
    pub fn second(&self) -> &B {
        &self.second
    }

    /// Returns the element at which packets enter, to read its measurements. Packets must not be
    /// pushed or popped there.
    pub fn first_mut(&mut self) -> &mut A {
        &mut self.first
    }

    /// The element at which packets leave, to change it.
    pub(crate) fn second_mut(&mut self) -> &mut B {
        &mut self.second
    }
}

impl<A: Element, B: Element> Element for Chain<A, B> {
    fn push(&mut self, now: Instant, packet: Packet) -> Result<(), Dropped> {
        self.advance(now);
        self.first.push(now, packet)
    }

    fn pop(&mut self, now: Instant) -> Option<Packet> {
        self.advance(now);
        self.second.pop(now)
    }

    fn pop_before(&mut self, now: Instant, before: Instant) -> Option<(Instant, Packet)> {
        self.advance(now);
        self.second.pop_before(now, before)
    }

    fn next_at(&self) -> Option<Instant> {
        let via_first = self.first.next_at().map(|at| self.second.earliest_exit(at));
        self.second.next_at().into_iter().chain(via_first).min()
    }

    fn take_dropped(&mut self) -> Option<Dropped> {
        let dropped = self
            .dropped
            .pop_front()
            .or_else(|| self.first.take_dropped());
        dropped.or_else(|| self.second.take_dropped())
    }

    fn advance(&mut self, now: Instant) {
        let after_now = now + Duration::from_nanos(1);
        while let Some((at, packet)) = self.first.pop_before(now, after_now) {
            if let Err(dropped) = self.second.push(at, packet) {
                self.dropped.push_back(dropped);
            }
        }
        self.second.advance(now);
    }

    fn flush(&mut self, now: Instant, lost: &mut Vec<Packet>) {
        self.second.flush(now, lost);
        self.first.flush(now, lost);
    }

    fn held_packets(&self) -> usize {
        self.first.held_packets() + self.second.held_packets()
    }

    fn min_delay(&self) -> Duration {
        self.first.min_delay() + self.second.min_delay()
    }

    fn earliest_exit(&self, entry: Instant) -> Instant {
        self.second.earliest_exit(self.first.earliest_exit(entry))
    }
}

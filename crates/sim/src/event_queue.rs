//! What happens next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use anabranch_units::Instant;

use crate::flow::{FlowId, Side};
use crate::topology::LinkId;

/// Something that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A link may give a packet back.
    Link(LinkId),
    /// An endpoint's timer.
    Endpoint(FlowId, Side),
    /// A flow's source has a frame, or an object.
    Frame(FlowId),
    /// A flow begins.
    Start(FlowId),
    /// A flow's sender closes the session.
    Stop(FlowId),
    /// A generator sends a packet.
    Generate(FlowId),
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    at: Instant,
    /// How many were planned before.
    number: u64,
    event: Event,
}

impl Planned {
    /// What the order goes by: one number, compared without a branch.
    #[inline]
    fn order(&self) -> u128 {
        u128::from(self.at.as_nanos()) << 64 | u128::from(self.number)
    }
}

impl PartialEq for Planned {
    fn eq(&self, other: &Planned) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Planned) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    /// As a heap's largest element is its first, this is the other way round.
    #[inline]
    fn le(&self, other: &Planned) -> bool {
        self.order() >= other.order()
    }
}

impl Ord for Planned {
    #[inline]
    fn cmp(&self, other: &Planned) -> Ordering {
        other.order().cmp(&self.order())
    }
}

/// Events by time, and those of one instant in the order in which they were planned: the same on
/// every machine.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Planned>,
    planned_count: u64,
}

impl EventQueue {
    pub(crate) fn plan(&mut self, at: Instant, event: Event) {
        self.heap.push(Planned {
            at,
            number: self.planned_count,
            event,
        });
        self.planned_count += 1;
    }

    /// The next event that is due by `until`.
    pub(crate) fn pop_until(&mut self, until: Instant) -> Option<(Instant, Event)> {
        if self.heap.peek()?.at > until {
            return None;
        }
        self.heap.pop().map(|Planned { at, event, .. }| (at, event))
    }
}

/// A timer that is put off far more often than it fires. Only an earlier deadline plans an event;
/// an event that comes too early plans the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    planned_at: Instant,
}

impl Alarm {
    pub(crate) const UNSET: Alarm = Alarm {
        planned_at: Instant::FAR_FUTURE,
    };

    /// Sees to it that `event` comes at `deadline` or before.
    #[inline]
    pub(crate) fn set(&mut self, deadline: Option<Instant>, event: Event, queue: &mut EventQueue) {
        if let Some(at) = deadline.filter(|at| *at < self.planned_at) {
            self.planned_at = at;
            queue.plan(at, event);
        }
    }

    /// Whether the event that has come at `at` is the one that was planned last, and not one that
    /// an earlier deadline has overtaken.
    #[inline]
    pub(crate) fn ring(&mut self, at: Instant) -> bool {
        let is_current = self.planned_at == at;
        if is_current {
            *self = Alarm::UNSET;
        }
        is_current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_whatever_the_order_of_planning() {
        let mut queue = EventQueue::default();
        let mut popped = Vec::new();
        for index in 0..1_000_u64 {
            // Every residue once.
            queue.plan(
                Instant::from_nanos(1 + index * 387 % 1_000),
                Event::Start(FlowId(0)),
            );
        }
        while let Some((at, _)) = queue.pop_until(Instant::from_nanos(900)) {
            popped.push(at.as_nanos());
        }
        assert_eq!(popped, (1..=900).collect::<Vec<_>>());
    }

    #[test]
    fn events_of_one_instant_come_in_the_order_of_planning() {
        let mut queue = EventQueue::default();
        let at = Instant::from_secs;
        queue.plan(at(2), Event::Start(FlowId(0)));
        queue.plan(at(1), Event::Stop(FlowId(9)));
        queue.plan(at(1), Event::Link(LinkId(3)));
        assert_eq!(
            queue.pop_until(at(1)),
            Some((at(1), Event::Stop(FlowId(9))))
        );
        assert_eq!(
            queue.pop_until(at(1)),
            Some((at(1), Event::Link(LinkId(3))))
        );
        assert_eq!(queue.pop_until(at(1)), None);
    }

    #[test]
    fn a_deadline_put_off_plans_nothing_and_one_brought_forward_overtakes() {
        let mut queue = EventQueue::default();
        let mut alarm = Alarm::UNSET;
        let at = Instant::from_secs;
        let event = Event::Link(LinkId(0));
        for deadline in [at(5), at(6), at(3)] {
            alarm.set(Some(deadline), event, &mut queue);
        }
        assert_eq!(queue.pop_until(at(9)), Some((at(3), event)));
        assert!(alarm.ring(at(3)));
        assert_eq!(queue.pop_until(at(9)), Some((at(5), event)));
        assert!(!alarm.ring(at(5)), "it was overtaken");
        assert_eq!(queue.pop_until(at(9)), None);
    }
}

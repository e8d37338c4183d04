//! The event queue.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use anabranch_units::Instant;

#[derive(Clone, Copy, Debug)]
struct Planned<E> {
    at: Instant,
    /// Number of events planned earlier; the order of events at one instant.
    number: u64,
    event: E,
}

impl<E> Planned<E> {
    /// Returns the sort key: one number, compared without a branch.
    #[inline]
    fn order(&self) -> u128 {
        u128::from(self.at.as_nanos()) << 64 | u128::from(self.number)
    }
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Planned<E>) -> bool {
        self.order() == other.order()
    }
}

impl<E> Eq for Planned<E> {}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Planned<E>) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    /// Compares in reverse, as a heap's first element is its largest.
    #[inline]
    fn le(&self, other: &Planned<E>) -> bool {
        self.order() >= other.order()
    }
}

impl<E> Ord for Planned<E> {
    #[inline]
    fn cmp(&self, other: &Planned<E>) -> Ordering {
        other.order().cmp(&self.order())
    }
}

/// Events by time. Events at one instant are in the order in which they were planned: the same on
/// every machine.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    heap: BinaryHeap<Planned<E>>,
    planned_count: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue {
            heap: BinaryHeap::new(),
            planned_count: 0,
        }
    }
}

impl<E: Copy> EventQueue<E> {
    pub(crate) fn plan(&mut self, at: Instant, event: E) {
        self.heap.push(Planned {
            at,
            number: self.planned_count,
            event,
        });
        self.planned_count += 1;
    }

    /// Returns the time of the next event.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|planned| planned.at)
    }

    /// Takes the next event that is due before `before`.
    pub(crate) fn pop_before(&mut self, before: Instant) -> Option<(Instant, E)> {
        self.next_at().filter(|at| *at < before)?;
        self.heap.pop().map(|Planned { at, event, .. }| (at, event))
    }
}

/// A timer that is postponed far more often than it fires. Only an earlier deadline plans an event;
/// an event that fires too early plans the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    planned_at: Instant,
}

impl Alarm {
    pub(crate) const UNSET: Alarm = Alarm {
        planned_at: Instant::FAR_FUTURE,
    };

    /// Ensures that `event` fires at `deadline` or before.
    #[inline]
    pub(crate) fn set<E: Copy>(
        &mut self,
        deadline: Option<Instant>,
        event: E,
        queue: &mut EventQueue<E>,
    ) {
        if let Some(at) = deadline.filter(|at| *at < self.planned_at) {
            self.planned_at = at;
            queue.plan(at, event);
        }
    }

    /// Returns whether the event at `at` is the one planned last, not one that an earlier deadline
    /// has replaced.
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
            // Every residue once: 387 and 1,000 have no common factor.
            queue.plan(Instant::from_nanos(1 + index * 387 % 1_000), ());
        }
        while let Some((at, ())) = queue.pop_before(Instant::from_nanos(901)) {
            popped.push(at.as_nanos());
        }
        assert_eq!(popped, (1..=900).collect::<Vec<_>>());
        assert_eq!(queue.next_at(), Some(Instant::from_nanos(901)));
    }

    #[test]
    fn events_of_one_instant_come_in_the_order_of_planning() {
        let mut queue = EventQueue::default();
        let at = Instant::from_secs;
        queue.plan(at(2), 'b');
        queue.plan(at(1), 'z');
        queue.plan(at(1), 'a');
        assert_eq!(queue.pop_before(at(2)), Some((at(1), 'z')));
        assert_eq!(queue.pop_before(at(2)), Some((at(1), 'a')));
        assert_eq!(queue.pop_before(at(2)), None);
    }

    #[test]
    fn a_deadline_put_off_plans_nothing_and_one_brought_forward_overtakes() {
        let mut queue = EventQueue::default();
        let mut alarm = Alarm::UNSET;
        let at = Instant::from_secs;
        for deadline in [at(5), at(6), at(3)] {
            alarm.set(Some(deadline), (), &mut queue);
        }
        assert_eq!(queue.pop_before(at(9)), Some((at(3), ())));
        assert!(alarm.ring(at(3)));
        assert_eq!(queue.pop_before(at(9)), Some((at(5), ())));
        assert!(!alarm.ring(at(5)), "it was overtaken");
        assert_eq!(queue.pop_before(at(9)), None);
    }
}

//! What happens next.

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

/// How many children a node of the heap has. With two there would be twice as many levels, each
/// in a cache line of its own; the children of one node lie side by side.
const FAN_OUT: usize = 4;

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

/// Events by time, and those of one instant in the order in which they were planned: the same on
/// every machine.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    /// A heap: no node is before its parent.
    heap: Vec<Planned>,
    planned_count: u64,
}

impl EventQueue {
    pub(crate) fn plan(&mut self, at: Instant, event: Event) {
        let planned = Planned {
            at,
            number: self.planned_count,
            event,
        };
        self.planned_count += 1;
        self.heap.push(planned);
        self.rise(self.heap.len() - 1, planned);
    }

    /// The next event that is due by `until`.
    pub(crate) fn pop_until(&mut self, until: Instant) -> Option<(Instant, Event)> {
        let first = *self.heap.first()?;
        if first.at > until {
            return None;
        }
        let last = self.heap.pop()?;
        if !self.heap.is_empty() {
            self.sink(last);
        }
        Some((first.at, first.event))
    }

    /// Puts `planned` in at `index` or above.
    #[inline]
    fn rise(&mut self, mut index: usize, planned: Planned) {
        while index > 0 {
            let parent = (index - 1) / FAN_OUT;
            let above = self.heap[parent];
            if above.order() <= planned.order() {
                break;
            }
            self.heap[index] = above;
            index = parent;
        }
        self.heap[index] = planned;
    }

    /// Puts `planned` in from the root down.
    #[inline]
    fn sink(&mut self, planned: Planned) {
        let mut index = 0;
        while let Some(children) = self.heap.get(index * FAN_OUT + 1..)
            && let Some(least) = least_of(&children[..children.len().min(FAN_OUT)])
            && children[least].order() < planned.order()
        {
            let child = children[least];
            self.heap[index] = child;
            index = index * FAN_OUT + 1 + least;
        }
        self.heap[index] = planned;
    }
}

/// The index of the earliest of so many events; `None` if there are none.
#[inline]
fn least_of(events: &[Planned]) -> Option<usize> {
    let mut least = 0;
    let mut order = events.first()?.order();
    for (index, event) in events.iter().enumerate().skip(1) {
        if event.order() < order {
            (least, order) = (index, event.order());
        }
    }
    Some(least)
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

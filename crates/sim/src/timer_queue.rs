//! Timers of flows.

use anabranch_units::Instant;

use crate::event_queue::{Alarm, EventQueue};
use crate::ids::FlowId;

/// Timers of one group's ends, by flow. Arrivals from the network are not included.
#[derive(Debug, Default)]
pub(crate) struct TimerQueue {
    queue: EventQueue<FlowId>,
    /// Alarms by the flow's number. They lie side by side here, as the flows themselves would fill
    /// the processor's caches.
    alarms: Vec<Alarm>,
}

impl TimerQueue {
    /// Creates an empty timer queue for `flow_count` flows.
    pub(crate) fn new(flow_count: usize) -> TimerQueue {
        TimerQueue {
            queue: EventQueue::default(),
            alarms: vec![Alarm::UNSET; flow_count],
        }
    }

    /// Ensures that a flow is checked by `at`.
    #[inline]
    pub(crate) fn plan(&mut self, flow: FlowId, at: Option<Instant>) {
        self.alarms[flow.index()].set(at, flow, &mut self.queue);
    }

    /// Returns the time at which a flow is to be checked next.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.queue.next_at()
    }

    /// Takes out the flows that are due for a check before `before`, in no order.
    pub(crate) fn take_due(&mut self, before: Instant, due: &mut Vec<FlowId>) {
        while let Some((at, flow)) = self.queue.pop_before(before) {
            if self.alarms[flow.index()].ring(at) {
                due.push(flow);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_due_once_however_often_it_was_planned() {
        let mut timer_queue = TimerQueue::new(3);
        let at = Instant::from_secs;
        for secs in [5, 7, 3] {
            timer_queue.plan(FlowId(1), Some(at(secs)));
        }
        timer_queue.plan(FlowId(2), Some(at(4)));
        timer_queue.plan(FlowId(0), None);
        let mut due = Vec::new();
        timer_queue.take_due(at(4), &mut due);
        assert_eq!(due, [FlowId(1)]);
        timer_queue.take_due(at(9), &mut due);
        assert_eq!(due, [FlowId(1), FlowId(2)]);
        assert_eq!(timer_queue.next_at(), None);
    }
}

//! Announcement of the feedback schedule to the peer.

use anabranch_units::Duration;

use crate::recovery::FeedbackSchedule;

/// Exchange of the schedule. Every packet repeats it until one that carried it has arrived.
#[derive(Debug)]
pub(crate) struct ScheduleExchange {
    pub(crate) wanted: FeedbackSchedule,
    /// First packet that carried `wanted`; `None` until one has left.
    announced_since: Option<u64>,
    pub(super) is_known: bool,
    /// The controller has no say in it.
    pub(super) is_fixed: bool,
}

impl ScheduleExchange {
    pub(super) fn new(wanted: FeedbackSchedule) -> Self {
        ScheduleExchange {
            wanted,
            announced_since: None,
            is_known: false,
            is_fixed: false,
        }
    }

    /// Creates an exchange that sends nothing until another schedule is wanted.
    pub(super) fn known(wanted: FeedbackSchedule) -> Self {
        ScheduleExchange {
            is_known: true,
            ..Self::new(wanted)
        }
    }

    pub(super) fn want(&mut self, wanted: FeedbackSchedule) {
        if !is_alike(&self.wanted, &wanted) {
            *self = Self::new(wanted);
        }
    }

    /// Returns the schedule that the packet of this number must carry, if any.
    pub(crate) fn take_unannounced(&mut self, packet_number: u64) -> Option<FeedbackSchedule> {
        if self.is_known {
            return None;
        }
        self.announced_since.get_or_insert(packet_number);
        Some(self.wanted)
    }

    pub(super) fn on_acked(&mut self, packet_number: u64) {
        if self
            .announced_since
            .is_some_and(|since| packet_number >= since)
        {
            self.is_known = true;
        }
    }
}

/// Returns whether two spans are equal, give or take an eighth.
fn is_near(a: Duration, b: Duration) -> bool {
    a.abs_diff(b) * 8 <= a
}

/// Returns whether the two schedules are equal, give or take an eighth of a span.
fn is_alike(one: &FeedbackSchedule, other: &FeedbackSchedule) -> bool {
    let are_intervals_near = match (one.interval, other.interval) {
        (Some(a), Some(b)) => is_near(a, b),
        (a, b) => a == b,
    };
    let are_holes_alike = match (one.on_hole, other.on_hole) {
        (Some(a), Some(b)) => {
            a.after_packets == b.after_packets && is_near(a.min_interval, b.min_interval)
        }
        (a, b) => a == b,
    };
    one.every_packets == other.every_packets
        && is_near(one.max_delay, other.max_delay)
        && are_intervals_near
        && are_holes_alike
        && one.is_immediate_on_ce == other.is_immediate_on_ce
        && one.reports_pauses == other.reports_pauses
}

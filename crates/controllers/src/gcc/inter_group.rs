//! The inter-group filter: packets that left in one burst are one observation.

use anabranch_units::{Duration, Instant};

/// Span of a group: packets that leave within this time of its first belong to it (draft §5.2;
/// WebRTC).
const BURST: Duration = Duration::from_millis(5);
/// Longest gap between packets that the network held back together, whose delay falls: they form a
/// group too, but for at most the second span.
const ARRIVAL_BURST: Duration = Duration::from_millis(5);
const MAX_ARRIVAL_BURST: Duration = Duration::from_millis(100);
/// Largest growth of the delay; more means that a clock has jumped.
const MAX_DELAY_STEP_MILLIS: f64 = 3_000.0;
/// Consecutive groups that arrive before their predecessors; this many mean the same.
const MAX_REORDERED: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent_at: Instant,
    last_sent_at: Instant,
    first_received_at: Instant,
    last_received_at: Instant,
}

impl Group {
    fn of(sent_at: Instant, received_at: Instant) -> Self {
        Group {
            first_sent_at: sent_at,
            last_sent_at: sent_at,
            first_received_at: received_at,
            last_received_at: received_at,
        }
    }

    fn takes(&self, sent_at: Instant, received_at: Instant) -> bool {
        let sent_after_millis = millis_between(self.last_sent_at, sent_at);
        let received_after_millis = millis_between(self.last_received_at, received_at);
        let is_falling = received_after_millis < sent_after_millis;
        let is_arrival_burst = is_falling
            && received_after_millis <= ARRIVAL_BURST.as_millis_f64()
            && received_at < self.first_received_at + MAX_ARRIVAL_BURST;
        is_arrival_burst || sent_at <= self.first_sent_at + BURST
    }
}

/// Differences between two consecutive groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Delta {
    /// `T(i) - T(i-1)`, in milliseconds.
    pub(super) sent_millis: f64,
    /// `d(i)`: the change of the one-way delay, in milliseconds.
    pub(super) delay_millis: f64,
    /// Time at which the later group was complete, by the peer's clock.
    pub(super) received_at: Instant,
}

/// Groups packets in the order of their sending.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InterGroup {
    previous: Option<Group>,
    current: Option<Group>,
    reordered_count: u32,
}

impl InterGroup {
    /// Handles an arrived packet. Returns the difference of the two groups before it if it is the
    /// first of a new one.
    pub(super) fn on_packet(&mut self, sent_at: Instant, received_at: Instant) -> Option<Delta> {
        let Some(mut group) = self.current else {
            self.current = Some(Group::of(sent_at, received_at));
            return None;
        };
        if sent_at < group.first_sent_at {
            return None;
        }
        if group.takes(sent_at, received_at) {
            group.last_sent_at = group.last_sent_at.max(sent_at);
            group.last_received_at = received_at;
            self.current = Some(group);
            return None;
        }
        let delta = self.previous.map(|previous| Delta {
            sent_millis: millis_between(previous.last_sent_at, group.last_sent_at),
            delay_millis: millis_between(previous.last_received_at, group.last_received_at)
                - millis_between(previous.last_sent_at, group.last_sent_at),
            received_at: group.last_received_at,
        });
        let is_reordered = self
            .previous
            .is_some_and(|previous| group.last_received_at < previous.last_received_at);
        if is_reordered {
            self.reordered_count += 1;
            if self.reordered_count >= MAX_REORDERED {
                *self = InterGroup::default();
            }
            return None;
        }
        self.reordered_count = 0;
        if delta.is_some_and(|delta| delta.delay_millis >= MAX_DELAY_STEP_MILLIS) {
            *self = InterGroup::default();
            return None;
        }
        self.previous = Some(group);
        self.current = Some(Group::of(sent_at, received_at));
        delta
    }
}

fn millis_between(from: Instant, to: Instant) -> f64 {
    to.as_nanos().wrapping_sub(from.as_nanos()).cast_signed() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn draft_5_2_packets_sent_within_5_ms_are_one_group() {
        let mut groups = InterGroup::default();
        for (sent, received) in [(0, 50), (2, 52), (5, 60), (10, 66), (12, 69)] {
            assert_eq!(groups.on_packet(at(sent), at(received)), None);
        }
        // The groups end with the packets sent at 5 and 12 ms.
        let delta = groups.on_packet(at(20), at(80)).unwrap();
        assert_eq!((delta.sent_millis, delta.delay_millis), (7.0, 2.0));
        assert_eq!(delta.received_at, at(69));
    }

    #[test]
    fn draft_5_2_packets_that_arrive_in_a_burst_after_a_stall_are_one_group() {
        let mut groups = InterGroup::default();
        groups.on_packet(at(0), at(50));
        groups.on_packet(at(10), at(60));
        // Held back until 130 ms, then together.
        for (sent, received) in [(20, 130), (30, 131), (40, 132), (50, 133)] {
            groups.on_packet(at(sent), at(received));
        }
        let delta = groups.on_packet(at(90), at(140)).unwrap();
        assert_eq!((delta.sent_millis, delta.delay_millis), (40.0, 33.0));
    }

    #[test]
    fn clock_jump_of_the_peer_resets_groups() {
        let mut groups = InterGroup::default();
        groups.on_packet(at(0), at(50));
        groups.on_packet(at(10), at(60));
        groups.on_packet(at(20), at(9_000));
        assert_eq!(groups.on_packet(at(30), at(9_010)), None);
        assert!(groups.previous.is_none());
    }
}

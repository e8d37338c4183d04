//! Groups of ends that advance together, and the length of their steps.
//!
//! Packets take a while to arrive. Senders can therefore advance through that time, each on its own
//! with its state in the processor's caches, before any receiver is affected. The result is the
//! same as from event to event (conservative synchronisation: Chandy & Misra 1979).

use anabranch_units::{Duration, Instant};

use crate::ids::{Direction, Side};

/// Division of the flows' ends into groups, each of which is at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Division {
    /// One group for all ends.
    #[default]
    Together,
    /// One group of senders and one of receivers. They are connected by different links only, so
    /// that either can advance by the time that a packet and its answer take.
    BySide,
}

/// A [`Division`]'s groups by number.
pub(crate) type Group = usize;

/// Maximum number of groups.
pub(crate) const MAX_GROUPS: usize = 2;

impl Division {
    /// Returns all groups, in the order in which they advance.
    pub(crate) fn groups(self) -> core::ops::Range<Group> {
        match self {
            Division::Together => 0..1,
            Division::BySide => 0..2,
        }
    }

    /// Returns the group of such ends.
    pub(crate) fn group_of(self, side: Side) -> Group {
        match self {
            Division::Together => 0,
            Division::BySide => side as usize,
        }
    }

    /// Returns the ends of a flow that belong to a group.
    pub(crate) fn sides_of(self, group: Group) -> &'static [Side] {
        const BOTH: [Side; 2] = [Side::Sender, Side::Receiver];
        match self {
            Division::Together => &BOTH,
            Division::BySide => &BOTH[group..=group],
        }
    }

    /// Returns the group that receives packets of this direction.
    pub(crate) fn receiving(self, direction: Direction) -> Group {
        self.group_of(Side::receiving(direction))
    }

    /// Returns the group at the other end.
    pub(crate) fn peer_of(self, group: Group) -> Group {
        match self {
            Division::Together => group,
            Division::BySide => 1 - group,
        }
    }
}

/// A period of a group, from its present instant up to `before`. Nothing that its peer has yet to
/// send can arrive within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The group that advances.
    pub(crate) group: Group,
    /// Instant that its peer has reached: all packets sent before it are known.
    pub(crate) known_until: Instant,
    /// The first instant after the window.
    pub(crate) before: Instant,
    /// Instant of the group after the window. Without lookahead there may be more to do at the same
    /// instant.
    pub(crate) reached: Instant,
}

/// Instants that the groups have reached.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) division: Division,
    /// For each group, the instant before which everything has happened.
    reached: [Instant; MAX_GROUPS],
}

/// The smallest step, as instants are whole nanoseconds.
const TICK: Duration = Duration::from_nanos(1);

impl Progress {
    /// Advances all groups to `at`, as nothing happens before.
    pub(crate) fn skip_to(&mut self, at: Instant) {
        for reached in &mut self.reached {
            *reached = at.max(*reached);
        }
    }

    /// Sets the instant of all groups.
    pub(crate) fn set(&mut self, at: Instant) {
        self.reached = [at; MAX_GROUPS];
    }

    /// Returns the instant that a group has reached.
    pub(crate) fn reached(&self, group: Group) -> Instant {
        self.reached[group]
    }

    /// Returns the instant that the peer has reached. All packets that it sent earlier are known to
    /// the group.
    pub(crate) fn known_until(&self, group: Group) -> Instant {
        self.reached[self.division.peer_of(group)]
    }

    /// Advances a group to its horizon, before which no future packet arrives, but not beyond
    /// `until`. `None` if it cannot advance.
    pub(crate) fn advance(
        &mut self,
        group: Group,
        horizon: Instant,
        until: Instant,
    ) -> Option<Window> {
        let known_until = self.known_until(group);
        let is_instant = self.division == Division::Together && horizon <= known_until;
        let horizon = if is_instant {
            known_until + TICK
        } else {
            horizon
        };
        let before = horizon.min(until + TICK);
        let start = self.reached[group];
        if before <= start {
            return None;
        }
        let reached = if is_instant { start } else { before };
        self.reached[group] = reached;
        Some(Window {
            group,
            known_until,
            before,
            reached,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    const UNTIL: Instant = Instant::from_nanos(1_000);

    fn progress(division: Division) -> Progress {
        let mut progress = Progress {
            division,
            ..Progress::default()
        };
        progress.skip_to(Instant::from_nanos(100));
        progress
    }

    /// Returns the ends of the windows of both groups by turns, given the delay to each
    /// group; `None` where one cannot advance.
    fn ends(progress: &mut Progress, delays: [u64; 2], rounds: usize) -> Vec<Option<u64>> {
        fn groups(division: &Division) -> Range<usize> {
            division.groups()
        }
        let turns: Vec<Group> = (0..rounds)
            .flat_map(|_| groups(&progress.division))
            .collect();
        let mut advance = |group: Group| {
            let delay = Duration::from_nanos(delays[group]);
            let horizon = progress.known_until(group) + delay;
            let window = progress.advance(group, horizon, UNTIL)?;
            Some(window.before.as_nanos())
        };
        turns.into_iter().map(&mut advance).collect()
    }

    #[test]
    fn together_a_window_is_as_long_as_the_least_delay() {
        let mut progress = progress(Division::Together);
        let delays = [20, 0];
        assert_eq!(ends(&mut progress, delays, 2), [Some(120), Some(140)]);
        progress.set(Instant::from_nanos(990));
        assert_eq!(ends(&mut progress, delays, 2), [Some(1_001), None]);
    }

    #[test]
    fn without_lookahead_an_instant_is_repeated() {
        let mut progress = progress(Division::Together);
        let delays = [0, 0];
        assert_eq!(ends(&mut progress, delays, 2), [Some(101), Some(101)]);
        progress.skip_to(Instant::from_nanos(150));
        assert_eq!(ends(&mut progress, delays, 1), [Some(151)]);
    }

    #[test]
    fn by_side_a_window_is_as_long_as_there_and_back() {
        let mut progress = progress(Division::BySide);
        let delays = [20, 30];
        let expected = [120, 150, 170, 200, 220].map(Some);
        assert_eq!(ends(&mut progress, delays, 3)[..5], expected);
    }

    #[test]
    fn delay_in_one_direction_is_enough() {
        let mut progress = progress(Division::BySide);
        let delays = [0, 30];
        let expected = [None, Some(130), Some(130), Some(160), Some(160)];
        assert_eq!(ends(&mut progress, delays, 3)[..5], expected);
    }
}

//! When a unit of stored or piped video may leave: by its own clock, as if it were live.

use anabranch_units::{Duration, Instant};

/// Less than this is no waiting for a picture, but for another program's turn.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// Lets units go no faster than their clock, and never holds up one that the input made wait for.
///
/// A pipe may hold a live stream or be filled as fast as it is emptied. The two differ in who waits
/// for whom: a live unit comes when its picture is taken, so the reader has waited for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Where the clock's zero lies; `None` before the first unit.
    origin: Option<Instant>,
    last_clock: Duration,
}

impl Pace {
    /// When the unit of time `clock` leaves, that came at `arrived_at` after the reader had waited
    /// `waited` for it.
    pub(crate) fn release_at(
        &mut self,
        clock: Option<Duration>,
        arrived_at: Instant,
        waited: Duration,
    ) -> Instant {
        let Some(clock) = clock else {
            return arrived_at;
        };
        let step = clock.saturating_sub(self.last_clock);
        self.last_clock = clock;
        let origin = *self.origin.get_or_insert(arrived_at.saturating_sub(clock));
        let due_at = origin + clock;
        let is_live = waited > SHORTEST_WAIT.max(step / 2);
        if arrived_at < due_at && is_live {
            // The units before it came late: from now on these are early enough.
            self.origin = Some(arrived_at.saturating_sub(clock));
            return arrived_at;
        }
        due_at.max(arrived_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Duration = Duration::from_millis(40);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1_000 + millis)
    }

    #[test]
    fn what_is_always_there_leaves_by_its_clock() {
        let mut pace = Pace::default();
        let mut now = at(0);
        for number in 0..50 {
            now = pace.release_at(Some(FRAME * number), now, Duration::ZERO);
            assert_eq!(now, at(0) + FRAME * number);
        }
    }

    #[test]
    fn what_had_to_be_waited_for_leaves_at_once() {
        let mut pace = Pace::default();
        // The first unit comes 100 ms late, the others when they are taken.
        pace.release_at(Some(Duration::ZERO), at(100), Duration::from_millis(100));
        for number in 1..50 {
            let taken_at = at(100).max(at(0) + FRAME * number);
            let waited = if number < 3 {
                Duration::from_millis(1)
            } else {
                FRAME
            };
            let released_at = pace.release_at(Some(FRAME * number), taken_at, waited);
            if number >= 3 {
                assert_eq!(released_at, taken_at, "unit {number}");
            }
        }
    }

    #[test]
    fn units_that_come_together_after_a_pause_are_not_spread() {
        let mut pace = Pace::default();
        pace.release_at(Some(Duration::ZERO), at(0), FRAME);
        for number in 1..6 {
            let released_at = pace.release_at(Some(FRAME * number), at(240), Duration::ZERO);
            assert_eq!(released_at, at(240));
        }
    }

    #[test]
    fn without_a_clock_nothing_waits() {
        let mut pace = Pace::default();
        assert_eq!(pace.release_at(None, at(7), Duration::ZERO), at(7));
    }
}

//! Release times of stored or piped video: units leave by their own clock, as if they were live.

use anabranch_units::{Duration, Instant};

/// A shorter wait is not for a picture, but for the writer to be scheduled.
pub(super) const SHORTEST_WAIT: Duration = Duration::from_millis(5);
/// Delay beyond which units are assumed to have been paused. The stream does not catch up after a
/// pause.
pub(super) const LONGEST_CATCH_UP: Duration = Duration::from_millis(500);
/// Time for which a pipe must be read to its end again and again to count as live.
const WATCH_SPAN: Duration = Duration::from_secs(1);
/// Divisor of elapsed time by which a live stream's backlog shrinks.
const DRAIN_DIVISOR: u64 = 10;

/// Clock that releases units at most as fast as their own clock, and follows a live input.
///
/// A pipe may carry a live stream or be filled as fast as it is read. The waiting end distinguishes
/// the two: a live unit arrives when its picture is captured, so the reader has waited for it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Whether the clock starts with the first byte; otherwise the first unit leaves at once.
    is_stored: bool,
    /// Instant at which the clock is zero; `None` before the first unit.
    origin: Option<Instant>,
    last_clock: Duration,
    /// Start of the time in which the pipe is sometimes empty, and the smallest lead of units that
    /// were waiting then.
    watched: Option<(Instant, Duration)>,
    /// Backlog of a live stream, which delays it without need.
    backlog: Duration,
}

impl Pace {
    /// Creates the pace of a file.
    pub const fn stored() -> Self {
        Pace {
            is_stored: true,
            origin: None,
            last_clock: Duration::ZERO,
            watched: None,
            backlog: Duration::ZERO,
        }
    }

    /// Creates the pace of a pipe.
    pub const fn piped() -> Self {
        Pace {
            is_stored: false,
            ..Self::stored()
        }
    }

    /// Returns the release time of the unit that ends at time `clock`. It arrived at `arrived_at`,
    /// after the reader had waited `waited` for it with nothing left to send.
    pub fn release_at(
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
        let ended_now = arrived_at.saturating_sub(clock);
        let first = if self.is_stored {
            arrived_at
        } else {
            ended_now
        };
        let origin = self.origin.get_or_insert(first);
        let drained = self.backlog.min(step / DRAIN_DIVISOR);
        self.backlog = self.backlog.saturating_sub(drained);
        *origin = origin.saturating_sub(drained);
        let due_at = *origin + clock;
        let is_live = !self.is_stored && waited > SHORTEST_WAIT.max(step / 2);
        let is_early = arrived_at < due_at;
        let is_late = arrived_at.saturating_since(due_at) > LONGEST_CATCH_UP;
        if (is_early && is_live) || is_late {
            *origin = ended_now;
            return arrived_at;
        }
        due_at.max(arrived_at)
    }

    /// Returns the release time of the part of a unit that ends at time `clock` and arrived at
    /// `arrived_at`. The clock is set by whole units.
    pub fn release_part_at(&self, clock: Option<Duration>, arrived_at: Instant) -> Instant {
        let due_at = clock.and_then(|clock| Some(self.origin? + clock));
        due_at.map_or(arrived_at, |due_at| due_at.max(arrived_at))
    }

    /// Shifts the clock: all further units leave later by `span`.
    pub fn postpone(&mut self, span: Duration) {
        self.origin = self.origin.map(|origin| origin + span);
    }

    /// Records that the pipe is empty at `now`, while waiting units are `lead` ahead of their
    /// clock. If this continues, the writer does not wait for us: the stream is live.
    pub fn on_empty(&mut self, now: Instant, lead: Duration) {
        let (since, least) = self.watched.unwrap_or((now, lead));
        let least = least.min(lead);
        self.watched = Some((since, least));
        if now.saturating_since(since) >= WATCH_SPAN {
            self.backlog = least;
            self.watched = None;
        }
    }

    /// Records that the pipe's writer may wait for us: the stream is not live.
    pub fn on_full(&mut self) {
        self.watched = None;
        self.backlog = Duration::ZERO;
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
    fn a_file_leaves_by_its_clock_from_its_first_byte_on() {
        let mut pace = Pace::stored();
        let mut now = at(0);
        for number in 1..50 {
            now = pace.release_at(Some(FRAME * number), now, FRAME);
            assert_eq!(now, at(0) + FRAME * number);
        }
    }

    #[test]
    fn a_pipe_that_is_always_full_leaves_by_its_clock() {
        let mut pace = Pace::piped();
        let mut now = at(0);
        for number in 0..50 {
            now = pace.release_at(Some(FRAME * number), now, Duration::ZERO);
            assert_eq!(now, at(0) + FRAME * number);
        }
    }

    #[test]
    fn units_that_had_to_be_waited_for_leave_at_once() {
        let mut pace = Pace::piped();
        // The first unit arrives 100 ms late, the others when they are captured.
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
    fn units_that_come_together_after_a_short_pause_are_not_spread() {
        let mut pace = Pace::piped();
        pace.release_at(Some(Duration::ZERO), at(0), FRAME);
        for number in 1..6 {
            let released_at = pace.release_at(Some(FRAME * number), at(240), Duration::ZERO);
            assert_eq!(released_at, at(240));
        }
    }

    #[test]
    fn a_long_pause_is_not_made_up_for() {
        for mut pace in [Pace::piped(), Pace::stored()] {
            pace.release_at(Some(FRAME), at(0), Duration::ZERO);
            for number in 0..20 {
                let clock = FRAME * (number + 2);
                let released_at = pace.release_at(Some(clock), at(10_000), Duration::ZERO);
                assert_eq!(released_at, at(10_000) + FRAME * number);
            }
        }
    }

    #[test]
    fn a_live_streams_backlog_shrinks_by_a_tenth_of_the_time() {
        // Each unit arrives 200 ms early, and none arrives sooner.
        let mut pace = Pace::piped();
        pace.release_at(Some(Duration::ZERO), at(200), Duration::ZERO);
        let mut held = Vec::new();
        for number in 1..200 {
            let taken_at = at(0) + FRAME * number;
            let released_at = pace.release_at(Some(FRAME * number), taken_at, Duration::ZERO);
            let lead = released_at.saturating_since(taken_at);
            held.push(lead.as_millis());
            pace.on_empty(taken_at, lead);
        }
        assert_eq!(held[..20], [200; 20]);
        assert!(held.is_sorted_by(|a, b| a >= b && a - b <= 4), "{held:?}");
        assert_eq!(held.last(), Some(&0));
    }

    #[test]
    fn a_writer_that_is_ahead_is_never_hurried() {
        let mut pace = Pace::piped();
        let mut now = at(0);
        for number in 0..200 {
            now = pace.release_at(Some(FRAME * number), now, Duration::ZERO);
            assert_eq!(now, at(0) + FRAME * number);
            // The pipe is full now and then.
            pace.on_empty(now, Duration::from_millis(300));
            if number % 20 == 0 {
                pace.on_full();
            }
        }
    }

    #[test]
    fn parts_of_a_unit_follow_the_clock_of_whole_units() {
        let mut pace = Pace::piped();
        assert_eq!(pace.release_part_at(Some(FRAME), at(40)), at(40));
        pace.release_at(Some(FRAME), at(100), FRAME);
        assert_eq!(pace.release_part_at(Some(FRAME * 2), at(110)), at(140));
        assert_eq!(pace.release_part_at(Some(FRAME * 2), at(150)), at(150));
        assert_eq!(pace.release_part_at(None, at(120)), at(120));
    }

    #[test]
    fn without_a_clock_nothing_waits() {
        let mut pace = Pace::piped();
        assert_eq!(pace.release_at(None, at(7), Duration::ZERO), at(7));
    }
}

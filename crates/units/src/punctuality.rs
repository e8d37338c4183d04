//! The punctuality of a driver in real time: whether it gets the processor in time.

use crate::time::{Duration, Instant};

/// Length of the windows in which lateness is counted.
const WINDOW: Duration = Duration::from_secs(1);
/// Lateness up to which a machine with other work counts as punctual.
const TOLERANCE: Duration = Duration::from_millis(5);

/// Time for which due work waited for the processor in one second, counting waits of more than 5
/// ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lateness {
    /// Sum of the waits; more than a second after one long wait.
    pub total: Duration,
    /// The longest wait.
    pub worst: Duration,
}

/// Counts the lateness of a thread that sleeps until its next due time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Punctuality {
    window_began_at: Instant,
    current: Lateness,
    /// The window before.
    last: Lateness,
}

impl Punctuality {
    /// Records a turn of the thread that was due at `due_at`, which is no earlier than the request
    /// for it. A turn that another event caused sooner is not late.
    pub fn on_turn(&mut self, now: Instant, due_at: Instant) {
        self.pass_to(now);
        let late = now.saturating_since(due_at);
        if late > TOLERANCE {
            self.current.total += late;
            self.current.worst = self.current.worst.max(late);
        }
    }

    /// Returns the worse of this second and the one before.
    pub fn lateness(&mut self, now: Instant) -> Lateness {
        self.pass_to(now);
        self.current.max(self.last)
    }

    fn pass_to(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.window_began_at);
        if elapsed < WINDOW {
            return;
        }
        let is_next = elapsed < WINDOW * 2;
        self.last = if is_next {
            self.current
        } else {
            Lateness::default()
        };
        self.current = Lateness::default();
        self.window_began_at = if is_next {
            self.window_began_at + WINDOW
        } else {
            now
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn lateness_adds_up_over_a_second_and_is_forgotten_after_two() {
        let mut punctuality = Punctuality::default();
        for turn in 0..10 {
            // 30 ms late, in time, and a little late.
            punctuality.on_turn(at(100 * turn + 30), at(100 * turn));
            punctuality.on_turn(at(100 * turn + 40), at(100 * turn + 90));
            punctuality.on_turn(at(100 * turn + 55), at(100 * turn + 50));
        }
        let expected = Lateness {
            total: Duration::from_millis(300),
            worst: Duration::from_millis(30),
        };
        assert_eq!(punctuality.lateness(at(999)), expected);
        assert_eq!(punctuality.lateness(at(1_999)), expected);
        assert_eq!(punctuality.lateness(at(2_000)), Lateness::default());
    }

    #[test]
    fn a_wait_of_several_seconds_is_known_at_once() {
        let mut punctuality = Punctuality::default();
        punctuality.on_turn(at(7_000), at(4_000));
        assert_eq!(
            punctuality.lateness(at(7_000)).worst,
            Duration::from_secs(3)
        );
    }
}

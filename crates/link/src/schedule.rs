//! Values that change at known instants.

use anabranch_units::Instant;

/// A value that is constant between changes at known instants, read in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule<T> {
    current: T,
    changes: Vec<(Instant, T)>,
    passed_count: usize,
}

impl<T: Copy> Schedule<T> {
    /// `initial`, until the first of `changes`; each of them gives the value from its instant on.
    /// They may stand in any order; of two at one instant the later in the list counts.
    pub fn new(initial: T, mut changes: Vec<(Instant, T)>) -> Self {
        changes.sort_by_key(|&(at, _)| at);
        Schedule {
            current: initial,
            changes,
            passed_count: 0,
        }
    }

    /// Always `value`.
    pub fn constant(value: T) -> Self {
        Schedule::new(value, Vec::new())
    }

    /// Moves on to `now` and returns the value there. Moving back has no effect.
    #[inline]
    pub fn advance(&mut self, now: Instant) -> T {
        while let Some(&(_, value)) = self.next_change().filter(|(at, _)| *at <= now) {
            self.current = value;
            self.passed_count += 1;
        }
        self.current
    }

    /// The first change after the last `advance`.
    #[inline]
    pub fn next_change(&self) -> Option<&(Instant, T)> {
        self.changes.get(self.passed_count)
    }

    /// The value that holds at `at`, which is not before the last `advance`.
    pub fn value_at(&self, at: Instant) -> T {
        let passed = self
            .upcoming()
            .iter()
            .take_while(|(change_at, _)| *change_at <= at);
        passed.last().map_or(self.current, |&(_, value)| value)
    }

    /// The changes after the last `advance`, in order.
    pub fn upcoming(&self) -> &[(Instant, T)] {
        &self.changes[self.passed_count..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_holds_from_its_instant_on() {
        let at = Instant::from_secs;
        let mut schedule = Schedule::new('a', vec![(at(2), 'c'), (at(1), 'b'), (at(1), 'B')]);
        assert_eq!(schedule.value_at(at(1)), 'B');
        assert_eq!(schedule.advance(Instant::from_millis(999)), 'a');
        assert_eq!(schedule.advance(at(1)), 'B');
        assert_eq!(schedule.upcoming(), [(at(2), 'c')]);
        assert_eq!(schedule.value_at(at(9)), 'c');
        assert_eq!(schedule.advance(at(9)), 'c');
        assert_eq!(schedule.advance(at(1)), 'c');
    }
}

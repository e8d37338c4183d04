//! Values that change at known instants.

use anabranch_units::Instant;

/// A value that is constant between changes at known instants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule<T> {
    initial: T,
    /// Changes in the order of time.
    changes: Vec<(Instant, T)>,
}

impl<T: Copy> Schedule<T> {
    /// Creates a schedule of `initial`, and from the instant of each of the `changes` its value.
    /// They may be in any order; of two at one instant the later in the list counts.
    pub fn new(initial: T, mut changes: Vec<(Instant, T)>) -> Self {
        changes.sort_by_key(|&(at, _)| at);
        Schedule { initial, changes }
    }

    /// Creates a schedule without changes.
    pub fn constant(value: T) -> Self {
        Schedule::new(value, Vec::new())
    }

    /// Returns the value before any change.
    pub fn initial(&self) -> T {
        self.initial
    }

    /// Returns the value that holds at `at`.
    #[inline]
    pub fn value_at(&self, at: Instant) -> T {
        self.from(at).0
    }

    /// Returns the value at `at`, and the changes after that, in order.
    #[inline]
    pub fn from(&self, at: Instant) -> (T, &[(Instant, T)]) {
        let passed_count = self
            .changes
            .partition_point(|(change_at, _)| *change_at <= at);
        let (passed, coming) = self.changes.split_at(passed_count);
        (
            passed.last().map_or(self.initial, |&(_, value)| value),
            coming,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_holds_from_its_instant_on() {
        let at = Instant::from_secs;
        let schedule = Schedule::new('a', vec![(at(2), 'c'), (at(1), 'b'), (at(1), 'B')]);
        assert_eq!(schedule.initial(), 'a');
        assert_eq!(schedule.value_at(Instant::from_millis(999)), 'a');
        assert_eq!(schedule.from(at(1)), ('B', &[(at(2), 'c')][..]));
        assert_eq!(schedule.from(at(9)), ('c', &[][..]));
    }
}

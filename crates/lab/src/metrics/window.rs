//! Part of a run that counts.

use anabranch_units::{Duration, Instant};

/// A part of a run, from one instant to another, perhaps with a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its beginning.
    pub from: Instant,
    /// Its end.
    pub to: Instant,
    /// A part that does not count, such as an outage.
    pub outside: Option<(Instant, Instant)>,
}

impl Window {
    /// Returns the window of a whole run.
    pub fn whole(duration: Duration) -> Window {
        Window {
            from: Instant::ZERO,
            to: Instant::ZERO + duration,
            outside: None,
        }
    }

    /// Whether an event at `at` counts. The end of each part counts and the beginning does not,
    /// except for the beginning of the run, so that adjacent parts share nothing.
    pub fn contains(&self, at: Instant) -> bool {
        fn is_in(from: Instant, to: Instant, at: Instant) -> bool {
            (from < at || (from == Instant::ZERO && at == from)) && at <= to
        }
        is_in(self.from, self.to, at) && !self.outside.is_some_and(|(from, to)| is_in(from, to, at))
    }

    /// Returns the instants at which it opens or closes.
    pub(crate) fn boundaries(&self) -> impl Iterator<Item = Instant> {
        let outside = self.outside.into_iter().flat_map(|(from, to)| [from, to]);
        [self.from, self.to].into_iter().chain(outside)
    }

    /// Whether an event just after `at` counts.
    pub(crate) fn is_open_after(&self, at: Instant) -> bool {
        self.contains(at + Duration::from_nanos(1))
    }

    /// Returns the length of its part in `from..to`.
    pub fn overlap(&self, from: Instant, to: Instant) -> Duration {
        let (from, to) = (from.max(self.from), to.min(self.to));
        let gap = self.outside.map_or(Duration::ZERO, |(begin, end)| {
            end.min(to).saturating_since(begin.max(from))
        });
        to.saturating_since(from).saturating_sub(gap)
    }

    /// Returns its length, without the gap.
    pub fn length(&self) -> Duration {
        self.overlap(self.from, self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    #[test]
    fn a_gap_does_not_count() {
        let window = Window {
            from: s(5),
            to: s(30),
            outside: Some((s(10), s(15))),
        };
        let inside: Vec<u64> = (0..40).filter(|at| window.contains(s(*at))).collect();
        let expected: Vec<u64> = (6..=10).chain(16..=30).collect();
        assert_eq!(inside, expected);
        assert_eq!(window.length(), Duration::from_secs(20));
        assert_eq!(window.overlap(s(12), s(20)), Duration::from_secs(5));
        assert!(window.is_open_after(s(5)) && !window.is_open_after(s(10)));
        assert!(Window::whole(Duration::from_secs(1)).contains(Instant::ZERO));
    }
}

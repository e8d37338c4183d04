//! Limits of a unit's growth, while its parts are handed over.

use anabranch_units::{Duration, Instant};

use super::part::Part;

/// Longest time for which a unit grows whose parts are handed over. `None`: units are handed over
/// whole.
pub(super) type LongestGrowth<'a> = Option<&'a dyn Fn() -> Duration>;

/// When the unit ends of which parts were handed over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    limits: Option<Limits>,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The unit ends with the first bytes from here on: an end without bytes takes a packet of its
    /// own.
    with_bytes_from: Instant,
    /// It ends without bytes.
    until: Instant,
}

impl Growth {
    /// Records that a part was cut that came at `at`.
    pub(super) fn on_part(&mut self, part: &Part, at: Instant, longest: LongestGrowth<'_>) {
        if part.is_last {
            self.limits = None;
        } else if self.limits.is_none() {
            self.limits = longest.map(|longest| Limits::new(at, longest()));
        }
    }

    /// Returns whether the unit ends with bytes that came at `at`.
    pub(super) fn ends_with_bytes_at(&self, at: Instant) -> bool {
        self.limits
            .is_some_and(|limits| limits.with_bytes_from <= at)
    }

    /// Returns when the unit ends if no bytes come.
    pub(super) fn until(&self) -> Option<Instant> {
        self.limits.map(|limits| limits.until)
    }
}

impl Limits {
    fn new(begun_at: Instant, longest: Duration) -> Self {
        Limits {
            with_bytes_from: begun_at + (longest - longest / 4),
            until: begun_at + longest,
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Importance;

    use super::*;

    fn part(is_last: bool) -> Part {
        Part {
            bytes: vec![0; 188],
            is_last,
            importance: Importance::Reference,
            arrivals: None,
        }
    }

    #[test]
    fn a_unit_ends_with_bytes_of_its_last_quarter_or_without() {
        fn longest() -> Duration {
            Duration::from_millis(12)
        }

        let millis = Instant::from_millis;
        let mut growth = Growth::default();
        assert!(!growth.ends_with_bytes_at(millis(1_000)), "none grows");
        for at in [1_000, 1_005] {
            growth.on_part(&part(false), millis(at), Some(&longest));
            assert_eq!(growth.until(), Some(millis(1_012)));
            assert!(!growth.ends_with_bytes_at(millis(at)));
        }
        assert!(!growth.ends_with_bytes_at(millis(1_008)));
        assert!(growth.ends_with_bytes_at(millis(1_009)));
        growth.on_part(&part(true), millis(1_010), Some(&longest));
        assert_eq!(growth.until(), None);
        growth.on_part(&part(false), millis(1_015), Some(&longest));
        assert_eq!(growth.until(), Some(millis(1_027)));
    }

    #[test]
    fn a_unit_that_is_handed_over_whole_has_no_limit() {
        let mut growth = Growth::default();
        growth.on_part(&part(false), Instant::ZERO, None);
        assert_eq!(growth.until(), None);
    }
}

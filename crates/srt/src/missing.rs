//! Ranges of missing packets, and the times of their reports.

use std::collections::BTreeMap;

use anabranch_units::Instant;

/// Disjoint ranges by their first index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missing {
    ranges: BTreeMap<u64, Range>,
    /// No range was reported before this time; `None` if there was no report.
    oldest_report: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    last: u64,
    /// Time of the last report, `None` before the first one.
    reported_at: Option<Instant>,
}

impl Missing {
    /// Returns the first missing packet.
    pub(crate) fn first(&self) -> Option<u64> {
        self.ranges.first_key_value().map(|(first, _)| *first)
    }

    /// Returns a time before which no missing packet was last reported, if there was a report.
    pub(crate) fn oldest_report(&self) -> Option<Instant> {
        if self.ranges.is_empty() {
            None
        } else {
            self.oldest_report
        }
    }

    /// Adds a range behind all others.
    pub(crate) fn push(&mut self, first: u64, last: u64) {
        let range = Range {
            last,
            reported_at: None,
        };
        self.ranges.insert(first, range);
    }

    /// Removes all packets from `first` to `last`, both included.
    pub(crate) fn remove(&mut self, first: u64, last: u64) {
        while let Some((&begin, &range)) = self.ranges.range(..=last).next_back() {
            if range.last < first {
                return;
            }
            self.ranges.remove(&begin);
            if range.last > last {
                self.ranges.insert(last + 1, range);
            }
            if begin < first {
                let before = Range {
                    last: first - 1,
                    ..range
                };
                self.ranges.insert(begin, before);
                return;
            }
        }
    }

    /// Returns ranges that were never reported or not since `outdated`, and dates their report.
    pub(crate) fn unreported(
        &mut self,
        now: Instant,
        outdated: Instant,
        most: usize,
    ) -> Vec<(u64, u64)> {
        fn is_due(range: &Range, outdated: Instant) -> bool {
            range.reported_at.is_none_or(|at| at <= outdated)
        }
        let due = self
            .ranges
            .iter_mut()
            .filter(|(_, range)| is_due(range, outdated));
        let reported = due
            .take(most)
            .map(|(first, range)| {
                range.reported_at = Some(now);
                (*first, range.last)
            })
            .collect();
        // Ranges for which there was no room are dated as if they were reported now.
        let dates = self.ranges.values().map(|range| range.reported_at);
        self.oldest_report = dates.map(|at| at.unwrap_or(now)).min();
        reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(missing: &Missing) -> Vec<(u64, u64)> {
        let all = missing.ranges.iter();
        all.map(|(first, range)| (*first, range.last)).collect()
    }

    #[test]
    fn ranges_are_split_and_removed() {
        let mut missing = Missing::default();
        missing.push(2, 5);
        missing.push(8, 9);
        missing.push(12, 20);
        missing.remove(3, 3);
        assert_eq!(ranges(&missing), [(2, 2), (4, 5), (8, 9), (12, 20)]);
        missing.remove(5, 13);
        assert_eq!(ranges(&missing), [(2, 2), (4, 4), (14, 20)]);
        missing.remove(0, 100);
        assert_eq!(missing.first(), None);
    }

    #[test]
    fn a_range_is_reported_at_once_and_again_when_its_report_is_outdated() {
        let at = Instant::from_millis;
        let mut missing = Missing::default();
        missing.push(1, 4);
        assert_eq!(missing.oldest_report(), None);
        assert_eq!(missing.unreported(at(10), at(0), 9), [(1, 4)]);
        missing.push(6, 6);
        assert_eq!(missing.unreported(at(50), at(9), 9), [(6, 6)]);
        assert_eq!(missing.oldest_report(), Some(at(10)));
        // Parts of a range keep the time of its report.
        missing.remove(2, 2);
        assert_eq!(missing.unreported(at(99), at(9), 9), []);
        assert_eq!(missing.unreported(at(100), at(10), 1), [(1, 1)]);
        assert_eq!(missing.unreported(at(100), at(10), 9), [(3, 4)]);
        assert_eq!(missing.oldest_report(), Some(at(50)));
        missing.remove(1, 6);
        assert_eq!(missing.oldest_report(), None);
    }
}

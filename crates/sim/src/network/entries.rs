//! Packets that are about to enter links, in order.

use anabranch_units::{Ecn, Instant};

use crate::ids::{FlowId, LinkId};

/// A packet that is about to enter a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) at: Instant,
    pub(super) flow: FlowId,
    pub(super) id: u32,
    pub(super) size_bytes: u32,
    pub(super) link: LinkId,
    pub(super) ecn: Ecn,
    /// Whether it goes back to a sender.
    pub(super) is_back: bool,
}

impl Entry {
    /// Returns the sort key. Entries with the same key keep the order in which they were noted.
    fn order(&self) -> u128 {
        u128::from(self.at.as_nanos()) << 64 | u128::from(self.flow.0)
    }
}

/// Packets that enter links in a window. Flows note them one after the other, each in the order of
/// time.
#[derive(Debug, Default)]
pub(super) struct Entries {
    recorded: Vec<Entry>,
    /// Used while sorting.
    sorted: Vec<Entry>,
    /// Ends of the spans of time in the sorted list; used while sorting.
    ends: Vec<u32>,
}

/// Number of entries up to which comparing alone sorts fastest.
const FEW: usize = 16;

impl Entries {
    pub(super) fn record(&mut self, entry: Entry) {
        self.recorded.push(entry);
    }

    /// Records all of them, and leaves the list empty.
    pub(super) fn record_all(&mut self, entries: &mut Vec<Entry>) {
        if self.recorded.is_empty() {
            core::mem::swap(&mut self.recorded, entries);
        } else {
            self.recorded.append(entries);
        }
    }

    /// Takes all entries out by time; at the same time by flow, and then in the order in which they
    /// were noted.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Entry> {
        if self.recorded.len() > FEW {
            self.spread();
        } else {
            self.recorded.sort_by_key(Entry::order);
        }
        self.recorded.drain(..)
    }

    /// Sorts by spans of time that hold an entry or two each, then within each span. When a
    /// thousand flows send by turns, this looks at each packet only a few times.
    fn spread(&mut self) {
        fn span(entry: &Entry, first: u64, shift: u32) -> usize {
            ((nanos(entry) - first) >> shift) as usize
        }

        fn nanos(entry: &Entry) -> u64 {
            entry.at.as_nanos()
        }
        let first = self.recorded.iter().map(nanos).min().unwrap_or_default();
        let last = self.recorded.iter().map(nanos).max().unwrap_or_default();
        let count = self.recorded.len() as u64;
        let shift = u64::BITS - ((last - first) / count).leading_zeros();
        // The start of each span while entries are inserted, and its end afterwards.
        self.ends.clear();
        self.ends.resize(((last - first) >> shift) as usize + 2, 0);
        for entry in &self.recorded {
            self.ends[span(entry, first, shift) + 1] += 1;
        }
        let mut sum = 0;
        for end in &mut self.ends {
            sum += *end;
            *end = sum;
        }
        self.sorted.resize(self.recorded.len(), self.recorded[0]);
        for entry in &self.recorded {
            let place = &mut self.ends[span(entry, first, shift)];
            self.sorted[*place as usize] = *entry;
            *place += 1;
        }
        let mut start = 0;
        for end in &self.ends {
            let end = *end as usize;
            if end - start > 1 {
                self.sorted[start..end].sort_by_key(Entry::order);
            }
            start = end;
        }
        core::mem::swap(&mut self.recorded, &mut self.sorted);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;

    /// Drains `count` entries of instants below `limit`, some of them equal, and compares the
    /// order.
    fn check(count: u32, limit: u64) {
        let mut rng = Seed(u64::from(count) ^ limit).rng();
        let mut entries = Entries::default();
        let mut expected = Vec::new();
        for _ in 0..2 {
            for id in 0..count {
                let entry = Entry {
                    at: Instant::from_nanos(1 << 40 | rng.below(limit)),
                    flow: FlowId(rng.below(5) as u32),
                    id,
                    size_bytes: 1_000,
                    link: LinkId(0),
                    ecn: Ecn::NotEct,
                    is_back: false,
                };
                entries.record(entry);
                expected.push((entry.at, entry.flow, id));
            }
            expected.sort_unstable();
            let drained = entries
                .drain()
                .map(|entry| (entry.at, entry.flow, entry.id));
            assert_eq!(drained.collect::<Vec<_>>(), expected, "{count} {limit}");
            expected.clear();
        }
    }

    #[test]
    fn entries_come_by_time_then_by_flow_then_as_they_were_noted() {
        for count in [0, 1, 2, 63, 64, 65, 100, 1_000, 5_000] {
            for limit in [1, 2, 50, 100, 12_345, 1 << 20, 1 << 39] {
                check(count, limit);
            }
        }
    }
}

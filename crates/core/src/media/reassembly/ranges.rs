//! The byte ranges of a frame that have arrived.

use core::ops::Range;

/// Maximum number of ranges behind the first gap. A frame of the largest size makes fewer if every
/// other packet of 1,200 bytes is late. An attacker's single bytes cost no more than this.
const MAX_RANGES: usize = 4_096;

/// A set of byte ranges. The cost of a range is logarithmic in their number, beside a move of at
/// most 32 KiB.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// All bytes below have arrived.
    prefix: u32,
    /// Ranges behind the first gap, in order. None touches another one.
    beyond: Vec<Range<u32>>,
    /// Number of bytes in all ranges.
    byte_count: u32,
}

impl Ranges {
    /// Returns the number of bytes from the first on without a gap.
    pub(super) fn prefix(&self) -> usize {
        self.prefix as usize
    }

    /// Returns the number of bytes that have arrived.
    pub(super) fn byte_count(&self) -> usize {
        self.byte_count as usize
    }

    /// Returns the end of the last range.
    pub(super) fn end(&self) -> u32 {
        self.beyond.last().map_or(self.prefix, |last| last.end)
    }

    /// Returns the memory of the ranges behind the first gap.
    pub(super) fn beside_bytes(&self) -> usize {
        self.beyond.capacity() * size_of::<Range<u32>>()
    }

    /// Empties the set, whose memory is used again.
    pub(super) fn clear(&mut self) {
        self.beyond.clear();
        (self.prefix, self.byte_count) = (0, 0);
    }

    /// Adds a range. Calls `on_new` for each part of it that has not arrived. Returns false, and
    /// adds nothing, if there are too many ranges.
    pub(super) fn add(&mut self, range: Range<u32>, mut on_new: impl FnMut(Range<u32>)) -> bool {
        let range = range.start.max(self.prefix)..range.end;
        if range.is_empty() {
            return true;
        }
        // The usual case: there is no gap.
        if range.start == self.prefix && self.beyond.is_empty() {
            self.prefix = range.end;
            self.byte_count += range.end - range.start;
            on_new(range);
            return true;
        }
        self.add_beside_gap(range, on_new)
    }

    /// Adds a range that is not empty and does not begin before the first gap.
    #[inline(never)]
    fn add_beside_gap(&mut self, range: Range<u32>, mut on_new: impl FnMut(Range<u32>)) -> bool {
        // The ranges that the new one touches.
        let from = self.beyond.partition_point(|known| known.end < range.start);
        let behind = self.beyond[from..].iter();
        let touched = from..from + behind.take_while(|known| known.start <= range.end).count();
        let is_next = range.start == self.prefix;
        if touched.is_empty() && !is_next && self.beyond.len() == MAX_RANGES {
            return false;
        }
        let (mut all, behind) = (range.clone(), range.end..range.end);
        let mut at = range.start;
        for known in self.beyond[touched.clone()].iter().chain([&behind]) {
            all = all.start.min(known.start)..all.end.max(known.end);
            let part = at..known.start.min(range.end);
            if !part.is_empty() {
                self.byte_count += part.end - part.start;
                on_new(part);
            }
            at = at.max(known.end);
        }
        match (is_next, touched.is_empty()) {
            (true, _) => {
                self.prefix = all.end;
                self.beyond.drain(..touched.end);
            }
            (false, true) => self.beyond.insert(from, all),
            (false, false) => {
                self.beyond[from] = all;
                self.beyond.drain(from + 1..touched.end);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;

    #[test]
    fn ranges_in_any_order_leave_the_bytes_that_a_list_of_bytes_does() {
        fn are_apart(pair: &[Range<u32>]) -> bool {
            pair[0].end < pair[1].start
        }

        let mut rng = Seed(1).rng();
        for _ in 0..200 {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 64]);
            for _ in 0..rng.below(30) {
                let start = rng.below(64) as u32;
                let end = start + rng.below(u64::from(65 - start)) as u32;
                let mut found = Vec::new();
                assert!(ranges.add(start..end, |part| found.extend(part)));
                let new = (start..end).filter(|at| !bytes[*at as usize]);
                assert_eq!(found, new.collect::<Vec<_>>());
                bytes[start as usize..end as usize].fill(true);
                let prefix = bytes.iter().take_while(|has| **has).count();
                let count = bytes.iter().filter(|has| **has).count();
                let end = bytes
                    .iter()
                    .rposition(|has| *has)
                    .map_or(0, |last| last + 1);
                assert_eq!((ranges.prefix(), ranges.byte_count()), (prefix, count));
                assert_eq!(ranges.end() as usize, end);
                assert!(ranges.beyond.windows(2).all(are_apart));
                assert!(ranges.beyond.iter().all(|one| one.start > ranges.prefix));
            }
        }
    }

    #[test]
    fn single_bytes_are_refused_beyond_a_number() {
        let mut ranges = Ranges::default();
        let mut taken = 0;
        for at in 0..10_000 {
            taken += usize::from(ranges.add(2 * at + 1..2 * at + 2, |_| {}));
        }
        assert_eq!(taken, MAX_RANGES);
        assert!(ranges.add(0..1, |_| {}), "gaps are still filled");
        assert!(ranges.add(30_001..30_002, |_| {}));
    }
}

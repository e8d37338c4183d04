//! Bytes that have arrived, in whatever order.

use core::ops::Range;
use std::collections::BTreeMap;

/// A smaller piece takes in the bytes that follow it, so that a stream of tiny segments does not
/// take many times its bytes.
const SMALL_PIECE_BYTES: usize = 512;

/// Ranges of a stream that have arrived and were not read, and their bytes if somebody reads them.
#[derive(Debug)]
pub(super) struct Pieces {
    /// By their offsets. They do not overlap, and none is empty.
    by_offset: BTreeMap<u64, Piece>,
    keeps_bytes: bool,
}

/// Bytes that lie together.
#[derive(Debug)]
struct Piece {
    /// The offset that follows the last one.
    end: u64,
    /// The bytes themselves; none if nobody reads them.
    bytes: Vec<u8>,
}

impl Pieces {
    pub(super) fn new(keeps_bytes: bool) -> Self {
        Pieces {
            by_offset: BTreeMap::new(),
            keeps_bytes,
        }
    }

    /// Returns whether the bytes will be read.
    pub(super) fn keeps_bytes(&self) -> bool {
        self.keeps_bytes
    }

    /// Returns the number of pieces: of bytes that nobody reads, one more than there are gaps.
    pub(super) fn count(&self) -> usize {
        self.by_offset.len()
    }

    /// Returns the offset that follows the last byte of all.
    pub(super) fn highest(&self) -> Option<u64> {
        self.by_offset.last_key_value().map(|(_, last)| last.end)
    }

    /// Returns the number of bytes between two offsets that have arrived.
    pub(super) fn known_bytes(&self, from: u64, to: u64) -> u64 {
        let begin = self.offset_at_or_before(from).unwrap_or(from);
        let near = self.by_offset.range(begin..to.max(begin));
        near.map(|(offset, piece)| {
            let start = (*offset).clamp(from, to);
            piece.end.clamp(start, to) - start
        })
        .sum()
    }

    /// Returns the ranges between two offsets that have not arrived.
    pub(super) fn gaps(&self, from: u64, to: u64) -> Vec<Range<u64>> {
        let (mut gaps, mut at) = (Vec::new(), from);
        let begin = self.offset_at_or_before(from).unwrap_or(from);
        for (start, piece) in self.by_offset.range(begin..to) {
            if *start > at {
                gaps.push(at..*start);
            }
            at = at.max(piece.end);
        }
        if at < to {
            gaps.push(at..to);
        }
        gaps
    }

    /// Returns the start of the first gap behind an offset.
    pub(super) fn end_of_run(&self, offset: u64) -> u64 {
        let begin = self.offset_at_or_before(offset).unwrap_or(offset);
        let mut end = offset;
        for (start, piece) in self.by_offset.range(begin..) {
            if *start > end {
                break;
            }
            end = end.max(piece.end);
        }
        end
    }

    fn offset_at_or_before(&self, offset: u64) -> Option<u64> {
        let before = self.by_offset.range(..=offset).next_back();
        before.map(|(start, _)| *start)
    }

    /// Keeps bytes that have not arrived before: the others are the same.
    pub(super) fn insert(&mut self, mut offset: u64, mut payload: &[u8]) {
        while !payload.is_empty() {
            let before = self.by_offset.range(..=offset).next_back();
            let known_until = before.map_or(0, |(_, before)| before.end);
            let (known, rest) = split(payload, known_until.saturating_sub(offset));
            offset += known.len() as u64;
            let next = self.by_offset.range(offset..).next();
            let missing_until = next.map_or(u64::MAX, |(next, _)| *next);
            let (missing, rest) = split(rest, missing_until - offset);
            if !missing.is_empty() {
                self.put(offset, missing);
            }
            offset += missing.len() as u64;
            payload = rest;
        }
    }

    /// Keeps bytes that lie in a gap.
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let mut end = offset + bytes.len() as u64;
        if !self.keeps_bytes {
            end = self.by_offset.remove(&end).map_or(end, |after| after.end);
        }
        let kept = if self.keeps_bytes { bytes } else { &[] };
        if let Some((_, before)) = self.by_offset.range_mut(..offset).next_back()
            && before.end == offset
            && before.bytes.len() < SMALL_PIECE_BYTES
        {
            before.bytes.extend_from_slice(kept);
            before.end = end;
            return;
        }
        let bytes = kept.to_vec();
        self.by_offset.insert(offset, Piece { end, bytes });
    }

    /// Takes the first piece: where it ends, and its bytes.
    pub(super) fn pop_first(&mut self) -> Option<(u64, Vec<u8>)> {
        let (_, piece) = self.by_offset.pop_first()?;
        Some((piece.end, piece.bytes))
    }

    /// Forgets all below an offset.
    pub(super) fn forget_below(&mut self, offset: u64) {
        while let Some(first) = self.by_offset.first_entry()
            && *first.key() < offset
        {
            let (start, mut piece) = first.remove_entry();
            if piece.end > offset {
                let count = (offset - start) as usize;
                piece.bytes.drain(..count.min(piece.bytes.len()));
                self.by_offset.insert(offset, piece);
            }
        }
    }
}

/// Returns the first bytes, `count` at most, and the others.
fn split(bytes: &[u8], count: u64) -> (&[u8], &[u8]) {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    bytes.split_at(bytes.len().min(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_that_touch_share_their_memory() {
        let mut pieces = Pieces::new(true);
        for offset in 0..SMALL_PIECE_BYTES {
            pieces.insert(offset as u64, &[7]);
        }
        assert_eq!(pieces.count(), 1);
        pieces.insert(SMALL_PIECE_BYTES as u64, &[7]);
        assert_eq!(pieces.count(), 2);
        let (end, bytes) = pieces.pop_first().unwrap();
        assert_eq!((end, bytes.len()), (512, SMALL_PIECE_BYTES));
        assert_eq!(pieces.pop_first(), Some((513, vec![7])));
        assert_eq!(pieces.pop_first(), None);
    }

    #[test]
    fn of_bytes_that_nobody_reads_there_are_as_many_pieces_as_gaps() {
        let mut pieces = Pieces::new(false);
        for offset in (0..1_000).rev() {
            pieces.insert(3 * offset, &[7]);
        }
        assert_eq!(pieces.count(), 1_000);
        for offset in (0..1_000).rev() {
            pieces.insert(3 * offset + 1, &[7; 2]);
        }
        assert_eq!((pieces.count(), pieces.highest()), (1, Some(3_000)));
        assert!(
            pieces
                .by_offset
                .values()
                .all(|piece| piece.bytes.capacity() == 0)
        );
    }
}

//! Data that the application has written to a stream and the peer has not acknowledged.

use std::collections::VecDeque;

use bytes::Bytes;

/// Bytes that had to be copied are gathered to pieces of about this size.
const GATHERED_BYTES: usize = 16 << 10;

/// Bytes by their offset. Shared buffers of the application are kept as they are; other data is
/// copied once.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The offset that follows the last byte.
    end: u64,
    /// Nothing below is kept any more.
    start: u64,
    /// In order and without gaps.
    pieces: VecDeque<Piece>,
    /// Copied bytes after the pieces.
    tail: Vec<u8>,
}

#[derive(Debug)]
struct Piece {
    offset: u64,
    head: Head,
    bytes: Bytes,
}

/// A few bytes in front of shared ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head {
    bytes: [u8; Head::MAX_BYTES],
    length: u8,
}

impl Head {
    /// With its length, 24 bytes: three words beside the shared bytes' four.
    pub(crate) const MAX_BYTES: usize = 23;

    /// Copies a head; `None` if it has too many bytes.
    pub(crate) fn of(bytes: &[u8]) -> Option<Head> {
        let mut head = Head {
            length: u8::try_from(bytes.len()).ok()?,
            ..Head::default()
        };
        head.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(head)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.length)
    }
}

impl Piece {
    fn len(&self) -> usize {
        self.head.len() + self.bytes.len()
    }

    fn end(&self) -> u64 {
        self.offset + self.len() as u64
    }

    /// Appends up to `at_most` bytes from position `from` on. Returns their number.
    fn append(&self, from: usize, at_most: usize, out: &mut Vec<u8>) -> usize {
        let part = match from.checked_sub(self.head.len()) {
            None => &self.head.bytes()[from..],
            Some(from) => &self.bytes[from..],
        };
        let part = &part[..at_most.min(part.len())];
        out.extend_from_slice(part);
        part.len()
    }
}

impl Written {
    /// Returns the offset that follows the last byte.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the number of kept bytes.
    pub(super) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Takes bytes without copying them.
    pub(super) fn push(&mut self, bytes: Bytes) {
        self.push_behind(Head::default(), bytes);
    }

    /// Takes bytes without copying them, behind a head.
    pub(super) fn push_behind(&mut self, head: Head, bytes: Bytes) {
        self.close_tail();
        let offset = self.end;
        let piece = Piece {
            offset,
            head,
            bytes,
        };
        if piece.len() > 0 {
            self.end = piece.end();
            self.pieces.push_back(piece);
        }
    }

    /// Takes a copy of bytes.
    pub(super) fn push_copy(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        self.end += bytes.len() as u64;
        if self.tail.len() >= GATHERED_BYTES {
            self.close_tail();
        }
    }

    fn tail_offset(&self) -> u64 {
        self.end - self.tail.len() as u64
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            let offset = self.tail_offset();
            self.pieces.push_back(Piece {
                offset,
                head: Head::default(),
                bytes: core::mem::take(&mut self.tail).into(),
            });
        }
    }

    /// Returns the index of the piece with the byte at `offset`; behind all pieces if none has it.
    fn index(&self, offset: u64) -> usize {
        // Messages of a long stream are all of one length.
        let guess = self.pieces.front().and_then(|first| {
            let length = first.len().max(1) as u64;
            Some((offset.checked_sub(first.offset)? / length) as usize)
        });
        match guess.filter(|guess| {
            let piece = self.pieces.get(*guess);
            piece.is_some_and(|piece| piece.offset <= offset && offset < piece.end())
        }) {
            Some(index) => index,
            None => self.pieces.partition_point(|piece| piece.end() <= offset),
        }
    }

    /// Returns the end of the piece with the byte at `offset`, which is among those kept.
    pub(super) fn piece_end(&self, offset: u64) -> u64 {
        let index = self.index(offset);
        self.pieces.get(index).map_or(self.end, Piece::end)
    }

    /// Appends `length` bytes from `offset` on to `out`. They must be among those kept.
    pub(super) fn append(&self, offset: u64, length: usize, out: &mut Vec<u8>) {
        let mut left = length;
        let mut from = offset;
        let mut index = self.index(from);
        while left > 0 {
            let appended = match self.pieces.get(index) {
                Some(piece) => piece.append((from - piece.offset) as usize, left, out),
                None => {
                    let bytes = &self.tail[(from - self.tail_offset()) as usize..];
                    out.extend_from_slice(&bytes[..left.min(bytes.len())]);
                    left.min(bytes.len())
                }
            };
            assert!(appended > 0, "sent bytes have been written");
            left -= appended;
            from += appended as u64;
            index += usize::from(
                self.pieces
                    .get(index)
                    .is_none_or(|piece| piece.end() <= from),
            );
        }
    }

    /// Keeps nothing below `offset`, which has been written.
    pub(super) fn free(&mut self, offset: u64) {
        self.start = self.start.max(offset);
        while self
            .pieces
            .front()
            .is_some_and(|piece| piece.end() <= self.start)
        {
            self.pieces.pop_front();
        }
        if self.start == self.end {
            self.tail.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(written: &Written, offset: u64, length: usize) -> Vec<u8> {
        let mut out = vec![b'>'];
        written.append(offset, length, &mut out);
        out.split_off(1)
    }

    #[test]
    fn copies_and_shared_pieces_are_read_across_their_boundaries() {
        let mut written = Written::default();
        written.push_copy(b"ab");
        written.push_copy(b"c");
        written.push(Bytes::from_static(b"defg"));
        written.push(Bytes::new());
        written.push_copy(b"hi");
        assert_eq!((written.end(), written.len()), (9, 9));
        assert_eq!(read(&written, 0, 9), b"abcdefghi");
        assert_eq!(read(&written, 2, 2), b"cd");
        assert_eq!(read(&written, 6, 3), b"ghi");
        assert_eq!(read(&written, 9, 0), b"");
    }

    #[test]
    fn a_head_is_read_in_front_of_its_bytes_from_wherever_reading_begins() {
        let mut written = Written::default();
        for bytes in [&b"one"[..], b"", b"three"] {
            let head = Head::of(b"<head>").expect("short enough");
            written.push_behind(head, Bytes::copy_from_slice(bytes));
        }
        let all = b"<head>one<head><head>three";
        assert_eq!(written.len(), all.len());
        assert_eq!(written.piece_end(0), 9);
        for from in 0..=all.len() {
            for to in from..=all.len() {
                let text = read(&written, from as u64, to - from);
                assert_eq!(text, all[from..to], "{from} to {to}");
            }
        }
        assert!(Head::of(&[0; Head::MAX_BYTES]).is_some());
        assert!(Head::of(&[0; Head::MAX_BYTES + 1]).is_none());
    }

    #[test]
    fn shared_bytes_are_kept_until_acknowledged() {
        let shared = Bytes::from(vec![7; 100]);
        let mut written = Written::default();
        written.push(shared.slice(..60));
        written.push(shared.slice(60..));
        assert_eq!(written.pieces[1].bytes.as_ptr(), shared[60..].as_ptr());
        written.free(99);
        assert_eq!((written.len(), written.pieces.len()), (1, 1));
        assert!(!shared.is_unique());
        written.free(100);
        assert_eq!(written.len(), 0);
        assert!(shared.is_unique());
    }

    #[test]
    fn small_copies_are_gathered_and_hold_no_more_than_a_piece_too_much() {
        let mut written = Written::default();
        for byte in 0..40_000_u32 {
            written.push_copy(&[byte as u8]);
        }
        assert_eq!(written.pieces.len(), 2);
        assert_eq!(read(&written, 16_383, 2), [0xff, 0]);
        written.free(39_999);
        assert!(written.pieces.is_empty());
        assert_eq!(written.tail.len(), 40_000 - 2 * GATHERED_BYTES);
        assert_eq!(read(&written, 39_999, 1), [39_999_u32 as u8]);
        written.free(40_000);
        assert!(written.tail.is_empty());
    }
}

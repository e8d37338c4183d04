//! The receiving half of a stream: puts segments together, whatever their order.

mod messages;

use core::ops::Range;
use std::collections::VecDeque;

use bytes::Bytes;

use crate::config::StreamConfig;
use crate::media::Half;
use messages::Messages;

/// What follows a smaller piece is added to it, so that a stream of tiny segments does not take
/// many times its bytes.
const SMALL_PIECE_BYTES: usize = 512;

/// What has arrived and has not been read.
#[derive(Debug)]
pub(crate) struct ReceiveStream {
    /// In the order of their offsets, which are no less than `read_offset`; apart from one another
    /// where some are missing. Whoever reads at once so gets each segment in memory that the one
    /// before it has just left.
    pieces: VecDeque<Piece>,
    keeps_bytes: bool,
    /// The messages that have arrived and were not read, instead of bytes.
    messages: Option<Messages>,
    read_offset: u64,
    /// All bytes below have arrived.
    offset: u64,
    window_bytes: u64,
    /// The sender has been told that it may send up to here.
    told_max_offset: u64,
    /// Where the stream ends.
    final_offset: Option<u64>,
    /// The bytes of the segment that was taken in last.
    newest: Range<u64>,
}

/// Bytes that lie together.
#[derive(Debug)]
struct Piece {
    offset: u64,
    /// The offset that follows the last one.
    end: u64,
    /// They themselves; none if nobody reads them.
    bytes: Vec<u8>,
}

/// What a segment was to the stream: decides how soon it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// The next bytes, with none missing and none waiting behind them.
    InOrder,
    /// Bytes beyond a gap, bytes that fill one, bytes that are there already, or the last ones:
    /// the sender shall know at once (RFC 5681 §4.2).
    OutOfTurn,
    /// The sender has disregarded the window or the end of the stream. Nothing was taken.
    Forbidden,
}

impl ReceiveStream {
    pub(crate) fn new(config: &StreamConfig) -> Self {
        ReceiveStream {
            pieces: VecDeque::new(),
            keeps_bytes: config.keeps_bytes && !config.carries_messages,
            messages: config.carries_messages.then(Messages::default),
            read_offset: 0,
            offset: 0,
            window_bytes: config.receive_window_bytes,
            told_max_offset: StreamConfig::INITIAL_WINDOW_BYTES,
            final_offset: None,
            newest: 0..0,
        }
    }

    /// The bytes of the segment that was taken in last, by their offsets.
    pub(crate) fn newest(&self) -> Range<u64> {
        self.newest.clone()
    }

    /// All bytes below have arrived; one more than the length of a stream that is complete.
    pub(crate) fn acked_offset(&self) -> u64 {
        self.offset + u64::from(self.is_complete())
    }

    /// The offset expected next, for completing truncated ones.
    pub(crate) fn expected(&self) -> u64 {
        self.offset
    }

    /// Whether the peer's stream has arrived to its end.
    pub(crate) fn is_complete(&self) -> bool {
        self.final_offset == Some(self.offset)
    }

    /// Whether a message can be read.
    pub(crate) fn has_message(&self) -> bool {
        self.messages.as_ref().is_some_and(Messages::has_whole)
    }

    /// How many bytes have arrived in order and were not read.
    pub(crate) fn readable_bytes(&self) -> usize {
        (self.offset - self.read_offset) as usize
    }

    #[cfg(test)]
    fn insert(&mut self, offset: u64, payload: &[u8], is_last: bool) -> Received {
        self.insert_part(offset, payload, is_last, None)
    }

    /// Takes a segment in, which may be one half of a message.
    pub(crate) fn insert_part(
        &mut self,
        offset: u64,
        payload: &[u8],
        is_last: bool,
        half: Option<Half>,
    ) -> Received {
        let end = offset.saturating_add(payload.len() as u64);
        let contradicts = match self.final_offset {
            Some(final_offset) => end > final_offset || (is_last && end != final_offset),
            None => is_last && end < self.highest(),
        };
        if contradicts || end > self.told_max_offset.max(self.max_offset()) {
            return Received::Forbidden;
        }
        if self.messages.is_some() && !self.take_message(offset, payload, half) {
            return Received::Forbidden;
        }
        self.newest = offset..end;
        let is_next = offset == self.offset && self.highest() == offset && !is_last;
        if is_last {
            self.final_offset = Some(end);
        }
        self.place(offset, payload);
        self.advance();
        match is_next {
            true => Received::InOrder,
            false => Received::OutOfTurn,
        }
    }

    /// Keeps a message for its reader, or half of one for the other half, unless it has arrived
    /// before. Returns false if something else of it has, as no message's does.
    fn take_message(&mut self, offset: u64, payload: &[u8], half: Option<Half>) -> bool {
        let end = offset + payload.len() as u64;
        let known = self.known_bytes(offset, end);
        if known == end - offset {
            return true;
        }
        let Some(messages) = &mut self.messages else {
            return true;
        };
        match half {
            Some(half) if known == 0 => messages.take_half(offset, payload, half),
            Some(_) => return false,
            None if known == messages.half_bytes(offset, end) => messages.take(offset, payload),
            None => return false,
        }
        true
    }

    /// How many of the bytes from one offset to another have arrived.
    fn known_bytes(&self, from: u64, to: u64) -> u64 {
        let in_order = self.offset.clamp(from, to) - from;
        let beyond = self
            .pieces
            .range(self.index_beyond(from.max(self.offset))..);
        let overlap = |piece: &Piece| {
            let start = piece.offset.max(self.offset).clamp(from, to);
            piece.end.clamp(start, to) - start
        };
        let near = beyond.take_while(|piece| piece.offset < to);
        in_order + near.map(overlap).sum::<u64>()
    }

    /// The next message, or the next bytes that can be read, as many as lie together.
    pub(crate) fn read(&mut self) -> Option<Bytes> {
        if let Some(messages) = &mut self.messages {
            let message = messages.pop()?;
            if !messages.has_whole() {
                self.skip(u64::MAX);
            }
            return Some(message);
        }
        let piece = self.take_first().filter(|_| self.keeps_bytes)?;
        Some(piece.bytes.into())
    }

    /// Forgets bytes that could be read, `at_most` so many. How many they were; `None`: there were
    /// none.
    pub(crate) fn skip(&mut self, at_most: u64) -> Option<u64> {
        let until = self.read_offset + at_most.min(self.readable_bytes() as u64);
        let skipped = until - self.read_offset;
        while let Some(first) = self.pieces.front_mut()
            && first.offset < until
        {
            if first.end <= until {
                self.take_first();
            } else {
                let count = (until - first.offset) as usize;
                first.bytes.drain(..count.min(first.bytes.len()));
                first.offset = until;
            }
        }
        self.read_offset = until;
        (skipped > 0).then_some(skipped)
    }

    /// The first piece, if it can be read.
    fn take_first(&mut self) -> Option<Piece> {
        if self.readable_bytes() == 0 {
            return None;
        }
        let piece = self.pieces.pop_front()?;
        if self.pieces.is_empty() {
            // The next one is put where this one lay, not behind it.
            self.pieces.clear();
        }
        self.read_offset = piece.end;
        Some(piece)
    }

    /// Bytes from the acknowledged offset on that the sender may send. Telling them is a promise.
    pub(crate) fn tell_window(&mut self) -> u64 {
        self.told_max_offset = self.told_max_offset.max(self.max_offset());
        self.told_max_offset.saturating_sub(self.acked_offset())
    }

    /// Whether reading has opened the window so far that the sender should know: by half.
    pub(crate) fn is_window_worth_telling(&self) -> bool {
        let is_under_way = self.offset > 0 && self.final_offset.is_none();
        is_under_way && self.max_offset() >= self.told_max_offset + self.window_bytes / 2
    }

    fn max_offset(&self) -> u64 {
        self.read_offset + self.window_bytes
    }

    /// The offset that follows the last byte that has arrived.
    fn highest(&self) -> u64 {
        self.pieces
            .back()
            .map_or(self.offset, |piece| piece.end.max(self.offset))
    }

    /// Keeps those of the bytes that are not there yet: the others are the same.
    fn place(&mut self, mut offset: u64, mut payload: &[u8]) {
        (_, payload) = split(payload, self.offset.saturating_sub(offset));
        offset = offset.max(self.offset);
        let mut index = self.index_beyond(offset);
        while !payload.is_empty() {
            let next = self.pieces.get(index);
            let (from, to) = next.map_or((u64::MAX, u64::MAX), |next| (next.offset, next.end));
            let (missing, rest) = split(payload, from.saturating_sub(offset));
            if !missing.is_empty() && self.put(index, offset, missing) {
                index += 1;
            }
            let (known, rest) = split(rest, to - from.max(offset));
            offset += (missing.len() + known.len()) as u64;
            payload = rest;
            index += 1;
        }
    }

    /// Keeps bytes that lie between the piece of this index and the one before it. Returns whether
    /// they are a piece of their own.
    fn put(&mut self, index: usize, offset: u64, bytes: &[u8]) -> bool {
        let end = offset + bytes.len() as u64;
        let kept = if self.keeps_bytes { bytes } else { &[] };
        if let Some(before) = index.checked_sub(1).map(|before| &mut self.pieces[before])
            && before.end == offset
            && before.bytes.len() < SMALL_PIECE_BYTES
        {
            before.bytes.extend_from_slice(kept);
            before.end = end;
            return false;
        }
        let bytes = kept.to_vec();
        self.pieces.insert(index, Piece { offset, end, bytes });
        true
    }

    /// Which is the first piece that has bytes from `offset` on.
    fn index_beyond(&self, offset: u64) -> usize {
        // The usual case first: all of them lie below.
        match self.pieces.back() {
            Some(last) if last.end > offset => {
                self.pieces.partition_point(|piece| piece.end <= offset)
            }
            _ => self.pieces.len(),
        }
    }

    /// Finds out how far the bytes have come without gaps.
    fn advance(&mut self) {
        let beyond = self.pieces.range(self.index_beyond(self.offset)..);
        for piece in beyond {
            if piece.offset > self.offset {
                break;
            }
            self.offset = piece.end;
        }
    }
}

/// The first bytes, at most so many, and the others.
fn split(bytes: &[u8], count: u64) -> (&[u8], &[u8]) {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    bytes.split_at(bytes.len().min(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> ReceiveStream {
        ReceiveStream::new(&StreamConfig {
            receive_window_bytes: 1_000_000,
            ..StreamConfig::default()
        })
    }

    fn read(stream: &mut ReceiveStream) -> Vec<u8> {
        core::iter::from_fn(|| stream.read()).flatten().collect()
    }

    #[test]
    fn pieces_of_any_order_and_overlap_are_put_together() {
        let whole: Vec<u8> = (0..3_000_u32).map(|index| (index % 251) as u8).collect();
        let mut rng = anabranch_units::Seed(7).rng();
        for _ in 0..200 {
            let mut stream = stream();
            let mut out = Vec::new();
            let mut arrived = vec![false; whole.len()];
            while out.len() < whole.len() {
                let from = rng.next_u64() as usize % whole.len();
                let length = 1 + rng.next_u64() as usize % 700;
                let to = whole.len().min(from + length);
                let missing = arrived.iter().position(|is_there| !is_there).unwrap_or(0);
                let gap = arrived[missing..].iter().any(|is_there| *is_there);
                let received = stream.insert(from as u64, &whole[from..to], false);
                let is_in_order = from == missing && !gap;
                assert_eq!(received == Received::InOrder, is_in_order);
                arrived[from..to].fill(true);
                let missing = arrived.iter().position(|is_there| !is_there);
                assert_eq!(stream.expected(), missing.unwrap_or(whole.len()) as u64);
                if rng.next_u64().is_multiple_of(3) {
                    out.extend(read(&mut stream));
                }
            }
            assert_eq!(out, whole);
            assert!(stream.pieces.is_empty());
        }
    }

    #[test]
    fn each_message_comes_once_and_whole_and_the_window_opens_when_all_are_read() {
        let mut stream = ReceiveStream::new(&StreamConfig {
            receive_window_bytes: 100_000,
            carries_messages: true,
            ..StreamConfig::default()
        });
        let mut rng = anabranch_units::Seed(9).rng();
        let mut messages = Vec::new();
        let mut offset = 0;
        for index in 0..200_u8 {
            let message = vec![index; 1 + rng.below(300) as usize];
            messages.push((offset, message.clone()));
            offset += message.len() as u64;
        }
        let expected: Vec<Vec<u8>> = messages.iter().map(|(_, bytes)| bytes.clone()).collect();
        let again = messages.clone();
        let mut waiting: Vec<_> = messages.into_iter().chain(again).collect();
        let mut read = Vec::new();
        while !waiting.is_empty() {
            let (offset, message) = waiting.swap_remove(rng.below(waiting.len() as u64) as usize);
            let received = stream.insert(offset, &message, false);
            assert_ne!(received, Received::Forbidden);
            if rng.below(4) == 0 {
                read.extend(core::iter::from_fn(|| stream.read()).map(Vec::from));
                assert_eq!(stream.readable_bytes(), 0);
            }
        }
        read.extend(core::iter::from_fn(|| stream.read()).map(Vec::from));
        read.sort_by_key(|message: &Vec<u8>| message[0]);
        assert_eq!(read, expected);
        assert_eq!(stream.tell_window(), 100_000);
        assert!(stream.pieces.is_empty());
    }

    #[test]
    fn what_has_arrived_in_part_is_no_message() {
        let mut stream = ReceiveStream::new(&StreamConfig {
            carries_messages: true,
            ..StreamConfig::default()
        });
        assert_eq!(stream.insert(10, &[1; 10], false), Received::OutOfTurn);
        for (offset, length) in [(5, 6), (9, 2), (15, 10), (19, 2), (5, 30), (11, 20)] {
            let received = stream.insert(offset, &vec![2; length], false);
            assert_eq!(received, Received::Forbidden, "{length} from {offset}");
        }
        assert_eq!(stream.insert(0, &[3; 10], false), Received::OutOfTurn);
        assert_eq!(stream.insert(20, &[4], false), Received::InOrder);
        let read = core::iter::from_fn(|| stream.read());
        assert_eq!(
            read.map(|message| message.len()).collect::<Vec<_>>(),
            [10, 10, 1]
        );
    }

    #[test]
    fn a_stream_that_nobody_reads_takes_what_any_other_takes() {
        let mut rng = anabranch_units::Seed(8).rng();
        let mut kept = stream();
        let mut skipped = ReceiveStream {
            keeps_bytes: false,
            ..stream()
        };
        let (mut kept_count, mut skipped_count) = (0, 0);
        for _ in 0..2_000 {
            let offset = kept.expected().saturating_sub(300) + rng.below(1_500);
            let payload = vec![1; rng.below(400) as usize];
            let received =
                [&mut kept, &mut skipped].map(|stream| stream.insert(offset, &payload, false));
            assert_eq!(received[0], received[1]);
            assert_eq!(kept.expected(), skipped.expected());
            if rng.below(3) == 0 {
                kept_count += read(&mut kept).len() as u64;
                skipped_count += skipped.skip(u64::MAX).unwrap_or(0);
                assert_eq!(kept_count, skipped_count);
                assert_eq!(kept.tell_window(), skipped.tell_window());
            }
        }
        assert!(kept_count > 50_000, "{kept_count}");
        assert!(
            skipped
                .pieces
                .iter()
                .all(|piece| piece.bytes.capacity() == 0)
        );
    }

    #[test]
    fn small_pieces_that_touch_share_their_memory() {
        let mut stream = stream();
        for offset in 0..SMALL_PIECE_BYTES {
            stream.insert(offset as u64, &[7], false);
        }
        assert_eq!(stream.pieces.len(), 1);
        stream.insert(SMALL_PIECE_BYTES as u64, &[7], false);
        assert_eq!(stream.pieces.len(), 2);
        assert_eq!(
            stream.read().map(|bytes| bytes.len()),
            Some(SMALL_PIECE_BYTES)
        );
        assert_eq!(stream.read().map(|bytes| bytes.len()), Some(1));
        assert_eq!(stream.read(), None);
    }
}

//! The receiving half of a stream: puts segments together, whatever their order.

mod messages;
mod pieces;

use core::ops::Range;

use bytes::Bytes;

use crate::config::StreamConfig;
use crate::fragment::Edges;
use messages::Messages;
use pieces::Pieces;

/// Pieces are limited to one per this many bytes of the window: an honest peer's segments make
/// fewer, since its short ones follow one another. The headers of pieces take less memory than half
/// of the window (the attack: RFC 9000 §21.6 and §21.7).
const WINDOW_BYTES_PER_PIECE: u64 = 256;
/// A small window's room for pieces.
const MIN_MAX_PIECES: u64 = 1_024;

/// Data that has arrived and has not been read.
#[derive(Debug)]
pub(crate) struct ReceiveStream {
    /// From `read_offset` on; from `offset` on if nobody reads the bytes.
    pieces: Pieces,
    max_pieces: usize,
    /// The messages that have arrived and were not read, instead of bytes.
    messages: Option<Messages>,
    read_offset: u64,
    /// All bytes below have arrived.
    offset: u64,
    window_bytes: u64,
    /// Largest offset that the sender is allowed to reach by the windows announced so far.
    announced_max_offset: u64,
    /// Where the stream ends.
    final_offset: Option<u64>,
    /// The bytes of the segment that was taken in last.
    newest: Range<u64>,
}

/// Effect of a segment on the stream, which decides how soon it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// The next bytes, with none missing and none waiting behind them.
    InOrder,
    /// Bytes beyond a gap, bytes that fill one, bytes that have already arrived, or the last ones:
    /// they are acknowledged at once (RFC 5681 §4.2).
    OutOfTurn,
    /// The sender has disregarded the window or the end of the stream, contradicts an earlier
    /// segment, or leaves more gaps than any network. Nothing was taken.
    Forbidden,
}

impl ReceiveStream {
    /// Creates a stream. Without `keeps_bytes` its bytes can only be skipped.
    pub(crate) fn new(config: &StreamConfig, keeps_bytes: bool) -> Self {
        let keeps_bytes = keeps_bytes && !config.carries_messages;
        let max_pieces = config.receive_window_bytes / WINDOW_BYTES_PER_PIECE;
        ReceiveStream {
            pieces: Pieces::new(keeps_bytes),
            max_pieces: max_pieces.max(MIN_MAX_PIECES) as usize,
            messages: config.carries_messages.then(Messages::default),
            read_offset: 0,
            offset: 0,
            window_bytes: config.receive_window_bytes,
            announced_max_offset: StreamConfig::INITIAL_WINDOW_BYTES,
            final_offset: None,
            newest: 0..0,
        }
    }

    /// Returns the byte range of the segment that was taken in last.
    pub(crate) fn newest(&self) -> Range<u64> {
        self.newest.clone()
    }

    /// Returns the offset below which all bytes have arrived; one more than the length of a stream
    /// that is complete.
    pub(crate) fn acked_offset(&self) -> u64 {
        self.offset + u64::from(self.is_complete())
    }

    /// Returns the offset expected next, for completing truncated ones.
    pub(crate) fn expected(&self) -> u64 {
        self.offset
    }

    /// Returns whether the peer's stream has arrived to its end.
    pub(crate) fn is_complete(&self) -> bool {
        self.final_offset == Some(self.offset)
    }

    /// Returns whether a message can be read.
    pub(crate) fn has_message(&self) -> bool {
        self.messages.as_ref().is_some_and(Messages::has_whole)
    }

    /// Returns the number of bytes that have arrived in order and were not read.
    pub(crate) fn readable_bytes(&self) -> usize {
        (self.offset - self.read_offset) as usize
    }

    #[cfg(test)]
    fn insert(&mut self, offset: u64, payload: &[u8], is_last: bool) -> Received {
        self.insert_part(offset, payload, is_last, Edges::WHOLE)
    }

    /// Takes a segment in, which may be a part of a message.
    pub(crate) fn insert_part(
        &mut self,
        offset: u64,
        payload: &[u8],
        is_last: bool,
        edges: Edges,
    ) -> Received {
        let end = offset.saturating_add(payload.len() as u64);
        let contradicts = match self.final_offset {
            Some(final_offset) => end > final_offset || (is_last && end != final_offset),
            None => is_last && (end < self.highest() || !edges.ends),
        };
        let is_beyond_window = end > self.announced_max_offset.max(self.max_offset());
        let has_room = self.pieces.count() < self.max_pieces || offset <= self.offset;
        if contradicts || is_beyond_window || !has_room {
            return Received::Forbidden;
        }
        if self.messages.is_some() && !self.take_message(offset, payload, edges) {
            return Received::Forbidden;
        }
        self.newest = offset..end;
        let is_next = offset == self.offset && self.highest() == offset && !is_last;
        if is_last {
            self.final_offset = Some(end);
        }
        if is_next && !self.pieces.keeps_bytes() {
            // The usual case: no piece is needed.
            self.offset = end;
            return Received::InOrder;
        }
        let known = self.offset.saturating_sub(offset).min(payload.len() as u64);
        self.pieces
            .insert(offset + known, &payload[known as usize..]);
        self.offset = self.pieces.end_of_run(self.offset);
        if !self.pieces.keeps_bytes() {
            self.pieces.forget_below(self.offset);
        }
        if is_next {
            Received::InOrder
        } else {
            Received::OutOfTurn
        }
    }

    /// Keeps the bytes of a message that have not arrived before. Returns false if they contradict
    /// others.
    fn take_message(&mut self, offset: u64, payload: &[u8], edges: Edges) -> bool {
        let end = offset + payload.len() as u64;
        let known = self.known_bytes(offset, end);
        if known == end - offset {
            return true;
        }
        // Mostly nothing of it has arrived.
        let (whole, parts);
        let gaps: &[Range<u64>] = match known {
            0 => {
                whole = offset..end;
                core::slice::from_ref(&whole)
            }
            _ => {
                parts = self.pieces.gaps(self.offset.clamp(offset, end), end);
                &parts
            }
        };
        let whole = offset..end;
        if !gaps
            .iter()
            .all(|gap| self.fits(gap, edges.of_part(&whole, gap)))
        {
            return false;
        }
        let Some(messages) = &mut self.messages else {
            return true;
        };
        gaps.iter().all(|gap| {
            let bytes = (gap.start - offset) as usize..(gap.end - offset) as usize;
            messages.take(gap.start, &payload[bytes], edges.of_part(&whole, gap))
        })
    }

    /// Returns whether the neighbours of a gap are of the message that is to fill it, unless the
    /// edge of a message lies between.
    fn fits(&self, gap: &Range<u64>, edges: Edges) -> bool {
        let Some(messages) = &self.messages else {
            return true;
        };
        let (start, end) = (gap.start, gap.end);
        let is_known_before = start == 0 || self.known_bytes(start - 1, start) > 0;
        let is_known_behind = self.known_bytes(end, end + 1) > 0 || self.final_offset == Some(end);
        let begins_well = if edges.begins {
            !messages.is_open_before(gap.start)
        } else {
            is_known_before == messages.is_open_before(gap.start)
        };
        let ends_well = if edges.ends {
            !messages.is_open_behind(gap.end)
        } else {
            is_known_behind == messages.is_open_behind(gap.end)
        };
        begins_well && ends_well
    }

    /// Returns the number of bytes between two offsets that have arrived.
    fn known_bytes(&self, from: u64, to: u64) -> u64 {
        let in_order = self.offset.clamp(from, to);
        in_order - from + self.pieces.known_bytes(in_order, to)
    }

    /// Returns the next message, or the next contiguous bytes that can be read.
    pub(crate) fn read(&mut self) -> Option<Bytes> {
        if let Some(messages) = &mut self.messages {
            let message = messages.pop()?;
            if !messages.has_whole() {
                self.skip(u64::MAX);
            }
            return Some(message);
        }
        if !self.pieces.keeps_bytes() {
            self.skip(u64::MAX);
            return None;
        }
        self.take_first().map(Bytes::from)
    }

    /// Discards up to `at_most` readable bytes. Returns their number; `None` if there were none.
    pub(crate) fn skip(&mut self, at_most: u64) -> Option<u64> {
        let until = self.read_offset + at_most.min(self.readable_bytes() as u64);
        let skipped = until - self.read_offset;
        if self.pieces.keeps_bytes() {
            self.pieces.forget_below(until);
        }
        self.read_offset = until;
        (skipped > 0).then_some(skipped)
    }

    /// Takes the first piece's bytes, if they can be read.
    fn take_first(&mut self) -> Option<Vec<u8>> {
        if self.readable_bytes() == 0 {
            return None;
        }
        let (end, bytes) = self.pieces.pop_first()?;
        self.read_offset = end;
        Some(bytes)
    }

    /// Returns the window from the acknowledged offset on, for an announcement, which is a promise.
    pub(crate) fn announce_window(&mut self) -> u64 {
        self.announced_max_offset = self.announced_max_offset.max(self.max_offset());
        self.announced_max_offset
            .saturating_sub(self.acked_offset())
    }

    /// Returns whether reading has opened the window enough for an announcement: by half.
    pub(crate) fn should_announce_window(&self) -> bool {
        let is_in_progress = self.offset > 0 && self.final_offset.is_none();
        is_in_progress && self.max_offset() >= self.announced_max_offset + self.window_bytes / 2
    }

    fn max_offset(&self) -> u64 {
        self.read_offset + self.window_bytes
    }

    /// Returns the offset that follows the last byte that has arrived.
    fn highest(&self) -> u64 {
        self.pieces.highest().unwrap_or(0).max(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> ReceiveStream {
        ReceiveStream::new(
            &StreamConfig {
                receive_window_bytes: 1_000_000,
                ..StreamConfig::default()
            },
            true,
        )
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
            assert_eq!(stream.pieces.count(), 0);
        }
    }

    #[test]
    fn each_message_comes_once_and_whole_and_the_window_opens_when_all_are_read() {
        let mut stream = ReceiveStream::new(
            &StreamConfig {
                receive_window_bytes: 100_000,
                carries_messages: true,
                ..StreamConfig::default()
            },
            true,
        );
        let mut rng = anabranch_units::Seed(9).rng();
        let mut messages = Vec::new();
        let mut offset = 0;
        for index in 0..200_u8 {
            let message = vec![index; 1 + rng.below(300) as usize];
            messages.push((offset, message.clone()));
            offset += message.len() as u64;
        }
        let expected: Vec<Vec<u8>> = messages.iter().map(|(_, bytes)| bytes.clone()).collect();
        let repeated = messages.clone();
        let mut waiting: Vec<_> = messages.into_iter().chain(repeated).collect();
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
        assert_eq!(stream.announce_window(), 100_000);
        assert_eq!(stream.pieces.count(), 0);
    }

    #[test]
    fn partial_message_is_not_read() {
        let mut stream = ReceiveStream::new(
            &StreamConfig {
                carries_messages: true,
                ..StreamConfig::default()
            },
            true,
        );
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

    /// Returns a stream of messages.
    fn messages() -> ReceiveStream {
        ReceiveStream::new(
            &StreamConfig {
                receive_window_bytes: 1_000_000,
                carries_messages: true,
                ..StreamConfig::default()
            },
            true,
        )
    }

    const BEGIN: Edges = Edges {
        begins: true,
        ends: false,
    };
    const MIDDLE: Edges = Edges {
        begins: false,
        ends: false,
    };
    const END: Edges = Edges {
        begins: false,
        ends: true,
    };

    #[test]
    fn a_part_that_contradicts_another_one_is_forbidden() {
        let pairs = [
            // A whole message where the rest belongs, or the beginning.
            ((10, BEGIN), (20, Edges::WHOLE)),
            ((10, END), (0, Edges::WHOLE)),
            // Two parts of one kind, or the middle beside a whole message.
            ((10, BEGIN), (20, BEGIN)),
            ((10, END), (20, END)),
            ((10, Edges::WHOLE), (20, MIDDLE)),
            // The beginning of nothing, the end of nothing.
            ((0, Edges::WHOLE), (10, END)),
        ];
        for (one, other) in pairs {
            for [(from, edges), then] in [[one, other], [other, one]] {
                let mut stream = messages();
                stream.insert(100, &[1; 10], false);
                let taken = stream.insert_part(from, &[1; 10], false, edges);
                assert_ne!(taken, Received::Forbidden, "{from} {edges:?}");
                let (from, edges) = then;
                let taken = stream.insert_part(from, &[1; 10], false, edges);
                assert_eq!(taken, Received::Forbidden, "{from} {edges:?}");
            }
        }
        for (is_last, edges) in [(false, END), (false, MIDDLE), (true, BEGIN)] {
            let mut stream = messages();
            let at_edge = stream.insert_part(0, &[1; 10], is_last, edges);
            assert_eq!(at_edge, Received::Forbidden, "{edges:?}");
        }
    }

    /// Segments are cut again while copies of the longer ones are under way.
    #[test]
    fn parts_in_any_order_make_each_message_once_and_leave_nothing_behind() {
        let mut rng = anabranch_units::Seed(10).rng();
        let mut stream = messages();
        let mut parts = Vec::new();
        for index in 0..300_u64 {
            let at = index * 30;
            parts.extend([(at, 10, BEGIN), (at + 10, 10, MIDDLE), (at + 20, 10, END)]);
            let longer = [(at, 30, Edges::WHOLE), (at + 10, 20, END)];
            for part in longer {
                if rng.below(3) == 0 {
                    parts.push(part);
                }
            }
        }
        let mut read = Vec::new();
        while !parts.is_empty() {
            let index = rng.below(parts.len() as u64) as usize;
            let (offset, length, edges) = parts.swap_remove(index);
            let payload: Vec<u8> = (offset..offset + length).map(|at| at as u8).collect();
            let taken = stream.insert_part(offset, &payload, false, edges);
            assert_ne!(taken, Received::Forbidden, "{offset} {edges:?}");
            read.extend(core::iter::from_fn(|| stream.read()));
        }
        assert!(read.iter().all(|message| {
            let expected = (0..30).map(|at| message[0].wrapping_add(at));
            message.iter().copied().eq(expected)
        }));
        assert_eq!((read.len(), stream.pieces.count()), (300, 0));
        let part_count = stream.messages.map(|messages| messages.part_count());
        assert_eq!(part_count, Some(0));
    }

    #[test]
    fn a_message_without_an_end_is_forbidden_before_it_is_long() {
        for descends in [false, true] {
            let mut stream = messages();
            let mut offsets: Vec<u64> = (1..30_000).collect();
            if descends {
                offsets.reverse();
            }
            let taken = offsets
                .into_iter()
                .map(|offset| stream.insert_part(offset, &[1], false, MIDDLE));
            assert_eq!(
                taken.take_while(|one| *one != Received::Forbidden).count(),
                9_000
            );
        }
    }

    #[test]
    fn gaps_are_bounded_and_the_first_one_can_be_filled_in_any_case() {
        let mut stream = messages();
        let max_pieces = 1_000_000 / WINDOW_BYTES_PER_PIECE;
        for index in 0..max_pieces {
            let taken = stream.insert(3 + 3 * index, &[1; 2], false);
            assert_eq!(taken, Received::OutOfTurn);
        }
        let beyond = 3 + 3 * max_pieces;
        assert_eq!(stream.insert(beyond, &[1; 2], false), Received::Forbidden);
        assert_eq!(stream.insert(0, &[1; 3], false), Received::OutOfTurn);
        assert_eq!(stream.expected(), 5);
    }

    #[test]
    fn a_stream_that_nobody_reads_takes_what_any_other_takes() {
        let mut rng = anabranch_units::Seed(8).rng();
        let mut kept = stream();
        let mut skipped = ReceiveStream::new(
            &StreamConfig {
                receive_window_bytes: 1_000_000,
                ..StreamConfig::default()
            },
            false,
        );
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
                assert_eq!(kept.announce_window(), skipped.announce_window());
            }
        }
        assert!(kept_count > 50_000, "{kept_count}");
    }
}

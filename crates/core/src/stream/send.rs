//! The sending half of a stream: bytes that wait, and segments that are not acknowledged.

mod binding;
mod cuts;
#[cfg(any(debug_assertions, feature = "invariants"))]
mod invariants;
mod written;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::config::StreamConfig;
use crate::fragment::Edges;
use crate::path_view::{PathId, PathSet};
use crate::recovery::SentPacket;
use crate::send_reason::SendReason;
use written::Written;

pub(crate) use written::Head;

/// Bytes from the first unacknowledged segment to the last byte written.
#[derive(Debug)]
pub(crate) struct SendStream {
    /// Waiting segments, mostly retransmissions, by their offsets.
    waiting: BTreeMap<u64, Waiting>,
    /// Nothing from here on is in a segment. With one path, nothing from here on has ever been
    /// sent: segments are cut as they leave.
    next_offset: u64,
    /// The peer takes nothing from here on.
    max_offset: u64,
    written: Written,
    is_finished: bool,
    /// Whether each write is a segment.
    carries_messages: bool,
    /// Whether the application wanted to write more than there was room for.
    is_write_refused: bool,
    /// Everything below has arrived.
    acked_offset: u64,
    /// Segments beyond the cumulative acknowledgement, by offset and without holes.
    segments: VecDeque<Segment>,
    /// Bytes of the segments that wait.
    waiting_bytes: u64,
    /// Counter of changes of waiting segments, and of their properties that a scheduler sees.
    waiting_version: u64,
    capacity: usize,
    max_unsent_bytes: usize,
}

/// A packet, by its path and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) on: PathId,
    pub(crate) packet: SentPacket,
}

/// Why a segment waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) reason: SendReason,
    /// Lost copy; recovery forgets lost packets.
    pub(crate) lost: Option<Copy>,
}

/// State of a segment, kept small: there are as many as packets in flight.
#[derive(Debug)]
struct Segment {
    offset: u64,
    /// The number of its last copy, if one has left, and the path it left on.
    packet_number: u64,
    length: u32,
    in_flight_on: PathSet,
    copies_in_flight: u16,
    /// Number of copies that wait in the queues of paths.
    bound_copies: u8,
    /// Whether it has been sent on another path as well, for a tail's or its viewer's sake.
    is_reinjected: bool,
    last_on: PathId,
    has_left: bool,
    is_last: bool,
    is_delivered: bool,
    edges: Edges,
}

impl Segment {
    fn new(chunk: &Chunk) -> Self {
        Segment {
            offset: chunk.offset,
            packet_number: 0,
            length: chunk.length as u32,
            in_flight_on: PathSet::EMPTY,
            copies_in_flight: 0,
            bound_copies: 0,
            is_reinjected: false,
            last_on: PathId(0),
            has_left: false,
            is_last: chunk.is_last,
            is_delivered: false,
            edges: chunk.edges,
        }
    }

    /// Returns the offset behind the last byte; the end of the stream takes one.
    fn end(&self) -> u64 {
        self.offset + u64::from(self.length) + u64::from(self.is_last)
    }

    /// Returns whether another copy is sent after copies are gone. Any other counts as about to
    /// arrive: if it does not, its path's forecast asks for a reinjection.
    fn is_wanted_again(&self) -> bool {
        self.copies_in_flight == 0 && self.bound_copies == 0 && !self.is_delivered
    }

    /// Returns whether another copy is sent as a probe of this path, whose copy is in doubt.
    fn is_wanted_as_probe(&self, on: PathId) -> bool {
        let elsewhere = self.in_flight_on.without(PathSet::only(on));
        elsewhere.is_empty() && self.bound_copies == 0
    }

    /// Returns the chunk to send.
    fn chunk(&self, reason: SendReason) -> Chunk {
        Chunk {
            offset: self.offset,
            length: self.length as usize,
            is_last: self.is_last,
            reason,
            edges: self.edges,
        }
    }
}

/// A piece of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) offset: u64,
    pub(crate) length: usize,
    /// Whether the stream ends with it.
    pub(crate) is_last: bool,
    /// Why it is sent.
    pub(crate) reason: SendReason,
    pub(crate) edges: Edges,
}

impl Chunk {
    /// Returns whether it is a first transmission.
    pub(crate) fn is_new(&self) -> bool {
        self.reason == SendReason::New
    }

    /// Returns the offset behind the last byte; the end of the stream takes one.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length as u64 + u64::from(self.is_last)
    }
}

impl SendStream {
    /// Creates a stream in segments of `segment_bytes`. Limits are rounded up to whole segments.
    /// Otherwise, if a writer always has more, a limit would end in a short segment.
    pub(crate) fn new(config: &StreamConfig, segment_bytes: u16) -> Self {
        let segment_bytes = usize::from(segment_bytes.max(1));
        SendStream {
            written: Written::default(),
            capacity: config
                .send_buffer_bytes
                .next_multiple_of(segment_bytes)
                .max(1),
            max_unsent_bytes: config
                .max_unsent_bytes
                .next_multiple_of(segment_bytes)
                .max(1),
            carries_messages: config.carries_messages,
            is_write_refused: false,
            is_finished: false,
            acked_offset: 0,
            next_offset: 0,
            max_offset: StreamConfig::INITIAL_WINDOW_BYTES,
            segments: VecDeque::new(),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            waiting_version: 0,
        }
    }

    /// Takes a copy of as many of the bytes as there is room for.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> usize {
        let taken = self.admit(bytes.len());
        self.written.push_copy(&bytes[..taken]);
        taken
    }

    /// Takes as many of the bytes as there is room for, and shares them with whoever holds them.
    pub(crate) fn write_shared(&mut self, mut bytes: Bytes) -> usize {
        let taken = self.admit(bytes.len());
        if self.carries_messages && taken < bytes.len() {
            return 0;
        }
        bytes.truncate(taken);
        self.written.push(bytes);
        taken
    }

    /// Takes bytes behind a head, all or none of them.
    pub(crate) fn write_behind(&mut self, head: Head, bytes: Bytes) -> usize {
        let wanted = head.len() + bytes.len();
        if self.admit(wanted) < wanted {
            return 0;
        }
        self.written.push_behind(head, bytes);
        wanted
    }

    /// Returns the number of bytes, of `wanted`, that are accepted now.
    fn admit(&mut self, wanted: usize) -> usize {
        let taken = wanted.min(self.room());
        self.is_write_refused = taken < wanted;
        taken
    }

    pub(crate) fn finish(&mut self) {
        self.is_finished = true;
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Returns whether all written data has arrived.
    pub(crate) fn is_drained(&self) -> bool {
        self.written.len() == 0 && self.segments.is_empty() && self.next_offset == self.end()
    }

    /// Returns the number of bytes that may be written now.
    fn room(&self) -> usize {
        let unsent_bytes = self.written.end().saturating_sub(self.next_offset) as usize;
        let unsent_room = self.max_unsent_bytes.saturating_sub(unsent_bytes);
        unsent_room.min(self.capacity - self.written.len())
    }

    /// Returns whether a writer that was refused may try again: once there is room for a quarter of
    /// the smaller limit.
    pub(crate) fn take_writable(&mut self) -> bool {
        let worth = self.capacity.min(self.max_unsent_bytes).div_ceil(4);
        self.room() >= worth && core::mem::take(&mut self.is_write_refused)
    }

    /// Returns the offset below which everything has arrived.
    pub(crate) fn acked_offset(&self) -> u64 {
        self.acked_offset
    }

    /// Returns the offset from which on no data is in a segment.
    pub(crate) fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Returns the bytes that wait for their first transmission or a retransmission, bound to no
    /// path.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.written.end().saturating_sub(self.next_offset) + self.waiting_bytes
    }

    /// Returns a number that changes whenever [`waiting`](Self::waiting) would change.
    pub(crate) fn waiting_version(&self) -> u64 {
        self.waiting_version
    }

    /// Returns the bytes of the segments that wait.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Returns the number of further bytes that the peer's window allows.
    pub(crate) fn window_bytes(&self) -> u64 {
        self.max_offset.saturating_sub(self.next_offset)
    }

    fn end(&self) -> u64 {
        // Once it is acknowledged, the end's own offset lies behind all bytes.
        self.written.end() + u64::from(self.is_finished)
    }

    /// Returns the next piece to send: the first waiting segment, or new data.
    #[inline]
    pub(crate) fn next(&self, max_bytes: usize) -> Option<Chunk> {
        if self.waiting.is_empty() {
            self.next_new(max_bytes)
        } else {
            self.first_waiting()
        }
    }

    /// Returns the first segment that waits.
    #[cold]
    fn first_waiting(&self) -> Option<Chunk> {
        let (offset, waiting) = self.waiting.first_key_value()?;
        Some(self.segment(*offset)?.chunk(waiting.reason))
    }

    /// Returns the next piece of new data, if the peer's window takes it whole.
    pub(crate) fn next_new(&self, max_bytes: usize) -> Option<Chunk> {
        self.unsent(max_bytes).filter(|chunk| self.is_taken(chunk))
    }

    /// Returns whether anything waits, or has never been sent: bytes, or the end.
    pub(crate) fn has_any(&self) -> bool {
        !self.waiting.is_empty() || self.next_offset < self.end()
    }

    fn unsent(&self, max_bytes: usize) -> Option<Chunk> {
        let unsent = self.written.end().checked_sub(self.next_offset)?;
        let length = if self.carries_messages && unsent > 0 {
            self.written.piece_end(self.next_offset) - self.next_offset
        } else {
            unsent.min(max_bytes as u64)
        };
        let is_last = self.is_finished && length == unsent;
        (length > 0 || is_last).then_some(Chunk {
            offset: self.next_offset,
            length: length as usize,
            is_last,
            reason: SendReason::New,
            edges: Edges::WHOLE,
        })
    }

    /// Returns whether the peer's window takes a piece whole.
    fn is_taken(&self, chunk: &Chunk) -> bool {
        chunk.offset + chunk.length as u64 <= self.max_offset
    }

    /// Returns whether only the peer's window keeps bytes back.
    pub(crate) fn is_blocked(&self, max_bytes: usize) -> bool {
        let unsent = self.unsent(max_bytes);
        self.waiting.is_empty() && unsent.is_some_and(|chunk| !self.is_taken(&chunk))
    }

    /// Returns, as a probe, the segment of the highest offset that has left by a path and is not
    /// known to have arrived.
    pub(crate) fn last_undelivered(&self, on: PathId) -> Option<Chunk> {
        let segment = self.last_undelivered_segment(on)?;
        Some(segment.chunk(SendReason::TailLossProbe))
    }

    fn last_undelivered_segment(&self, on: PathId) -> Option<&Segment> {
        let mut newest_first = self.segments.iter().rev();
        newest_first
            .find(|segment| segment.has_left && segment.last_on == on && !segment.is_delivered)
    }

    /// Returns whether the rule asks for a copy of that segment to probe its path.
    pub(crate) fn is_probe_wanted(&self, on: PathId) -> bool {
        let last = self.last_undelivered_segment(on);
        last.is_some_and(|segment| segment.is_wanted_as_probe(on))
    }

    /// Returns the packet number of the last copy of the first segment that is not acknowledged.
    pub(crate) fn first_unacked(&self) -> Option<u64> {
        self.segments.front().map(|segment| segment.packet_number)
    }

    /// Appends the bytes of a piece.
    pub(crate) fn append_payload(&self, chunk: &Chunk, out: &mut Vec<u8>) {
        self.written.append(chunk.offset, chunk.length, out);
    }

    /// Records that a piece has left by a path, in the packet of this number.
    pub(crate) fn on_sent(&mut self, chunk: &Chunk, on: PathId, packet_number: u64) {
        let segment = if chunk.offset == self.next_offset {
            self.cut(chunk);
            self.segments.back_mut()
        } else {
            self.segment_mut(chunk.offset)
        };
        if let Some(segment) = segment {
            segment.packet_number = packet_number;
            segment.last_on = on;
            segment.has_left = true;
            segment.in_flight_on.insert(on);
            segment.copies_in_flight = segment.copies_in_flight.saturating_add(1);
            self.take_waiting(chunk.offset, chunk.length as u32);
        }
    }

    fn cut(&mut self, chunk: &Chunk) {
        debug_assert_eq!(chunk.offset, self.next_offset);
        self.next_offset = chunk.end();
        self.segments.push_back(Segment::new(chunk));
    }

    /// Handles the arrival, by a path, of a copy of the segment at `offset`.
    pub(crate) fn on_packet_acked(&mut self, offset: u64, on: PathId) {
        if let Some(segment) = self.segment_mut(offset) {
            segment.copies_in_flight = segment.copies_in_flight.saturating_sub(1);
            segment.in_flight_on.remove(on);
            segment.is_delivered = true;
            let length = segment.length;
            self.take_waiting(offset, length);
        }
    }

    /// Handles the loss of a copy of the segment at `offset`: the segment is resent, unless there
    /// is another copy. If copies are lost together, the caller reports the last one last.
    pub(crate) fn on_packet_lost(&mut self, offset: u64, lost: Copy, reason: SendReason) {
        self.waiting_version += 1;
        if let Some(segment) = self.segment_mut(offset) {
            segment.copies_in_flight = segment.copies_in_flight.saturating_sub(1);
            segment.in_flight_on.remove(lost.on);
            if segment.is_wanted_again() {
                let lost = Some(lost);
                self.wait(offset, Waiting { reason, lost });
            }
        }
    }

    /// Queues the segment at `offset`, which must exist.
    fn wait(&mut self, offset: u64, waiting: Waiting) {
        let length = self
            .segment(offset)
            .map_or(0, |segment| u64::from(segment.length));
        self.waiting_version += 1;
        if self.waiting.insert(offset, waiting).is_none() {
            self.waiting_bytes += length;
        }
    }

    /// Removes the segment at `offset` from the queue, if it waits.
    fn take_waiting(&mut self, offset: u64, length: u32) -> Option<Waiting> {
        // The call comes for every segment that leaves or arrives, and mostly none waits.
        if self.waiting.is_empty() {
            return None;
        }
        let waiting = self.waiting.remove(&offset)?;
        self.waiting_version += 1;
        self.waiting_bytes -= u64::from(length);
        debug_assert!(!self.waiting.is_empty() || self.waiting_bytes == 0);
        Some(waiting)
    }

    /// Handles the arrival of everything below `offset`. The last copies of segments that were not
    /// known to have arrived are appended to `settled`; those in flight are found by their paths
    /// and numbers. Returns whether the offset is new.
    pub(crate) fn on_cumulative_ack(
        &mut self,
        offset: u64,
        in_flight: impl Fn(PathId, u64) -> Option<SentPacket>,
        settled: &mut Vec<Copy>,
    ) -> bool {
        if offset <= self.acked_offset || offset > self.next_offset {
            return false;
        }
        self.acked_offset = offset;
        let mut freed_until = 0;
        while let Some(segment) = self.segments.front()
            && segment.end() <= offset
        {
            let (start, number, on) = (segment.offset, segment.packet_number, segment.last_on);
            let (length, is_delivered) = (segment.length, segment.is_delivered);
            freed_until = start + u64::from(length);
            if !is_delivered {
                let waiting = self.take_waiting(start, length);
                let lost = waiting.and_then(|waiting| waiting.lost);
                settled.extend(
                    lost.or_else(|| in_flight(on, number).map(|packet| Copy { on, packet })),
                );
            }
            self.segments.pop_front();
        }
        self.written.free(freed_until);
        true
    }

    /// Extends the peer's window to `offset`; the peer never takes it back.
    pub(crate) fn on_window(&mut self, offset: u64) {
        self.max_offset = self.max_offset.max(offset);
    }

    fn index(&self, offset: u64) -> Option<usize> {
        // Segments are all of one length, unless the application had too little.
        let first = self.segments.front()?;
        let guess = offset.checked_sub(first.offset)? / u64::from(first.length.max(1));
        let at_guess = self.segments.get(guess as usize);
        if at_guess.is_some_and(|segment| segment.offset == offset) {
            return Some(guess as usize);
        }
        self.segments
            .binary_search_by(|segment| segment.offset.cmp(&offset))
            .ok()
    }

    fn segment(&self, offset: u64) -> Option<&Segment> {
        self.segments.get(self.index(offset)?)
    }

    fn segment_mut(&mut self, offset: u64) -> Option<&mut Segment> {
        let index = self.index(offset)?;
        self.segments.get_mut(index)
    }
}

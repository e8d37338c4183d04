//! Segments that are bound to paths before they leave, as over several paths.

use super::{Chunk, Segment, SendStream, Waiting};
use crate::path_view::{PathId, PathSet};
use crate::reinjection::Awaited;
use crate::send_reason::SendReason;

impl SendStream {
    /// Cuts the next segment, which then waits, if the peer's window takes it whole. One shorter
    /// than `max_bytes` is cut only if `is_short_wanted`, or if no more will be written.
    pub(crate) fn cut_next(&mut self, max_bytes: usize, is_short_wanted: bool) -> Option<Chunk> {
        let chunk = self.next_new(max_bytes)?;
        let is_to_grow = chunk.length < max_bytes && !self.carries_messages && !self.is_finished;
        if is_to_grow && !is_short_wanted {
            return None;
        }
        self.cut(&chunk);
        let (reason, lost) = (SendReason::New, None);
        self.wait(chunk.offset, Waiting { reason, lost });
        Some(chunk)
    }

    /// Returns whether any segment waits.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Iterates over the waiting segments, in their order in the stream.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Chunk, Waiting, PathSet)> {
        self.waiting.iter().filter_map(|(offset, waiting)| {
            let segment = self.segment(*offset)?;
            let chunk = segment.chunk(waiting.reason);
            Some((chunk, *waiting, segment.in_flight_on))
        })
    }

    /// Records that the segment at `offset` is bound to a path, and waits no longer.
    pub(crate) fn on_bound(&mut self, offset: u64) {
        if let Some(segment) = self.segment_mut(offset) {
            segment.bound_copies = segment.bound_copies.saturating_add(1);
            let length = segment.length;
            self.take_waiting(offset, length);
        }
    }

    /// Returns the chunk of a packet that was bound for this reason; `None` if it has arrived.
    pub(crate) fn bound_chunk(&self, offset: u64, reason: SendReason) -> Option<Chunk> {
        let segment = self.segment(offset)?;
        let reason = match (segment.has_left, reason) {
            (false, _) => SendReason::New,
            // While no path had answered, it was bound to several.
            (true, SendReason::New) => SendReason::Reinjection,
            (true, reason) => reason,
        };
        (!segment.is_delivered).then(|| segment.chunk(reason))
    }

    /// Handles a copy of the segment at `offset` that has left the queue of its path. Returns the
    /// chunk to send; `None` if it has arrived meanwhile.
    pub(crate) fn on_unbound(&mut self, offset: u64, reason: SendReason) -> Option<Chunk> {
        let segment = self.segment_mut(offset)?;
        segment.bound_copies = segment.bound_copies.saturating_sub(1);
        self.bound_chunk(offset, reason)
    }

    /// Queues the segment of a copy that was taken back from a path, unless there are more copies.
    pub(crate) fn on_taken_back(&mut self, offset: u64, reason: SendReason) {
        let taken = self.on_unbound(offset, reason);
        if let Some(chunk) = taken
            && self.segment(offset).is_some_and(Segment::is_wanted_again)
        {
            let (reason, lost) = (chunk.reason, None);
            self.wait(offset, Waiting { reason, lost });
        }
    }

    /// Returns the first segment that has not arrived, if its only copy is in flight.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        let first = self.segments.iter().find(|segment| !segment.is_delivered)?;
        let is_only_copy = first.copies_in_flight == 1 && first.bound_copies == 0;
        is_only_copy.then_some(Awaited {
            end: first.end(),
            in_flight_on: first.in_flight_on,
        })
    }

    /// Returns the first offset that waits or has never been in a segment; `None` if there is none.
    pub(crate) fn unsent_offset(&self) -> Option<u64> {
        let waiting = self.waiting.first_key_value().map(|(first, _)| *first);
        let is_all_cut = self.next_offset >= self.written.end();
        waiting.or((!is_all_cut).then_some(self.next_offset))
    }

    /// Iterates over the segments below `offset` that are in flight, once and not by `path`, and
    /// have never been reinjected for the viewer, in their order.
    pub(crate) fn in_flight_elsewhere(
        &self,
        path: PathId,
        offset: u64,
    ) -> impl Iterator<Item = (Chunk, PathSet)> {
        let below = self
            .segments
            .iter()
            .take_while(move |segment| segment.offset < offset);
        let elsewhere = below.filter(move |segment| {
            segment.copies_in_flight == 1
                && segment.bound_copies == 0
                && !segment.is_delivered
                && !segment.is_reinjected
                && !segment.in_flight_on.contains(path)
        });
        elsewhere.map(|segment| (segment.chunk(SendReason::Reinjection), segment.in_flight_on))
    }

    /// Returns whether the segment at `offset` is bound to one path and in flight on none.
    pub(crate) fn is_bound_once(&self, offset: u64) -> bool {
        let segment = self.segment(offset);
        segment.is_some_and(|it| it.bound_copies == 1 && it.copies_in_flight == 0)
    }

    /// Returns whether anything has not been acknowledged.
    pub(crate) fn has_in_flight(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Returns the last copy of the segment at `offset`: its path, and its number there.
    pub(crate) fn last_copy(&self, offset: u64) -> Option<(PathId, u64)> {
        let segment = self.segment(offset)?;
        Some((segment.last_on, segment.packet_number))
    }

    /// Records that the segment at `offset` is bound to another path as well, for a tail's or its
    /// viewer's sake.
    pub(crate) fn on_reinjected(&mut self, offset: u64) {
        if let Some(segment) = self.segment_mut(offset) {
            segment.is_reinjected = true;
        }
        self.on_bound(offset);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Copy;
    use super::*;
    use crate::config::StreamConfig;
    use crate::recovery::{DeliverySnapshot, PacketContent, SentPacket};
    use anabranch_units::Instant;

    const NEAR: PathId = PathId(0);
    const FAR: PathId = PathId(1);

    /// Returns a stream of three segments of 10 bytes that have left by the far path.
    fn stream() -> SendStream {
        let mut stream = SendStream::new(&StreamConfig::default(), 10);
        assert_eq!(stream.write(&[0; 30]), 30);
        for number in 0..3 {
            let chunk = stream.cut_next(10, false).expect("there is more");
            stream.on_bound(chunk.offset);
            leave(&mut stream, chunk.offset, SendReason::New, (FAR, number));
        }
        stream
    }

    fn leave(stream: &mut SendStream, offset: u64, reason: SendReason, by: (PathId, u64)) {
        let chunk = stream.on_unbound(offset, reason).expect("it is needed");
        stream.on_sent(&chunk, by.0, by.1);
    }

    fn lose(stream: &mut SendStream, offset: u64, on: PathId) {
        let packet = SentPacket {
            packet_number: 0,
            sent_at: Instant::ZERO,
            bytes: 10,
            bytes_in_flight: 0,
            delivery: DeliverySnapshot::default(),
            content: PacketContent::Segment { offset },
        };
        stream.on_packet_lost(offset, Copy { on, packet }, SendReason::Lost);
    }

    fn elsewhere(stream: &SendStream, path: PathId, below: u64) -> Vec<u64> {
        let found = stream.in_flight_elsewhere(path, below);
        found.map(|(chunk, _)| chunk.offset).collect()
    }

    #[test]
    fn a_segment_is_reinjected_once_though_its_copy_is_lost() {
        let mut stream = stream();
        assert_eq!(elsewhere(&stream, NEAR, u64::MAX), [0, 10, 20]);
        stream.on_reinjected(0);
        assert_eq!(elsewhere(&stream, NEAR, u64::MAX), [10, 20], "it is bound");
        leave(&mut stream, 0, SendReason::Reinjection, (NEAR, 0));
        assert_eq!(elsewhere(&stream, NEAR, u64::MAX), [10, 20]);
        lose(&mut stream, 0, NEAR);
        assert_eq!(elsewhere(&stream, NEAR, u64::MAX), [10, 20]);
    }

    #[test]
    fn only_segments_on_other_paths_are_reinjected() {
        let mut stream = stream();
        assert_eq!(elsewhere(&stream, FAR, u64::MAX), [0_u64; 0]);
        stream.on_packet_acked(0, FAR);
        lose(&mut stream, 10, FAR);
        assert_eq!(elsewhere(&stream, NEAR, u64::MAX), [20]);
        assert_eq!(elsewhere(&stream, NEAR, 20), [0_u64; 0], "it is behind");
    }

    #[test]
    fn unsent_data_begins_with_the_first_segment_that_waits_or_is_not_cut() {
        let mut stream = stream();
        assert_eq!(stream.unsent_offset(), None);
        lose(&mut stream, 10, FAR);
        assert_eq!(stream.unsent_offset(), Some(10));
        assert_eq!(stream.write(&[0; 10]), 10);
        assert_eq!(stream.unsent_offset(), Some(10), "it waits");
        stream.on_bound(10);
        assert_eq!(stream.unsent_offset(), Some(30));
    }
}

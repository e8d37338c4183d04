//! Segments that leave and that arrive.

use anabranch_units::{Duration, Instant};

use super::mtu::segment_bytes;
use super::{Stream, StreamPath, StreamSession};
use crate::path::Path;
use crate::path_view::PathId;
use crate::recovery::{PacketContent, SentPacket};
use crate::scheduler::SchedulerEvent;
use crate::session::Event;
use crate::session::content::Written;
use crate::session::sizes::Sizes;
use crate::stream::{Chunk, Received};
use crate::wire::{self, SegmentHeader};

impl Stream {
    /// Returns whether nothing can leave, as is usual after a packet has left or come. Records a
    /// window that keeps a segment back, as an attempt to send it would.
    pub(super) fn is_quiet(&self, now: Instant, sizes: &Sizes, paths: &mut [Path]) -> bool {
        if self.is_window_due
            || self.says_blocked
            || !paths.iter().all(|path| {
                let is_probe_due = || path.mtu_probe_at().is_some_and(|at| at <= now);
                !path.has_notices(now) && !path.has_bound() && !is_probe_due()
            })
            || self.paths.iter().any(|own| own.probe.is_wanted())
        {
            return false;
        }
        !self.send.has_any() || (self.queue.is_none() && self.is_held_by_window(sizes, paths))
    }

    /// Returns whether an only path's window keeps the next segment back.
    fn is_held_by_window(&self, sizes: &Sizes, paths: &mut [Path]) -> bool {
        let ([path], [own]) = (&*paths, &self.paths[..]) else {
            return false;
        };
        // Another packet of full size fits: it is not worth looking at the segment twice.
        if path.has_window_for(u64::from(sizes.max_packet_bytes)) {
            return false;
        }
        let is_held = match self.next_chunk(path.id, sizes, paths) {
            Some(chunk) => !own.has_window_for(&chunk, path, sizes.overhead_bytes),
            None => return true,
        };
        paths[0].is_window_limited |= is_held;
        is_held
    }

    /// Returns the next data of a path; with several paths, the first chunk bound to it.
    fn next_chunk(&self, id: PathId, sizes: &Sizes, paths: &[Path]) -> Option<Chunk> {
        let (send, own) = (&self.send, &self.paths[id.index()]);
        if self.queue.is_some() {
            let bound = paths[id.index()]
                .first_bound()
                .and_then(|packet| send.bound_chunk(packet.frame.0, packet.reason));
            let is_probe = own.probe.is_wanted() && bound.is_none();
            return if is_probe {
                send.last_undelivered(id)
            } else {
                bound
            };
        }
        let max_bytes = segment_bytes(sizes, paths);
        if own.probe.is_wanted() {
            // RFC 8985 §7.3: new data if available, else the last sent segment.
            let new = send.next_new(max_bytes);
            return new.or_else(|| send.last_undelivered(id));
        }
        send.next(max_bytes)
    }

    /// Returns when the pacer lets the next segment of a path go; `None` if there is none.
    pub(super) fn segment_due_at(
        &self,
        id: PathId,
        sizes: &Sizes,
        paths: &[Path],
    ) -> Option<Instant> {
        let (path, own) = (&paths[id.index()], &self.paths[id.index()]);
        let chunk = self.next_chunk(id, sizes, paths)?;
        own.has_window_for(&chunk, path, sizes.overhead_bytes)
            .then(|| path.ready_at())
    }

    /// Drops packets bound to a path whose segments have arrived by another copy.
    fn drop_settled(&mut self, path: &mut Path) {
        while let Some(first) = path.first_bound()
            && self.send.bound_chunk(first.frame.0, first.reason).is_none()
        {
            self.send.on_unbound(first.frame.0, first.reason);
            path.pop_first_bound();
            self.request_scheduling();
        }
    }
}

impl StreamSession {
    pub(super) fn write_next_segment(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        self.content.drop_settled(&mut self.paths[id.index()]);
        let chunk = self.content.next_chunk(id, &self.sizes, &self.paths)?;
        let (path, own) = (&self.paths[id.index()], &self.content.paths[id.index()]);
        let has_window = own.has_window_for(&chunk, path, self.sizes.overhead_bytes);
        let path = &mut self.paths[id.index()];
        if !has_window {
            path.is_window_limited = true;
            return None;
        }
        if path.ready_at() > now {
            return None;
        }
        if let Some(packet) = path.pop_first_bound() {
            self.content.send.on_unbound(packet.frame.0, packet.reason);
        }
        let chunk = self.content.fit(chunk, path, &self.sizes);
        path.write_tracked_header(buf);
        let header = SegmentHeader {
            offset: chunk.offset as u32,
            is_last: chunk.is_last,
            wants_packet_feedback: !self.config.has_cumulative_acks(),
            edges: chunk.edges,
        };
        wire::write_segment(header, buf);
        let stream = &mut self.content;
        stream.send.append_payload(&chunk, buf);
        stream.sending = Some(chunk);
        let content = PacketContent::Segment {
            offset: chunk.offset,
        };
        Some((content, chunk.reason))
    }

    /// Handles the departure in `packet` of the segment that was written.
    pub(super) fn on_segment_sent(&mut self, now: Instant, id: PathId, packet: &SentPacket) {
        let stream = &mut self.content;
        let Some(chunk) = stream.sending.take() else {
            return;
        };
        let path = &mut self.paths[id.index()];
        let own = &mut stream.paths[id.index()];
        if chunk.is_new() {
            stream.copies.earn(u64::from(packet.bytes));
        } else {
            own.is_urgent = false;
            own.newest_resent = Some(packet.packet_number);
            path.counters.retransmitted_packets += 1;
            path.counters.retransmitted_bytes += u64::from(packet.bytes);
        }
        if self.config.has_cumulative_acks() {
            own.duplicate_acks
                .on_sent(now, chunk.end(), packet.bytes, chunk.is_new());
        }
        own.timer.start(now);
        stream.send.on_sent(&chunk, id, packet.packet_number);
        let event = SchedulerEvent::Sent {
            path: id,
            bytes: packet.bytes,
            queued_bytes: path.queued_bytes(),
        };
        stream.on_packet_sent(now, &event, path.control().pacing_rate.is_some());
        let own = &mut stream.paths[id.index()];
        if stream.send.take_writable() {
            self.output.events.push_back(Event::StreamWritable);
        }
        if own.probe.is_wanted() {
            own.probe.on_sent(now, packet.packet_number);
            own.timer.restart(now);
        } else {
            let recovery = &self.paths[id.index()].recovery;
            own.schedule_probe(
                now,
                recovery,
                self.sizes.max_packet_bytes,
                stream.config.delayed_ack,
            );
        }
        stream.watch_window(now, &self.sizes, &self.paths);
    }

    /// Handles a received segment.
    pub(super) fn on_segment(
        &mut self,
        now: Instant,
        on: PathId,
        header: SegmentHeader,
        payload: &[u8],
    ) {
        let path = &mut self.paths[on.index()];
        let stream = &mut self.content;
        let before = stream.receive.readable_bytes();
        let offset = wire::expand(header.offset, stream.receive.expected());
        stream.is_packet_feedback_wanted = header.wants_packet_feedback;
        let (is_last, edges) = (header.is_last, header.edges);
        let received = stream.receive.insert_part(offset, payload, is_last, edges);
        if received == Received::Forbidden {
            self.output.counters.malformed_datagrams += 1;
            return self.end(Event::PeerLies);
        }
        path.counters.received_media_packets += 1;
        path.counters.received_media_bytes += payload.len() as u64;
        let is_in_order = match self.content.queue {
            // Missing segments may be on their way by another path.
            Some(_) => path.arrivals.is_in_order() && !header.is_last,
            None => received == Received::InOrder,
        };
        let stream = &mut self.content;
        let is_quick = path.arrivals.expected() <= u64::from(stream.config.quick_acks);
        let delay = if is_in_order && !is_quick {
            stream.config.delayed_ack
        } else {
            Duration::ZERO
        };
        path.arrivals
            .on_segment(now, delay, stream.config.ack_every);
        let arrived = stream.receive.readable_bytes() - before;
        self.output.counters.stream_bytes_received += arrived as u64;
        let has_data = arrived > 0 || stream.receive.has_message();
        if has_data && !core::mem::replace(&mut stream.is_readable_reported, true) {
            self.output.events.push_back(Event::StreamReadable);
        }
        if stream.receive.is_complete() && !core::mem::replace(&mut stream.is_finish_reported, true)
        {
            self.output.events.push_back(Event::StreamFinished);
        }
    }
}

impl StreamPath {
    /// Returns whether the window lets the path carry the chunk, with `overhead_bytes` around its
    /// packet.
    fn has_window_for(&self, chunk: &Chunk, path: &Path, overhead_bytes: u32) -> bool {
        let bytes = chunk.length + wire::SEGMENT_HEADER_BYTES;
        let bytes = bytes as u64 + u64::from(overhead_bytes);
        let is_urgent = self.is_urgent && !chunk.is_new();
        self.probe.is_wanted() || is_urgent || path.has_window_for(bytes)
    }
}

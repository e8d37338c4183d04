//! Segments that leave and that arrive.

use anabranch_units::{Duration, Instant};

use super::mtu::segment_bytes;
use super::{Stream, StreamPath};
use crate::path::Path;
use crate::path_view::PathId;
use crate::recovery::{PacketContent, SentPacket};
use crate::scheduler::SchedulerEvent;
use crate::session::Event;
use crate::session::content::{Context, Written};
use crate::session::next_timer::is_due;
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
                !path.has_notices(now) && !path.has_bound() && !is_due(path.mtu_probe_at(), now)
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

    pub(super) fn write_next_segment(
        &mut self,
        ctx: &mut Context<'_>,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        self.drop_settled(&mut ctx.paths[id.index()]);
        let chunk = self.next_chunk(id, ctx.sizes, ctx.paths)?;
        let (path, own) = (&ctx.paths[id.index()], &self.paths[id.index()]);
        let has_window = own.has_window_for(&chunk, path, ctx.sizes.overhead_bytes);
        let path = &mut ctx.paths[id.index()];
        if !has_window {
            path.is_window_limited = true;
            return None;
        }
        if path.ready_at() > ctx.now {
            return None;
        }
        if let Some(packet) = path.pop_first_bound() {
            self.send.on_unbound(packet.frame.0, packet.reason);
        }
        let chunk = self.fit(chunk, path, ctx.sizes);
        path.write_tracked_header(buf);
        let header = SegmentHeader {
            offset: chunk.offset as u32,
            is_last: chunk.is_last,
            wants_packet_feedback: !ctx.config.has_cumulative_acks(),
            edges: chunk.edges,
        };
        wire::write_segment(header, buf);
        self.send.append_payload(&chunk, buf);
        self.sending = Some(chunk);
        let content = PacketContent::Segment {
            offset: chunk.offset,
        };
        Some((content, chunk.reason))
    }

    /// Handles the departure in `packet` of the segment that was written.
    pub(super) fn on_segment_sent(
        &mut self,
        ctx: &mut Context<'_>,
        id: PathId,
        packet: &SentPacket,
    ) {
        let Some(chunk) = self.sending.take() else {
            return;
        };
        let path = &mut ctx.paths[id.index()];
        let own = &mut self.paths[id.index()];
        if chunk.is_new() {
            self.copies.earn(u64::from(packet.bytes));
        } else {
            own.is_urgent = false;
            own.newest_resent = Some(packet.packet_number);
            path.counters.retransmitted_packets += 1;
            path.counters.retransmitted_bytes += u64::from(packet.bytes);
        }
        if ctx.config.has_cumulative_acks() {
            own.duplicate_acks
                .on_sent(ctx.now, chunk.end(), packet.bytes, chunk.is_new());
        }
        own.timer.start(ctx.now);
        self.send.on_sent(&chunk, id, packet.packet_number);
        let event = SchedulerEvent::Sent {
            path: id,
            bytes: packet.bytes,
            queued_bytes: path.queued_bytes(),
        };
        self.notify_departure(ctx.now, &event, path.control().pacing_rate.is_some());
        let own = &mut self.paths[id.index()];
        if self.send.take_writable() {
            ctx.output.events.push_back(Event::StreamWritable);
        }
        if own.probe.is_wanted() {
            own.probe.on_sent(ctx.now, packet.packet_number);
            own.timer.restart(ctx.now);
        } else {
            let recovery = &ctx.paths[id.index()].recovery;
            own.schedule_probe(
                ctx.now,
                recovery,
                ctx.sizes.max_packet_bytes,
                self.config.delayed_ack,
            );
        }
        self.watch_window(ctx.now, ctx.sizes, ctx.paths);
    }

    /// Handles a received segment. Returns false if the peer violates the protocol by it.
    pub(super) fn on_segment(
        &mut self,
        ctx: &mut Context<'_>,
        on: PathId,
        header: SegmentHeader,
        payload: &[u8],
    ) -> bool {
        let path = &mut ctx.paths[on.index()];
        let before = self.receive.readable_bytes();
        let offset = wire::expand(header.offset, self.receive.expected());
        self.is_packet_feedback_wanted = header.wants_packet_feedback;
        let (is_last, edges) = (header.is_last, header.edges);
        let received = self.receive.insert_part(offset, payload, is_last, edges);
        if received == Received::Forbidden {
            ctx.output.counters.malformed_datagrams += 1;
            return false;
        }
        path.counters.received_media_packets += 1;
        path.counters.received_media_bytes += payload.len() as u64;
        let is_in_order = match self.queue {
            // Missing segments may be on their way by another path.
            Some(_) => path.arrivals.is_in_order() && !header.is_last,
            None => received == Received::InOrder,
        };
        let is_quick = path.arrivals.expected() <= u64::from(self.config.quick_acks);
        let delay = if is_in_order && !is_quick {
            self.config.delayed_ack
        } else {
            Duration::ZERO
        };
        path.arrivals
            .on_segment(ctx.now, delay, self.config.ack_every);
        let arrived = self.receive.readable_bytes() - before;
        ctx.output.counters.stream_bytes_received += arrived as u64;
        let has_data = arrived > 0 || self.receive.has_message();
        if has_data && !core::mem::replace(&mut self.is_readable_reported, true) {
            ctx.output.events.push_back(Event::StreamReadable);
        }
        if self.receive.is_complete() && !core::mem::replace(&mut self.is_finish_reported, true) {
            ctx.output.events.push_back(Event::StreamFinished);
        }
        true
    }
}

impl StreamPath {
    /// Returns whether the window lets the path carry the chunk, with `overhead_bytes` around its
    /// packet.
    fn has_window_for(&self, chunk: &Chunk, path: &Path, overhead_bytes: u32) -> bool {
        let payload_bytes = chunk.length + wire::SEGMENT_HEADER_BYTES;
        let bytes = payload_bytes as u64 + u64::from(overhead_bytes);
        let is_urgent = self.is_urgent && !chunk.is_new();
        self.probe.is_wanted() || is_urgent || path.has_window_for(bytes)
    }
}

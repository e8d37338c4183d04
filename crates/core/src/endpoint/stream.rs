//! Streams: the verbs of the application, segments and acknowledgements, and the timers.

use anabranch_units::{Duration, Instant};
use bytes::Bytes;

use super::transmit::Written;
use super::{Closing, Endpoint, Event};
use crate::config::SessionKind;
use crate::control::Timeout;
use crate::path::Path;
use crate::path_view::PathId;
use crate::recovery::{Digest, LossDetection, PacketContent, SentPacket};
use crate::send_reason::SendReason;
use crate::stream::{
    Chunk, DuplicateAck, ReceiveStream, Received, SendStream, Stream, StreamPath, WriteStreamError,
};
use crate::wire::{self, SegmentHeader};

/// The longest wait between two times of saying that the peer's window keeps bytes back.
const MAX_BLOCKED_WAIT: Duration = Duration::from_secs(60);

impl Endpoint {
    /// Takes a copy of bytes for sending, as many as there is room for, and tells how many. After
    /// fewer than all, [`Event::StreamWritable`] says when to try again.
    ///
    /// # Errors
    /// [`WriteStreamError`]; nothing was taken.
    pub fn write_stream(&mut self, now: Instant, bytes: &[u8]) -> Result<usize, WriteStreamError> {
        self.write_with(now, |send| send.write(bytes))
    }

    /// Like [`Endpoint::write_stream`], but copies nothing: the bytes are shared until the peer has
    /// acknowledged them.
    ///
    /// # Errors
    /// [`WriteStreamError`]; nothing was taken.
    pub fn write_stream_bytes(
        &mut self,
        now: Instant,
        bytes: Bytes,
    ) -> Result<usize, WriteStreamError> {
        self.write_with(now, |send| send.write_shared(bytes))
    }

    fn write_with(
        &mut self,
        now: Instant,
        write: impl FnOnce(&mut SendStream) -> usize,
    ) -> Result<usize, WriteStreamError> {
        let max_bytes = usize::from(self.config.fragment_bytes);
        let stream = self.open_stream()?;
        let is_idle = stream.send.next(max_bytes).is_none();
        let taken = write(&mut stream.send);
        if is_idle && taken > 0 {
            self.paths
                .iter_mut()
                .for_each(|path| path.leave_idleness(now));
        }
        self.watch_window(now);
        Ok(taken)
    }

    /// Ends the stream after all that has been written. The session stays open, for the bytes to
    /// arrive and for the peer's.
    ///
    /// # Errors
    /// [`WriteStreamError`].
    pub fn finish_stream(&mut self) -> Result<(), WriteStreamError> {
        self.open_stream()?.send.finish();
        Ok(())
    }

    /// Moves all bytes that have arrived in order to the end of `out`. Returns how many.
    pub fn read_stream(&mut self, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        while let Some(bytes) = self.read_stream_bytes() {
            out.extend_from_slice(&bytes);
        }
        out.len() - before
    }

    /// The next of the bytes that have arrived in order, as many as lie together, without a copy;
    /// `None` if all have been read, or [none are kept](crate::StreamConfig::keeps_bytes).
    pub fn read_stream_bytes(&mut self) -> Option<Bytes> {
        self.consume_stream(ReceiveStream::read)
    }

    /// Forgets all bytes that have arrived in order. Returns how many.
    pub fn skip_stream(&mut self) -> u64 {
        self.consume_stream(ReceiveStream::skip).unwrap_or(0)
    }

    fn consume_stream<T>(
        &mut self,
        consume: impl FnOnce(&mut ReceiveStream) -> Option<T>,
    ) -> Option<T> {
        let stream = self.stream.as_mut()?;
        stream.is_readable_told = false;
        let consumed = consume(&mut stream.receive)?;
        // An acknowledgement that is due anyway tells the window too.
        let is_ack_due = |path: &Path| path.arrivals.due_at().is_some();
        stream.is_window_due |=
            stream.receive.is_window_worth_telling() && !self.paths.iter().any(is_ack_due);
        Some(consumed)
    }

    /// Whether the peer's stream has arrived to its end and been read to it.
    pub fn is_stream_complete(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| {
            stream.receive.is_complete() && stream.receive.readable_bytes() == 0
        })
    }

    fn open_stream(&mut self) -> Result<&mut Stream, WriteStreamError> {
        if self.closing != Closing::Open {
            return Err(WriteStreamError::Closed);
        }
        match &mut self.stream {
            None => Err(WriteStreamError::NoStream),
            Some(stream) if stream.send.is_finished() => Err(WriteStreamError::Finished),
            Some(stream) => Ok(stream),
        }
    }

    pub(super) fn new_stream(config: &crate::Config) -> Option<Box<Stream>> {
        (config.kind == SessionKind::Stream)
            .then(|| Box::new(Stream::new(config.stream, config.fragment_bytes)))
    }

    /// What a path is to carry next.
    fn next_chunk(&self, stream: &Stream, own: &StreamPath) -> Option<Chunk> {
        let max_bytes = usize::from(self.config.fragment_bytes);
        if own.probe.is_wanted() {
            // RFC 8985 §7.3: new data if there is, else what was sent last.
            let new = stream.send.next_new(max_bytes);
            return new.or_else(|| stream.send.last_undelivered());
        }
        stream.send.next(max_bytes)
    }

    /// Whether the window lets a path carry it.
    fn has_window_for(&self, chunk: &Chunk, path: &Path, own: &StreamPath) -> bool {
        let bytes = chunk.length + wire::SEGMENT_HEADER_BYTES;
        let bytes = bytes as u64 + u64::from(self.config.overhead_bytes);
        let is_urgent = own.is_urgent && !chunk.is_new();
        own.probe.is_wanted() || is_urgent || path.has_window_for(bytes)
    }

    /// When the pacer lets the next segment of a path go; `None` if there is none.
    pub(super) fn segment_due_at(&self, id: PathId) -> Option<Instant> {
        let stream = self.stream.as_deref()?;
        let (path, own) = (&self.paths[id.index()], &stream.paths[id.index()]);
        let chunk = self.next_chunk(stream, own)?;
        self.has_window_for(&chunk, path, own)
            .then(|| path.ready_at())
    }

    pub(super) fn write_next_segment(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        let stream = self.stream.as_deref()?;
        let (path, own) = (&self.paths[id.index()], &stream.paths[id.index()]);
        let chunk = self.next_chunk(stream, own)?;
        let has_window = self.has_window_for(&chunk, path, own);
        let path = &mut self.paths[id.index()];
        if !has_window {
            path.is_window_limited = true;
            return None;
        }
        if path.ready_at() > now {
            return None;
        }
        path.write_tracked_header(buf);
        let header = SegmentHeader {
            offset: chunk.offset as u32,
            is_last: chunk.is_last,
            wants_packet_feedback: self.config.loss_detection != LossDetection::TcpCumulative,
        };
        wire::write_segment(header, buf);
        let stream = self.stream.as_mut()?;
        stream.send.append_payload(&chunk, buf);
        stream.sending = Some(chunk);
        let content = PacketContent::Segment {
            offset: chunk.offset,
        };
        Some((content, chunk.reason))
    }

    /// The segment that was written leaves in `packet`.
    pub(super) fn on_segment_sent(&mut self, now: Instant, id: PathId, packet: &SentPacket) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let Some(chunk) = stream.sending.take() else {
            return;
        };
        let path = &mut self.paths[id.index()];
        let own = &mut stream.paths[id.index()];
        if !chunk.is_new() {
            own.is_urgent = false;
            own.newest_resent = Some(packet.packet_number);
            path.counters.retransmitted_packets += 1;
            path.counters.retransmitted_bytes += u64::from(packet.bytes);
        }
        if self.config.loss_detection == LossDetection::TcpCumulative {
            own.duplicate_acks
                .on_sent(now, chunk.end(), packet.bytes, chunk.is_new());
        }
        own.timer.start(now);
        stream.send.on_sent(&chunk, packet.packet_number);
        if stream.send.take_writable() {
            self.events.push_back(Event::StreamWritable);
        }
        if own.probe.is_wanted() {
            own.probe.on_sent(now, packet.packet_number);
            own.timer.restart(now);
        } else if chunk.is_new() {
            self.schedule_probe(now, id);
        }
        self.watch_window(now);
    }

    /// A segment has come in.
    pub(super) fn on_segment(
        &mut self,
        now: Instant,
        on: PathId,
        header: SegmentHeader,
        payload: &[u8],
    ) {
        let path = &mut self.paths[on.index()];
        let Some(stream) = &mut self.stream else {
            self.counters.malformed_datagrams += 1;
            return;
        };
        let before = stream.receive.readable_bytes();
        let offset = wire::expand(header.offset, stream.receive.expected());
        stream.is_packet_feedback_wanted = header.wants_packet_feedback;
        let received = stream.receive.insert(offset, payload, header.is_last);
        if received == Received::Forbidden {
            self.counters.malformed_datagrams += 1;
            return;
        }
        path.counters.received_media_packets += 1;
        path.counters.received_media_bytes += payload.len() as u64;
        let delay = match received {
            Received::InOrder => stream.config.delayed_ack,
            _ => Duration::ZERO,
        };
        path.arrivals.on_segment(now, delay);
        let arrived = stream.receive.readable_bytes() - before;
        self.counters.stream_bytes_received += arrived as u64;
        if arrived > 0 && !core::mem::replace(&mut stream.is_readable_told, true) {
            self.events.push_back(Event::StreamReadable);
        }
        if stream.receive.is_complete() && !core::mem::replace(&mut stream.is_finish_told, true) {
            self.events.push_back(Event::StreamFinished);
        }
    }

    /// Whether a path's reports are to tell the stream's offset, and to tell packets.
    pub(super) fn writes_feedback(&self) -> bool {
        self.stream
            .as_ref()
            .is_none_or(|stream| stream.is_packet_feedback_wanted)
    }

    /// Appends what the peer is to know of its stream.
    pub(super) fn write_stream_ack(&mut self, is_prompted: bool, buf: &mut Vec<u8>) {
        if let Some(stream) = &mut self.stream {
            stream.is_window_due = false;
            let offset = stream.receive.acked_offset();
            wire::write_stream_ack(offset, stream.receive.tell_window(), is_prompted, buf);
        }
    }

    /// Whether the window, and that this end is blocked, are to be told out of turn.
    pub(super) fn take_stream_notices(&mut self) -> (bool, bool) {
        match &mut self.stream {
            Some(stream) => (
                core::mem::take(&mut stream.is_window_due),
                core::mem::take(&mut stream.says_blocked),
            ),
            None => (false, false),
        }
    }

    pub(super) fn on_stream_blocked(&mut self) {
        match &mut self.stream {
            Some(stream) => stream.is_window_due = true,
            None => self.counters.malformed_datagrams += 1,
        }
    }

    /// The peer has all below an offset, of which these are the low 32 bits.
    pub(super) fn on_stream_ack(
        &mut self,
        now: Instant,
        on: PathId,
        offset: u32,
        window: u64,
        is_prompted: bool,
    ) {
        let Some(stream) = &mut self.stream else {
            self.counters.malformed_datagrams += 1;
            return;
        };
        let acked_offset = stream.send.acked_offset();
        let offset = wire::expand(offset, acked_offset);
        stream.send.on_window(offset.saturating_add(window));
        let mut settled = core::mem::take(&mut stream.settled);
        let is_cumulative = self.config.loss_detection == LossDetection::TcpCumulative;
        let recovery = &self.paths[on.index()].recovery;
        let in_flight = |number| recovery.sent_packet(number);
        if stream
            .send
            .on_cumulative_ack(offset, in_flight, &mut settled)
        {
            self.on_stream_advance(now, on, offset, &mut settled);
        } else if is_cumulative && is_prompted && offset == acked_offset {
            self.on_duplicate_ack(now, on);
        }
        settled.clear();
        if let Some(stream) = &mut self.stream {
            stream.settled = settled;
            if stream.send.take_writable() {
                self.events.push_back(Event::StreamWritable);
            }
        }
        self.watch_window(now);
    }

    fn on_stream_advance(
        &mut self,
        now: Instant,
        on: PathId,
        offset: u64,
        settled: &mut Vec<SentPacket>,
    ) {
        let (Some(stream), path) = (&mut self.stream, &mut self.paths[on.index()]) else {
            return;
        };
        let own = &mut stream.paths[on.index()];
        let is_cumulative = self.config.loss_detection == LossDetection::TcpCumulative;
        let sample = match is_cumulative {
            true => own.duplicate_acks.on_advance(now, offset),
            false => None,
        };
        // As Vegas keeps the time of each segment, but for those that may be taken for another's.
        let newest_resent = own.newest_resent;
        let is_timed = |number| is_cumulative && newest_resent.is_none_or(|resent| number > resent);
        if !is_cumulative {
            // Reports name packets: only one whose report got lost is settled by the offset.
            settled.retain(|packet| path.recovery.is_passed_over(packet.packet_number));
        }
        let mut digest = self.scratch.digest.take().unwrap_or_default();
        if path
            .recovery
            .on_cumulative_ack(now, settled, sample, is_timed, &mut digest)
        {
            path.recovery.set_departed_bytes(0);
            if let Some(sample) = sample {
                own.timer.on_tick_sample(now, sample);
            }
            let is_outstanding = path.recovery.outstanding_bytes() > 0;
            own.timer.on_progress(now, is_outstanding);
            path.counters.acked_packets += digest.acked.len() as u64;
            self.tell_controller(now, on, &digest);
        }
        self.scratch.digest = Some(digest);
    }

    fn on_duplicate_ack(&mut self, now: Instant, on: PathId) {
        let segment_bytes = u64::from(self.max_packet_bytes);
        let (Some(stream), path) = (&mut self.stream, &mut self.paths[on.index()]) else {
            return;
        };
        let own = &mut stream.paths[on.index()];
        let outstanding_bytes = path.recovery.outstanding_bytes();
        if outstanding_bytes == 0 {
            return;
        }
        let verdict = own.duplicate_acks.on_duplicate(stream.send.next_offset());
        let departed_segments = own.duplicate_acks.departed_segments();
        path.recovery
            .set_departed_bytes(departed_segments * segment_bytes);
        if verdict != DuplicateAck::FastRetransmit {
            return;
        }
        let flight_size = own.duplicate_acks.flight_size(outstanding_bytes);
        let Some(first) = stream.send.first_unacked() else {
            return;
        };
        own.is_urgent = true;
        own.timer.restart(now);
        let mut digest = self.scratch.digest.take().unwrap_or_default();
        if path.recovery.declare_lost(now, first, &mut digest) {
            digest.prior_bytes_in_flight = flight_size;
            self.on_losses(now, on, &digest, SendReason::Lost);
            self.tell_controller(now, on, &digest);
        }
        self.scratch.digest = Some(digest);
    }

    /// A report has been digested.
    pub(super) fn on_stream_feedback(&mut self, now: Instant, id: PathId, digest: &Digest) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let own = &mut stream.paths[id.index()];
        let recovery = &self.paths[id.index()].recovery;
        if let Some(newest) = digest.acked.last() {
            own.probe.on_settled(newest.sent.packet_number);
            if newest.rtt.is_some() {
                let unmeasured = stream.config.delayed_ack;
                own.timer.on_sample(recovery.rtt(), unmeasured);
            }
            own.timer.on_progress(now, recovery.outstanding_bytes() > 0);
        }
        if let Some(newest) = digest.lost.last() {
            own.probe.on_settled(newest.packet_number);
            own.is_urgent |= digest.is_recovery_begun;
        }
        self.schedule_probe(now, id);
    }

    fn schedule_probe(&mut self, now: Instant, id: PathId) {
        let packet_bytes = u64::from(self.max_packet_bytes);
        let Some(stream) = &mut self.stream else {
            return;
        };
        let own = &mut stream.paths[id.index()];
        let recovery = &self.paths[id.index()].recovery;
        if self.config.loss_detection != LossDetection::TcpSack {
            return;
        }
        let in_flight = recovery.bytes_in_flight();
        if in_flight == 0 || recovery.is_in_recovery() {
            own.probe.cancel();
            return;
        }
        let alone_delay = match in_flight <= packet_bytes {
            true => stream.config.delayed_ack,
            false => Duration::ZERO,
        };
        own.probe.schedule(now, recovery.rtt(), alone_delay);
    }

    /// When a path's timers want to be served.
    pub(super) fn stream_timer_at(&self, id: PathId) -> Option<Instant> {
        let own = &self.stream.as_ref()?.paths[id.index()];
        let expires_at = own.timer.expires_at();
        [expires_at, own.probe.due_at(expires_at)]
            .into_iter()
            .flatten()
            .min()
    }

    /// When the peer is to be told that its window keeps bytes back.
    pub(super) fn blocked_at(&self) -> Option<Instant> {
        self.stream.as_ref()?.blocked_at
    }

    pub(super) fn on_stream_timeout(&mut self, now: Instant, id: PathId) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let own = &mut stream.paths[id.index()];
        let recovery = &self.paths[id.index()].recovery;
        let expires_at = own.timer.expires_at();
        if own.probe.due_at(expires_at).is_some_and(|at| at <= now) {
            own.probe.cancel();
            if recovery.outstanding_bytes() > 0 && stream.send.last_undelivered().is_some() {
                own.probe.want();
                own.timer.restart(now);
            }
        }
        // Both may be due, and there may be nothing to probe with.
        if own.timer.expires_at().is_some_and(|at| at <= now) {
            if recovery.outstanding_bytes() > 0 {
                self.on_retransmission_timeout(now, id);
            } else {
                own.timer.stop();
            }
        }
    }

    /// RFC 6298 §5.4 to 5.6. All that is outstanding leaves flight, and is sent again from the
    /// first unacknowledged byte on as far as the window allows.
    fn on_retransmission_timeout(&mut self, now: Instant, id: PathId) {
        let prior_bytes_in_flight = self.paths[id.index()].recovery.outstanding_bytes();
        self.declare_silent(now, id, SendReason::RetransmissionTimeout);
        let Some(stream) = &mut self.stream else {
            return;
        };
        let own = &mut stream.paths[id.index()];
        own.duplicate_acks.on_timeout(stream.send.next_offset());
        own.probe.on_timeout();
        own.is_urgent = false;
        let count = own.timer.on_expiry(now);
        let path = &mut self.paths[id.index()];
        path.counters.retransmission_timeouts += 1;
        let cause = Timeout::Retransmission {
            count,
            prior_bytes_in_flight,
        };
        path.on_timeout(now, cause);
    }

    /// Sees to it that a window that has closed is asked for: its reopening may get lost.
    fn watch_window(&mut self, now: Instant) {
        let max_bytes = usize::from(self.config.fragment_bytes);
        let Some(stream) = &mut self.stream else {
            return;
        };
        let in_flight = |path: &Path| path.recovery.outstanding_bytes() > 0;
        let is_stuck = stream.send.is_blocked(max_bytes) && !self.paths.iter().any(in_flight);
        if !is_stuck {
            stream.blocked_at = None;
            stream.blocked_wait = stream.config.initial_retransmission_timeout;
        } else if stream.blocked_at.is_none() {
            stream.blocked_at = Some(now + stream.blocked_wait);
        }
    }

    pub(super) fn on_blocked_timeout(&mut self, now: Instant) {
        if let Some(stream) = &mut self.stream
            && stream.blocked_at.is_some_and(|at| at <= now)
        {
            stream.says_blocked = true;
            stream.blocked_wait = (stream.blocked_wait * 2).min(MAX_BLOCKED_WAIT);
            stream.blocked_at = Some(now + stream.blocked_wait);
        }
    }
}

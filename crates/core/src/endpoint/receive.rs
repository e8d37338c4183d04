//! What a datagram changes.

use anabranch_units::{Duration, Ecn, Instant};

use super::{Closing, DatagramMeta, Endpoint, Event};
use crate::media::{FrameId, LostCopy, Outcome, Symbol, Taken, Verdict};
use crate::path_view::{PathId, PathState};
use crate::recovery::{AckedPacket, Digest, PacketContent, SentPacket};
use crate::scheduler::SchedulerEvent;
use crate::send_reason::SendReason;
use crate::wire::{self, Tracking, WireFrame};

/// How long a peer's doubt lasts unless it repeats it.
const DOUBT_LIFETIME: Duration = Duration::from_secs(1);

impl Endpoint {
    /// Takes in a datagram that the driver has authenticated. Whatever is wrong with it is counted.
    pub fn handle_datagram(&mut self, now: Instant, meta: DatagramMeta, payload: &[u8]) {
        let is_known = self
            .paths
            .get(meta.path.index())
            .is_some_and(|path| path.state() != PathState::Removed);
        if !is_known {
            self.counters.unknown_path_datagrams += 1;
            return;
        }
        // What it says on its way out is no sign of life.
        if self.has_peer_left {
            return;
        }
        let Ok((tracking, mut frames)) = wire::decode(payload) else {
            self.counters.malformed_datagrams += 1;
            return;
        };
        let path = &mut self.paths[meta.path.index()];
        path.last_heard_at = now;
        path.counters.received_packets += 1;
        path.counters.received_bytes +=
            payload.len() as u64 + u64::from(self.config.overhead_bytes);
        if let Tracking::Tracked(low_bits) = tracking {
            let packet_number = wire::expand(low_bits, path.arrivals.expected());
            let is_ce_marked = meta.ecn == Ecn::Ce;
            if !path
                .arrivals
                .on_received(now, packet_number, meta.received_at, is_ce_marked)
            {
                path.counters.duplicate_packets += 1;
                return;
            }
        }
        while let Some(frame) = frames.next(&mut self.scratch.report) {
            match frame {
                Ok(WireFrame::Feedback { path }) => {
                    let mut report = core::mem::take(&mut self.scratch.report);
                    self.on_feedback(now, meta.path, path, &mut report);
                    self.scratch.report = report;
                }
                // Without a packet number a segment cannot be acknowledged.
                Ok(WireFrame::Segment { .. }) if tracking == Tracking::Untracked => {
                    self.counters.malformed_datagrams += 1;
                }
                Ok(frame) => self.on_wire_frame(now, meta.path, frame),
                Err(_) => self.counters.malformed_datagrams += 1,
            }
        }
        if !self.reassembly.has_incomplete() {
            for path in &mut self.paths {
                path.arrivals.expect_nothing();
            }
        }
    }

    fn on_wire_frame(&mut self, now: Instant, on: PathId, frame: WireFrame<'_>) {
        let path = &mut self.paths[on.index()];
        match frame {
            WireFrame::Padding | WireFrame::Feedback { .. } => {}
            WireFrame::Fragment {
                header,
                captured_at_micros,
                symbol: number,
                half,
                payload,
            } => {
                path.counters.received_media_packets += 1;
                path.counters.received_media_bytes += payload.len() as u64;
                let id = (header.frame, header.fragment);
                let whole = half.map(|half| self.halves.join(id, half, payload));
                let payload = match &whole {
                    None => payload,
                    Some(Some(whole)) => whole,
                    Some(None) => return,
                };
                let symbol = Symbol {
                    header,
                    captured_at_micros,
                    payload,
                };
                self.on_fragment(now, &symbol);
                if let Some(number) = number {
                    self.on_source_symbol(now, number, &symbol);
                }
            }
            WireFrame::Repair { head, bytes } => self.on_repair_symbol(now, head, bytes),
            WireFrame::SymbolsRecovered(numbers) => self.on_symbols_recovered(numbers),
            WireFrame::FeedbackSchedule(schedule) => path.arrivals.set_schedule(schedule),
            WireFrame::PathChallenge(token) => {
                path.response = Some(token);
                path.arrivals.report_at_once(now);
            }
            WireFrame::PathResponse(token) => {
                if path
                    .expected_response
                    .take_if(|expected| *expected == token)
                    .is_some()
                {
                    path.recovery.on_heard(now);
                    self.on_path_answer(now, on);
                }
            }
            WireFrame::PathStatus { path, is_suspect } => {
                self.on_path_status(now, path, is_suspect);
            }
            WireFrame::FramesGivenUp { first, count } => {
                self.on_frames_given_up(now, first, count);
            }
            WireFrame::Close if self.is_media_sender() => self.on_peer_left(now),
            WireFrame::Close => self.on_close(Event::Closed),
            WireFrame::Replaced => self.on_close(Event::Replaced),
            WireFrame::Segment { header, payload } => self.on_segment(now, on, header, payload),
            WireFrame::StreamAck {
                offset,
                window,
                is_prompted,
            } => self.on_stream_ack(now, on, offset, window, is_prompted),
            WireFrame::StreamBlocked => self.on_stream_blocked(),
        }
    }

    /// The peer says whether it doubts a path.
    fn on_path_status(&mut self, now: Instant, path: PathId, is_suspect: bool) {
        let Some(path) = self.paths.get_mut(path.index()) else {
            return;
        };
        path.doubted_until = match is_suspect {
            true => now + DOUBT_LIFETIME,
            false => Instant::ZERO,
        };
        if is_suspect {
            path.arrivals.report_at_once(now);
        }
    }

    fn on_frames_given_up(&mut self, now: Instant, first: FrameId, count: u64) {
        let mut outcomes = core::mem::take(&mut self.scratch.outcomes);
        let frames = first.0..first.0.saturating_add(count);
        self.reassembly.give_up(now, frames, &mut outcomes);
        self.tell_outcomes(&mut outcomes);
        self.scratch.outcomes = outcomes;
    }

    /// Receivers come and go. Only the end that media comes from ends a session of media.
    fn on_peer_left(&mut self, now: Instant) {
        self.has_peer_left = true;
        self.events.push_back(Event::PeerLeft);
        for index in 0..self.paths.len() {
            self.suspend_path(now, PathId(index as u8));
        }
    }

    /// The peer has ended the session, which is told as `event`.
    fn on_close(&mut self, event: Event) {
        if self.closing == Closing::Closed {
            return;
        }
        self.closing = Closing::Closed;
        let mut outcomes = core::mem::take(&mut self.scratch.outcomes);
        self.reassembly.finish(&mut outcomes);
        self.tell_outcomes(&mut outcomes);
        self.scratch.outcomes = outcomes;
        self.events.push_back(event);
    }

    /// A fragment has arrived, or been recovered.
    pub(super) fn on_fragment(&mut self, now: Instant, symbol: &Symbol<'_>) -> Taken {
        let Symbol {
            header,
            captured_at_micros,
            payload,
        } = *symbol;
        let expected = self.last_captured_at.as_micros();
        let captured_at = Instant::from_micros(wire::expand(captured_at_micros, expected));
        let mut outcomes = core::mem::take(&mut self.scratch.outcomes);
        let taken = self
            .reassembly
            .insert(now, header, captured_at, payload, &mut outcomes);
        match taken {
            Taken::New => self.last_captured_at = captured_at,
            Taken::Duplicate => self.counters.duplicate_fragments += 1,
            Taken::Late => self.counters.late_fragments += 1,
            Taken::Contradictory => self.counters.contradictory_fragments += 1,
        }
        let peak = self.reassembly.peak();
        self.counters.reassembly_peak_frames = peak.frames as u64;
        self.counters.reassembly_peak_bytes = peak.bytes as u64;
        self.tell_outcomes(&mut outcomes);
        self.scratch.outcomes = outcomes;
        taken
    }

    pub(super) fn tell_outcomes(&mut self, outcomes: &mut Vec<Outcome>) {
        for outcome in outcomes.drain(..) {
            self.events.push_back(match outcome {
                Outcome::Whole(frame) => {
                    self.counters.frames_received += 1;
                    self.counters.media_bytes_received += frame.size_bytes as u64;
                    Event::FrameReceived(frame)
                }
                Outcome::Dropped(id, reason) => {
                    self.counters.frames_dropped += 1;
                    Event::FrameDropped { id, reason }
                }
            });
        }
    }

    /// A report about path `about` has come in on path `on`.
    fn on_feedback(
        &mut self,
        now: Instant,
        on: PathId,
        about: PathId,
        report: &mut wire::FeedbackReport,
    ) {
        let Some(path) = self.paths.get_mut(about.index()) else {
            return;
        };
        if path.state() == PathState::Removed {
            return;
        }
        report.expand(path.recovery.next_packet_number(), path.last_reported_at);
        path.last_reported_at = path.last_reported_at.max(report.reported_at());
        let mut digest = self.scratch.digest.take().unwrap_or_default();
        if path
            .recovery
            .on_report(now, report, on == about, &mut digest)
        {
            path.counters.acked_packets += digest.acked.len() as u64;
            path.counters.marked_packets += digest.ce_count;
            for packet in &digest.acked {
                self.on_acked(now, about, packet);
            }
            self.on_losses(now, about, &digest, SendReason::Lost);
            self.retry_disappointed(now);
            self.tell_controller(now, about, &digest);
            self.judge_answer(now, on, about, &digest);
            self.rescue(now);
            self.admit(now, None);
            self.on_stream_feedback(now, about, &digest);
        } else if on == about && self.paths[about.index()].recovery.rtt().sampled_at() == now {
            // What another path told first.
            self.on_path_answer(now, about);
        }
        self.scratch.digest = Some(digest);
    }

    fn on_acked(&mut self, now: Instant, path: PathId, acked: &AckedPacket) {
        let packet = &acked.sent;
        match packet.content {
            PacketContent::Fragment { frame, fragment } => {
                self.send_buffer.on_acked(frame, fragment, path);
                self.counters.frames_acked = self.send_buffer.acked_frame_count();
                if let Some(received_at) = acked.received_at {
                    let event = SchedulerEvent::Delivered {
                        path,
                        frame,
                        fragment,
                        received_at,
                    };
                    self.scheduler.on_event(now, &event);
                }
            }
            PacketContent::Repair { frame, repair } => {
                self.send_buffer.on_repair_settled(frame, repair);
            }
            PacketContent::Segment { offset } => {
                if let Some(stream) = &mut self.stream {
                    stream.send.on_packet_acked(offset);
                }
            }
            PacketContent::Half {
                frame,
                fragment,
                half,
            } => self.send_buffer.on_half_acked(frame, fragment, half, path),
            PacketContent::Padding | PacketContent::Challenge | PacketContent::MtuProbe => {}
        }
        self.scheduler.on_event(
            now,
            &SchedulerEvent::Acked {
                path,
                bytes: packet.bytes,
            },
        );
        self.is_schedule_due = true;
    }

    /// Sends again, for this reason, what was lost on `path`, where it is of use.
    pub(super) fn on_losses(
        &mut self,
        now: Instant,
        path: PathId,
        digest: &Digest,
        reason: SendReason,
    ) {
        if digest.lost.is_empty() && digest.too_large.is_empty() {
            return;
        }
        self.refresh_views(now);
        for packet in &digest.too_large {
            self.on_copy_lost(now, path, packet, reason);
        }
        for packet in &digest.lost {
            self.scheduler.on_event(
                now,
                &SchedulerEvent::Lost {
                    path,
                    bytes: packet.bytes,
                },
            );
            self.on_copy_lost(now, path, packet, reason);
        }
        self.is_schedule_due = true;
    }

    /// A copy is lost, or stuck on a path in doubt: another one may be worth sending.
    pub(super) fn on_copy_lost(
        &mut self,
        now: Instant,
        path: PathId,
        packet: &SentPacket,
        reason: SendReason,
    ) {
        if let PacketContent::Segment { offset } = packet.content
            && let Some(stream) = &mut self.stream
        {
            stream.send.on_packet_lost(offset, packet, reason);
        }
        if let PacketContent::Repair { frame, repair } = packet.content {
            self.send_buffer.on_repair_settled(frame, repair);
        }
        let (frame, fragment) = match packet.content {
            PacketContent::Fragment { frame, fragment } => (frame, fragment),
            PacketContent::Half {
                frame, fragment, ..
            } => {
                // Its other half may wait yet: both leave again.
                self.paths[path.index()].take_sent_half(frame, fragment);
                (frame, fragment)
            }
            _ => return,
        };
        let copy = LostCopy {
            frame,
            fragment,
            path,
            reason,
        };
        self.judge(now, copy, packet.bytes);
    }

    /// Sends a lost fragment again, if that is of use.
    pub(super) fn judge(&mut self, now: Instant, copy: LostCopy, bytes: u32) -> Verdict {
        let retry = self.retry(now, copy.path, bytes);
        let verdict = self.send_buffer.on_lost(copy, retry);
        if verdict == Verdict::GiveUp {
            self.give_up(now, copy.frame);
        }
        verdict
    }

    pub(super) fn give_up(&mut self, now: Instant, frame: FrameId) {
        if self.send_buffer.give_up(frame) {
            self.on_given_up(now, frame);
        }
    }

    pub(super) fn tell_controller(&mut self, now: Instant, path: PathId, digest: &Digest) {
        if self.is_of_probe(path, digest) {
            // Fates are told in the order of numbers: those behind it would wait for ever.
            return self.paths[path.index()].note_fates(now, digest);
        }
        let session = self.session_view();
        match &mut self.paths[..] {
            // Of a single path no list is kept: one on the stack is in the cache.
            [only] => {
                let views = [only.view(u64::from(self.max_packet_bytes), now)];
                only.note_outflow(now, digest);
                only.on_feedback(now, digest, &session, &views);
                self.update_last_call_lead(&views);
            }
            _ => {
                self.refresh_views(now);
                let views = core::mem::take(&mut self.views);
                self.paths[path.index()].note_outflow(now, digest);
                self.paths[path.index()].on_feedback(now, digest, &session, &views);
                self.update_last_call_lead(&views);
                self.views = views;
            }
        }
        self.update_standby(now);
        self.update_target(now);
    }

    /// What a report says of the path's life. One that came by another path proves only that the
    /// way there works, and only since its newest packet was sent.
    fn judge_answer(&mut self, now: Instant, on: PathId, about: PathId, digest: &Digest) {
        let path = &mut self.paths[about.index()];
        if on == about {
            self.on_path_answer(now, about);
            return;
        }
        // The way back is still broken: the peer is to keep on reporting by the other path.
        if path.doubt_told_at + DOUBT_LIFETIME / 2 <= now {
            path.status_to_tell = Some(true);
        }
        let newest = digest.acked.last().map(|packet| packet.sent.sent_at);
        if newest.is_some_and(|sent_at| sent_at >= path.liveness.doubted_since())
            && path.liveness.on_answer()
        {
            self.on_path_changed(now, about);
        }
    }

    /// The path has shown that it is alive, both ways.
    fn on_path_answer(&mut self, now: Instant, path: PathId) {
        if self.paths[path.index()].liveness.on_answer() {
            self.paths[path.index()].challenge = None;
            self.paths[path.index()].expected_response = None;
            self.paths[path.index()].status_to_tell = Some(false);
            self.on_path_changed(now, path);
        }
    }
}

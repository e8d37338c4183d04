//! Acknowledgements of stream data, sent and received.

use anabranch_units::Instant;

use super::{Stream, StreamSession};
use crate::path_view::{PathId, PathState};
use crate::recovery::{AckedPacket, Digest, PacketContent};
use crate::scheduler::SchedulerEvent;
use crate::send_reason::SendReason;
use crate::session::Event;
use crate::stream::{Copy, DuplicateAck};
use crate::wire;

impl StreamSession {
    /// Handles an acknowledgement of all data below an offset, whose low 32 bits it carries.
    pub(super) fn on_stream_ack(
        &mut self,
        now: Instant,
        on: PathId,
        offset: u32,
        window: u64,
        is_prompted: bool,
    ) {
        let stream = &mut self.content;
        let acked_offset = stream.send.acked_offset();
        let offset = wire::expand(offset, acked_offset);
        stream.send.on_window(offset.saturating_add(window));
        let mut settled = core::mem::take(&mut stream.settled);
        let is_cumulative = self.config.has_cumulative_acks();
        let paths = &self.paths;
        let in_flight = |on: PathId, number| paths[on.index()].recovery.sent_packet(number);
        if stream
            .send
            .on_cumulative_ack(offset, in_flight, &mut settled)
        {
            if !is_cumulative {
                // Reports name packets: only one whose report got lost is settled by the offset.
                settled.retain(|copy| {
                    let recovery = &self.paths[copy.on.index()].recovery;
                    recovery.is_passed_over(copy.packet.packet_number)
                });
            }
            settled.sort_unstable_by_key(|copy| (copy.on, copy.packet.packet_number));
            if is_cumulative {
                self.on_stream_advance(now, on, offset, &settled);
            } else {
                for settled in settled.chunk_by(|one, other| one.on == other.on) {
                    self.on_stream_advance(now, settled[0].on, offset, settled);
                }
            }
        } else if is_cumulative && is_prompted && offset == acked_offset {
            self.on_duplicate_ack(now, on);
        }
        settled.clear();
        let stream = &mut self.content;
        stream.settled = settled;
        stream.request_scheduling();
        if stream.send.take_writable() {
            self.output.events.push_back(Event::StreamWritable);
        }
        stream.watch_window(now, &self.sizes, &self.paths);
    }

    /// Handles packets of a path that the offset settles.
    fn on_stream_advance(&mut self, now: Instant, on: PathId, offset: u64, settled: &[Copy]) {
        let (stream, path) = (&mut self.content, &mut self.paths[on.index()]);
        let own = &mut stream.paths[on.index()];
        let is_cumulative = self.config.has_cumulative_acks();
        let sample = is_cumulative
            .then(|| own.duplicate_acks.on_advance(now, offset))
            .flatten();
        // Like Vegas, which keeps the time of each segment, except for segments that may be taken
        // for others.
        let newest_resent = own.newest_resent;
        let is_timed = |number| is_cumulative && newest_resent.is_none_or(|resent| number > resent);
        let settled = settled.iter().map(|copy| copy.packet);
        let mut digest = self.scratch.digest.take().unwrap_or_default();
        if path
            .recovery
            .on_cumulative_ack(now, settled, sample, is_timed, &mut digest)
        {
            path.recovery.set_departed_bytes(0);
            path.set_loss_window(None);
            if let Some(sample) = sample {
                own.timer.on_tick_sample(now, sample);
            }
            let is_outstanding = path.recovery.outstanding_bytes() > 0;
            own.timer.on_progress(now, is_outstanding);
            path.counters.acked_packets += digest.acked.len() as u64;
            self.notify_controller(now, on, &digest);
        }
        self.scratch.digest = Some(digest);
    }

    fn on_duplicate_ack(&mut self, now: Instant, on: PathId) {
        let segment_bytes = u64::from(self.sizes.max_packet_bytes);
        let (stream, path) = (&mut self.content, &mut self.paths[on.index()]);
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
            self.notify_controller(now, on, &digest);
            self.content.on_losses(now, on, &digest, SendReason::Lost);
        }
        self.scratch.digest = Some(digest);
    }

    /// Handles a report about path `about` that has come in on path `on`.
    pub(super) fn on_report(&mut self, now: Instant, on: PathId, about: PathId, digest: &Digest) {
        for acked in &digest.acked {
            let PacketContent::Segment { offset } = acked.sent.content else {
                continue;
            };
            self.content.send.on_packet_acked(offset, about);
            let event = SchedulerEvent::Acked {
                path: about,
                bytes: acked.sent.bytes,
            };
            self.content.notify_scheduler(now, &event);
        }
        let (path, prior_bytes) = (&self.paths[about.index()], digest.prior_bytes_in_flight);
        self.content
            .record_open_window(now, path, prior_bytes, self.sizes.max_packet_bytes);
        self.notify_controller(now, about, digest);
        self.judge_answer(now, on, about, digest);
        self.content.on_losses(now, about, digest, SendReason::Lost);
        self.on_stream_feedback(now, about, digest);
    }

    /// Handles packets that are declared lost, since no report listed them.
    pub(super) fn on_loss_timeout(&mut self, now: Instant, id: PathId, digest: &Digest) {
        self.notify_controller(now, id, digest);
        self.content.on_losses(now, id, digest, SendReason::Lost);
        self.on_stream_feedback(now, id, digest);
    }

    fn notify_controller(&mut self, now: Instant, id: PathId, digest: &Digest) {
        if digest.acked.is_empty() && digest.lost.is_empty() {
            return;
        }
        self.content.request_scheduling();
        let is_probe = |acked: &AckedPacket| acked.sent.content.is_probe();
        let is_active = self.paths[id.index()].state() == PathState::Active;
        if is_active && digest.lost.is_empty() && digest.acked.iter().all(is_probe) {
            // A packet this small is no sample of the path's rate.
            return;
        }
        let deadline = self.config.media.deadline;
        let session = self.content.session_view(&self.paths, deadline);
        let is_one_of_several = self.content.queue.is_some();
        let path_count = self.paths.len();
        let path = &mut self.paths[id.index()];
        let looks_at_paths = path.looks_at_paths(path_count);
        if looks_at_paths && is_one_of_several {
            path.fade_outflow(now);
            self.refresh_views(now);
        }
        let path = &mut self.paths[id.index()];
        if is_one_of_several {
            path.record_outflow(now, digest);
        }
        if !looks_at_paths {
            path.on_feedback(now, digest, &session, &[]);
        } else if is_one_of_several {
            path.on_feedback(now, digest, &session, &self.views);
        } else {
            let views = [path.view(u64::from(self.sizes.max_packet_bytes), now)];
            path.on_feedback(now, digest, &session, &views);
        }
    }

    /// Handles a digested report.
    pub(super) fn on_stream_feedback(&mut self, now: Instant, id: PathId, digest: &Digest) {
        let stream = &mut self.content;
        let own = &mut stream.paths[id.index()];
        if !digest.acked.is_empty() {
            self.paths[id.index()].set_loss_window(None);
        }
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
        let delayed_ack = stream.config.delayed_ack;
        own.schedule_probe(now, recovery, self.sizes.max_packet_bytes, delayed_ack);
    }
}

impl Stream {
    /// Appends the acknowledgement of the peer's stream.
    pub(super) fn write_stream_ack(&mut self, is_prompted: bool, buf: &mut Vec<u8>) {
        self.is_window_due = false;
        let offset = self.receive.acked_offset();
        wire::write_stream_ack(offset, self.receive.announce_window(), is_prompted, buf);
    }

    /// Queues lost segments for retransmission.
    pub(super) fn on_losses(
        &mut self,
        now: Instant,
        id: PathId,
        digest: &Digest,
        reason: SendReason,
    ) {
        for packet in digest.too_large.iter().chain(&digest.lost) {
            let PacketContent::Segment { offset } = packet.content else {
                continue;
            };
            let lost = Copy {
                on: id,
                packet: *packet,
            };
            self.send.on_packet_lost(offset, lost, reason);
            let event = SchedulerEvent::Lost {
                path: id,
                bytes: packet.bytes,
            };
            self.notify_scheduler(now, &event);
        }
    }
}

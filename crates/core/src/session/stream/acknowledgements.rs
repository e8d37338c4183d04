//! What has arrived: telling the peer, and hearing it from the peer.

use anabranch_units::{DataRate, Instant};

use super::StreamSession;
use crate::path_view::PathId;
use crate::recovery::{Digest, LossDetection, PacketContent, SentPacket};
use crate::send_reason::SendReason;
use crate::session::Event;
use crate::session_view::SessionView;
use crate::stream::DuplicateAck;
use crate::wire;

impl StreamSession {
    /// Appends what the peer is to know of its stream.
    pub(super) fn write_stream_ack(&mut self, is_prompted: bool, buf: &mut Vec<u8>) {
        let stream = &mut self.content;
        stream.is_window_due = false;
        let offset = stream.receive.acked_offset();
        wire::write_stream_ack(offset, stream.receive.tell_window(), is_prompted, buf);
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
        let stream = &mut self.content;
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
        let stream = &mut self.content;
        stream.settled = settled;
        if stream.send.take_writable() {
            self.events.push_back(Event::StreamWritable);
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
        let (stream, path) = (&mut self.content, &mut self.paths[on.index()]);
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
            self.on_losses(&digest, SendReason::Lost);
            self.tell_controller(now, on, &digest);
        }
        self.scratch.digest = Some(digest);
    }

    /// A report about path `about` has come in on path `on`.
    pub(super) fn on_report(&mut self, now: Instant, on: PathId, about: PathId, digest: &Digest) {
        for acked in &digest.acked {
            if let PacketContent::Segment { offset } = acked.sent.content {
                self.content.send.on_packet_acked(offset);
            }
        }
        self.on_losses(digest, SendReason::Lost);
        self.tell_controller(now, about, digest);
        self.judge_answer(now, on, about, digest);
        self.on_stream_feedback(now, about, digest);
    }

    /// Packets are taken for lost, since nothing was heard of them.
    pub(super) fn on_loss_timeout(&mut self, now: Instant, id: PathId, digest: &Digest) {
        self.on_losses(digest, SendReason::Lost);
        self.tell_controller(now, id, digest);
        self.on_stream_feedback(now, id, digest);
    }

    /// Has what was lost sent again.
    pub(super) fn on_losses(&mut self, digest: &Digest, reason: SendReason) {
        for packet in &digest.lost {
            if let PacketContent::Segment { offset } = packet.content {
                self.content.send.on_packet_lost(offset, packet, reason);
            }
        }
    }

    fn tell_controller(&mut self, now: Instant, id: PathId, digest: &Digest) {
        if digest.acked.is_empty() && digest.lost.is_empty() {
            return;
        }
        let session = SessionView {
            backlog_bytes: self.content.send.waiting_bytes(),
            target_bitrate: DataRate::ZERO,
            deadline: self.config.media.deadline,
        };
        let path = &mut self.paths[id.index()];
        let views = [path.view(u64::from(self.max_packet_bytes), now)];
        path.on_feedback(now, digest, &session, &views);
    }

    /// A report has been digested.
    pub(super) fn on_stream_feedback(&mut self, now: Instant, id: PathId, digest: &Digest) {
        let stream = &mut self.content;
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
}

//! Acknowledgements of stream data, sent and received.

use anabranch_units::Instant;

use super::Stream;
use crate::path_view::{PathId, PathState};
use crate::recovery::{Digest, PacketContent};
use crate::scheduler::SchedulerEvent;
use crate::send_reason::SendReason;
use crate::session::Event;
use crate::session::content::Context;
use crate::stream::{Copy, DuplicateAck};
use crate::wire;

impl Stream {
    /// Handles an acknowledgement of all data below an offset, whose low 32 bits it carries.
    pub(super) fn on_stream_ack(
        &mut self,
        ctx: &mut Context<'_>,
        on: PathId,
        offset: u32,
        window: u64,
        is_prompted: bool,
    ) {
        let acked_offset = self.send.acked_offset();
        let offset = wire::expand(offset, acked_offset);
        self.send.on_window(offset.saturating_add(window));
        let mut settled = core::mem::take(&mut self.settled);
        let is_cumulative = ctx.config.has_cumulative_acks();
        let paths = &*ctx.paths;
        if self.send.on_cumulative_ack(
            offset,
            |on, number| paths[on.index()].recovery.sent_packet(number),
            &mut settled,
        ) {
            if !is_cumulative {
                // Reports name packets: only one whose report got lost is settled by the offset.
                settled.retain(|copy| {
                    let recovery = &ctx.paths[copy.on.index()].recovery;
                    recovery.is_passed_over(copy.packet.packet_number)
                });
            }
            settled.sort_unstable_by_key(|copy| (copy.on, copy.packet.packet_number));
            if is_cumulative {
                self.on_stream_advance(ctx, on, offset, &settled);
            } else {
                for settled in settled.chunk_by(|one, other| one.on == other.on) {
                    self.on_stream_advance(ctx, settled[0].on, offset, settled);
                }
            }
        } else if is_cumulative && is_prompted && offset == acked_offset {
            self.on_duplicate_ack(ctx, on);
        }
        settled.clear();
        self.settled = settled;
        self.request_scheduling();
        if self.send.take_writable() {
            ctx.output.events.push_back(Event::StreamWritable);
        }
        self.watch_window(ctx.now, ctx.sizes, ctx.paths);
    }

    /// Handles packets of a path that the offset settles.
    fn on_stream_advance(
        &mut self,
        ctx: &mut Context<'_>,
        on: PathId,
        offset: u64,
        settled: &[Copy],
    ) {
        let path = &mut ctx.paths[on.index()];
        let own = &mut self.paths[on.index()];
        let is_cumulative = ctx.config.has_cumulative_acks();
        let sample = is_cumulative
            .then(|| own.duplicate_acks.on_advance(ctx.now, offset))
            .flatten();
        // Like Vegas, which keeps the time of each segment, except for segments that may be taken
        // for others.
        let newest_resent = own.newest_resent;
        let settled = settled.iter().map(|copy| copy.packet);
        let mut digest = ctx.digest.take().unwrap_or_default();
        if path.recovery.on_cumulative_ack(
            ctx.now,
            settled,
            sample,
            |number| is_cumulative && newest_resent.is_none_or(|resent| number > resent),
            &mut digest,
        ) {
            path.recovery.set_departed_bytes(0);
            path.set_loss_window(None);
            if let Some(sample) = sample {
                own.timer.on_tick_sample(ctx.now, sample);
            }
            let is_outstanding = path.recovery.outstanding_bytes() > 0;
            own.timer.on_progress(ctx.now, is_outstanding);
            path.counters.acked_packets += digest.acked.len() as u64;
            self.notify_controller(ctx, on, &digest);
        }
        *ctx.digest = Some(digest);
    }

    fn on_duplicate_ack(&mut self, ctx: &mut Context<'_>, on: PathId) {
        let segment_bytes = u64::from(ctx.sizes.max_packet_bytes);
        let path = &mut ctx.paths[on.index()];
        let own = &mut self.paths[on.index()];
        let outstanding_bytes = path.recovery.outstanding_bytes();
        if outstanding_bytes == 0 {
            return;
        }
        let verdict = own.duplicate_acks.on_duplicate(self.send.next_offset());
        let departed_segments = own.duplicate_acks.departed_segments();
        path.recovery
            .set_departed_bytes(departed_segments * segment_bytes);
        if verdict != DuplicateAck::FastRetransmit {
            return;
        }
        let flight_size = own.duplicate_acks.flight_size(outstanding_bytes);
        let Some(first) = self.send.first_unacked() else {
            return;
        };
        own.is_urgent = true;
        own.timer.restart(ctx.now);
        let mut digest = ctx.digest.take().unwrap_or_default();
        if path.recovery.declare_lost(ctx.now, first, &mut digest) {
            digest.prior_bytes_in_flight = flight_size;
            self.notify_controller(ctx, on, &digest);
            self.resend(ctx.now, on, &digest, SendReason::Lost);
        }
        *ctx.digest = Some(digest);
    }

    /// Records a report about a path, and passes it to the path's controller.
    pub(super) fn record_report(&mut self, ctx: &mut Context<'_>, about: PathId, digest: &Digest) {
        for acked in &digest.acked {
            let PacketContent::Segment { offset } = acked.sent.content else {
                continue;
            };
            self.send.on_packet_acked(offset, about);
            let event = SchedulerEvent::Acked {
                path: about,
                bytes: acked.sent.bytes,
            };
            self.notify_scheduler(ctx.now, &event);
        }
        let (path, prior_bytes) = (&ctx.paths[about.index()], digest.prior_bytes_in_flight);
        self.record_open_window(ctx.now, path, prior_bytes, ctx.sizes.max_packet_bytes);
        self.notify_controller(ctx, about, digest);
    }

    pub(super) fn notify_controller(&mut self, ctx: &mut Context<'_>, id: PathId, digest: &Digest) {
        if digest.acked.is_empty() && digest.lost.is_empty() {
            return;
        }
        self.request_scheduling();
        let is_active = ctx.paths[id.index()].state() == PathState::Active;
        if is_active && digest.is_of_probes() {
            // A packet this small is no sample of the path's rate.
            return;
        }
        let deadline = ctx.config.media.deadline;
        let session = self.session_view(ctx.paths, deadline);
        let is_one_of_several = self.queue.is_some();
        let path_count = ctx.paths.len();
        let path = &mut ctx.paths[id.index()];
        let looks_at_paths = path.looks_at_paths(path_count);
        if looks_at_paths && is_one_of_several {
            path.fade_outflow(ctx.now);
            ctx.refresh_views(self);
        }
        let path = &mut ctx.paths[id.index()];
        if is_one_of_several {
            path.record_outflow(ctx.now, digest);
        }
        if !looks_at_paths {
            path.on_feedback(ctx.now, digest, &session, &[]);
        } else if is_one_of_several {
            path.on_feedback(ctx.now, digest, &session, ctx.views);
        } else {
            let views = [path.view(u64::from(ctx.sizes.max_packet_bytes), ctx.now)];
            path.on_feedback(ctx.now, digest, &session, &views);
        }
    }

    /// Handles a digested report.
    pub(super) fn on_stream_feedback(
        &mut self,
        ctx: &mut Context<'_>,
        id: PathId,
        digest: &Digest,
    ) {
        let own = &mut self.paths[id.index()];
        if !digest.acked.is_empty() {
            ctx.paths[id.index()].set_loss_window(None);
        }
        let recovery = &ctx.paths[id.index()].recovery;
        if let Some(newest) = digest.acked.last() {
            own.probe.on_settled(newest.sent.packet_number);
            if newest.rtt.is_some() {
                let unmeasured = self.config.delayed_ack;
                own.timer.on_sample(recovery.rtt(), unmeasured);
            }
            own.timer
                .on_progress(ctx.now, recovery.outstanding_bytes() > 0);
        }
        if let Some(newest) = digest.lost.last() {
            own.probe.on_settled(newest.packet_number);
            own.is_urgent |= digest.is_recovery_begun;
        }
        let delayed_ack = self.config.delayed_ack;
        own.schedule_probe(ctx.now, recovery, ctx.sizes.max_packet_bytes, delayed_ack);
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
    pub(super) fn resend(&mut self, now: Instant, id: PathId, digest: &Digest, reason: SendReason) {
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

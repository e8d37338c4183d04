//! Reports about media, and the reactions to them.

use anabranch_units::Instant;

use super::{Media, idle};
use crate::path::Path;
use crate::path_view::{PathId, PathState, PathView};
use crate::recovery::{AckedPacket, Digest, PacketContent};
use crate::scheduler::SchedulerEvent;
use crate::send_reason::SendReason;
use crate::sender_rules::SenderRule;
use crate::session::content::Context;

impl Media {
    /// Records a report about a path. The path and its controller learn of it first. Then all
    /// forecasts are made, once, and every decision asks them.
    pub(super) fn record_report(&mut self, ctx: &mut Context<'_>, about: PathId, digest: &Digest) {
        for packet in &digest.acked {
            self.on_acked(ctx.now, about, packet);
        }
        ctx.output.counters.frames_acked = self.send_buffer.acked_frame_count();
        if ctx.config.laboratory.rules.has(SenderRule::Standstill) {
            restart_after_standstill(ctx.now, about, ctx.paths);
        }
        self.notify_controller(ctx, about, digest);
    }

    /// Resends lost packets of a path, with this reason, if a copy is still useful by the present
    /// views.
    pub(super) fn answer_losses(
        &mut self,
        ctx: &mut Context<'_>,
        path: PathId,
        digest: &Digest,
        reason: SendReason,
    ) {
        for packet in &digest.too_large {
            self.rule(ctx).on_copy_lost(path, packet, reason);
            self.binding.request();
        }
        for packet in &digest.lost {
            let bytes = packet.bytes;
            let event = SchedulerEvent::Lost { path, bytes };
            self.binding.notify(ctx.now, &event);
            self.rule(ctx).on_copy_lost(path, packet, reason);
            self.binding.request();
        }
    }

    /// Reports the findings to the path's controller. One that looks at other paths sees their
    /// state before it.
    pub(super) fn notify_controller(
        &mut self,
        ctx: &mut Context<'_>,
        path: PathId,
        digest: &Digest,
    ) {
        let is_standby = self.standby.is_standby(ctx.paths, path);
        if idle::is_of_probe(&ctx.paths[path.index()], is_standby, digest) {
            // Outcomes are reported in the order of packet numbers; later ones would wait for ever.
            return ctx.paths[path.index()].update_loss_history(ctx.now, digest);
        }
        let deadline = ctx.config.media.deadline;
        let session = self.session_view(ctx.paths, deadline);
        let looks_at_paths = ctx.paths[path.index()].looks_at_paths(ctx.paths.len());
        if looks_at_paths {
            ctx.refresh_views(self);
        }
        let views: &[PathView] = if looks_at_paths { ctx.views } else { &[] };
        let path = &mut ctx.paths[path.index()];
        path.fade_outflow(ctx.now);
        path.update_loss_history(ctx.now, digest);
        path.record_outflow(ctx.now, digest);
        path.on_feedback(ctx.now, digest, &session, views);
    }
}

/// Restarts the outflow of an only path that answers again after a standstill. With several paths
/// the returning one must not look good yet, and its packets have moved to the others.
fn restart_after_standstill(now: Instant, path: PathId, paths: &mut [Path]) {
    if let [only] = paths
        && only.id == path
        && only.state() != PathState::Active
    {
        only.restart_outflow(now);
    }
}

impl Media {
    fn on_acked(&mut self, now: Instant, path: PathId, acked: &AckedPacket) {
        let packet = &acked.sent;
        match packet.content {
            PacketContent::Fragment {
                frame, fragment, ..
            } => {
                self.send_buffer.on_packet_acked(packet.content, path);
                if let Some(received_at) = acked.received_at {
                    let event = SchedulerEvent::Delivered {
                        path,
                        frame,
                        fragment,
                        received_at,
                    };
                    self.binding.notify(now, &event);
                }
            }
            PacketContent::Repair { frame, repair } => {
                self.send_buffer.on_repair_settled(frame, repair);
            }
            PacketContent::Padding
            | PacketContent::Challenge
            | PacketContent::MtuProbe
            | PacketContent::Segment { .. } => {}
        }
        let bytes = packet.bytes;
        let event = SchedulerEvent::Acked { path, bytes };
        self.binding.notify(now, &event);
        self.binding.request();
    }
}

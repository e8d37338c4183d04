//! Reports about media, and the reactions to them.

use anabranch_units::Instant;

use super::{Media, MediaSession, Views, idle};
use crate::path::Path;
use crate::path_view::{PathId, PathState, PathView};
use crate::recovery::{AckedPacket, Digest, PacketContent};
use crate::scheduler::SchedulerEvent;
use crate::send_reason::SendReason;
use crate::sender_rules::SenderRule;

impl MediaSession {
    /// Handles a report about path `about` that has come in on path `on`. Path and controller learn
    /// of it first. Then all forecasts are made, once, and every decision asks them.
    pub(super) fn on_report(&mut self, now: Instant, on: PathId, about: PathId, digest: &Digest) {
        for packet in &digest.acked {
            self.content.on_acked(now, about, packet);
        }
        self.output.counters.frames_acked = self.content.send_buffer.acked_frame_count();
        if self.config.laboratory.rules.has(SenderRule::Standstill) {
            restart_after_standstill(now, about, &mut self.paths);
        }
        self.notify_controller(now, about, digest);
        self.judge_answer(now, on, about, digest);
        self.refresh_views(now);
        self.follow_rates(now);
        self.answer_losses(now, about, digest, SendReason::Lost);
        self.rule(now).reconsider_unrepaired();
        self.reinject(now);
        self.admit(now, None, Views::Present);
    }

    /// Handles packets of a path that its loss timer has declared lost.
    pub(super) fn on_loss_timeout(&mut self, now: Instant, id: PathId, digest: &Digest) {
        self.notify_controller(now, id, digest);
        self.refresh_views(now);
        self.follow_rates(now);
        self.answer_losses(now, id, digest, SendReason::Lost);
    }

    /// Resends packets lost on `path`, with this reason, if a copy is still useful.
    pub(super) fn on_losses(
        &mut self,
        now: Instant,
        path: PathId,
        digest: &Digest,
        reason: SendReason,
    ) {
        if !(digest.lost.is_empty() && digest.too_large.is_empty()) {
            self.refresh_views(now);
            self.answer_losses(now, path, digest, reason);
        }
    }

    /// Does the same by the present views.
    fn answer_losses(&mut self, now: Instant, path: PathId, digest: &Digest, reason: SendReason) {
        for packet in &digest.too_large {
            self.rule(now).on_copy_lost(path, packet, reason);
            self.content.binding.request();
        }
        for packet in &digest.lost {
            let bytes = packet.bytes;
            let event = SchedulerEvent::Lost { path, bytes };
            self.content.binding.notify(now, &event);
            self.rule(now).on_copy_lost(path, packet, reason);
            self.content.binding.request();
        }
    }

    /// Reports the findings to the path's controller. One that looks at other paths sees their
    /// state before it.
    fn notify_controller(&mut self, now: Instant, path: PathId, digest: &Digest) {
        let is_standby = self.content.standby.is_standby(&self.paths, path);
        if idle::is_of_probe(&self.paths[path.index()], is_standby, digest) {
            // Outcomes are reported in the order of packet numbers; later ones would wait for ever.
            return self.paths[path.index()].update_loss_history(now, digest);
        }
        let deadline = self.config.media.deadline;
        let session = self.content.session_view(&self.paths, deadline);
        let looks_at_paths = self.paths[path.index()].looks_at_paths(self.paths.len());
        if looks_at_paths {
            self.refresh_views(now);
        }
        let views: &[PathView] = if looks_at_paths { &self.views } else { &[] };
        let path = &mut self.paths[path.index()];
        path.fade_outflow(now);
        path.update_loss_history(now, digest);
        path.record_outflow(now, digest);
        path.on_feedback(now, digest, &session, views);
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

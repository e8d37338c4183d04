//! Reports about media, and the reactions to them.

use anabranch_units::Instant;

use super::{Media, MediaSession, idle, last_try};
use crate::path::Path;
use crate::path_view::{PathId, PathSet, PathState};
use crate::recovery::{AckedPacket, Digest, PacketContent, SentPacket};
use crate::scheduler::SchedulerEvent;
use crate::send_reason::SendReason;

impl MediaSession {
    /// Handles a report about path `about` that has come in on path `on`.
    pub(super) fn on_report(&mut self, now: Instant, on: PathId, about: PathId, digest: &Digest) {
        for packet in &digest.acked {
            self.content.on_acked(now, about, packet);
        }
        self.counters.frames_acked = self.content.send_buffer.acked_frame_count();
        if !self.config.laboratory.endpoint.is_bare() {
            restart_after_standstill(now, about, &mut self.paths);
        }
        self.on_losses(now, about, digest, SendReason::Lost);
        self.reconsider_unrepaired(now);
        self.notify_controller(now, about, digest);
        self.judge_answer(now, on, about, digest);
        self.reinject(now);
        self.admit(now, None);
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
            self.answer_losses(now, path, digest, reason);
        }
    }

    #[cold]
    fn answer_losses(&mut self, now: Instant, path: PathId, digest: &Digest, reason: SendReason) {
        self.refresh_views(now);
        for packet in &digest.too_large {
            self.on_copy_lost(now, path, packet, reason);
        }
        for packet in &digest.lost {
            self.content.scheduler.on_event(
                now,
                &SchedulerEvent::Lost {
                    path,
                    bytes: packet.bytes,
                },
            );
            self.on_copy_lost(now, path, packet, reason);
        }
        self.content.is_schedule_due = true;
    }

    /// Handles a copy that is lost, or stuck on a suspect path: another one may be worth sending.
    pub(super) fn on_copy_lost(
        &mut self,
        now: Instant,
        path: PathId,
        packet: &SentPacket,
        reason: SendReason,
    ) {
        if let PacketContent::Repair { frame, repair } = packet.content {
            self.content.send_buffer.on_repair_settled(frame, repair);
        }
        let suspected = match reason {
            SendReason::PathSuspect => PathSet::only(path),
            _ => PathSet::EMPTY,
        };
        for id in self.content.send_buffer.carried_by(packet.content) {
            if suspected.is_empty() {
                self.content.send_buffer.on_lost(id, path);
            }
            self.reconsider(now, id, suspected, reason, packet.bytes);
        }
    }

    pub(super) fn notify_controller(&mut self, now: Instant, path: PathId, digest: &Digest) {
        let is_standby = self.content.standby.is_standby(&self.paths, path);
        if idle::is_of_probe(&self.paths[path.index()], is_standby, digest) {
            // Outcomes are reported in the order of packet numbers; later ones would wait for ever.
            return self.paths[path.index()].update_loss_history(now, digest);
        }
        let deadline = self.config.media.deadline;
        let session = self.content.session_view(&self.paths, deadline);
        self.paths[path.index()].fade_outflow(now);
        let bytes = self.max_packet_bytes;
        let last_call_lead;
        match &mut self.paths[..] {
            // Of a single path no list is kept: one on the stack is in the cache.
            [only] => {
                let views = [only.view(u64::from(self.max_packet_bytes), now)];
                only.update_loss_history(now, digest);
                only.record_outflow(now, digest);
                only.on_feedback(now, digest, &session, &views);
                last_call_lead = last_try::last_call_lead(&views, bytes);
            }
            _ => {
                self.refresh_views(now);
                let views = core::mem::take(&mut self.views);
                let path = &mut self.paths[path.index()];
                path.update_loss_history(now, digest);
                path.record_outflow(now, digest);
                path.on_feedback(now, digest, &session, &views);
                last_call_lead = last_try::last_call_lead(&views, bytes);
                self.views = views;
            }
        }
        if self.config.laboratory.sends_last_tries() {
            self.content.send_buffer.set_last_call_lead(last_call_lead);
        }
        self.update_standby(now);
        self.update_target(now);
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
                    self.scheduler.on_event(now, &event);
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
        self.scheduler.on_event(
            now,
            &SchedulerEvent::Acked {
                path,
                bytes: packet.bytes,
            },
        );
        self.is_schedule_due = true;
    }
}

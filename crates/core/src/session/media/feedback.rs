//! Reports about media, and the reactions to them.

use anabranch_units::Instant;

use super::MediaSession;
use crate::path_view::{PathId, PathSet, PathState};
use crate::recovery::{AckedPacket, Digest, PacketContent, SentPacket};
use crate::scheduler::SchedulerEvent;
use crate::send_reason::SendReason;

impl MediaSession {
    /// Handles a report about path `about` that has come in on path `on`.
    pub(super) fn on_report(&mut self, now: Instant, on: PathId, about: PathId, digest: &Digest) {
        for packet in &digest.acked {
            self.on_acked(now, about, packet);
        }
        self.on_standstill(now, about);
        self.on_losses(now, about, digest, SendReason::Lost);
        self.reconsider_unrepaired(now);
        self.notify_controller(now, about, digest);
        self.judge_answer(now, on, about, digest);
        self.reinject(now);
        self.admit(now, None);
    }

    /// Restarts the outflow of an only path that answers again after a standstill. With several
    /// paths the returning one must not look good yet, and its packets have moved to the others.
    fn on_standstill(&mut self, now: Instant, path: PathId) {
        if self.config.laboratory.endpoint.is_bare() {
            return;
        }
        if let [only] = &mut self.paths[..]
            && only.id == path
            && only.state() != PathState::Active
        {
            only.restart_outflow(now);
        }
    }

    fn on_acked(&mut self, now: Instant, path: PathId, acked: &AckedPacket) {
        let packet = &acked.sent;
        match packet.content {
            PacketContent::Fragment {
                frame, fragment, ..
            } => {
                let send_buffer = &mut self.content.send_buffer;
                send_buffer.on_packet_acked(packet.content, path);
                self.counters.frames_acked = self.content.send_buffer.acked_frame_count();
                if let Some(received_at) = acked.received_at {
                    let event = SchedulerEvent::Delivered {
                        path,
                        frame,
                        fragment,
                        received_at,
                    };
                    self.content.scheduler.on_event(now, &event);
                }
            }
            PacketContent::Repair { frame, repair } => {
                self.content.send_buffer.on_repair_settled(frame, repair);
            }
            PacketContent::Padding
            | PacketContent::Challenge
            | PacketContent::MtuProbe
            | PacketContent::Segment { .. } => {}
        }
        self.content.scheduler.on_event(
            now,
            &SchedulerEvent::Acked {
                path,
                bytes: packet.bytes,
            },
        );
        self.content.is_schedule_due = true;
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
        if self.is_of_probe(path, digest) {
            // Outcomes are reported in the order of packet numbers; later ones would wait for ever.
            return self.paths[path.index()].update_loss_history(now, digest);
        }
        let session = self.session_view();
        self.paths[path.index()].fade_outflow(now);
        match &mut self.paths[..] {
            // Of a single path no list is kept: one on the stack is in the cache.
            [only] => {
                let views = [only.view(u64::from(self.max_packet_bytes), now)];
                only.update_loss_history(now, digest);
                only.record_outflow(now, digest);
                only.on_feedback(now, digest, &session, &views);
                self.update_last_call_lead(&views);
            }
            _ => {
                self.refresh_views(now);
                let views = core::mem::take(&mut self.views);
                let path = &mut self.paths[path.index()];
                path.update_loss_history(now, digest);
                path.record_outflow(now, digest);
                path.on_feedback(now, digest, &session, &views);
                self.update_last_call_lead(&views);
                self.views = views;
            }
        }
        self.update_standby(now);
        self.update_target(now);
    }
}

//! Reports about media, and the reactions to them.

use anabranch_units::Instant;

use super::MediaSession;
use crate::media::FragmentId;
use crate::path_view::{PathId, PathSet, PathState, PathView};
use crate::recovery::{AckedPacket, Digest, PacketContent, SentPacket};
use crate::scheduler::SchedulerEvent;
use crate::send_reason::SendReason;

impl MediaSession {
    /// Handles a report about path `about` that has come in on path `on`. Path and controller learn
    /// of it first. Then all forecasts are made, once, and every decision asks them.
    pub(super) fn on_report(&mut self, now: Instant, on: PathId, about: PathId, digest: &Digest) {
        for packet in &digest.acked {
            self.on_acked(now, about, packet);
        }
        self.on_standstill(now, about);
        self.notify_controller(now, about, digest);
        self.judge_answer(now, on, about, digest);
        self.refresh_views(now);
        self.follow_rates(now);
        self.answer_losses(now, about, digest, SendReason::Lost);
        self.reconsider_unrepaired(now);
        self.reinject(now);
        if self.is_overloaded(now) {
            self.admit(now, None);
        }
    }

    /// Handles packets of a path that its loss timer has declared lost.
    pub(super) fn on_loss_timeout(&mut self, now: Instant, id: PathId, digest: &Digest) {
        self.notify_controller(now, id, digest);
        self.refresh_views(now);
        self.follow_rates(now);
        self.answer_losses(now, id, digest, SendReason::Lost);
    }

    /// Updates everything that follows the paths' rates by the present views.
    pub(super) fn follow_rates(&mut self, now: Instant) {
        self.update_last_call_lead();
        self.update_standby(now);
        self.update_target(now);
    }

    /// Restarts the outflow of an only path that answers again after a standstill. With several
    /// paths the returning one must not look good yet, and its packets have moved to the others.
    fn on_standstill(&mut self, now: Instant, path: PathId) {
        if self.config.media.endpoint.is_bare() {
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
            PacketContent::Fragment { frame, fragment } => {
                self.content.send_buffer.on_acked(frame, fragment, path);
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
            PacketContent::Repair { .. } | PacketContent::Half { .. } => {
                self.on_part_acked(path, packet.content);
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

    /// Handles a repair or half of a fragment that has arrived.
    #[cold]
    fn on_part_acked(&mut self, path: PathId, content: PacketContent) {
        match content {
            PacketContent::Repair { frame, repair } => {
                self.content.send_buffer.on_repair_settled(frame, repair);
            }
            PacketContent::Half {
                frame,
                fragment,
                half,
            } => {
                let send_buffer = &mut self.content.send_buffer;
                send_buffer.on_half_acked(frame, fragment, half, path);
            }
            _ => {}
        }
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
            self.content.is_schedule_due = true;
        }
        self.content.is_schedule_due |= !digest.too_large.is_empty();
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
        let id = FragmentId { frame, fragment };
        let suspected = match reason {
            SendReason::PathSuspect => PathSet::only(path),
            _ => {
                self.content.send_buffer.on_lost(id, path);
                PathSet::EMPTY
            }
        };
        self.reconsider(now, id, suspected, reason, packet.bytes);
    }

    /// Reports the findings to the path's controller. One that looks at other paths sees their
    /// state before it.
    fn notify_controller(&mut self, now: Instant, path: PathId, digest: &Digest) {
        if self.is_of_probe(path, digest) {
            // Outcomes are reported in the order of packet numbers; later ones would wait for ever.
            return self.paths[path.index()].update_loss_history(now, digest);
        }
        let session = self.session_view();
        let looks_at_paths = self.paths[path.index()].controller.looks_at_paths();
        if looks_at_paths {
            self.refresh_views(now);
        }
        let views: &[PathView] = match looks_at_paths {
            true => &self.views,
            false => &[],
        };
        let path = &mut self.paths[path.index()];
        path.fade_outflow(now);
        path.update_loss_history(now, digest);
        path.record_outflow(now, digest);
        path.on_feedback(now, digest, &session, views);
    }
}

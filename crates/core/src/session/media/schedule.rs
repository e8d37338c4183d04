//! Binding of waiting packets to paths, by the scheduler's choice.

use anabranch_units::Instant;

use super::MediaSession;
use crate::path::Path;
use crate::path_view::{PathId, PathView};
use crate::scheduler::{self, PacketKind, PacketView};
use crate::session_view::SessionView;

impl MediaSession {
    pub(super) fn session_view(&self) -> SessionView {
        SessionView {
            backlog_bytes: self.backlog_bytes(),
            window_bytes: None,
            target_bitrate: self.content.target_bitrate,
            deadline: self.config.media.deadline,
        }
    }

    pub(super) fn backlog_bytes(&self) -> u64 {
        let bound_bytes: u64 = self.paths.iter().map(Path::queued_bytes).sum();
        self.content.send_buffer.waiting_bytes() + bound_bytes
    }

    /// Calls the scheduler for waiting packets.
    pub(super) fn schedule(&mut self, now: Instant) {
        self.content.is_schedule_due = false;
        self.content.scheduled_at = now;
        // Every acknowledgement makes a call due, but in the usual case nothing waits.
        if self.content.send_buffer.has_waiting() {
            self.bind_waiting(now);
        } else {
            self.content.held_since = None;
        }
    }

    fn bind_waiting(&mut self, now: Instant) {
        self.refresh_views(now);
        self.update_standby(now);
        let mut views = core::mem::take(&mut self.views);
        self.bind_to(now, &mut views);
        self.views = views;
    }

    /// Calls the scheduler for waiting packets, with the given views of paths.
    fn bind_to(&mut self, now: Instant, views: &mut [PathView]) {
        let session = self.session_view();
        let mut assignments = core::mem::take(&mut self.content.scratch.assignments);
        assignments.clear();
        let is_blind = self.has_blind_copies(now);
        let held = if is_blind { self.held_copies() } else { 0 };
        let queue = scheduler::SendQueue::new(&self.content.send_buffer.waiting()[held..]);
        self.content
            .scheduler
            .schedule(now, &queue, &session, views, &mut assignments);
        assignments.iter_mut().for_each(|it| it.index += held);
        self.record_symbols(views, &assignments);
        if self.paths.len() > 1 && !self.paths.iter().any(Path::has_bound) {
            self.paths.iter_mut().for_each(Path::record_rate);
        }
        for assignment in &assignments {
            let packet = &self.content.send_buffer.waiting()[assignment.index];
            if is_blind && packet.kind() == PacketKind::Retransmission {
                self.content.budget.on_copy_without_answer(packet.bytes);
            }
            let reason = assignment.reason(packet);
            let packet = PacketView { reason, ..*packet };
            for id in assignment.paths.iter() {
                self.paths[id.index()].bind(now, packet, self.content.held_since);
            }
        }
        assignments.sort_unstable_by_key(|assignment| assignment.index);
        let mut bound = assignments.iter().peekable();
        self.content
            .send_buffer
            .retain_waiting(|index| bound.next_if(|bound| bound.index == index).is_some());
        self.content.scratch.assignments = assignments;
        self.bind_repairs(now, views);
        self.content.held_since = match self.content.send_buffer.waiting() {
            [] => None,
            _ => self.content.held_since.or(Some(now)),
        };
    }

    /// Returns when to call the scheduler again for packets that it holds.
    #[inline]
    pub(super) fn held_until(&self) -> Option<Instant> {
        match self.content.send_buffer.has_waiting() {
            true => self.waiting_is_held_until(),
            false => None,
        }
    }

    #[inline(never)]
    fn waiting_is_held_until(&self) -> Option<Instant> {
        let ready = self.next_ready_after(self.content.scheduled_at);
        [ready, self.content.scheduler.wake_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Brings all that is bound to `path` back to where the scheduler finds it.
    pub(super) fn take_back(&mut self, path: PathId) {
        let (before, rest) = self.paths.split_at_mut(path.index());
        let (path, after) = rest.split_first_mut().expect("the path is one of them");
        for packet in path.unbind_all() {
            let mut others = before.iter().chain(after.iter());
            if !others.any(|other| other.has_bound_copy_of(&packet)) {
                self.content.send_buffer.unbind(packet);
            }
        }
        self.content.is_schedule_due = true;
    }
}

//! Binding of waiting packets to paths, by the scheduler's choice.

use anabranch_units::{Duration, Instant};

use super::{Media, MediaSession, unanswered};
use crate::path::{self, Path};
use crate::path_view::{PathId, PathView};
use crate::scheduler::{self, PacketKind, PacketView};
use crate::session::timeout::next_ready_after;
use crate::session_view::SessionView;

impl MediaSession {
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

    /// Binds the waiting packets. Apart, as most calls find none.
    #[inline(never)]
    fn bind_waiting(&mut self, now: Instant) {
        self.refresh_views(now);
        self.update_standby(now);
        let mut views = core::mem::take(&mut self.views);
        self.bind_to(now, &mut views);
        self.views = views;
    }

    /// Calls the scheduler for waiting packets, with the given views of paths.
    fn bind_to(&mut self, now: Instant, views: &mut [PathView]) {
        let deadline = self.config.media.deadline;
        let session = self.content.session_view(&self.paths, deadline);
        let mut assignments = core::mem::take(&mut self.content.scratch.assignments);
        assignments.clear();
        let waiting = self.content.send_buffer.waiting();
        let is_blind = unanswered::has_blind_copies(now, &self.paths, waiting);
        let held = match is_blind {
            true => unanswered::held_copies(waiting, &self.content.budget),
            false => 0,
        };
        let queue = scheduler::SendQueue::new(&self.content.send_buffer.waiting()[held..]);
        self.content
            .scheduler
            .schedule(now, &queue, &session, views, &mut assignments);
        assignments.iter_mut().for_each(|it| it.index += held);
        if let Some(sender) = &mut self.content.fec_sender {
            sender.record_symbols(&self.content.send_buffer, views, &assignments);
        }
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
        let held_since = self.content.held_since;
        if let Some(sender) = &mut self.content.fec_sender {
            let send_buffer = &mut self.content.send_buffer;
            sender.bind_repairs(now, send_buffer, views, &mut self.paths, held_since);
        }
        self.content.held_since = match self.content.send_buffer.waiting() {
            [] => None,
            _ => held_since.or(Some(now)),
        };
    }
}

impl Media {
    /// Returns the state of the session over these paths for policies.
    pub(super) fn session_view(&self, paths: &[Path], deadline: Duration) -> SessionView {
        let bound_bytes: u64 = paths.iter().map(Path::queued_bytes).sum();
        SessionView {
            backlog_bytes: self.send_buffer.waiting_bytes() + bound_bytes,
            window_bytes: None,
            target_bitrate: self.target.bitrate(),
            deadline,
            quickest_rtt: path::quickest_rtt(paths),
        }
    }

    /// Returns when to call the scheduler again for packets that it holds.
    #[inline]
    pub(super) fn held_until(&self, paths: &[Path]) -> Option<Instant> {
        match self.send_buffer.has_waiting() {
            true => self.waiting_is_held_until(paths),
            false => None,
        }
    }

    #[inline(never)]
    fn waiting_is_held_until(&self, paths: &[Path]) -> Option<Instant> {
        let ready = next_ready_after(paths, self.scheduled_at);
        [ready, self.scheduler.wake_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Brings all that is bound to `path` back to where the scheduler finds it.
    pub(super) fn take_back(&mut self, paths: &mut [Path], path: PathId) {
        let (before, rest) = paths.split_at_mut(path.index());
        let (path, after) = rest.split_first_mut().expect("the path is one of them");
        for packet in path.unbind_all() {
            let mut others = before.iter().chain(after.iter());
            if !others.any(|other| other.has_bound_copy_of(&packet)) {
                self.send_buffer.unbind(packet);
            }
        }
        self.is_schedule_due = true;
    }
}

//! Binding of waiting packets to paths, by the scheduler's choice.

use anabranch_units::{Duration, Instant};

use super::{Media, MediaSession, fec, unanswered};
use crate::fec::Budget;
use crate::media::SendBuffer;
use crate::path::{self, Path};
use crate::path_view::{PathId, PathView};
use crate::scheduler::{Assignment, PacketKind, PacketView, Scheduler, SchedulerEvent, SendQueue};
use crate::session::timeout::next_ready_after;
use crate::session_view::SessionView;

/// The scheduler, and when to ask it.
#[derive(Debug)]
pub(super) struct Binding {
    scheduler: Box<dyn Scheduler>,
    asked_at: Instant,
    /// Whether waiting packets may find a path that they did not find before.
    is_due: bool,
    /// Time since which the scheduler has held packets.
    held_since: Option<Instant>,
    /// Used again and again, so that the steady state allocates nothing.
    assignments: Vec<Assignment>,
}

/// Waiting packets, and what else changes when they are bound.
#[derive(Debug)]
pub(super) struct Unbound<'a> {
    send_buffer: &'a mut SendBuffer,
    budget: &'a mut Budget,
    fec_sender: Option<&'a mut fec::Sender>,
}

impl Binding {
    pub(super) fn new(scheduler: Box<dyn Scheduler>, now: Instant) -> Self {
        Binding {
            scheduler,
            asked_at: now,
            is_due: false,
            held_since: None,
            assignments: Vec::new(),
        }
    }

    /// Returns whether every packet goes to every path.
    pub(super) fn is_redundant(&self) -> bool {
        self.scheduler.is_redundant()
    }

    /// Makes a call of the scheduler due.
    pub(super) fn request(&mut self) {
        self.is_due = true;
    }

    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    pub(super) fn notify(&mut self, now: Instant, event: &SchedulerEvent) {
        self.scheduler.on_event(now, event);
    }

    /// Calls the scheduler for waiting packets, with the given views of paths. Apart, as most calls
    /// find none.
    #[inline(never)]
    fn bind(
        &mut self,
        now: Instant,
        unbound: &mut Unbound<'_>,
        session: &SessionView,
        paths: &mut [Path],
        views: &mut [PathView],
    ) {
        let Unbound {
            send_buffer,
            budget,
            fec_sender,
        } = unbound;
        let assignments = &mut self.assignments;
        assignments.clear();
        let waiting = send_buffer.waiting();
        let is_blind = unanswered::has_blind_copies(now, paths, waiting);
        let held = match is_blind {
            true => unanswered::held_copies(waiting, budget),
            false => 0,
        };
        let queue = SendQueue::new(&waiting[held..]);
        self.scheduler
            .schedule(now, &queue, session, views, assignments);
        assignments.iter_mut().for_each(|it| it.index += held);
        if let Some(sender) = fec_sender {
            sender.record_symbols(send_buffer, views, assignments);
        }
        if paths.len() > 1 && !paths.iter().any(Path::has_bound) {
            paths.iter_mut().for_each(Path::record_rate);
        }
        for assignment in &*assignments {
            let packet = &send_buffer.waiting()[assignment.index];
            if is_blind && packet.kind() == PacketKind::Retransmission {
                budget.on_copy_without_answer(packet.bytes);
            }
            let reason = assignment.reason(packet);
            let packet = PacketView { reason, ..*packet };
            for id in assignment.paths.iter() {
                paths[id.index()].bind(now, packet, self.held_since);
            }
        }
        assignments.sort_unstable_by_key(|assignment| assignment.index);
        let mut bound = assignments.iter().peekable();
        send_buffer.retain_waiting(|index| bound.next_if(|bound| bound.index == index).is_some());
        if let Some(sender) = fec_sender {
            sender.bind_repairs(now, send_buffer, views, paths, self.held_since);
        }
        self.held_since = match send_buffer.waiting() {
            [] => None,
            _ => self.held_since.or(Some(now)),
        };
    }

    /// Returns when to call the scheduler again for packets that it holds.
    #[inline]
    pub(super) fn held_until(&self, send_buffer: &SendBuffer, paths: &[Path]) -> Option<Instant> {
        match send_buffer.has_waiting() {
            true => self.waiting_is_held_until(paths),
            false => None,
        }
    }

    #[inline(never)]
    fn waiting_is_held_until(&self, paths: &[Path]) -> Option<Instant> {
        let ready = next_ready_after(paths, self.asked_at);
        let times = [ready, self.scheduler.wake_at()];
        times.into_iter().flatten().min()
    }
}

impl MediaSession {
    /// Calls the scheduler for waiting packets.
    pub(super) fn schedule(&mut self, now: Instant) {
        let binding = &mut self.content.binding;
        binding.is_due = false;
        binding.asked_at = now;
        // Every acknowledgement makes a call due, but in the usual case nothing waits.
        if !self.content.send_buffer.has_waiting() {
            binding.held_since = None;
            return;
        }
        self.refresh_views(now);
        let (media, paths) = (&self.config.media, &mut self.paths);
        let content = &mut self.content;
        content.update_standby(now, media, paths, &mut self.views);
        let session = content.session_view(paths, media.deadline);
        let mut unbound = Unbound {
            send_buffer: &mut content.send_buffer,
            budget: &mut content.budget,
            fec_sender: content.fec_sender.as_deref_mut(),
        };
        let binding = &mut content.binding;
        binding.bind(now, &mut unbound, &session, paths, &mut self.views);
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
        self.binding.request();
    }
}

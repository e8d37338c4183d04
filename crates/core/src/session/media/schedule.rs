//! Binding of waiting packets to paths, by the scheduler's choice.

use anabranch_units::{Duration, Instant};

use super::{Media, fec, unanswered};
use crate::fec::Budget;
use crate::media::SendBuffer;
use crate::path::{self, Path};
use crate::path_view::PathView;
use crate::scheduler::{PacketKind, PacketView, SendQueue};
use crate::session::binding::Binding;
use crate::session::content::Context;
use crate::session_view::SessionView;

/// Waiting packets, and what else changes when they are bound.
#[derive(Debug)]
pub(super) struct Unbound<'a> {
    send_buffer: &'a mut SendBuffer,
    budget: &'a mut Budget,
    fec_sender: Option<&'a mut fec::Sender>,
}

impl Binding {
    /// Returns whether every packet goes to every path.
    pub(super) fn is_redundant(&self) -> bool {
        self.scheduler.is_redundant()
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
        let held = if is_blind {
            unanswered::held_copies(waiting, budget)
        } else {
            0
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
        if send_buffer.has_waiting() {
            self.waiting_is_held_until(paths)
        } else {
            None
        }
    }
}

impl Media {
    /// Calls the scheduler for waiting packets.
    pub(super) fn schedule(&mut self, ctx: &mut Context<'_>) {
        let binding = &mut self.binding;
        binding.begin(ctx.now);
        // Every acknowledgement makes a call due, but in the usual case nothing waits.
        if !self.send_buffer.has_waiting() {
            binding.held_since = None;
            return;
        }
        ctx.refresh_views(self);
        self.update_standby(ctx.now, &ctx.config.media, ctx.paths, ctx.views);
        let session = self.session_view(ctx.paths, ctx.config.media.deadline);
        let mut unbound = Unbound {
            send_buffer: &mut self.send_buffer,
            budget: &mut self.budget,
            fec_sender: self.fec_sender.as_deref_mut(),
        };
        self.binding
            .bind(ctx.now, &mut unbound, &session, ctx.paths, ctx.views);
    }

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
}

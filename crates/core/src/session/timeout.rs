//! Timers of a session.

use anabranch_units::{Duration, Instant};

use super::content::Surroundings;
use super::next_timer::{NextTimer, Timer, is_due};
use super::{Closing, Content, Session};
use crate::control::Timeout;
use crate::path_view::PathId;
use crate::send_reason::SendReason;

impl<C: Content> Session<C> {
    /// Returns when to call [`Session::handle_timeout`] and [`Session::poll_transmit`] next, and
    /// why. A moment that has passed means at once. `None`: only a datagram or the application can
    /// change anything. [`Timer::Pacing`]: nothing else is due at that moment.
    pub fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        let mut next = NextTimer::none();
        let around = Surroundings {
            config: &self.config,
            sizes: &self.sizes,
            paths: &self.paths,
        };
        let is_open = self.closing.is_open();
        let is_sender = self.content.is_sender();
        // The pacer comes first, since it makes most others superfluous.
        for path in &self.paths {
            if is_open && path.is_in_use(is_sender) {
                next.consider(self.content.leaves_at(&around, path), Timer::Pacing);
            }
        }
        if let Closing::Announcing { next_at, .. } = self.closing {
            next.consider(Some(next_at), Timer::Close);
        }
        for path in self.paths.iter().filter(|path| !path.is_removed()) {
            next.consider(path.arrivals.due_at(), Timer::Feedback);
            if !is_open {
                continue;
            }
            next.consider(path.recovery.loss_timer(), Timer::LossDetection);
            next.consider(path.controller.next_timeout(), Timer::Controller);
            if path.is_in_use(is_sender) {
                self.content.consider_path(&self.paths, path, &mut next);
            }
        }
        if is_open && is_sender {
            self.content.consider_sending(&around, &mut next);
        }
        self.content.consider_receiving(&mut next);
        next.first()
    }

    /// Performs due actions. Early or repeated calls have no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.content.on_receive_timeout(now, &mut self.output);
        if self.closing.is_open() {
            self.content.before_path_timeouts(now, &mut self.output);
            self.handle_path_timeouts(now);
            let (content, mut ctx) = self.split(now);
            content.after_path_timeouts(&mut ctx);
        }
    }

    /// Records that the driver's machine has delayed this turn. Its pacers catch up with such a
    /// lag, up to 100 ms, instead of forfeiting it.
    pub fn set_lateness(&mut self, lateness: Duration) {
        for path in &mut self.paths {
            path.set_lateness(lateness);
        }
    }

    /// Serves the timers of all paths.
    fn handle_path_timeouts(&mut self, now: Instant) {
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            let path = &mut self.paths[index];
            if path.is_removed() {
                continue;
            }
            if is_due(path.recovery.loss_timer(), now) {
                let mut digest = self.scratch.digest.take().unwrap_or_default();
                if path.recovery.on_loss_timeout(now, &mut digest) {
                    let (content, mut ctx) = self.split(now);
                    content.on_loss_timeout(&mut ctx, id, &digest);
                }
                self.scratch.digest = Some(digest);
            }
            let path = &mut self.paths[index];
            if is_due(path.controller.next_timeout(), now) {
                path.on_timeout(now, Timeout::Own);
                let (content, mut ctx) = self.split(now);
                content.on_controller_timeout(&mut ctx);
            }
            C::on_path_timeout(self, now, id);
        }
    }

    /// Takes all packets of the path out of flight. `reason` is that of their retransmissions.
    pub(super) fn declare_silent(&mut self, now: Instant, id: PathId, reason: SendReason) {
        let mut digest = self.scratch.digest.take().unwrap_or_default();
        let path = &mut self.paths[id.index()];
        path.recovery.on_silence(now, &mut digest);
        path.recovery.forget_lost(now);
        path.on_silence();
        path.counters.lost_packets += digest.lost_count();
        let (content, mut ctx) = self.split(now);
        content.on_losses(&mut ctx, id, &digest, reason);
        self.scratch.digest = Some(digest);
    }
}

//! The scheduler of a session, and when to ask it.

use anabranch_units::Instant;

use crate::path::Path;
use crate::path_view::PathState;
use crate::scheduler::{Assignment, Scheduler, SchedulerEvent};

/// Calls of the scheduler.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) scheduler: Box<dyn Scheduler>,
    asked_at: Instant,
    /// Whether waiting packets may find a path that they did not find before.
    is_due: bool,
    /// Time since which packets have waited though the scheduler was called.
    pub(super) held_since: Option<Instant>,
    /// Used again and again, so that the steady state allocates nothing.
    pub(super) assignments: Vec<Assignment>,
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

    /// Makes a call of the scheduler due, after an event that it may act upon.
    pub(super) fn request(&mut self) {
        self.is_due = true;
    }

    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Records that the scheduler is about to be called.
    pub(super) fn begin(&mut self, now: Instant) {
        self.is_due = false;
        self.asked_at = now;
    }

    pub(super) fn notify(&mut self, now: Instant, event: &SchedulerEvent) {
        self.scheduler.on_event(now, event);
    }

    /// Handles a change of a path's state.
    pub(super) fn on_path_changed(&mut self, now: Instant, path: &Path) {
        let event = if path.state() == PathState::Active {
            SchedulerEvent::PathUp(path.id)
        } else {
            SchedulerEvent::PathDown(path.id)
        };
        self.notify(now, &event);
        self.request();
    }

    /// Returns when to call the scheduler again for packets that wait: when it asked for it, or
    /// when a path for which it may have been waiting becomes ready. That is an empty one, whose
    /// pacer was not ready at the scheduler's last call.
    #[inline(never)]
    pub(super) fn waiting_is_held_until(&self, paths: &[Path]) -> Option<Instant> {
        let ready = paths
            .iter()
            .filter(|path| path.state().is_usable() && !path.has_bound() && path.has_window())
            .map(Path::ready_at)
            .filter(|ready_at| *ready_at > self.asked_at);
        ready.chain(self.scheduler.wake_at()).min()
    }
}

//! Paths that are out.

use anabranch_units::Instant;

use super::{Content, Session};
use crate::control::Timeout;
use crate::path::PathOptions;
use crate::path_view::PathId;
use crate::send_reason::SendReason;

impl<C: Content> Session<C> {
    /// Suspends a path on which the driver cannot send, for instance because its interface has
    /// gone. The path is out at once, without a probe timeout of silence, and is back when it
    /// answers.
    pub fn suspend_path(&mut self, now: Instant, path: PathId) {
        if let Some(suspended) = self.paths.get_mut(path.index())
            && suspended.liveness.suspend(now)
        {
            self.on_out(now, path);
        }
    }

    /// Sets the user's options of a path from now on. A metered one stands by while the others
    /// suffice. A limit of its rate holds from the next report on.
    pub fn set_options(&mut self, path: PathId, options: PathOptions) {
        if let Some(path) = self.paths.get_mut(path.index()) {
            path.options = options;
            self.content.on_metered(options.is_metered);
        }
    }

    pub(super) fn on_out(&mut self, now: Instant, id: PathId) {
        self.content.take_back(&mut self.paths, id);
        let prior_bytes_in_flight = self.paths[id.index()].recovery.bytes_in_flight();
        self.declare_silent(now, id, SendReason::PathOut);
        let cause = Timeout::FeedbackSilence {
            prior_bytes_in_flight,
        };
        let lifetime = self.config.media.deadline;
        let path = &mut self.paths[id.index()];
        path.begin_interruption(now, lifetime);
        // One that has not been used has nothing to learn from that.
        if path.counters.sent_packets > 0 {
            path.on_timeout(now, cause);
        }
        self.questions.challenge(path);
        self.on_path_changed(now, id);
    }
}

//! Timers of media.

use anabranch_units::Instant;

use super::MediaSession;
use super::receive::Output;
use crate::session::Closing;

impl MediaSession {
    pub(super) fn handle_media_timeout(&mut self, now: Instant) {
        let output = Output {
            counters: &mut self.counters,
            events: &mut self.events,
        };
        self.content.reception.deliver_due(now, output);
        if self.closing != Closing::Open {
            return;
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.content.send_buffer.expires_at()) {
            self.expire_frames(now);
        }
        if is_due(self.content.send_buffer.tail_due_at()) {
            self.content.send_buffer.release_tail();
            self.content.is_schedule_due = true;
        }
        self.handle_path_timeouts(now);
        // The paths' timers change what these follow: round-trip times, rates and windows.
        if is_due(self.content.send_buffer.waits_until()) {
            self.refresh_views(now);
            self.reconsider_unrepaired(now);
        }
        self.answer_last_calls(now);
        if is_due(self.content.held_until(&self.paths)) {
            self.content.is_schedule_due = true;
        }
    }

    pub(super) fn expire_frames(&mut self, now: Instant) {
        let mut late = Vec::new();
        self.content.send_buffer.expire(now, |id| late.push(id));
        late.into_iter().for_each(|id| self.on_given_up(now, id));
    }
}

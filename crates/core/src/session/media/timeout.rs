//! Timers of media.

use anabranch_units::Instant;

use super::{Media, MediaSession};
use crate::session::output::Output;

impl MediaSession {
    pub(super) fn handle_media_timeout(&mut self, now: Instant) {
        self.content.reception.deliver_due(now, &mut self.output);
        if !self.closing.is_open() {
            return;
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.content.send_buffer.expires_at()) {
            self.content.expire_frames(now, &mut self.output);
        }
        if is_due(self.content.send_buffer.tail_due_at()) {
            self.content.send_buffer.release_tail();
            self.content.binding.request();
        }
        self.handle_path_timeouts(now);
        // The paths' timers change what these follow: round-trip times, rates and windows.
        if is_due(self.content.send_buffer.waits_until()) {
            self.refresh_views(now);
            self.rule(now).reconsider_unrepaired();
        }
        self.answer_last_calls(now);
        let Media {
            binding,
            send_buffer,
            ..
        } = &mut self.content;
        if is_due(binding.held_until(send_buffer, &self.paths)) {
            binding.request();
        }
    }
}

impl Media {
    /// Gives up the frames whose lifetime is over.
    pub(super) fn expire_frames(&mut self, now: Instant, output: &mut Output) {
        let notices = &mut self.notices;
        self.send_buffer
            .expire(now, |id| notices.on_given_up(now, id, output));
    }
}

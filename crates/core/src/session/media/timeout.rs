//! Timers of media.

use anabranch_units::Instant;

use super::Media;
use crate::session::content::Context;
use crate::session::next_timer::is_due;
use crate::session::output::Output;

impl Media {
    /// Gives up frames whose lifetime is over, and releases the last bytes of a frame that grows.
    pub(super) fn serve_frame_timers(&mut self, now: Instant, output: &mut Output) {
        if is_due(self.send_buffer.expires_at(), now) {
            self.expire_frames(now, output);
        }
        if is_due(self.send_buffer.tail_due_at(), now) {
            self.send_buffer.release_tail();
            self.binding.request();
        }
    }

    /// Sends copies that are due, and asks the scheduler about packets that it holds.
    pub(super) fn serve_copy_timers(&mut self, ctx: &mut Context<'_>) {
        if is_due(self.send_buffer.waits_until(), ctx.now) {
            ctx.refresh_views(self);
            self.rule(ctx).reconsider_unrepaired();
        }
        self.answer_last_calls(ctx);
        if is_due(
            self.binding.held_until(&self.send_buffer, ctx.paths),
            ctx.now,
        ) {
            self.binding.request();
        }
    }

    /// Gives up the frames whose lifetime is over.
    pub(super) fn expire_frames(&mut self, now: Instant, output: &mut Output) {
        let notices = &mut self.notices;
        self.send_buffer
            .expire(now, |id| notices.on_given_up(now, id, output));
    }
}

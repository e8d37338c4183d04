//! Frames of which bytes leave before their end is known.

use anabranch_units::Instant;

use super::{Media, MediaSession, Views, admission};
use crate::media::{Frame, FrameId, SendFrameError};

impl MediaSession {
    /// Begins a frame with its first bytes. More follow by [`append`](Self::append), and its end by
    /// [`finish_frame`](Self::finish_frame); until then no other frame is accepted. Bytes leave in
    /// full packets as they come. A rest waits for more bytes for 3 ms, or for longer if packets of
    /// their own would add half a percent of overhead.
    ///
    /// Decisions about a frame go by its bytes so far, and repairs wait for its end: a frame that
    /// grows is protected later than a whole one. If its lifetime ends first, it is given up.
    ///
    /// ```
    /// use anabranch_core::{Config, Frame, MediaSession, PathOptions};
    /// use anabranch_units::{Importance, Instant, Seed};
    ///
    /// let controller = anabranch_controllers::default_controller();
    /// let config = Config::new(controller, anabranch_schedulers::default_scheduler());
    /// let now = Instant::ZERO;
    /// let mut session = MediaSession::new(config, Seed(1), now)?;
    /// session.add_path(now, PathOptions::default());
    /// session.begin_frame(now, &Frame::new(vec![1; 5_000], Importance::Key, now))?;
    /// let mut datagram = Vec::new();
    /// assert!(session.poll_transmit(now, &mut datagram).is_some(), "before the frame's end");
    /// session.append(now, &[2; 700])?;
    /// session.finish_frame(now);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendFrameError`]; the frame is then not begun, and the next one takes its number.
    pub fn begin_frame(&mut self, now: Instant, frame: &Frame) -> Result<FrameId, SendFrameError> {
        self.take_in(now, frame, true, false)
    }

    /// Appends bytes to the frame that was begun. They are dropped if it has been given up.
    ///
    /// # Errors
    /// [`SendFrameError`]; the bytes are then not appended, and the frame goes on without them.
    pub fn append(&mut self, now: Instant, bytes: &[u8]) -> Result<(), SendFrameError> {
        if !self.closing.is_open() {
            return Err(SendFrameError::Closed);
        }
        self.content.expire_frames(now, &mut self.output);
        let taken = self.content.send_buffer.append(now, bytes)?;
        if taken == 0 {
            return Ok(());
        }
        self.output.counters.media_bytes_sent += taken as u64;
        let content = &mut self.content;
        content.probing.on_frame(now, taken);
        content.report_source_bytes(now, taken, &self.config, &mut self.paths);
        content.budget.on_media(now, taken as u64);
        content.binding.request();
        Ok(())
    }

    /// Gives up the frame that was begun, if there is one, and all that need it.
    pub fn abandon_frame(&mut self, now: Instant) {
        if let Some(id) = self.content.send_buffer.abandon() {
            let Media {
                send_buffer,
                notices,
                ..
            } = &mut self.content;
            for late in admission::give_up_for_good(id, send_buffer, &mut self.paths) {
                notices.on_given_up(now, late, &mut self.output);
            }
        }
    }

    /// Ends the frame that was begun, if there is one, and protects it by repairs.
    pub fn finish_frame(&mut self, now: Instant) {
        if let Some(id) = self.content.send_buffer.finish() {
            let (content, mut ctx) = self.split(now);
            content.binding.request();
            content.protect(&mut ctx, id);
            content.admit(&mut ctx, None, Views::Old);
        }
    }
}

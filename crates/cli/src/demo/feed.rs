//! Frames from a source into the session, each written into the ledger.

use core::sync::atomic::{AtomicBool, Ordering};

use anabranch_core::Frame;
use anabranch_core::media::SendFrameError;
use anabranch_net::{Clock, SendError, Sender};
use anabranch_terminal::stop::Stop;
use anabranch_units::Instant;

use super::ledger::Ledger;

/// State that a source's thread works with.
#[derive(Debug)]
pub(super) struct Feed<'a> {
    pub(super) clock: Clock,
    pub(super) sender: &'a Sender,
    pub(super) ledger: &'a Ledger,
    /// Set when a frame was given up: nothing can be displayed before the next key frame.
    pub(super) is_key_wanted: &'a AtomicBool,
    /// Ends the source early.
    pub(super) stop: Stop,
    /// End of the film; no picture is captured later.
    pub(super) end_at: Instant,
}

impl Feed<'_> {
    /// Waits for `due_at`. Returns whether the source should continue.
    pub(super) fn wait_until(&self, due_at: Instant) -> bool {
        due_at < self.end_at && self.stop.wait_until(&self.clock, due_at)
    }

    /// Sends the frame with this index, and keeps `content` for the comparison with the received
    /// frame. If there is no room, the frame is not sent and the ledger records that. Returns
    /// whether the session is still up.
    pub(super) fn send(&self, index: usize, frame: &Frame, content: &[u8]) -> bool {
        let payload_bytes = frame.bytes.len() as u64;
        self.ledger
            .on_sending(index, frame.importance, payload_bytes, content);
        match self.sender.send_frame(frame) {
            Ok(_) => true,
            Err(error) => {
                self.ledger.on_refused();
                self.is_key_wanted.store(true, Ordering::Relaxed);
                matches!(error, SendError::Transport(refused) if refused != SendFrameError::Closed)
            }
        }
    }
}

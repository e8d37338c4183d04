//! Messages that wait for the end of the frame that grows, since one frame is sent at a time.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use anabranch_core::Frame;
use anabranch_core::media::SendFrameError;
use anabranch_net::{SendError, Sender};

/// Maximum number of messages that wait; further lines wait where they were written. Chosen: more
/// than a person writes while a picture comes.
const MAX_WAITING: usize = 64;

/// Queue of messages, which both the feeder and the writer of messages empty.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<VecDeque<Frame>>,
}

impl Outbox {
    /// Returns whether there is room for a message.
    pub(super) fn has_room(&self) -> bool {
        self.waiting().len() < MAX_WAITING
    }

    /// Adds a message, and sends it unless a frame grows.
    pub(super) fn push(&self, message: Frame, sender: &Sender) {
        self.waiting().push_back(message);
        self.send(sender);
    }

    /// Sends the messages, unless a frame grows: the feeder calls this at its end.
    pub(super) fn send(&self, sender: &Sender) {
        self.send_by(|message| sender.send_frame(message).map(drop));
    }

    fn send_by(&self, mut send: impl FnMut(&Frame) -> Result<(), SendError>) {
        let mut waiting = self.waiting();
        while let Some(message) = waiting.front() {
            if send(message) == Err(SendError::Transport(SendFrameError::Unfinished)) {
                break;
            }
            // Without a session, nothing reads it.
            waiting.pop_front();
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, VecDeque<Frame>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Instant;

    use super::*;
    use crate::message;

    #[test]
    fn messages_wait_in_order_while_a_frame_grows() {
        let outbox = Outbox::default();
        for text in ["one", "two"] {
            let message = message::frame(text, Instant::ZERO);
            outbox.waiting().push_back(message);
        }
        outbox.send_by(|_| Err(SendError::Transport(SendFrameError::Unfinished)));
        assert_eq!(outbox.waiting().len(), 2);
        let mut sent = Vec::new();
        outbox.send_by(|message| {
            sent.extend(message::text(&message.bytes));
            Ok(())
        });
        assert_eq!(sent, ["one", "two"]);
        assert!(outbox.has_room() && outbox.waiting().is_empty());
    }
}

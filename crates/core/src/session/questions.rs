//! Questions to paths for signs of life.

use anabranch_units::Rng;

use crate::path::Path;
use crate::send_reason::SendReason;

/// Questions to paths for signs of life.
#[derive(Debug)]
pub(super) struct Questions {
    tokens: Rng,
}

impl Questions {
    pub(super) fn new(tokens: Rng) -> Self {
        Questions { tokens }
    }

    /// Queues a question on the path, which the peer answers.
    pub(super) fn ask(&mut self, path: &mut Path, reason: SendReason) {
        let token = self.tokens.next_u64();
        // One token until it is answered: an answer may take longer than the next question.
        let token = *path.expected_response.get_or_insert(token);
        path.challenge = Some((token, reason));
    }

    /// Asks the path for a sign of life, and reports the suspicion to the peer by another path.
    pub(super) fn challenge(&mut self, path: &mut Path) {
        self.ask(path, SendReason::PathChallenge);
        path.pending_status = Some(true);
    }
}

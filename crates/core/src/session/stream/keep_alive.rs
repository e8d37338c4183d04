//! Signs of life of a stream session in which nothing is sent.

use anabranch_units::{Duration, Instant};

use super::StreamSession;
use crate::path::Path;
use crate::path_view::{PathId, PathState};
use crate::send_reason::SendReason;

/// Interval of probes on an idle path: NATs commonly forget a mapping after 30 s (RFC 9000
/// §10.1.2).
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

impl StreamSession {
    /// Keeps all paths, and with them the session, alive while there is nothing to send, from now
    /// on: this end opened it.
    pub fn keep_alive(&mut self) {
        self.content.is_kept_alive = true;
    }

    /// Returns when an idle path is asked for a sign of life.
    pub(super) fn keep_alive_at(&self, path: &Path) -> Option<Instant> {
        let is_idle = path.state() == PathState::Active && path.challenge.is_none();
        let is_wanted = self.content.is_kept_alive && is_idle;
        is_wanted.then(|| path.last_sent_at + KEEP_ALIVE_INTERVAL)
    }

    /// Asks it, if it is time.
    pub(super) fn keep_path_alive(&mut self, now: Instant, id: PathId) {
        let at = self.keep_alive_at(&self.paths[id.index()]);
        if at.is_some_and(|at| at <= now) {
            self.ask(id, SendReason::IdleProbe);
        }
    }
}

//! Signs of life of a stream session in which nothing is sent.

use anabranch_units::{Duration, Instant};

use super::{Stream, StreamSession};
use crate::path::Path;
use crate::path_view::PathState;

/// Interval of probes on an idle path: NATs commonly forget a mapping after 30 s (RFC 9000
/// §10.1.2).
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

impl Stream {
    /// Returns when an idle path is asked for a sign of life: to keep it alive, or so that its MTU
    /// may be probed. The MTU limits the segments of the others, and its own later on.
    pub(super) fn question_at(&self, path: &Path) -> Option<Instant> {
        if path.challenge.is_some() {
            return None;
        }
        let is_kept_alive = self.is_kept_alive && path.state() == PathState::Active;
        let keep_alive_at = is_kept_alive.then(|| path.last_sent_at + KEEP_ALIVE_INTERVAL);
        let mtu_question_at = if path.is_at_rest() {
            path.mtu_probe_at()
        } else {
            None
        };
        [keep_alive_at, mtu_question_at].into_iter().flatten().min()
    }
}

impl StreamSession {
    /// Keeps all paths, and with them the session, alive while there is nothing to send, from now
    /// on: this end opened it.
    pub fn keep_alive(&mut self) {
        self.content.is_kept_alive = true;
    }
}

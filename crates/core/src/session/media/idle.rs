//! Signs of life of paths on which nothing is sent.

use anabranch_units::{Duration, Instant};

use super::MediaSession;
use crate::path::Path;
use crate::path_view::PathState;
use crate::questions;
use crate::recovery::Digest;
use crate::send_reason::SendReason;
use crate::session::questions::Questions;

/// Interval of probes on one of several idle paths. Each is also a sample of its round-trip time.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// Interval of probes on an idle only path: NATs commonly forget a mapping after 30 s (RFC 9000
/// §10.1.2).
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Whether this end keeps the session alive while nothing is sent.
#[derive(Debug, Default)]
pub(super) struct Idle {
    is_kept_alive: bool,
}

impl Idle {
    /// Keeps the session alive from now on: this end opened it, or sends media.
    pub(super) fn keep_alive(&mut self) {
        self.is_kept_alive = true;
    }

    pub(super) fn is_kept_alive(&self) -> bool {
        self.is_kept_alive
    }

    /// Returns when an idle path, one of `path_count`, is asked for a sign of life. With several
    /// paths, none must be chosen by outdated measurements, or be found dead when it is needed. An
    /// only path keeps its NAT mapping, and the peer its session.
    pub(super) fn probe_at(&self, path: &Path, path_count: usize) -> Option<Instant> {
        if !self.is_kept_alive {
            return None;
        }
        let is_idle = path.state() == PathState::Active && path.challenge.is_none();
        // The distance of a path must be known before media comes.
        let is_unknown = !path.recovery.rtt().has_sample() && path.is_at_rest();
        let interval = match path_count {
            _ if is_unknown => questions::doubled_interval(path.unanswered_questions),
            1 => KEEP_ALIVE_INTERVAL,
            _ => PROBE_INTERVAL,
        };
        is_idle.then(|| path.last_sent_at + interval)
    }

    /// Queues the probes that are due. Returns whether there are any.
    pub(super) fn probe(
        &self,
        now: Instant,
        paths: &mut [Path],
        questions: &mut Questions,
    ) -> bool {
        let path_count = paths.len();
        let mut has_probe = false;
        for path in paths {
            has_probe |= self.probe_one(now, path, path_count, questions);
        }
        has_probe
    }

    /// Queues a probe of an idle path, one of `path_count`, if it is due. Returns whether it is.
    pub(super) fn probe_one(
        &self,
        now: Instant,
        path: &mut Path,
        path_count: usize,
        questions: &mut Questions,
    ) -> bool {
        if self.probe_at(path, path_count).is_none_or(|at| at > now) {
            return false;
        }
        path.unanswered_questions = if path.recovery.rtt().has_sample() {
            0
        } else {
            path.unanswered_questions.saturating_add(1)
        };
        // A packet this small is no sample of the path's rate.
        path.leave_idleness(now);
        questions.ask(path, SendReason::IdleProbe);
        true
    }
}

/// Returns whether the report is only about a probe of an idle path, which may stand by. It is a
/// sample of the round-trip time, but would lower a controller's estimate of the rate.
pub(super) fn is_of_probe(path: &Path, is_standby: bool, digest: &Digest) -> bool {
    // A suspect path is challenged too.
    let may_be = is_standby || path.state() == PathState::Active;
    may_be && digest.is_of_probes()
}

impl MediaSession {
    /// Keeps the session alive while there is nothing to send, from now on: this end opened it. An
    /// end that sends media does so from its first frame on.
    pub fn keep_alive(&mut self) {
        self.content.idle.keep_alive();
    }
}

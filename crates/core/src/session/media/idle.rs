//! Signs of life of paths on which nothing is sent.

use anabranch_units::{Duration, Instant};

use super::MediaSession;
use crate::path_view::{PathId, PathState};
use crate::questions;
use crate::recovery::{AckedPacket, Digest};
use crate::send_reason::SendReason;
use crate::session::content::Hooks;

/// Interval of probes on one of several idle paths. Each is also a sample of its round-trip time.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// Interval of probes on an idle only path: NATs commonly forget a mapping after 30 s (RFC 9000
/// §10.1.2).
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

impl MediaSession {
    /// Keeps the session alive while there is nothing to send, from now on: this end opened it. An
    /// end that sends media does so from its first frame on.
    pub fn keep_alive(&mut self) {
        self.content.is_kept_alive = true;
    }

    /// Returns when an idle path is asked for a sign of life. With several paths, none must be
    /// chosen by outdated measurements, or be found dead when it is needed. An only path keeps its
    /// NAT mapping, and the peer its session.
    pub(super) fn idle_probe_at(&self, id: PathId) -> Option<Instant> {
        if !self.content.is_sender() {
            return None;
        }
        let path = &self.paths[id.index()];
        let is_idle = path.state() == PathState::Active && path.challenge.is_none();
        // The distance of a path must be known before media comes.
        let is_unknown = !path.recovery.rtt().has_sample() && path.is_at_rest();
        let interval = match self.paths.len() {
            _ if is_unknown => questions::doubled_interval(path.unanswered_questions),
            1 => KEEP_ALIVE_INTERVAL,
            _ => PROBE_INTERVAL,
        };
        is_idle.then(|| path.last_sent_at + interval)
    }

    /// Queues the probes that are due. Returns whether there are any.
    pub(super) fn probe_idle_paths(&mut self, now: Instant) -> bool {
        let mut has_probe = false;
        for index in 0..self.paths.len() {
            has_probe |= self.probe_idle(now, PathId(index as u8));
        }
        has_probe
    }

    /// Queues a probe of an idle path if it is due. Returns whether it is.
    pub(super) fn probe_idle(&mut self, now: Instant, id: PathId) -> bool {
        if self.idle_probe_at(id).is_none_or(|at| at > now) {
            return false;
        }
        let path = &mut self.paths[id.index()];
        path.unanswered_questions = match path.recovery.rtt().has_sample() {
            true => 0,
            false => path.unanswered_questions.saturating_add(1),
        };
        // A packet this small is no sample of the path's rate.
        path.leave_idleness(now);
        self.ask(id, SendReason::IdleProbe);
        true
    }

    /// Returns whether the report is only about a probe of an idle path. It is a sample of the
    /// round-trip time, but would lower a controller's estimate of the rate.
    pub(super) fn is_of_probe(&self, id: PathId, digest: &Digest) -> bool {
        let is_probe = |packet: &AckedPacket| packet.sent.content.is_probe();
        // A path in doubt is challenged too.
        let may_be = self.is_standby(id) || self.paths[id.index()].state() == PathState::Active;
        may_be && digest.lost.is_empty() && digest.acked.iter().all(is_probe)
    }
}

//! Whether a path still answers.
//!
//! With packets outstanding, a path is *suspect* after one probe timeout of silence (SRTT + 4
//! RTTVAR, RFC 9002 §6.2.1) and *out* after max(3 SRTT, 200 ms). A late acknowledgement undoes
//! both. While it is not active it is challenged, so that its return is noticed.
//!
//! A round-trip time that a queue has swollen makes a probe timeout longer than media lives. But
//! over a path that is in use acknowledgements come as often as reports, however long they take: a
//! quarter of the deadline without one is suspicious once the oldest packet's is as much overdue.
//! Within that time packets in flight can still be reinjected on another path.
//!
//! The only path has no alternative. It is given its probe timeout, and while it is suspect, which
//! is for a second, it goes on carrying media and is challenged: perhaps only the way back has
//! failed.

use anabranch_units::{Duration, Instant};

use crate::path_view::PathState;
use crate::questions::{self, MIN_INTERVAL};
use crate::recovery::Recovery;

/// A path is not out before this much silence, however short its round-trip time.
const OUT_AFTER_AT_LEAST: Duration = Duration::from_millis(200);

/// The only path is not out before this much silence: the least timeout of a retransmission
/// (RFC 6298 §2.4).
const ONLY_PATH_OUT_AFTER_AT_LEAST: Duration = Duration::from_secs(1);

/// Inverse of the share of the deadline that is the longest wait for a silent path, if there is
/// another: its packets must be reinjected in time.
const PATIENCE: u64 = 4;

#[derive(Debug)]
pub(crate) struct Liveness {
    /// Longest wait for an overdue acknowledgement of a path in use.
    patience: Duration,
    is_only: bool,
    state: PathState,
    suspect_since: Instant,
    /// When it last became suspect, unless it has answered since or its driver has suspended it.
    silent_since: Option<Instant>,
    challenge_at: Option<Instant>,
}

/// Action due on a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// The path has become suspect.
    Suspect,
    /// The path is out.
    Out,
    /// It is time for a challenge.
    Challenge,
}

impl Liveness {
    /// Creates the state of an only path.
    pub(crate) fn new() -> Self {
        Liveness {
            patience: Duration::MAX,
            is_only: true,
            state: PathState::Active,
            suspect_since: Instant::ZERO,
            silent_since: None,
            challenge_at: None,
        }
    }

    /// Sets the deadline of the path's packets, and whether the path is the only one.
    pub(crate) fn set_patience(&mut self, deadline: Duration, is_only: bool) {
        self.is_only = is_only;
        self.patience = if is_only {
            Duration::MAX
        } else {
            deadline / PATIENCE
        };
    }

    /// Returns whether the path has no alternative. Paths of streams count as such.
    pub(crate) fn is_only(&self) -> bool {
        self.is_only
    }

    pub(crate) fn state(&self) -> PathState {
        self.state
    }

    /// Handles an answer of the path. Returns whether it was suspect.
    pub(crate) fn on_answer(&mut self) -> bool {
        if self.state == PathState::Removed || self.state == PathState::Active {
            return false;
        }
        self.state = PathState::Active;
        self.silent_since = None;
        self.challenge_at = None;
        true
    }

    /// Takes the path out, since its driver cannot send on it. Returns whether it was usable
    /// before.
    pub(crate) fn suspend(&mut self, now: Instant) -> bool {
        if !matches!(self.state, PathState::Active | PathState::Suspect) {
            return false;
        }
        self.state = PathState::Out;
        self.suspect_since = now;
        self.silent_since = None;
        self.challenge_at = Some(now + MIN_INTERVAL);
        true
    }

    pub(crate) fn remove(&mut self) {
        self.state = PathState::Removed;
        self.challenge_at = None;
    }

    /// Returns when the path last became suspect.
    pub(crate) fn suspect_since(&self) -> Instant {
        self.suspect_since
    }

    /// Returns since when its silence is suspicious.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        self.silent_since
    }

    /// Returns when [`Liveness::on_timeout`] has an alarm.
    pub(crate) fn due_at(&self, recovery: &Recovery) -> Option<Instant> {
        match self.state {
            PathState::Active => recovery.suspect_at(self.patience),
            PathState::Suspect => {
                let out_at = self.out_at(recovery)?;
                Some(self.challenge_at.map_or(out_at, |at| at.min(out_at)))
            }
            PathState::Out => self.challenge_at,
            PathState::Removed => None,
        }
    }

    /// Returns a lower bound of [`Liveness::due_at`], which takes less work.
    pub(crate) fn due_at_earliest(&self, recovery: &Recovery) -> Option<Instant> {
        match self.state {
            PathState::Active => recovery.suspect_at_earliest(),
            PathState::Suspect | PathState::Out | PathState::Removed => Some(Instant::ZERO),
        }
    }

    /// Returns when a suspect path is out.
    fn out_at(&self, recovery: &Recovery) -> Option<Instant> {
        let at_least = if self.is_only {
            ONLY_PATH_OUT_AFTER_AT_LEAST
        } else {
            OUT_AFTER_AT_LEAST
        };
        let out_after = (recovery.rtt().smoothed() * 3).max(at_least);
        let silent_since = recovery.silent_since()?;
        Some(silent_since + out_after.max(recovery.probe_timeout()))
    }

    /// Returns when the next challenge leaves, with a back-off.
    fn next_challenge_at(&self, now: Instant) -> Instant {
        let suspect_for = now.saturating_since(self.suspect_since);
        now + questions::interval(MIN_INTERVAL, suspect_for)
    }

    pub(crate) fn on_timeout(&mut self, now: Instant, recovery: &Recovery) -> Option<Alarm> {
        if self.due_at(recovery).is_none_or(|due_at| due_at > now) {
            return None;
        }
        match self.state {
            PathState::Active => {
                self.state = PathState::Suspect;
                self.suspect_since = now;
                self.silent_since = Some(now);
                self.challenge_at = self.is_only.then_some(now + MIN_INTERVAL);
                Some(Alarm::Suspect)
            }
            PathState::Suspect if self.out_at(recovery).is_some_and(|at| at > now) => {
                self.challenge_at = Some(self.next_challenge_at(now));
                Some(Alarm::Challenge)
            }
            PathState::Suspect => {
                self.state = PathState::Out;
                self.challenge_at = Some(self.next_challenge_at(now));
                Some(Alarm::Out)
            }
            PathState::Out => {
                self.challenge_at = Some(self.next_challenge_at(now));
                Some(Alarm::Challenge)
            }
            PathState::Removed => None,
        }
    }
}

#[cfg(test)]
mod tests;

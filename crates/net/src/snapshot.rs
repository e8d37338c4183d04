//! The state and counters of a session at a moment.

use std::net::SocketAddr;

use crate::session_parameters::SessionKind;
use anabranch_core::{PathCounters, PathState, PathView, SessionCounters};
use anabranch_secure::{PublicKey, Rejected};
use anabranch_units::{DataRate, Duration, Instant};

use crate::carrier::Carrier;
use crate::link::LinkReport;

/// A session's present or last state.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Time of the snapshot.
    pub at: Instant,
    /// Begin of the session; `None` before.
    pub connected_at: Option<Instant>,
    /// Number of earlier sessions of a sender whose receiver fell silent or left.
    pub past_sessions: u64,
    /// Time at which a sender's receiver announced that it leaves, if no session has followed.
    pub peer_left_at: Option<Instant>,
    /// Public key of the other end; `None` before the session.
    pub peer: Option<PublicKey>,
    /// Kind of the session; `None` before the session.
    pub session_kind: Option<SessionKind>,
    /// Time at which the newest frame of the peer's media was complete; `None` before the first.
    pub media_until: Option<Instant>,
    /// Delay that media may take beyond the fastest path's delay, if both ends agreed on one.
    pub latency: Option<Duration>,
    /// Its paths; the index is the path's number.
    pub paths: Vec<PathSnapshot>,
    /// Counters of the transport's session.
    pub session: SessionCounters,
    /// Bitrate requested of the encoder.
    pub target_bitrate: DataRate,
    /// Counters of datagrams dropped at the socket.
    pub edge: EdgeCounters,
}

impl Snapshot {
    /// Returns the last snapshot of a session, if any, with the counters of its end added.
    pub(crate) fn with_edge(
        seen: Option<Snapshot>,
        at: Instant,
        counted: &EdgeCounters,
        dropped_events: u64,
    ) -> Snapshot {
        let mut snapshot = seen.unwrap_or(Snapshot {
            at,
            ..Snapshot::default()
        });
        snapshot.edge.refused_handshakes = counted.refused_handshakes;
        snapshot.edge.unknown_datagrams = counted.unknown_datagrams;
        snapshot.edge.dropped_events = dropped_events;
        snapshot
    }
}

impl Snapshot {
    /// Returns this snapshot of a later session with the counts of the `past` ones added.
    pub(crate) fn after(mut self, past: Option<&Snapshot>) -> Snapshot {
        let Some(past) = past else { return self };
        self.connected_at = past.connected_at;
        self.past_sessions = past.past_sessions + 1;
        self.session = self.session.plus(&past.session);
        for (path, before) in self.paths.iter_mut().zip(&past.paths) {
            path.counters = path.counters.plus(&before.counters);
            path.unsent_datagrams += before.unsent_datagrams;
            path.last_error = path.last_error.take().or_else(|| before.last_error.clone());
        }
        let rejected = &mut self.edge.rejected_datagrams;
        for (count, before) in rejected.iter_mut().zip(&past.edge.rejected_datagrams) {
            *count += before;
        }
        self
    }
}

/// One path of a session.
#[derive(Clone, Debug, Default)]
pub struct PathSnapshot {
    /// The transport's read model.
    pub view: PathView,
    /// Counters of the transport's path.
    pub counters: PathCounters,
    /// The phase of the path's congestion controller, by its source's own name.
    pub controller_state: &'static str,
    /// Destination of its datagrams; `None` at a receiver that has received nothing by it yet.
    pub peer: Option<SocketAddr>,
    /// The carrier of the last datagram that arrived by it.
    pub carrier: Carrier,
    /// Datagrams that the operating system refused.
    pub unsent_datagrams: u64,
    /// The operating system's message on the last of them.
    pub last_error: Option<String>,
    /// Number of paths that had this path's number before it
    /// ([`Sender::replace_path`](crate::Sender::replace_path)).
    pub succession: u64,
    /// The path in the view of the end that has chosen it: this one, or the peer by its report.
    /// `None` before the peer's first one.
    pub link: Option<LinkReport>,
}

impl PathSnapshot {
    /// Returns the state in the view of the end that knows more.
    pub fn state(&self) -> PathState {
        let link = self.link.as_ref();
        link.map_or(self.view.state, |link| link.state)
    }

    /// Returns an earlier snapshot of the same number, if it is of the same path, so that counts
    /// can be compared.
    pub fn same_path<'a>(&self, earlier: &'a PathSnapshot) -> Option<&'a PathSnapshot> {
        (earlier.succession == self.succession).then_some(earlier)
    }
}

/// Counters of datagrams that never reached the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeCounters {
    /// Datagrams that packet protection rejected, by kind in the order of [`Rejected::ALL`].
    pub rejected_datagrams: [u64; Rejected::ALL.len()],
    /// Datagrams of unknown kind or of an unknown session.
    pub unknown_datagrams: u64,
    /// Handshake datagrams that were refused.
    pub refused_handshakes: u64,
    /// Events dropped because their reader was too slow.
    pub dropped_events: u64,
}

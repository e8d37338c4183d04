//! The state of a session in numbers. Names of fields are those of `--stats`.

use anabranch_core::PathState;
use anabranch_net::Snapshot;
use serde::Serialize;

/// State of a session. Counters begin with it; units are part of the names.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// Whether there is a session.
    pub connected: bool,
    /// Public key of the other end; none before the session and for SRTLA.
    pub peer: Option<String>,
    /// Time since the session began.
    pub session_s: f64,
    /// Delay that both ends agreed on.
    pub latency_s: Option<f64>,
    /// Bitrate requested of the encoder.
    pub target_rate_bps: u64,
    /// Frames sent; for SRTLA, packets of SRT.
    pub frames_sent: u64,
    /// Frames given up as late.
    pub frames_late: u64,
    /// Frames known to have arrived.
    pub frames_acked: u64,
    /// Frames that arrived whole at this end.
    pub frames_received: u64,
    /// Frames that did not arrive in time at this end.
    pub frames_dropped: u64,
    /// Events that were left out as nobody read them.
    pub dropped_events: u64,
    /// Its paths, by number.
    pub paths: Vec<PathStatistics>,
}

/// State of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PathStatistics {
    /// Number of the path.
    pub path: usize,
    /// Its name: this end's, or the sender's in its report.
    pub name: String,
    /// Destination of its datagrams.
    pub peer: Option<String>,
    /// State: active, suspect, out or removed.
    pub state: &'static str,
    /// Whether it is held in reserve.
    pub standby: bool,
    /// Round-trip time; none while it is unknown.
    pub rtt_s: Option<f64>,
    /// Packets lost / packets sent, smoothed over about a hundred packets.
    pub loss_ratio: f64,
    /// Estimate of its bandwidth.
    pub bandwidth_bps: u64,
    /// Bytes bound to it and unsent.
    pub queued_bytes: u64,
    /// Bytes sent and neither acknowledged nor lost.
    pub in_flight_bytes: u64,
    /// Bytes sent, reports and answers included.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Lost packets, without those that arrived late.
    pub lost_packets: u64,
    /// Packets with retransmissions.
    pub retransmitted_packets: u64,
    /// Datagrams that the operating system refused.
    pub unsent_datagrams: u64,
    /// Its error for the last of them.
    pub last_error: Option<String>,
}

/// Returns the user's word for a path's state.
pub(crate) fn state_name(state: PathState) -> &'static str {
    match state {
        PathState::Active => "active",
        PathState::Suspect => "suspect",
        PathState::Out => "out",
        PathState::Removed => "removed",
    }
}

impl Statistics {
    /// Returns the statistics as JSON on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("they have texts and numbers alone")
    }

    /// Converts a snapshot. `name_of` names this end's paths, and says whether they were removed.
    pub(crate) fn of(
        snapshot: &Snapshot,
        name_of: impl Fn(usize) -> Option<(String, bool)>,
    ) -> Statistics {
        let paths = snapshot.paths.iter().enumerate().map(|(index, path)| {
            let (view, counted, link) = (&path.view, &path.counters, path.link.as_ref());
            let (name, is_removed) = name_of(index).unwrap_or_else(|| {
                let of_peer = link.map(|link| link.name.clone());
                (of_peer.unwrap_or_default(), false)
            });
            let state = if is_removed {
                PathState::Removed
            } else {
                path.state()
            };
            let rtt = view.rtt.smoothed.or(link.and_then(|link| link.rtt));
            PathStatistics {
                path: index,
                name,
                peer: path.peer.map(|peer| peer.to_string()),
                state: state_name(state),
                standby: link.map_or(view.is_standby, |link| link.is_standby),
                rtt_s: rtt.map(|rtt| rtt.as_secs_f64()),
                loss_ratio: link.map_or(view.risk.loss_ratio, |link| link.loss_ratio),
                bandwidth_bps: link
                    .map_or(view.bandwidth, |link| link.bandwidth)
                    .bits_per_second(),
                queued_bytes: view.queued_bytes,
                in_flight_bytes: view.bytes_in_flight,
                sent_bytes: counted.sent_bytes + counted.control_bytes,
                received_bytes: counted.received_bytes,
                sent_packets: counted.sent_packets + counted.control_packets,
                lost_packets: counted.lost_packets.saturating_sub(counted.spurious_losses),
                retransmitted_packets: counted.retransmitted_packets,
                unsent_datagrams: path.unsent_datagrams,
                last_error: path.last_error.clone(),
            }
        });
        let since = snapshot
            .connected_at
            .map(|at| snapshot.at.saturating_since(at));
        Statistics {
            connected: snapshot.connected_at.is_some(),
            peer: snapshot.peer.map(|peer| peer.to_string()),
            session_s: since.unwrap_or_default().as_secs_f64(),
            latency_s: snapshot.latency.map(|latency| latency.as_secs_f64()),
            target_rate_bps: snapshot.target_bitrate.bits_per_second(),
            frames_sent: snapshot.session.frames_sent,
            frames_late: snapshot.session.frames_late,
            frames_acked: snapshot.session.frames_acked,
            frames_received: snapshot.session.frames_received,
            frames_dropped: snapshot.session.frames_dropped,
            dropped_events: snapshot.edge.dropped_events,
            paths: paths.collect(),
        }
    }
}

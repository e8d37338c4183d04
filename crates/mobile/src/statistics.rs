//! The state of a session in numbers.

use anabranch_embed::{PathStatistics as EmbeddedPath, Statistics as Embedded};

/// The state of a session.
#[derive(Clone, Debug, PartialEq, uniffi::Record)]
pub struct Statistics {
    /// Whether a session has begun.
    pub connected: bool,
    /// Public key of the other end.
    pub peer: Option<String>,
    /// Time since the session's begin, in seconds.
    pub session_s: f64,
    /// Delay that media may take beyond the fastest path's, in seconds.
    pub latency_s: Option<f64>,
    /// Bitrate requested of the encoder, in bit/s.
    pub target_bps: u64,
    /// Frames taken in for sending.
    pub frames_sent: u64,
    /// Frames that were given up because they would have been late.
    pub frames_late: u64,
    /// Frames that have arrived whole.
    pub frames_acked: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Frames that did not arrive.
    pub frames_dropped: u64,
    /// Its paths; the index is the path's number.
    pub paths: Vec<PathStatistics>,
}

/// The state of a path.
#[derive(Clone, Debug, PartialEq, uniffi::Record)]
pub struct PathStatistics {
    /// Its name.
    pub name: String,
    /// State: active, suspect, out or removed.
    pub state: String,
    /// Whether it is held in reserve.
    pub standby: bool,
    /// Round-trip time in seconds; none while it is unknown.
    pub rtt_s: Option<f64>,
    /// Packets lost / packets sent.
    pub loss_ratio: f64,
    /// Estimate of its bandwidth, in bit/s.
    pub bandwidth_bps: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// The system's error for the last datagram that it refused.
    pub last_error: Option<String>,
}

impl From<Embedded> for Statistics {
    fn from(statistics: Embedded) -> Self {
        Statistics {
            connected: statistics.connected,
            peer: statistics.peer,
            session_s: statistics.session_s,
            latency_s: statistics.latency_s,
            target_bps: statistics.target_rate_bps,
            frames_sent: statistics.frames_sent,
            frames_late: statistics.frames_late,
            frames_acked: statistics.frames_acked,
            frames_received: statistics.frames_received,
            frames_dropped: statistics.frames_dropped,
            paths: statistics
                .paths
                .into_iter()
                .map(PathStatistics::from)
                .collect(),
        }
    }
}

impl From<EmbeddedPath> for PathStatistics {
    fn from(path: EmbeddedPath) -> Self {
        PathStatistics {
            name: path.name,
            state: path.state.to_owned(),
            standby: path.standby,
            rtt_s: path.rtt_s,
            loss_ratio: path.loss_ratio,
            bandwidth_bps: path.bandwidth_bps,
            sent_bytes: path.sent_bytes,
            received_bytes: path.received_bytes,
            last_error: path.last_error,
        }
    }
}

//! Status of a running program once a second: one object for `--stats`, `/status.json` and
//! `anabranch top`. Units are SI units and part of the fields' names. Counters start with the
//! session; fields with `min`, `avg` and `max` describe the interval.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Status of a program in one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// `stats`, in contrast to the other lines of the stream.
    pub(crate) event: String,
    /// Seconds since 1970.
    pub(crate) unix_time_s: f64,
    /// Seconds since the program's start.
    pub(crate) uptime_s: f64,
    /// Length of the interval.
    pub(crate) interval_s: f64,
    /// Command: send, recv, serve or proxy.
    pub(crate) role: String,
    /// Version of the program.
    pub(crate) version: String,
    /// Sum of all streams.
    pub(crate) total: Total,
    pub(crate) streams: Vec<Stream>,
}

impl Status {
    /// Returns a summary in one line, for `systemctl status`.
    pub(super) fn line(&self) -> String {
        let total = &self.total;
        let megabits = |spread: Spread| spread.avg / 1e6;
        let connected = self.streams.iter().filter(|stream| stream.connected);
        format!(
            "sessions: {}; receives {:.2} Mbit/s, sends {:.2} Mbit/s",
            connected.count(),
            megabits(total.received_rate_bps),
            megabits(total.sent_rate_bps),
        )
    }
}

/// Minimum, mean and maximum of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) avg: f64,
    pub(crate) max: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Total {
    pub(crate) stream_count: usize,
    /// Rate on the wire, headers included.
    pub(crate) sent_rate_bps: Spread,
    pub(crate) received_rate_bps: Spread,
    /// Rate of payload delivered at this end.
    pub(crate) delivered_rate_bps: Spread,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) delivered_bytes: u64,
    #[serde(default)]
    pub(crate) tunnelled: TunnelCounters,
}

/// Requests of a tunnel's peers since the program's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TunnelCounters {
    pub(crate) connected: u64,
    /// Requests that no rule permits.
    pub(crate) refused: u64,
    /// Requests whose targets could not be connected to.
    pub(crate) failed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stream {
    /// Name of the sender if the receiver gave it one, otherwise the peer's key.
    pub(crate) name: String,
    /// Public key of the peer; none before the session.
    pub(crate) peer: Option<String>,
    /// Kind: video, connections or UDP; none before the session.
    pub(crate) carries: Option<String>,
    /// Protocol, if it is not our own: srtla, srt, rist, rtmp or udp.
    #[serde(default)]
    pub(crate) protocol: Option<String>,
    /// Time since the last bytes of a stream by another protocol; none before the first.
    #[serde(default)]
    pub(crate) silent_s: Option<f64>,
    /// Whether the session exists and its peer has not gone away.
    pub(crate) connected: bool,
    /// Number of this stream's sessions so far; 0 before the first.
    pub(crate) session: u64,
    /// Whether the counters restarted at zero in this interval.
    pub(crate) reset: bool,
    /// Seconds since the counters started.
    pub(crate) session_s: f64,
    /// Target bitrate of the encoder.
    pub(crate) target_rate_bps: u64,
    /// Rate of the encoder's frames.
    #[serde(default)]
    pub(crate) media_rate_bps: Spread,
    /// Rate on the wire on all paths, headers included.
    pub(crate) sent_rate_bps: Spread,
    pub(crate) received_rate_bps: Spread,
    /// Rate of payload delivered at this end.
    pub(crate) delivered_rate_bps: Spread,
    /// Shares of send reasons in the interval's bytes; the sum is 1.
    pub(crate) sent_shares: BTreeMap<String, f64>,
    pub(crate) counters: StreamCounters,
    pub(crate) paths: Vec<Path>,
}

impl Stream {
    /// Returns the bytes sent on all paths.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.paths.iter().map(|path| path.counters.sent_bytes).sum()
    }

    /// Returns the bytes received on all paths.
    pub(crate) fn received_bytes(&self) -> u64 {
        let bytes = self.paths.iter().map(|path| path.counters.received_bytes);
        bytes.sum()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamCounters {
    pub(crate) frames_sent: u64,
    pub(crate) frames_late: u64,
    pub(crate) frames_acked: u64,
    pub(crate) frames_received: u64,
    pub(crate) frames_dropped: u64,
    pub(crate) delivered_bytes: u64,
    pub(crate) recovered_packets: u64,
    pub(crate) rejected_datagrams: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Path {
    pub(crate) path: usize,
    /// Name of the path: this end's interface or address, otherwise the peer's name or address.
    pub(crate) name: String,
    /// Destination of the path's datagrams.
    pub(crate) peer: Option<String>,
    /// State: active, suspect, out or removed.
    pub(crate) state: String,
    /// Whether the path is held in reserve.
    pub(crate) standby: bool,
    /// Time since the last bytes of a link of another protocol.
    #[serde(default)]
    pub(crate) silent_s: Option<f64>,
    pub(crate) sent_rate_bps: Spread,
    pub(crate) received_rate_bps: Spread,
    /// Round-trip time, none while it is unknown. A receiver's is reported by its sender.
    pub(crate) rtt_s: Option<Spread>,
    /// Packets lost / packets sent, smoothed over about a hundred packets.
    pub(crate) loss_ratio: f64,
    /// Bandwidth estimate of the controller.
    pub(crate) bandwidth_bps: u64,
    /// Maximum rate that the sender's user has set.
    #[serde(default)]
    pub(crate) max_rate_bps: Option<u64>,
    /// Volume that the sender's user allows.
    #[serde(default)]
    pub(crate) cap_bytes: Option<u64>,
    /// Volume of the cap that is used up.
    #[serde(default)]
    pub(crate) cap_used_bytes: Option<u64>,
    /// Phase of the controller.
    pub(crate) controller_state: String,
    pub(crate) in_flight_bytes: u64,
    pub(crate) queued_bytes: u64,
    pub(crate) congestion_window_bytes: Option<u64>,
    /// `UDP` or `TCP`.
    #[serde(default)]
    pub(crate) carrier: String,
    /// Path MTU; none during the search.
    pub(crate) mtu_bytes: Option<u32>,
    /// Error of the operating system for the last datagram that it refused.
    pub(crate) last_error: Option<String>,
    pub(crate) counters: PathCounters,
    /// Send reasons of datagrams.
    pub(crate) sent_reasons: BTreeMap<String, Reason>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PathCounters {
    /// Number of all packets, reports and answers included.
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    pub(crate) acked_packets: u64,
    /// Lost packets, without those that arrived late.
    pub(crate) lost_packets: u64,
    pub(crate) marked_packets: u64,
    pub(crate) retransmitted_packets: u64,
    pub(crate) repair_packets: u64,
    pub(crate) padding_packets: u64,
    pub(crate) duplicate_packets: u64,
    /// Datagrams that the operating system refused.
    pub(crate) unsent_datagrams: u64,
}

/// Datagrams of one send reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reason {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

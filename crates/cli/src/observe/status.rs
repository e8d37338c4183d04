//! What is said of a running program once a second: one object, for `--stats`, `/status.json` and
//! `anabranch top`. Units are SI's and stand in the fields' names. Counts are since the session's
//! start; what has `min`, `avg` and `max` is of the interval.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One second of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// `stats`: what tells it from the other lines of the stream.
    pub(crate) event: String,
    /// Seconds since 1970.
    pub(crate) unix_time_s: f64,
    /// Since the program's start.
    pub(crate) uptime_s: f64,
    /// What the interval's values are of.
    pub(crate) interval_s: f64,
    /// The command: send, recv, serve or proxy.
    pub(crate) role: String,
    /// The program's version.
    pub(crate) version: String,
    /// All streams together.
    pub(crate) total: Total,
    pub(crate) streams: Vec<Stream>,
}

impl Status {
    /// It in one line, for `systemctl status`.
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

/// The least, mean and greatest of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) avg: f64,
    pub(crate) max: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Total {
    pub(crate) stream_count: usize,
    /// On the wire, headers included.
    pub(crate) sent_rate_bps: Spread,
    pub(crate) received_rate_bps: Spread,
    /// Payload that has arrived at this end.
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
    /// No rule permits them.
    pub(crate) refused: u64,
    /// Their targets could not be connected to.
    pub(crate) failed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stream {
    /// Its sender's name, if the receiver gave it one; else the peer's key.
    pub(crate) name: String,
    /// The peer's public key; none before the session.
    pub(crate) peer: Option<String>,
    /// video, connections or UDP; none before the session.
    pub(crate) carries: Option<String>,
    /// What it comes by, if not by our own protocol: srtla, srt, rist, rtmp or udp.
    #[serde(default)]
    pub(crate) protocol: Option<String>,
    /// For how long nothing has come of a stream by another protocol; none before it has.
    #[serde(default)]
    pub(crate) silent_s: Option<f64>,
    /// Whether there is a session and its peer has not gone away.
    pub(crate) connected: bool,
    /// Counts the sessions of this stream, from 1; 0 before the first.
    pub(crate) session: u64,
    /// Whether the counters began at zero again in this interval.
    pub(crate) reset: bool,
    /// Since when the counters count.
    pub(crate) session_s: f64,
    /// What the encoder is asked for.
    pub(crate) target_rate_bps: u64,
    /// What it hands in for sending.
    #[serde(default)]
    pub(crate) media_rate_bps: Spread,
    /// On the wire, headers included, all paths.
    pub(crate) sent_rate_bps: Spread,
    pub(crate) received_rate_bps: Spread,
    /// Payload that has arrived at this end.
    pub(crate) delivered_rate_bps: Spread,
    /// The interval's bytes sent, by why they were sent; they add up to 1.
    pub(crate) sent_shares: BTreeMap<String, f64>,
    pub(crate) counters: StreamCounters,
    pub(crate) paths: Vec<Path>,
}

impl Stream {
    /// By all paths.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.paths.iter().map(|path| path.counters.sent_bytes).sum()
    }

    /// By all paths.
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
    /// What it leaves this machine by, or where it comes from.
    pub(crate) name: String,
    /// Where its datagrams go.
    pub(crate) peer: Option<String>,
    /// active, suspect, out or removed.
    pub(crate) state: String,
    /// Held in reserve.
    pub(crate) standby: bool,
    /// For how long nothing has come by a link of another protocol.
    #[serde(default)]
    pub(crate) silent_s: Option<f64>,
    pub(crate) sent_rate_bps: Spread,
    pub(crate) received_rate_bps: Spread,
    /// None while it is unknown; a receiver's is by its sender's reports.
    pub(crate) rtt_s: Option<Spread>,
    /// Packets lost / packets sent, smoothed over about a hundred packets.
    pub(crate) loss_ratio: f64,
    /// What the controller believes that the path carries.
    pub(crate) bandwidth_bps: u64,
    /// The rate above which the sender's user lets nothing leave.
    #[serde(default)]
    pub(crate) max_rate_bps: Option<u64>,
    /// The volume that the sender's user allows.
    #[serde(default)]
    pub(crate) cap_bytes: Option<u64>,
    /// The volume of the cap that the path has carried.
    #[serde(default)]
    pub(crate) cap_used_bytes: Option<u64>,
    /// The phase of the controller.
    pub(crate) controller_state: String,
    pub(crate) in_flight_bytes: u64,
    pub(crate) queued_bytes: u64,
    pub(crate) congestion_window_bytes: Option<u64>,
    /// `UDP` or `TCP`.
    #[serde(default)]
    pub(crate) carrier: String,
    /// None while it is searched.
    pub(crate) mtu_bytes: Option<u32>,
    /// What the operating system said of the last datagram that it refused.
    pub(crate) last_error: Option<String>,
    pub(crate) counters: PathCounters,
    /// Why datagrams were sent.
    pub(crate) sent_reasons: BTreeMap<String, Reason>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PathCounters {
    /// All of them, reports and answers included.
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
    pub(crate) acked_packets: u64,
    /// Without those that arrived after all.
    pub(crate) lost_packets: u64,
    pub(crate) marked_packets: u64,
    pub(crate) retransmitted_packets: u64,
    pub(crate) repair_packets: u64,
    pub(crate) padding_packets: u64,
    pub(crate) duplicate_packets: u64,
    /// Refused by the operating system.
    pub(crate) unsent_datagrams: u64,
}

/// Datagrams of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reason {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

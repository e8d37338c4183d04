//! Status of a running program once a second: one object for `--stats`, `/status.json` and
//! `anabranch top`. Units are SI units and part of the fields' names. Counters start with the
//! session; fields with `min`, `avg` and `max` describe the interval.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::picture::Picture;

/// Status of a program in one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `stats`, in contrast to the other lines of the stream.
    pub event: String,
    /// Seconds since 1970.
    pub unix_time_s: f64,
    /// Seconds since the program's start.
    pub uptime_s: f64,
    /// Length of the interval.
    pub interval_s: f64,
    /// Command: send, recv, serve or proxy.
    pub role: String,
    /// Version of the program.
    pub version: String,
    /// Seconds so far in which the machine was too slow to keep time.
    #[serde(default)]
    pub slow_seconds: u64,
    /// Sum of all streams.
    pub total: Total,
    /// All streams.
    pub streams: Vec<Stream>,
    /// Outputs by protocols that measure their connections. They are no streams: rates of `total`
    /// and of streams do not include them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Output>,
}

impl Status {
    /// Returns a summary in one line, for `systemctl status`.
    pub(super) fn line(&self) -> String {
        let total = &self.total;
        let connected = self.streams.iter().filter(|stream| stream.connected);
        format!(
            "sessions: {}; receives {:.2} Mbit/s, sends {:.2} Mbit/s",
            connected.count(),
            total.received_rate_bps.avg / 1e6,
            total.sent_rate_bps.avg / 1e6,
        )
    }
}

/// Minimum, mean and maximum of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Least value.
    pub min: f64,
    /// Mean value.
    pub avg: f64,
    /// Largest value.
    pub max: f64,
}

/// Sums of all streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// Number of streams.
    pub stream_count: usize,
    /// Rate on the wire, headers included.
    pub sent_rate_bps: Spread,
    /// Rate on the wire, headers included.
    pub received_rate_bps: Spread,
    /// Rate of payload delivered at this end.
    pub delivered_rate_bps: Spread,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes of payload delivered at this end.
    pub delivered_bytes: u64,
    /// Requests of tunnels' peers.
    #[serde(default)]
    pub tunnelled: TunnelCounters,
}

/// Requests of a tunnel's peers since the program's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelCounters {
    /// Requests that were connected.
    pub connected: u64,
    /// Requests that no rule permits.
    pub refused: u64,
    /// Requests whose targets could not be connected to.
    pub failed: u64,
}

/// Datagrams of a proxy's `--udp` since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Name of the `--udp`.
    pub name: String,
    /// Datagrams of applications that the session took.
    pub sent_datagrams: u64,
    /// Their bytes, without any header.
    pub sent_bytes: u64,
    /// Datagrams that applications received.
    pub received_datagrams: u64,
    /// Their bytes, without any header.
    pub received_bytes: u64,
    /// Datagrams that exceeded the maximum rate and were dropped.
    pub above_max_datagrams: u64,
}

/// Status of an output of received video.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// Number of the output in the program.
    pub output: usize,
    /// Address without parameters.
    pub name: String,
    /// Name of the stream that it gets.
    pub stream: String,
    /// Protocol: srt.
    pub protocol: String,
    /// End that calls: caller if it is this one, otherwise listener.
    pub mode: String,
    /// Number of connections since the program's start, past ones included.
    pub connection_count: u64,
    /// Present connections.
    pub connections: Vec<Connection>,
}

/// Status of an output's connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// Number of the connection among all of the output.
    pub connection: u64,
    /// Address of the receiver.
    pub peer: String,
    /// Stream ID that the caller gave. None if this end calls: services take it as a key.
    pub stream_id: Option<String>,
    /// State: active, suspect (silent), or ending (the output waits for acknowledgements).
    pub state: String,
    /// Seconds since the connection began.
    pub connected_s: f64,
    /// Time since the receiver's last packet.
    pub silent_s: f64,
    /// Delay that both ends agreed on.
    pub latency_s: f64,
    /// Rate of payload sent, retransmissions included.
    pub sent_rate_bps: Spread,
    /// Round-trip time, none while it is unknown.
    pub rtt_s: Option<Spread>,
    /// Packets reported missing / packets sent, in the last second.
    pub loss_ratio: f64,
    /// Counters since the connection began.
    pub counters: ConnectionCounters,
}

/// Counters of an output's connection. Bytes are those of payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionCounters {
    /// Packets sent for the first time.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets sent again.
    pub retransmitted_packets: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
    /// Packets that the receiver has reported missing.
    pub lost_packets: u64,
    /// Packets given up before they were acknowledged.
    pub dropped_packets: u64,
}

/// Status of one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Name of the sender if the receiver gave it one, otherwise the peer's key.
    pub name: String,
    /// Public key of the peer; none before the session.
    pub peer: Option<String>,
    /// Kind: video, connections or UDP; none before the session.
    pub carries: Option<String>,
    /// Protocol, if it is not our own: srtla, srt, rist, rtmp or udp.
    #[serde(default)]
    pub protocol: Option<String>,
    /// Time since the last bytes of a stream by another protocol; none before the first.
    #[serde(default)]
    pub silent_s: Option<f64>,
    /// Whether the session exists and its peer has not gone away.
    pub connected: bool,
    /// Number of this stream's sessions so far; 0 before the first.
    pub session: u64,
    /// Whether the counters restarted at zero in this interval.
    pub reset: bool,
    /// Seconds since the counters started.
    pub session_s: f64,
    /// Delay that both ends agreed on for media; none before the session and for other content.
    #[serde(default)]
    pub latency_s: Option<f64>,
    /// Picture of the last ten seconds; none before its first frame and for other content.
    #[serde(default)]
    pub picture: Option<Picture>,
    /// Target bitrate of the encoder.
    pub target_rate_bps: u64,
    /// Rate of the encoder's frames.
    #[serde(default)]
    pub media_rate_bps: Spread,
    /// Rate on the wire on all paths, headers included.
    pub sent_rate_bps: Spread,
    /// Rate on the wire on all paths, headers included.
    pub received_rate_bps: Spread,
    /// Rate of payload delivered at this end.
    pub delivered_rate_bps: Spread,
    /// Shares of send reasons in the interval's bytes; the sum is 1.
    pub sent_shares: BTreeMap<String, f64>,
    /// Counters of its session.
    pub counters: StreamCounters,
    /// Its paths.
    pub paths: Vec<Path>,
    /// UDP flows of a proxy, one entry for each `--udp`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
}

impl Stream {
    /// Returns the bytes sent on all paths.
    pub fn sent_bytes(&self) -> u64 {
        self.paths.iter().map(|path| path.counters.sent_bytes).sum()
    }

    /// Returns the bytes received on all paths.
    pub fn received_bytes(&self) -> u64 {
        let bytes = self.paths.iter().map(|path| path.counters.received_bytes);
        bytes.sum()
    }
}

/// Counters of one session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamCounters {
    /// Frames that were sent.
    pub frames_sent: u64,
    /// Frames given up as late.
    pub frames_late: u64,
    /// Frames known to have arrived.
    pub frames_acked: u64,
    /// Frames that arrived complete.
    pub frames_received: u64,
    /// Frames that did not arrive in time.
    pub frames_dropped: u64,
    /// Bytes of payload delivered at this end.
    pub delivered_bytes: u64,
    /// Fragments that repairs have restored.
    pub recovered_packets: u64,
    /// Datagrams that failed authentication or were malformed.
    pub rejected_datagrams: u64,
}

/// Status of one path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Number of the path.
    pub path: usize,
    /// Name of the path: this end's interface or address, otherwise the peer's name or address.
    pub name: String,
    /// Destination of the path's datagrams.
    pub peer: Option<String>,
    /// State: active, suspect, out or removed.
    pub state: String,
    /// Whether the path is held in reserve.
    pub standby: bool,
    /// Time since the last bytes of a link of another protocol.
    #[serde(default)]
    pub silent_s: Option<f64>,
    /// Rate on the wire, headers included.
    pub sent_rate_bps: Spread,
    /// Rate on the wire, headers included.
    pub received_rate_bps: Spread,
    /// Round-trip time, none while it is unknown. A receiver's is reported by its sender.
    pub rtt_s: Option<Spread>,
    /// Excess of the interval's least round-trip time over the least of the path; none while it is
    /// unknown.
    #[serde(default)]
    pub queueing_delay_s: Option<f64>,
    /// Packets lost / packets sent, smoothed over about a hundred packets.
    pub loss_ratio: f64,
    /// Bandwidth estimate of the controller.
    pub bandwidth_bps: u64,
    /// Maximum rate that the sender's user has set.
    #[serde(default)]
    pub max_rate_bps: Option<u64>,
    /// Volume that the sender's user allows.
    #[serde(default)]
    pub cap_bytes: Option<u64>,
    /// Volume of the cap that is used up.
    #[serde(default)]
    pub cap_used_bytes: Option<u64>,
    /// Phase of the controller.
    pub controller_state: String,
    /// Bytes sent and neither acknowledged nor lost.
    pub in_flight_bytes: u64,
    /// Bytes that are bound to the path and unsent.
    pub queued_bytes: u64,
    /// Congestion window; none if the controller has only a rate.
    pub congestion_window_bytes: Option<u64>,
    /// `UDP` or `TCP`.
    #[serde(default)]
    pub carrier: String,
    /// Path MTU; none during the search.
    pub mtu_bytes: Option<u32>,
    /// Error of the operating system for the last datagram that it refused.
    pub last_error: Option<String>,
    /// Counters of the path.
    pub counters: PathCounters,
    /// Send reasons of datagrams.
    pub sent_reasons: BTreeMap<String, Reason>,
}

/// Counters of one path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathCounters {
    /// Number of all packets, reports and answers included.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets acknowledged.
    pub acked_packets: u64,
    /// Lost packets, without those that arrived late.
    pub lost_packets: u64,
    /// Packets marked by explicit congestion notification.
    pub marked_packets: u64,
    /// Packets with retransmissions.
    pub retransmitted_packets: u64,
    /// Packets with repairs.
    pub repair_packets: u64,
    /// Packets of padding.
    pub padding_packets: u64,
    /// Packets received twice.
    pub duplicate_packets: u64,
    /// Datagrams that the operating system refused.
    pub unsent_datagrams: u64,
}

/// Datagrams of one send reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Number of datagrams.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

//! `/metrics`: the text format of Prometheus, version 0.0.4.

mod metric;
mod outputs;

use core::fmt::Write;

use super::status::{Path, Status, Stream};
use super::tracked::STATES;
use crate::names::state_name;

pub(super) use metric::Names;
pub use metric::{Kind, Metric};
pub use outputs::{OF_CONNECTIONS, OF_OUTPUTS};

use metric::{Named, counter, gauge, rate};

/// Content type that Prometheus requests.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics of each stream.
pub const OF_STREAMS: &[Metric<Stream>] = &[
    gauge(
        "anabranch_stream_connected",
        "1 while there is a session whose peer has not gone away, else 0.",
        |stream| Some(f64::from(u8::from(stream.connected))),
    ),
    counter(
        "anabranch_stream_sessions_total",
        "Sessions that the stream has had.",
        |stream| Some(stream.session as f64),
    ),
    gauge(
        "anabranch_stream_session_seconds",
        "Time since the session's counters started.",
        |stream| Some(stream.session_s),
    ),
    gauge(
        "anabranch_stream_latency_seconds",
        "Delay that both ends agreed on for media; absent without one.",
        |stream| stream.latency_s,
    ),
    rate(
        [
            "anabranch_stream_target_bytes_per_second",
            "anabranch_stream_target_bits_per_second",
        ],
        "Target bitrate of the encoder; 0 at a receiver.",
        |stream| Some(stream.target_rate_bps as f64),
    ),
    rate(
        [
            "anabranch_stream_media_bytes_per_second",
            "anabranch_stream_media_bits_per_second",
        ],
        "Bitrate of the encoder, mean of the last second; 0 at a receiver.",
        |stream| Some(stream.media_rate_bps.avg),
    ),
    rate(
        [
            "anabranch_stream_delivered_bytes_per_second",
            "anabranch_stream_delivered_bits_per_second",
        ],
        "Payload that arrived at this end, mean of the last second.",
        |stream| Some(stream.delivered_rate_bps.avg),
    ),
    gauge(
        "anabranch_stream_silent_seconds",
        "Time since the last bytes of a stream by another protocol; absent for ours.",
        |stream| stream.silent_s,
    ),
    counter(
        "anabranch_stream_delivered_bytes_total",
        "Payload that arrived at this end.",
        |stream| Some(stream.counters.delivered_bytes as f64),
    ),
    counter(
        "anabranch_stream_frames_sent_total",
        "Frames handed in for sending.",
        |stream| Some(stream.counters.frames_sent as f64),
    ),
    counter(
        "anabranch_stream_frames_late_total",
        "Frames given up at the sender because they would have come too late.",
        |stream| Some(stream.counters.frames_late as f64),
    ),
    counter(
        "anabranch_stream_frames_received_total",
        "Frames received whole.",
        |stream| Some(stream.counters.frames_received as f64),
    ),
    counter(
        "anabranch_stream_frames_dropped_total",
        "Frames given up at the receiver.",
        |stream| Some(stream.counters.frames_dropped as f64),
    ),
    counter(
        "anabranch_stream_recovered_packets_total",
        "Lost packets that forward error correction has recovered.",
        |stream| Some(stream.counters.recovered_packets as f64),
    ),
    counter(
        "anabranch_stream_rejected_datagrams_total",
        "Datagrams that were forged, replayed or damaged.",
        |stream| Some(stream.counters.rejected_datagrams as f64),
    ),
];

/// Metrics of each path.
pub const OF_PATHS: &[Metric<Path>] = &[
    gauge(
        "anabranch_path_rtt_seconds",
        "Round-trip time, mean of the last second; absent while it is unknown.",
        |path| path.rtt_s.map(|rtt| rtt.avg),
    ),
    gauge(
        "anabranch_path_rtt_max_seconds",
        "The longest round-trip time of the last second.",
        |path| path.rtt_s.map(|rtt| rtt.max),
    ),
    gauge(
        "anabranch_path_queueing_delay_seconds",
        "Least round-trip time of the last second minus the path's least; absent while unknown.",
        |path| path.queueing_delay_s,
    ),
    gauge(
        "anabranch_path_loss_ratio",
        "Packets lost by packets sent, 0 to 1, over about a hundred packets.",
        |path| Some(path.loss_ratio),
    ),
    rate(
        [
            "anabranch_path_bandwidth_bytes_per_second",
            "anabranch_path_bandwidth_bits_per_second",
        ],
        "Bandwidth estimate of the congestion controller.",
        |path| Some(path.bandwidth_bps as f64),
    ),
    rate(
        [
            "anabranch_path_max_bytes_per_second",
            "anabranch_path_max_bits_per_second",
        ],
        "Maximum rate that the sender's user has set; absent without one.",
        |path| path.max_rate_bps.map(|rate| rate as f64),
    ),
    gauge(
        "anabranch_path_cap_bytes",
        "The volume that the sender's user allows; absent without one.",
        |path| path.cap_bytes.map(|bytes| bytes as f64),
    ),
    gauge(
        "anabranch_path_cap_used_bytes",
        "The volume of the cap that the path has carried; absent without one.",
        |path| path.cap_used_bytes.map(|bytes| bytes as f64),
    ),
    rate(
        [
            "anabranch_path_sent_bytes_per_second",
            "anabranch_path_sent_bits_per_second",
        ],
        "Sent on the wire, headers included, mean of the last second.",
        |path| Some(path.sent_rate_bps.avg),
    ),
    rate(
        [
            "anabranch_path_received_bytes_per_second",
            "anabranch_path_received_bits_per_second",
        ],
        "Received on the wire, headers included, mean of the last second.",
        |path| Some(path.received_rate_bps.avg),
    ),
    gauge(
        "anabranch_path_in_flight_bytes",
        "Sent, not acknowledged and not lost.",
        |path| Some(path.in_flight_bytes as f64),
    ),
    gauge(
        "anabranch_path_queued_bytes",
        "Waiting to be sent by this path.",
        |path| Some(path.queued_bytes as f64),
    ),
    gauge(
        "anabranch_path_mtu_bytes",
        "The longest IP packet that the path carries; absent during the search.",
        |path| path.mtu_bytes.map(f64::from),
    ),
    gauge(
        "anabranch_path_standby",
        "1 while the path is held in reserve, else 0.",
        |path| Some(f64::from(u8::from(path.standby))),
    ),
    gauge(
        "anabranch_path_silent_seconds",
        "Time since the last bytes of a link of another protocol; absent for ours.",
        |path| path.silent_s,
    ),
    counter(
        "anabranch_path_received_packets_total",
        "Packets received.",
        |path| Some(path.counters.received_packets as f64),
    ),
    counter(
        "anabranch_path_received_bytes_total",
        "Bytes received on the wire.",
        |path| Some(path.counters.received_bytes as f64),
    ),
    counter(
        "anabranch_path_acked_packets_total",
        "Packets that the peer has acknowledged.",
        |path| Some(path.counters.acked_packets as f64),
    ),
    counter(
        "anabranch_path_lost_packets_total",
        "Packets lost, without those that arrived late.",
        |path| Some(path.counters.lost_packets as f64),
    ),
    counter(
        "anabranch_path_marked_packets_total",
        "Packets that arrived with the mark Congestion Experienced.",
        |path| Some(path.counters.marked_packets as f64),
    ),
    counter(
        "anabranch_path_unsent_datagrams_total",
        "Datagrams that the operating system refused.",
        |path| Some(path.counters.unsent_datagrams as f64),
    ),
];

/// Metrics with a label for each send reason: packets and bytes.
pub const OF_REASONS: [(&str, &str); 2] = [
    (
        "anabranch_path_sent_packets_total",
        "Packets sent, by reason.",
    ),
    (
        "anabranch_path_sent_bytes_total",
        "Bytes sent on the wire, by reason.",
    ),
];

/// Metric with a label for each state; the current state has the value 1.
pub const OF_STATES: (&str, &str) = (
    "anabranch_path_state",
    "1 for the state that the path is in, 0 for the others.",
);

/// Metric with a label for each outcome.
const OF_REQUESTS: (&str, &str) = (
    "anabranch_tunnel_requests_total",
    "Requests of proxies for targets, by outcome.",
);

/// Metrics of each `--udp` of a proxy: datagrams and bytes, by direction.
const OF_FLOWS: [(&str, &str); 2] = [
    (
        "anabranch_flow_datagrams_total",
        "Datagrams of applications at a --udp, by direction.",
    ),
    (
        "anabranch_flow_bytes_total",
        "Bytes of these datagrams without headers, by direction.",
    ),
];

/// Datagrams of applications that were dropped.
const ABOVE_MAX: (&str, &str) = (
    "anabranch_flow_above_max_datagrams_total",
    "Datagrams of applications that exceeded the max of a --udp and were dropped.",
);

/// Returns the metrics as text.
pub(super) fn text(status: &Status, names: Names) -> String {
    let mut text = String::new();
    let mut metric = Text(&mut text);
    metric.head(
        "anabranch_build_info",
        Kind::Gauge,
        "Always 1; labels identify the program.",
    );
    let labels = [("role", &*status.role), ("version", &*status.version)];
    metric.line("anabranch_build_info", &labels, 1.0);
    metric.head(
        "anabranch_uptime_seconds",
        Kind::Gauge,
        "Since the program's start.",
    );
    metric.line("anabranch_uptime_seconds", &[], status.uptime_s);
    let tunnelled = &status.total.tunnelled;
    if status.role == "serve" {
        metric.head(OF_REQUESTS.0, Kind::Counter, OF_REQUESTS.1);
        for (outcome, count) in [
            ("connected", tunnelled.connected),
            ("refused", tunnelled.refused),
            ("failed", tunnelled.failed),
        ] {
            metric.line(OF_REQUESTS.0, &[("outcome", outcome)], count as f64);
        }
    }
    for named in OF_STREAMS.iter().flat_map(|of| of.named(names)) {
        metric.head_of(&named);
        for stream in &status.streams {
            metric.value(&named, &labels_of(stream), stream);
        }
    }
    for named in OF_PATHS.iter().flat_map(|of| of.named(names)) {
        metric.head_of(&named);
        metric.of_paths(status, |metric, labels, path| {
            metric.value(&named, labels, path);
        });
    }
    let (name, help) = OF_STATES;
    metric.head(name, Kind::Gauge, help);
    metric.of_paths(status, |metric, labels, path| {
        for state in STATES.map(state_name) {
            let labels = [labels, &[("state", state)]].concat();
            metric.line(name, &labels, f64::from(u8::from(path.state == state)));
        }
    });
    for (name, help) in OF_REASONS {
        metric.head(name, Kind::Counter, help);
        metric.of_paths(status, |metric, labels, path| {
            for (reason, count) in &path.sent_reasons {
                let labels = [labels, &[("reason", reason)]].concat();
                let is_packets = name.contains("packets");
                let value = if is_packets {
                    count.packets
                } else {
                    count.bytes
                };
                metric.line(name, &labels, value as f64);
            }
        });
    }
    metric.of_flows(status);
    outputs::append(status, names, &mut metric);
    text
}

type Label<'a> = (&'static str, &'a str);

fn labels_of(stream: &Stream) -> [Label<'_>; 2] {
    let carries = stream.carries.as_deref().unwrap_or_default();
    [("stream", &stream.name), ("carries", carries)]
}

struct Text<'a>(&'a mut String);

impl Text<'_> {
    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn head_of<T>(&mut self, named: &Named<'_, T>) {
        self.head(named.name, named.of.kind, named.of.help);
    }

    fn line(&mut self, name: &str, labels: &[Label<'_>], value: f64) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// Appends a value if it is known.
    fn value<T>(&mut self, named: &Named<'_, T>, labels: &[Label<'_>], source: &T) {
        if let Some(value) = (named.of.value)(source) {
            self.line(named.name, labels, named.scale * value);
        }
    }

    fn of_flows(&mut self, status: &Status) {
        let flows = status.streams.iter().flat_map(|stream| &stream.flows);
        if flows.clone().next().is_none() {
            return;
        }
        for (name, help) in OF_FLOWS {
            self.head(name, Kind::Counter, help);
            for flow in flows.clone() {
                let [sent, received] = if name.contains("datagrams") {
                    [flow.sent_datagrams, flow.received_datagrams]
                } else {
                    [flow.sent_bytes, flow.received_bytes]
                };
                for (direction, value) in [("sent", sent), ("received", received)] {
                    let labels = [("flow", &*flow.name), ("direction", direction)];
                    self.line(name, &labels, value as f64);
                }
            }
        }
        self.head(ABOVE_MAX.0, Kind::Counter, ABOVE_MAX.1);
        for flow in flows {
            let count = flow.above_max_datagrams as f64;
            self.line(ABOVE_MAX.0, &[("flow", &flow.name)], count);
        }
    }

    fn of_paths(&mut self, status: &Status, say: impl Fn(&mut Self, &[Label<'_>], &Path)) {
        for stream in &status.streams {
            for path in &stream.paths {
                let number = path.path.to_string();
                let own = [("path", &*number), ("name", &*path.name)];
                let labels = [&labels_of(stream)[..], &own].concat();
                say(self, &labels, path);
            }
        }
    }
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::status::{Connection, Flow, Output, Reason};

    #[test]
    fn labels_cannot_break_out_of_their_quotes() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    #[test]
    fn grafana_draws_metrics_that_exist() {
        let dashboard = include_str!("../../../packaging/grafana.json");
        let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
        let text = text(&Status::default(), Names::Current);
        let mut named = Vec::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let query = target["expr"].as_str().unwrap();
                let words = query.split(|of: char| !of.is_ascii_alphanumeric() && of != '_');
                let names = words.filter(|word| word.starts_with("anabranch_"));
                named.extend(names.map(str::to_owned));
            }
        }
        assert!(named.len() > 15, "{named:?}");
        for name in named {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
        }
    }

    #[test]
    fn reasons_and_states_are_labels() {
        let reason = Reason {
            packets: 3,
            bytes: 3_600,
        };
        let path = Path {
            path: 1,
            name: "wwan0".to_owned(),
            state: "out".to_owned(),
            sent_reasons: [("new".to_owned(), reason)].into(),
            ..Path::default()
        };
        let stream = Stream {
            name: "camera".to_owned(),
            paths: vec![path],
            ..Stream::default()
        };
        let status = Status {
            streams: vec![stream],
            ..Status::default()
        };
        let text = text(&status, Names::Current);
        let labels = "stream=\"camera\",carries=\"\",path=\"1\",name=\"wwan0\"";
        for line in [
            format!("anabranch_path_sent_packets_total{{{labels},reason=\"new\"}} 3\n"),
            format!("anabranch_path_sent_bytes_total{{{labels},reason=\"new\"}} 3600\n"),
            format!("anabranch_path_state{{{labels},state=\"out\"}} 1\n"),
            format!("anabranch_path_state{{{labels},state=\"active\"}} 0\n"),
        ] {
            assert!(text.contains(&line), "{line}{text}");
        }
        // An unknown value is absent, not zero.
        assert!(!text.contains("anabranch_path_rtt_seconds{"), "{text}");
    }

    /// Returns a status with one of everything that has metrics.
    fn full() -> Status {
        let path = Path {
            bandwidth_bps: 8_000,
            sent_reasons: [("new".to_owned(), Reason::default())].into(),
            ..Path::default()
        };
        let stream = Stream {
            target_rate_bps: 4_000,
            paths: vec![path],
            flows: vec![Flow::default()],
            ..Stream::default()
        };
        let output = Output {
            connections: vec![Connection::default()],
            ..Output::default()
        };
        Status {
            role: "serve".to_owned(),
            streams: vec![stream],
            outputs: vec![output],
            ..Status::default()
        }
    }

    /// Returns names and types of the families in a text.
    fn families(text: &str) -> Vec<(&str, &str)> {
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.filter_map(|line| line.split_once(' ')).collect()
    }

    /// These are the rules of OpenMetrics 1.0 and of `promtool check metrics`.
    #[test]
    fn a_family_has_one_type_and_a_base_unit() {
        let text = text(&full(), Names::Current);
        let mut seen = BTreeSet::new();
        assert!(families(&text).len() > 50);
        for (name, kind) in families(&text) {
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            let family = name.strip_suffix("_total").unwrap_or(name);
            assert!(seen.insert(family.to_owned()), "{family} has two types");
            let other_units = [
                "bits",
                "milliseconds",
                "ms",
                "minutes",
                "kilobytes",
                "percent",
            ];
            let mut words = name.split('_');
            assert!(words.all(|word| !other_units.contains(&word)), "{name}");
            assert!(text.contains(&format!("# HELP {name} ")), "{name}");
        }
    }

    #[test]
    fn former_names_keep_their_units_for_those_who_ask() {
        let former = Names::of_query(Some("names=former"));
        let text = text(&full(), former);
        for line in [
            "anabranch_path_bandwidth_bytes_per_second{",
            "anabranch_path_bandwidth_bits_per_second{",
            "anabranch_output_sent_bits_per_second{",
            "anabranch_output_connections_total{",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        for (name, value) in [
            ("anabranch_stream_target_bytes_per_second", "500"),
            ("anabranch_stream_target_bits_per_second", "4000"),
        ] {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            assert_eq!(line.rsplit_once(' ').unwrap().1, value, "{name}");
        }
        for query in [None, Some("names"), Some("x=1")] {
            assert_eq!(Names::of_query(query), Names::Current);
        }
    }
}

//! Metrics of outputs and their connections.

use super::Text;
use super::metric::{Metric, Names, counter, gauge, rate};
use crate::status::{Connection, Output, Status};

/// Metrics of each output.
pub const OF_OUTPUTS: &[Metric<Output>] = &[
    gauge(
        "anabranch_output_connections",
        "Connections that the output has now.",
        |output| Some(output.connections.len() as f64),
    ),
    Metric {
        // The family of the gauge would otherwise have two types.
        former: Some("anabranch_output_connections_total"),
        ..counter(
            "anabranch_output_accepted_connections_total",
            "Connections that the output has had.",
            |output| Some(output.connection_count as f64),
        )
    },
];

/// Metrics of each connection of an output.
pub const OF_CONNECTIONS: &[Metric<Connection>] = &[
    gauge(
        "anabranch_output_ending",
        "1 while the output has ended and waits for acknowledgements, else 0.",
        |connection| Some(f64::from(u8::from(connection.state == "ending"))),
    ),
    gauge(
        "anabranch_output_connected_seconds",
        "Time since the connection began.",
        |connection| Some(connection.connected_s),
    ),
    gauge(
        "anabranch_output_silent_seconds",
        "Time since the receiver's last packet.",
        |connection| Some(connection.silent_s),
    ),
    gauge(
        "anabranch_output_latency_seconds",
        "Delay that both ends agreed on.",
        |connection| Some(connection.latency_s),
    ),
    gauge(
        "anabranch_output_rtt_seconds",
        "Round-trip time, mean of the last second; absent while it is unknown.",
        |connection| connection.rtt_s.map(|rtt| rtt.avg),
    ),
    gauge(
        "anabranch_output_loss_ratio",
        "Packets reported missing by packets sent, 0 to 1, in the last second.",
        |connection| Some(connection.loss_ratio),
    ),
    rate(
        [
            "anabranch_output_sent_bytes_per_second",
            "anabranch_output_sent_bits_per_second",
        ],
        "Payload sent, retransmissions included, mean of the last second.",
        |connection| Some(connection.sent_rate_bps.avg),
    ),
    counter(
        "anabranch_output_sent_packets_total",
        "Packets sent for the first time.",
        |connection| Some(connection.counters.sent_packets as f64),
    ),
    counter(
        "anabranch_output_sent_bytes_total",
        "Payload of packets sent for the first time.",
        |connection| Some(connection.counters.sent_bytes as f64),
    ),
    counter(
        "anabranch_output_retransmitted_packets_total",
        "Packets sent again.",
        |connection| Some(connection.counters.retransmitted_packets as f64),
    ),
    counter(
        "anabranch_output_retransmitted_bytes_total",
        "Payload of packets sent again.",
        |connection| Some(connection.counters.retransmitted_bytes as f64),
    ),
    counter(
        "anabranch_output_lost_packets_total",
        "Packets that the receiver has reported missing.",
        |connection| Some(connection.counters.lost_packets as f64),
    ),
    counter(
        "anabranch_output_dropped_packets_total",
        "Packets given up before they were acknowledged.",
        |connection| Some(connection.counters.dropped_packets as f64),
    ),
];

/// Appends the metrics of all outputs.
pub(super) fn append(status: &Status, names: Names, metric: &mut Text<'_>) {
    if status.outputs.is_empty() {
        return;
    }
    for named in OF_OUTPUTS.iter().flat_map(|of| of.named(names)) {
        metric.head_of(&named);
        for output in &status.outputs {
            metric.value(&named, &labels(output, &output.output.to_string()), output);
        }
    }
    for named in OF_CONNECTIONS.iter().flat_map(|of| of.named(names)) {
        metric.head_of(&named);
        for output in &status.outputs {
            let number = output.output.to_string();
            for connection in &output.connections {
                let own = connection.connection.to_string();
                let stream_id = connection.stream_id.as_deref().unwrap_or_default();
                let more = [
                    ("connection", &*own),
                    ("peer", &connection.peer),
                    ("stream_id", stream_id),
                ];
                let labels = [&labels(output, &number)[..], &more].concat();
                metric.value(&named, &labels, connection);
            }
        }
    }
}

/// Returns the labels of an output, whose number makes them unique.
fn labels<'a>(output: &'a Output, number: &'a str) -> [(&'static str, &'a str); 3] {
    [
        ("stream", &output.stream),
        ("output", number),
        ("name", &output.name),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::text;
    use crate::status::{ConnectionCounters, Spread};

    fn connection(number: u64, rtt_s: Option<Spread>) -> Connection {
        Connection {
            connection: number,
            peer: "192.0.2.1:5000".to_owned(),
            stream_id: Some("a\"b".to_owned()),
            state: "active".to_owned(),
            rtt_s,
            counters: ConnectionCounters {
                sent_packets: 9,
                lost_packets: 2,
                ..ConnectionCounters::default()
            },
            ..Connection::default()
        }
    }

    #[test]
    fn each_connection_has_values_of_its_own() {
        let rtt = Spread {
            avg: 0.02,
            ..Spread::default()
        };
        let output = Output {
            output: 1,
            name: "srt://:9001".to_owned(),
            stream: "front".to_owned(),
            connection_count: 5,
            connections: vec![connection(3, Some(rtt)), connection(4, None)],
            ..Output::default()
        };
        let status = Status {
            outputs: vec![output],
            ..Status::default()
        };
        let text = text(&status, Names::Current);
        let of = "stream=\"front\",output=\"1\",name=\"srt://:9001\"";
        let [of_third, of_fourth] = [3, 4].map(|number| {
            format!("{{{of},connection=\"{number}\",peer=\"192.0.2.1:5000\",stream_id=\"a\\\"b\"}}")
        });
        for line in [
            format!("anabranch_output_connections{{{of}}} 2\n"),
            format!("anabranch_output_accepted_connections_total{{{of}}} 5\n"),
            format!("anabranch_output_rtt_seconds{of_third} 0.02\n"),
            format!("anabranch_output_sent_packets_total{of_fourth} 9\n"),
            format!("anabranch_output_lost_packets_total{of_fourth} 2\n"),
        ] {
            assert!(text.contains(&line), "{line}{text}");
        }
        let unknown = format!("anabranch_output_rtt_seconds{of_fourth}");
        assert!(!text.contains(&unknown), "{text}");
        let series = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '));
        let mut names: Vec<&str> = series.map(|(name, _)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "series are unique");
    }

    #[test]
    fn programs_without_outputs_have_no_metrics_of_them() {
        assert!(!text(&Status::default(), Names::WithFormer).contains("anabranch_output"));
    }
}

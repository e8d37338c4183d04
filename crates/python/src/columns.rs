//! Columns of all tables, with their units and meanings: the one place that documents them.

use anabranch_lab::metrics::{METRICS, Metric, Scope, Unit};

use crate::builder::{Builder, Kind};
use crate::meanings::meaning;

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct ColumnDoc {
    /// Its name, which ends in its unit if it has one.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Its unit: `bit/s`, `ms`, `s`, `bytes`, or empty.
    pub(crate) unit: &'static str,
    pub(crate) about: &'static str,
}

/// Names of all tables, in the order of the documentation.
pub(crate) const TABLES: [&str; 13] = [
    "runs",
    "flows",
    "paths",
    "links",
    "phases",
    "reasons",
    "expectations",
    "frames",
    "events",
    "packets",
    "path_series",
    "flow_series",
    "link_series",
];

use Kind::{Boolean, Float, Integer, Text};

/// The columns of a table that are no metrics: name, kind, unit, meaning.
type Own = &'static [(&'static str, Kind, &'static str, &'static str)];

const RUNS: Own = &[
    (
        "version",
        Text,
        "",
        "version of the package that made the run",
    ),
    (
        "trace_hash",
        Text,
        "",
        "hash of all events of the run: equal hashes, equal runs",
    ),
    (
        "packets_sent",
        Integer,
        "",
        "datagrams sent, by both ends of all flows",
    ),
    ("packets_delivered", Integer, "", "datagrams that arrived"),
    (
        "packets_dropped",
        Integer,
        "",
        "datagrams that links dropped",
    ),
];

const FLOWS: Own = &[
    ("flow", Text, "", "name of the flow"),
    (
        "controller",
        Text,
        "",
        "its congestion controller, options included",
    ),
    ("scheduler", Text, "", "its scheduler; missing: it has none"),
];

const PATHS: Own = &[
    ("flow", Text, "", "name of the flow"),
    ("path", Integer, "", "number of the path, from 0"),
    ("route", Text, "", "route that the path takes"),
    (
        "throughput_bps",
        Float,
        "bit/s",
        "bits on the wire delivered",
    ),
    (
        "media_bps",
        Float,
        "bit/s",
        "the same without padding, retransmissions and repairs",
    ),
    ("send_rate_bps", Float, "bit/s", "bits on the wire sent"),
    (
        "feedback_rate_bps",
        Float,
        "bit/s",
        "bits on the wire that the receiver sent back",
    ),
    ("packets_sent", Integer, "", "packets sent"),
    ("packets_delivered", Integer, "", "packets delivered"),
    ("packets_dropped", Integer, "", "packets lost by links"),
    ("loss", Float, "", "packets dropped over packets sent"),
    (
        "retransmissions",
        Float,
        "",
        "packets sent again over packets sent",
    ),
    (
        "copies",
        Float,
        "",
        "bytes of repeated copies over bytes sent",
    ),
    ("repairs", Float, "", "repairs over packets sent"),
    ("padding", Float, "", "bytes of padding over bytes sent"),
    ("timeouts", Integer, "", "expiries of retransmission timers"),
    (
        "delay_mean_ms",
        Float,
        "ms",
        "mean one-way delay of the packets delivered",
    ),
    ("delay_p50_ms", Float, "ms", "its median"),
    ("delay_p95_ms", Float, "ms", "its 95th percentile"),
    ("delay_p99_ms", Float, "ms", "its 99th percentile"),
    ("delay_max_ms", Float, "ms", "the longest"),
    (
        "media_share",
        Float,
        "",
        "share of the flow's arrived packets of media",
    ),
    (
        "cost_ms",
        Float,
        "ms",
        "mean time of these packets from capture to arrival",
    ),
];

const LINKS: Own = &[
    ("link", Text, "", "name of the link"),
    (
        "packets_offered",
        Integer,
        "",
        "packets that came to the link",
    ),
];

const PHASES: Own = &[
    ("flow", Text, "", "name of the flow"),
    ("phase", Integer, "", "number of the phase, from 0"),
    ("from_s", Float, "s", "begin of the phase"),
    ("to_s", Float, "s", "end of the phase"),
    (
        "convergence_time_ms",
        Float,
        "ms",
        "time until the throughput stays; missing: it does not",
    ),
];

const REASONS: Own = &[
    ("flow", Text, "", "name of the flow"),
    ("path", Integer, "", "number of the path, from 0"),
    (
        "reason",
        Text,
        "",
        "reason of the packets, as in the program's packets.csv",
    ),
    ("packets", Integer, "", "packets sent for this reason"),
    ("bytes", Integer, "bytes", "their bytes on the wire"),
];

const EXPECTATIONS: Own = &[
    ("metric", Text, "", "name of the metric"),
    (
        "subject",
        Text,
        "",
        "flow or link; missing: all flows together",
    ),
    ("unit", Text, "", "unit of the three columns that follow"),
    ("min", Float, "", "least value that is right"),
    ("max", Float, "", "largest value that is right"),
    ("value", Float, "", "value in this run"),
    ("from_s", Float, "s", "begin of the window"),
    ("to_s", Float, "s", "end of the window"),
    ("is_met", Boolean, "", "whether the value is right"),
];

const FRAMES: Own = &[
    (
        "captured_s",
        Float,
        "s",
        "time at which the source produced the frame",
    ),
    ("flow", Text, "", "name of the flow"),
    ("frame", Integer, "", "number of the frame, from 0"),
    ("importance", Text, "", "key, reference or disposable"),
    ("bytes", Integer, "bytes", "size of the frame"),
    (
        "outcome",
        Text,
        "",
        "complete; incomplete or missing: given up by the receiver",
    ),
    (
        "delay_ms",
        Float,
        "ms",
        "time from capture until complete or given up",
    ),
];

const EVENTS: Own = &[
    ("time_s", Float, "s", "time since the start of the run"),
    ("flow", Text, "", "name of the flow"),
    (
        "path",
        Float,
        "",
        "number of the path; missing: the event is not about one",
    ),
    (
        "event",
        Text,
        "",
        "path-state, controller-state (both seen every 100 ms), frame-abandoned, stream-finished",
    ),
    ("state", Text, "", "new state of the path or its controller"),
    (
        "duration_ms",
        Float,
        "ms",
        "time from the stream's beginning to its end",
    ),
];

const PACKETS: Own = &[
    ("time_s", Float, "s", "time of the event"),
    ("event", Text, "", "sent, delivered or dropped"),
    ("flow", Text, "", "name of the flow"),
    ("path", Integer, "", "number of the path, from 0"),
    ("direction", Text, "", "forward or reverse"),
    ("bytes", Integer, "bytes", "bytes on the wire"),
    ("delay_ms", Float, "ms", "one-way delay, if delivered"),
    ("link", Text, "", "link that dropped it"),
    ("cause", Text, "", "cause of the drop"),
    (
        "reason",
        Text,
        "",
        "reason of the packet, as in the program's packets.csv",
    ),
];

const PATH_SERIES: Own = &[
    (
        "time_s",
        Float,
        "s",
        "end of the 100 ms that the row covers",
    ),
    ("flow", Text, "", "name of the flow"),
    ("path", Integer, "", "number of the path, from 0"),
    ("route", Text, "", "route that the path takes"),
    ("sent_bps", Float, "bit/s", "bits on the wire sent"),
    (
        "delivered_bps",
        Float,
        "bit/s",
        "bits on the wire delivered",
    ),
    ("dropped_packets", Integer, "", "packets dropped"),
    (
        "delay_ms",
        Float,
        "ms",
        "mean one-way delay of the packets delivered",
    ),
    (
        "smoothed_rtt_ms",
        Float,
        "ms",
        "smoothed round-trip time of the sender",
    ),
    (
        "bandwidth_bps",
        Float,
        "bit/s",
        "rate that the controller believes the path carries",
    ),
    (
        "pacing_rate_bps",
        Float,
        "bit/s",
        "pacing rate of the controller",
    ),
    (
        "congestion_window_bytes",
        Float,
        "bytes",
        "window of the controller",
    ),
    ("bytes_in_flight", Float, "bytes", "bytes in flight"),
    (
        "queued_bytes",
        Float,
        "bytes",
        "bytes bound to the path that are not sent yet",
    ),
    (
        "state",
        Text,
        "",
        "active, suspect, out or removed; missing: no session",
    ),
    (
        "controller_state",
        Text,
        "",
        "phase of the controller, by its source's name",
    ),
];

const FLOW_SERIES: Own = &[
    (
        "time_s",
        Float,
        "s",
        "end of the 100 ms that the row covers",
    ),
    ("flow", Text, "", "name of the flow"),
    (
        "delivered_bps",
        Float,
        "bit/s",
        "bits on the wire delivered",
    ),
    (
        "target_bps",
        Float,
        "bit/s",
        "target bitrate of the encoder",
    ),
];

const LINK_SERIES: Own = &[
    (
        "time_s",
        Float,
        "s",
        "end of the 100 ms that the row covers",
    ),
    ("link", Text, "", "name of the link"),
    ("delivered_bps", Float, "bit/s", "bits delivered"),
    ("queued_bytes", Integer, "bytes", "bytes in the queue"),
    ("dropped_packets", Integer, "", "packets dropped"),
];

/// Returns the unit of a metric's column.
pub(crate) fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Share | Unit::Number => "",
        Unit::Milliseconds => "ms",
        Unit::BitsPerSecond => "bit/s",
        Unit::Bytes => "bytes",
    }
}

/// Returns the ending that a unit gives to the name of a column.
pub(crate) fn suffix(unit: &str) -> &'static str {
    match unit {
        "ms" => "_ms",
        "bit/s" => "_bps",
        "bytes" => "_bytes",
        "packets" => "_packets",
        _ => "",
    }
}

/// Returns the column of a metric.
pub(crate) fn metric_column(metric: &Metric) -> String {
    let unit = unit_name(metric.unit);
    format!("{}{}", metric.name.replace('-', "_"), suffix(unit))
}

/// Returns the metrics among a table's columns, which follow its own columns.
pub(crate) fn metrics_of(table: &str) -> impl Iterator<Item = &'static Metric> + use<'_> {
    let scopes: &[Scope] = match table {
        "runs" => &[Scope::Run, Scope::Flow],
        "flows" => &[Scope::Flow, Scope::EachFlow],
        "links" => &[Scope::Link],
        _ => &[],
    };
    METRICS
        .iter()
        .filter(|metric| scopes.contains(&metric.scope))
}

/// Returns the columns of a table, without the point, its settings and the seed.
pub(crate) fn of_table(table: &str) -> Vec<ColumnDoc> {
    let own = match table {
        "runs" => RUNS,
        "flows" => FLOWS,
        "paths" => PATHS,
        "links" => LINKS,
        "phases" => PHASES,
        "reasons" => REASONS,
        "expectations" => EXPECTATIONS,
        "frames" => FRAMES,
        "events" => EVENTS,
        "packets" => PACKETS,
        "path_series" => PATH_SERIES,
        "flow_series" => FLOW_SERIES,
        "link_series" => LINK_SERIES,
        other => panic!("no table is called {other:?}"),
    };
    let own = own.iter().map(|(name, kind, unit, about)| ColumnDoc {
        name: (*name).to_owned(),
        kind: *kind,
        unit,
        about,
    });
    let metrics = metrics_of(table).map(|metric| ColumnDoc {
        name: metric_column(metric),
        kind: Kind::Float,
        unit: unit_name(metric.unit),
        about: meaning(metric.name),
    });
    own.chain(metrics).collect()
}

/// Returns an empty table of (table, column, unit, meaning), and fills it with all columns.
pub(crate) fn documentation() -> Builder {
    let names = ["table", "column", "unit", "meaning"];
    let mut builder = Builder::new(names.map(|name| (name.to_owned(), Kind::Text)));
    for table in TABLES {
        let index = [
            ("point", "number of the point of the sweep, from 0"),
            ("seed", "seed of the run"),
        ];
        for (name, about) in index {
            builder.push([table, name, "", about].map(Into::into));
        }
        for column in of_table(table) {
            let cells = [table, column.name.as_str(), column.unit, column.about];
            builder.push(cells.map(Into::into));
        }
    }
    builder
}

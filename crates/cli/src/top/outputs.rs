//! The table of an output's receivers.

use anabranch_observe::status::{Connection, Output, Status};
use anabranch_observe::words::{self, Word};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Span;
use ratatui::widgets::{Cell, Row, Table};

use crate::view::ruled;

/// Value that is unknown.
const UNKNOWN: &str = "–";
/// Rows beside those of receivers: the title and the head.
const HEAD_ROWS: usize = 2;

/// A column: name, width and content.
struct Column {
    word: Word,
    width: u16,
    text: fn(&Connection) -> String,
}

/// Columns behind receiver and state.
const COLUMNS: [Column; 7] = [
    Column {
        word: words::RECEIVER_RATE,
        width: 6,
        text: |its| format!("{:.2}", its.sent_rate_bps.avg / 1e6),
    },
    Column {
        word: words::RECEIVER_RTT,
        width: 6,
        text: |its| {
            let rtt = its.rtt_s;
            rtt.map_or(UNKNOWN.to_owned(), |rtt| format!("{:.1}", rtt.avg * 1e3))
        },
    },
    Column {
        word: words::RECEIVER_LOSS,
        width: 6,
        text: |its| format!("{:.1}", its.loss_ratio * 100.0),
    },
    Column {
        word: words::MISSING,
        width: 7,
        text: |its| its.counters.lost_packets.to_string(),
    },
    Column {
        word: words::AGAIN,
        width: 6,
        text: |its| its.counters.retransmitted_packets.to_string(),
    },
    Column {
        word: words::DROPPED,
        width: 7,
        text: |its| its.counters.dropped_packets.to_string(),
    },
    Column {
        word: words::RECEIVER_LATENCY,
        width: 10,
        text: |its| format!("{:.0}", its.latency_s * 1e3),
    },
];
const STATE_WIDTH: u16 = 7;
/// Least width of a receiver's name: an address and its port.
const LEAST_NAME_WIDTH: u16 = 17;

/// Returns a row for each connection of the outputs of `stream`, and of those whose streams are not
/// shown; a row without a connection for an output that has none.
fn rows<'a>(status: &'a Status, stream: &str) -> Vec<(&'a Output, Option<&'a Connection>)> {
    let shown = status.outputs.iter().filter(|output| {
        output.stream == stream || !status.streams.iter().any(|of| of.name == output.stream)
    });
    let rows = shown.flat_map(|output| {
        let connections = output.connections.iter().map(Some);
        let none = output.connections.is_empty().then_some(None);
        connections.chain(none).map(move |row| (output, row))
    });
    rows.collect()
}

/// Returns the height of the table in rows; 0: there is nothing to show.
pub(super) fn height(status: &Status, stream: &str) -> usize {
    match rows(status, stream).len() {
        0 => 0,
        count => count + HEAD_ROWS,
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, status: &Status, stream: &str) {
    let heads = [words::RECEIVER.head, words::RECEIVER_STATE.head]
        .into_iter()
        .chain(COLUMNS.map(|column| column.word.head));
    let lines = rows(status, stream)
        .into_iter()
        .map(|(output, connection)| {
            let state = state(output, connection);
            let cells = COLUMNS.iter().map(|column| {
                let text = connection.map(column.text);
                Cell::from(text.unwrap_or_else(|| UNKNOWN.to_owned()))
            });
            let own = [Cell::from(name(output, connection)), Cell::from(state)];
            Row::new(own.into_iter().chain(cells))
        });
    let widths = [
        Constraint::Min(LEAST_NAME_WIDTH),
        Constraint::Length(STATE_WIDTH),
    ];
    let others = COLUMNS
        .iter()
        .map(|column| Constraint::Length(column.width));
    let table = Table::new(lines, widths.into_iter().chain(others))
        .header(Row::new(heads).style(Style::new().bold()));
    frame.render_widget(table.block(ruled("receivers by SRT")), area);
}

/// Returns the name of a receiver: the peer's address at a listener, first, as long names are cut.
fn name(output: &Output, connection: Option<&Connection>) -> String {
    let address = match connection {
        Some(connection) if output.mode == "listener" => {
            format!("{} at {}", connection.peer, output.name)
        }
        _ => output.name.clone(),
    };
    match connection.and_then(|connection| connection.stream_id.as_deref()) {
        Some(stream_id) => format!("{address}, {stream_id}"),
        None => address,
    }
}

fn state(output: &Output, connection: Option<&Connection>) -> Span<'static> {
    match connection {
        Some(connection) => match &*connection.state {
            "active" => "active".green(),
            other => other.to_owned().yellow().bold(),
        },
        None if output.mode == "caller" => "calling".yellow().bold(),
        None => "nobody".dim(),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_observe::status::{ConnectionCounters, Spread, Stream};

    use super::*;
    use crate::top::view::{View, text};
    use crate::view::History;

    fn output(stream: &str, mode: &str, connections: Vec<Connection>) -> Output {
        Output {
            name: format!("srt://{stream}.example:9000"),
            stream: stream.to_owned(),
            mode: mode.to_owned(),
            connections,
            ..Output::default()
        }
    }

    fn spread(avg: f64) -> Spread {
        Spread {
            avg,
            ..Spread::default()
        }
    }

    fn connection(peer: &str, state: &str) -> Connection {
        Connection {
            peer: peer.to_owned(),
            stream_id: Some("front/1".to_owned()),
            state: state.to_owned(),
            latency_s: 0.4,
            sent_rate_bps: spread(2.5e6),
            rtt_s: Some(spread(0.0414)),
            loss_ratio: 0.021,
            counters: ConnectionCounters {
                lost_packets: 77,
                retransmitted_packets: 81,
                dropped_packets: 3,
                ..ConnectionCounters::default()
            },
            ..Connection::default()
        }
    }

    fn shown(streams: &[&str], width: u16) -> String {
        let streams = streams.iter().map(|name| Stream {
            name: (*name).to_owned(),
            ..Stream::default()
        });
        let receivers = vec![
            connection("192.0.2.1:50000", "active"),
            connection("192.0.2.2:50001", "ending"),
        ];
        let mut history = History::default();
        history.add(Status {
            role: "recv".to_owned(),
            streams: streams.collect(),
            outputs: vec![
                output("front", "listener", receivers),
                output("roof", "caller", Vec::new()),
                output("yard", "listener", Vec::new()),
            ],
            ..Status::default()
        });
        let mut view = View::new("127.0.0.1:9797".to_owned());
        view.of_stream.history = history;
        text(&view, width)
    }

    /// Returns the row that begins with `name`, with single spaces.
    fn row(shown: &str, name: &str) -> String {
        let line = shown
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name} in\n{shown}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn receivers_of_the_chosen_stream_are_shown_and_of_streams_that_do_not_run() {
        let shown = shown(&["front", "yard"], 120);
        let address = "at srt://front.example:9000, front/1";
        let values = "2.50 41.4 2.1 77 81 3 400";
        for (peer, state) in [("192.0.2.1:50000", "active"), ("192.0.2.2:50001", "ending")] {
            let expected = format!("{peer} {address} {state} {values}");
            assert_eq!(row(&shown, peer), expected);
        }
        assert!(row(&shown, "srt://roof.example:9000").contains(" calling –"));
        assert!(!shown.contains("yard.example"), "{shown}");
    }

    #[test]
    fn receivers_are_shown_before_the_first_session_and_fit_80_columns() {
        let shown = shown(&[], 80);
        assert!(shown.contains("no session yet"), "{shown}");
        for part in ["192.0.2.1:50000", "nobody", "latency ms", " 400"] {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
    }
}

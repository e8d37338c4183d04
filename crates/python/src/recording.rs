//! Rows of a run's trace, kept in memory.

use std::collections::BTreeMap;

use anabranch_lab::trace::{
    EventRow, FlowRow, FrameRow, LinkRow, PacketRow, PathRow, TraceError, TraceSink, Wants,
};

use crate::builder::{Builder, Cell};
use crate::columns;
use crate::settings::Index;

/// Names of the traces that may be asked for.
pub(crate) const TRACES: [&str; 4] = ["frames", "events", "packets", "series"];

/// Traces that a caller asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traces {
    pub(crate) frames: bool,
    pub(crate) events: bool,
    pub(crate) packets: bool,
    pub(crate) series: bool,
}

impl Traces {
    /// Returns the traces of these names; the error is the first unknown one.
    pub(crate) fn of(names: &[String]) -> Result<Traces, String> {
        let mut traces = Traces::default();
        for name in names {
            match name.as_str() {
                "frames" => traces.frames = true,
                "events" => traces.events = true,
                "packets" => traces.packets = true,
                "series" => traces.series = true,
                _ => {
                    let known = anabranch_units::known_names(name, TRACES);
                    return Err(format!("no trace is called {name:?}; known are {known}"));
                }
            }
        }
        Ok(traces)
    }

    /// Whether any is asked for.
    pub(crate) fn any(self) -> bool {
        self.frames || self.events || self.packets || self.series
    }

    /// Returns the tables that these traces fill.
    pub(crate) fn tables(self) -> Vec<&'static str> {
        let tables = [
            (self.frames, "frames"),
            (self.events, "events"),
            (self.packets, "packets"),
            (self.series, "path_series"),
            (self.series, "flow_series"),
            (self.series, "link_series"),
        ];
        let asked = tables.into_iter().filter(|(is_asked, _)| *is_asked);
        asked.map(|(_, table)| table).collect()
    }
}

/// The traces of one run, in tables that have the index of all others.
#[derive(Debug)]
pub(crate) struct Recording<'a> {
    traces: Traces,
    index: Index<'a>,
    tables: BTreeMap<&'static str, Builder>,
    /// Last states of paths and controllers, by flow and path.
    states: BTreeMap<(String, u8), [&'static str; 2]>,
}

impl<'a> Recording<'a> {
    /// Returns an empty recording of a run with this index.
    pub(crate) fn new(traces: Traces, index: Index<'a>) -> Recording<'a> {
        let tables = traces
            .tables()
            .into_iter()
            .map(|name| (name, index.builder(columns::of_table(name))))
            .collect();
        Recording {
            traces,
            index,
            tables,
            states: BTreeMap::new(),
        }
    }

    /// Returns the tables.
    pub(crate) fn into_tables(self) -> BTreeMap<&'static str, Builder> {
        self.tables
    }

    fn push<const N: usize>(&mut self, table: &str, cells: [Cell<'_>; N]) {
        if let Some(builder) = self.tables.get_mut(table) {
            builder.push(self.index.cells().chain(cells));
        }
    }

    /// Records the changes of states since the last row of the path.
    fn note_states(&mut self, row: &PathRow<'_>) {
        if row.state.is_empty() {
            return;
        }
        let now = [row.state, row.controller_state];
        let before = self
            .states
            .insert((row.flow.to_owned(), row.path), now)
            .unwrap_or([""; 2]);
        for (at, event) in ["path-state", "controller-state"].into_iter().enumerate() {
            if before[at] != now[at] {
                let path = Some(f64::from(row.path));
                let cells = [
                    row.time_s.into(),
                    row.flow.into(),
                    path.into(),
                    event.into(),
                    now[at].into(),
                    Cell::Float(None),
                ];
                self.push("events", cells);
            }
        }
    }
}

/// Returns a text as a cell; the empty text is a missing one.
fn or_missing(text: &str) -> Cell<'_> {
    Cell::Text((!text.is_empty()).then_some(text))
}

impl TraceSink for Recording<'_> {
    fn wants(&self) -> Wants {
        Wants {
            samples: self.traces.series || self.traces.events,
            packets: self.traces.packets,
        }
    }

    fn on_path(&mut self, row: &PathRow<'_>) -> Result<(), TraceError> {
        if self.traces.events {
            self.note_states(row);
        }
        let cells = [
            row.time_s.into(),
            row.flow.into(),
            row.path.into(),
            row.route.into(),
            row.sent_bps.into(),
            row.delivered_bps.into(),
            row.dropped_packets.into(),
            row.delay_ms.into(),
            row.smoothed_rtt_ms.into(),
            row.bandwidth_bps.into(),
            row.pacing_rate_bps.into(),
            row.congestion_window_bytes.into(),
            row.bytes_in_flight.into(),
            row.queued_bytes.into(),
            or_missing(row.state),
            or_missing(row.controller_state),
        ];
        self.push("path_series", cells);
        Ok(())
    }

    fn on_flow(&mut self, row: &FlowRow<'_>) -> Result<(), TraceError> {
        let cells = [
            row.time_s.into(),
            row.flow.into(),
            row.delivered_bps.into(),
            row.target_bps.into(),
        ];
        self.push("flow_series", cells);
        Ok(())
    }

    fn on_link(&mut self, row: &LinkRow<'_>) -> Result<(), TraceError> {
        let cells = [
            row.time_s.into(),
            row.link.into(),
            row.delivered_bps.into(),
            row.queued_bytes.into(),
            row.dropped_packets.into(),
        ];
        self.push("link_series", cells);
        Ok(())
    }

    fn on_frame(&mut self, row: &FrameRow<'_>) -> Result<(), TraceError> {
        let cells = [
            row.captured_s.into(),
            row.flow.into(),
            row.frame.into(),
            row.importance.into(),
            row.bytes.into(),
            row.outcome.into(),
            row.delay_ms.into(),
        ];
        self.push("frames", cells);
        Ok(())
    }

    fn on_packet(&mut self, row: &PacketRow<'_>) -> Result<(), TraceError> {
        let cells = [
            row.time_s.into(),
            row.event.into(),
            row.flow.into(),
            row.path.into(),
            row.direction.into(),
            row.bytes.into(),
            row.delay_ms.into(),
            row.link.into(),
            row.cause.into(),
            row.reason.into(),
        ];
        self.push("packets", cells);
        Ok(())
    }

    fn on_event(&mut self, row: &EventRow<'_>) -> Result<(), TraceError> {
        let cells = [
            row.time_s.into(),
            row.flow.into(),
            Cell::Float(None),
            row.event.into(),
            Cell::Text(None),
            row.duration_ms.into(),
        ];
        self.push("events", cells);
        Ok(())
    }
}

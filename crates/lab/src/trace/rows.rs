//! Rows of traces, and their consumers. `docs/scenarios.md` describes the columns.

use serde::Serialize;

use super::TraceError;

/// Consumer of the rows of one run. A consumer without use for some rows leaves their methods out.
pub trait TraceSink: core::fmt::Debug + Send {
    /// Returns the rows that the consumer wants; others are not made.
    fn wants(&self) -> Wants;

    /// Takes a path's row.
    ///
    /// # Errors
    /// [`TraceError`], if it cannot be kept, as the other methods.
    fn on_path(&mut self, _row: &PathRow<'_>) -> Result<(), TraceError> {
        Ok(())
    }

    /// Takes a flow's row.
    ///
    /// # Errors
    /// As [`TraceSink::on_path`].
    fn on_flow(&mut self, _row: &FlowRow<'_>) -> Result<(), TraceError> {
        Ok(())
    }

    /// Takes a link's row.
    ///
    /// # Errors
    /// As [`TraceSink::on_path`].
    fn on_link(&mut self, _row: &LinkRow<'_>) -> Result<(), TraceError> {
        Ok(())
    }

    /// Takes a frame's row.
    ///
    /// # Errors
    /// As [`TraceSink::on_path`].
    fn on_frame(&mut self, _row: &FrameRow<'_>) -> Result<(), TraceError> {
        Ok(())
    }

    /// Takes a packet's row.
    ///
    /// # Errors
    /// As [`TraceSink::on_path`].
    fn on_packet(&mut self, _row: &PacketRow<'_>) -> Result<(), TraceError> {
        Ok(())
    }

    /// Takes an event's row.
    ///
    /// # Errors
    /// As [`TraceSink::on_path`].
    fn on_event(&mut self, _row: &EventRow<'_>) -> Result<(), TraceError> {
        Ok(())
    }

    /// Writes the rest that is still in memory, at the end of the run.
    ///
    /// # Errors
    /// As [`TraceSink::on_path`].
    fn finish(&mut self) -> Result<(), TraceError> {
        Ok(())
    }
}

/// Kinds of rows that a consumer wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Rows of paths, flows and links, each every 100 ms.
    pub samples: bool,
    /// A row for each event of a datagram.
    pub packets: bool,
}

/// The columns of `paths.csv`. Rates in bit/s, delays in ms.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "docs/scenarios.md describes the columns")]
pub struct PathRow<'a> {
    pub time_s: f64,
    pub flow: &'a str,
    pub path: u8,
    pub route: &'a str,
    pub sent_bps: f64,
    pub delivered_bps: f64,
    pub dropped_packets: u64,
    pub delay_ms: Option<f64>,
    pub smoothed_rtt_ms: Option<f64>,
    pub bandwidth_bps: Option<u64>,
    pub pacing_rate_bps: Option<u64>,
    pub congestion_window_bytes: Option<u64>,
    pub bytes_in_flight: Option<u64>,
    pub queued_bytes: Option<u64>,
    pub state: &'static str,
    pub controller_state: &'static str,
}

/// The columns of `flows.csv`.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "docs/scenarios.md describes the columns")]
pub struct FlowRow<'a> {
    pub time_s: f64,
    pub flow: &'a str,
    pub delivered_bps: f64,
    pub target_bps: Option<u64>,
}

/// The columns of `links.csv`.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "docs/scenarios.md describes the columns")]
pub struct LinkRow<'a> {
    pub time_s: f64,
    pub link: &'a str,
    pub delivered_bps: f64,
    pub queued_bytes: u64,
    pub dropped_packets: u64,
}

/// The columns of `frames.csv`.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "docs/scenarios.md describes the columns")]
pub struct FrameRow<'a> {
    pub captured_s: f64,
    pub flow: &'a str,
    pub frame: u64,
    pub importance: &'static str,
    pub bytes: u32,
    pub outcome: &'static str,
    pub delay_ms: f64,
}

/// The columns of `packets.csv`.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "docs/scenarios.md describes the columns")]
pub struct PacketRow<'a> {
    pub time_s: f64,
    pub event: &'static str,
    pub flow: &'a str,
    pub path: u8,
    pub direction: &'static str,
    pub bytes: u32,
    pub delay_ms: Option<f64>,
    pub link: Option<&'a str>,
    pub cause: Option<&'static str>,
    pub reason: Option<&'static str>,
}

/// An event of a flow as a whole. No file has these rows.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EventRow<'a> {
    /// Time since the start of the run.
    pub time_s: f64,
    /// Name of the flow.
    pub flow: &'a str,
    /// `frame-abandoned`: the sender gave a frame up before its first packet. `stream-finished`: a
    /// stream has arrived to its end.
    pub event: &'static str,
    /// Time from the stream's beginning to its end.
    pub duration_ms: Option<f64>,
}

//! Traces of a run: rows for a [`TraceSink`], such as CSV files that stream to disk.
//!
//! | file | a row is |
//! |---|---|
//! | `paths.csv` | a path of a flow over the last 100 ms |
//! | `flows.csv` | a flow over the last 100 ms |
//! | `links.csv` | a link over the last 100 ms |
//! | `frames.csv` | a frame of video |
//! | `packets.csv` | a datagram sent, delivered or dropped; only if asked for |

mod csv;
mod rows;

use std::path::PathBuf;

use crate::scenario::Scenario;
use anabranch_core::{PathId, SendReason};
use anabranch_link::DropCause;
use anabranch_sim::{
    Direction, FlowId, FrameEvent, FrameOutcome, LinkId, Observer, PacketEvent, World,
};
use anabranch_units::{Duration, Importance, Instant};
pub(crate) use csv::CsvFiles;
pub use csv::CsvTexts;
pub use rows::{EventRow, FlowRow, FrameRow, LinkRow, PacketRow, PathRow, TraceSink, Wants};

/// Interval between samples of rates and queues.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Contents of traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    /// Whether every datagram is written: some 100 bytes each.
    pub has_packets: bool,
}

/// A trace that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct TraceError {
    /// The file or folder.
    path: PathBuf,
    /// Cause of the failure.
    #[source]
    source: ::csv::Error,
}

impl TraceError {
    pub(crate) fn new(path: PathBuf, source: ::csv::Error) -> TraceError {
        TraceError { path, source }
    }
}

/// Event of a packet.
#[derive(Clone, Copy, Debug)]
struct PacketEntry {
    at: Instant,
    packet: PacketEvent,
    packet_outcome: PacketOutcome,
}

#[derive(Clone, Copy, Debug)]
enum PacketOutcome {
    Sent,
    Delivered { delay: Duration },
    Dropped { link: LinkId, cause: DropCause },
}

/// Counts of a path since the last sample.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    sent_bytes: u64,
    delivered_bytes: u64,
    delivered_packets: u64,
    dropped_packets: u64,
    delay: Duration,
}

/// Makes the rows of one run.
#[derive(Debug)]
pub(crate) struct TraceWriter<'a> {
    names: Names,
    sink: &'a mut dyn TraceSink,
    wants: Wants,
    /// Events of packets since the last sample: they come flow by flow, and are written in the
    /// order of time.
    packet_entries: Vec<PacketEntry>,
    samples: Vec<Vec<Sample>>,
    link_statistics: Vec<anabranch_link::LinkStatistics>,
    /// First error of the calls that cannot return one.
    error: Option<TraceError>,
}

#[derive(Debug)]
struct Names {
    flows: Vec<String>,
    links: Vec<String>,
    /// By flow and path.
    routes: Vec<Vec<String>>,
}

impl<'a> TraceWriter<'a> {
    pub(crate) fn new(sink: &'a mut dyn TraceSink, scenario: &Scenario) -> TraceWriter<'a> {
        let flows = &scenario.flows;
        TraceWriter {
            names: Names {
                flows: flows.iter().map(|flow| flow.name.clone()).collect(),
                links: scenario
                    .links
                    .iter()
                    .map(|link| link.name.clone())
                    .collect(),
                routes: flows
                    .iter()
                    .map(|flow| {
                        flow.paths
                            .iter()
                            .map(|path| scenario.routes[path.route].name.clone())
                            .collect()
                    })
                    .collect(),
            },
            wants: sink.wants(),
            sink,
            packet_entries: Vec::new(),
            samples: flows
                .iter()
                .map(|flow| vec![Sample::default(); flow.paths.len()])
                .collect(),
            link_statistics: vec![Default::default(); scenario.links.len()],
            error: None,
        }
    }

    /// Returns whether [`TraceWriter::sample`] makes any rows.
    pub(crate) fn wants_samples(&self) -> bool {
        self.wants.samples || self.wants.packets
    }

    /// Writes a row for every path, flow and link.
    pub(crate) fn sample(&mut self, world: &mut World) -> Result<(), TraceError> {
        let time_s = world.now().as_secs_f64();
        self.write_packets()?;
        if !self.wants.samples {
            return Ok(());
        }
        for flow in 0..self.names.flows.len() {
            self.sample_flow(time_s, FlowId(flow as u32), world)?;
        }
        for (index, before) in self.link_statistics.iter_mut().enumerate() {
            let statistics = world.link_statistics(LinkId(index as u32));
            let since = statistics.since(before);
            self.sink.on_link(&LinkRow {
                time_s,
                link: &self.names.links[index],
                delivered_bps: since.delivered_rate().bits_per_second() as f64,
                queued_bytes: statistics.queued_bytes,
                dropped_packets: since.dropped.total(),
            })?;
            *before = statistics;
        }
        Ok(())
    }

    fn sample_flow(
        &mut self,
        time_s: f64,
        flow: FlowId,
        world: &mut World,
    ) -> Result<(), TraceError> {
        fn per_second(bytes: u64) -> f64 {
            bytes as f64 * 8.0 / SAMPLE_INTERVAL.as_secs_f64()
        }
        let name = &self.names.flows[flow.index()];
        let mut delivered_bytes = 0;
        let is_session = world.is_session(flow);
        let views = if is_session {
            world.sender_paths(flow)
        } else {
            Vec::new()
        };
        for path in 0..self.samples[flow.index()].len() {
            let sample = std::mem::take(&mut self.samples[flow.index()][path]);
            let view = views.get(path);
            delivered_bytes += sample.delivered_bytes;
            let delay = sample.delay.as_millis_f64();
            self.sink.on_path(&PathRow {
                time_s,
                flow: name,
                path: path as u8,
                route: &self.names.routes[flow.index()][path],
                sent_bps: per_second(sample.sent_bytes),
                delivered_bps: per_second(sample.delivered_bytes),
                dropped_packets: sample.dropped_packets,
                delay_ms: (sample.delivered_packets > 0)
                    .then(|| delay / sample.delivered_packets as f64),
                smoothed_rtt_ms: view
                    .and_then(|view| view.rtt.smoothed)
                    .map(Duration::as_millis_f64),
                bandwidth_bps: view.map(|view| view.bandwidth.bits_per_second()),
                pacing_rate_bps: view
                    .and_then(|view| view.pacing_rate)
                    .map(|rate| rate.bits_per_second()),
                congestion_window_bytes: view.and_then(|view| view.congestion_window),
                bytes_in_flight: view.map(|view| view.bytes_in_flight),
                queued_bytes: view.map(|view| view.queued_bytes),
                state: view.map_or("", |view| path_state_name(view.state)),
                controller_state: if is_session {
                    world.controller_state(flow, PathId(path as u8))
                } else {
                    ""
                },
            })?;
        }
        self.sink.on_flow(&FlowRow {
            time_s,
            flow: name,
            delivered_bps: per_second(delivered_bytes),
            target_bps: is_session.then(|| world.target_bitrate(flow).bits_per_second()),
        })
    }

    /// Writes the rest that is still in memory.
    pub(crate) fn finish(mut self) -> Result<(), TraceError> {
        self.write_packets()?;
        if let Some(error) = self.error {
            return Err(error);
        }
        self.sink.finish()
    }

    fn data_sample(&mut self, packet: &PacketEvent) -> Option<&mut Sample> {
        (packet.direction == Direction::Forward)
            .then(|| &mut self.samples[packet.flow.index()][packet.path.index()])
    }

    fn event(&mut self, at: Instant, flow: FlowId, event: &'static str, took: Option<Duration>) {
        let written = self.sink.on_event(&EventRow {
            time_s: at.as_secs_f64(),
            flow: &self.names.flows[flow.index()],
            event,
            duration_ms: took.map(Duration::as_millis_f64),
        });
        self.error = self.error.take().or(written.err());
    }

    fn record(&mut self, at: Instant, packet: &PacketEvent, packet_outcome: PacketOutcome) {
        if self.wants.packets {
            let packet = *packet;
            self.packet_entries.push(PacketEntry {
                at,
                packet,
                packet_outcome,
            });
        }
    }

    fn write_packets(&mut self) -> Result<(), TraceError> {
        self.packet_entries.sort_by_key(|record| record.at);
        for PacketEntry {
            at,
            packet,
            packet_outcome,
        } in self.packet_entries.drain(..)
        {
            let (event, delay, dropped) = match packet_outcome {
                PacketOutcome::Sent => ("sent", None, None),
                PacketOutcome::Delivered { delay } => ("delivered", Some(delay), None),
                PacketOutcome::Dropped { link, cause } => ("dropped", None, Some((link, cause))),
            };
            self.sink.on_packet(&PacketRow {
                time_s: at.as_secs_f64(),
                event,
                flow: &self.names.flows[packet.flow.index()],
                path: packet.path.0,
                direction: match packet.direction {
                    Direction::Forward => "forward",
                    Direction::Reverse => "reverse",
                },
                bytes: packet.size_bytes,
                delay_ms: delay.map(Duration::as_millis_f64),
                link: dropped.map(|(link, _)| self.names.links[link.index()].as_str()),
                cause: dropped.map(|(_, cause)| cause.name()),
                reason: packet.reason.map(SendReason::name),
            })?;
        }
        Ok(())
    }
}

impl Observer for TraceWriter<'_> {
    fn on_sent(&mut self, now: Instant, packet: &PacketEvent) {
        if let Some(sample) = self.data_sample(packet) {
            sample.sent_bytes += u64::from(packet.size_bytes);
        }
        self.record(now, packet, PacketOutcome::Sent);
    }

    fn on_delivered(&mut self, now: Instant, packet: &PacketEvent, delay: Duration) {
        if let Some(sample) = self.data_sample(packet) {
            sample.delivered_bytes += u64::from(packet.size_bytes);
            sample.delivered_packets += 1;
            sample.delay += delay;
        }
        self.record(now, packet, PacketOutcome::Delivered { delay });
    }

    fn on_dropped(&mut self, now: Instant, packet: &PacketEvent, link: LinkId, cause: DropCause) {
        if let Some(sample) = self.data_sample(packet) {
            sample.dropped_packets += 1;
        }
        self.record(now, packet, PacketOutcome::Dropped { link, cause });
    }

    fn on_frame_outcome(&mut self, now: Instant, frame: &FrameEvent, outcome: FrameOutcome) {
        let (outcome, over_at) = match outcome {
            FrameOutcome::Complete { completed_at } => ("complete", completed_at),
            FrameOutcome::Incomplete => ("incomplete", now),
            FrameOutcome::Missing => ("missing", now),
        };
        let written = self.sink.on_frame(&FrameRow {
            captured_s: frame.captured_at.as_secs_f64(),
            flow: &self.names.flows[frame.flow.index()],
            frame: frame.index,
            importance: match frame.importance {
                Importance::Key => "key",
                Importance::Reference => "reference",
                Importance::Disposable => "disposable",
            },
            bytes: frame.size_bytes,
            outcome,
            delay_ms: (over_at - frame.captured_at).as_millis_f64(),
        });
        self.error = self.error.take().or(written.err());
    }

    fn on_frame_abandoned(&mut self, now: Instant, flow: FlowId) {
        self.event(now, flow, "frame-abandoned", None);
    }

    fn on_stream_finished(&mut self, now: Instant, flow: FlowId, began_at: Instant) {
        self.event(now, flow, "stream-finished", Some(now - began_at));
    }
}

fn path_state_name(state: anabranch_core::PathState) -> &'static str {
    use anabranch_core::PathState::{Active, Out, Removed, Suspect};
    match state {
        Active => "active",
        Suspect => "suspect",
        Out => "out",
        Removed => "removed",
    }
}

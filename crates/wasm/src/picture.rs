//! Observer that collects the events that a page draws.

use anabranch_link::{DropCause, LinkStatistics};
use anabranch_sim::{
    Direction, FlowId, FrameEvent, FrameOutcome, LinkId, Observer, PacketEvent, World,
};
use anabranch_units::{Duration, Importance, Instant};
use serde::Serialize;

use crate::packets::{Packets, millis};
use crate::summary::Summary;

/// Interval between samples of rates and queues.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Events since the last report.
#[derive(Debug)]
pub(crate) struct Picture {
    packets: Packets,
    deadlines_ms: Vec<Option<f64>>,
    frames: Vec<f64>,
    /// By flow and path, since the last sample.
    counts: Vec<Vec<PathCount>>,
    /// Bytes of streams by flow, since the last sample.
    stream_bytes: Vec<u64>,
    link_baselines: Vec<LinkStatistics>,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PathCount {
    bytes: u64,
    packets: u64,
    delay: Duration,
}

/// Rates and queues over the last [`SAMPLE_INTERVAL`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Sample {
    at_ms: f64,
    links: Vec<LinkSample>,
    flows: Vec<FlowSample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct LinkSample {
    queued_bytes: u64,
    /// Transit time of a packet that enters now; `None`: it would not leave.
    transit_ms: Option<f64>,
    delivered_bps: u64,
    dropped: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct FlowSample {
    /// Bitrate requested of the encoder.
    target_bps: Option<u64>,
    /// Bytes of a stream that have arrived in order.
    stream_bytes: u64,
    paths: Vec<PathSample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct PathSample {
    delivered_bps: u64,
    /// Mean one-way delay of delivered packets.
    delay_ms: Option<f64>,
    /// The controller's estimate of the bandwidth.
    bandwidth_bps: Option<u64>,
    rtt_ms: Option<f64>,
    state: &'static str,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Part {
    pub(crate) now_ms: f64,
    pub(crate) is_over: bool,
    /// Hash of all events so far.
    pub(crate) hash: String,
    /// Number of the first packet of `sent`.
    first: u64,
    /// Sent packets; see [`Packets::take`].
    sent: Vec<f64>,
    /// Packets that have arrived or were lost.
    ended: Vec<f64>,
    /// Frames with their outcomes, five columns: flow, time of capture in ms, 0 for a frame in
    /// time, 1 for a late one and 2 for one that never came, its delay in ms, 1 for key frames.
    frames: Vec<f64>,
    samples: Vec<Sample>,
}

/// Size of the packet by which transit times are estimated.
const PACKET_BYTES: u32 = 1_200;

impl Picture {
    pub(crate) fn new(summary: &Summary) -> Picture {
        let flows = &summary.flows;
        let path_counts = flows.iter().map(|flow| flow.paths.len());
        Picture {
            packets: Packets::new(path_counts.clone()),
            deadlines_ms: flows.iter().map(|flow| flow.deadline_ms).collect(),
            frames: Vec::new(),
            counts: path_counts
                .map(|count| vec![PathCount::default(); count])
                .collect(),
            stream_bytes: vec![0; flows.len()],
            link_baselines: vec![LinkStatistics::default(); summary.links.len()],
            samples: Vec::new(),
        }
    }

    /// Returns everything since the last call.
    pub(crate) fn take(&mut self, now: Instant, is_over: bool, hash: String) -> Part {
        let (first, sent, ended) = self.packets.take();
        Part {
            now_ms: millis(now),
            is_over,
            hash,
            first,
            sent,
            ended,
            frames: std::mem::take(&mut self.frames),
            samples: std::mem::take(&mut self.samples),
        }
    }

    /// Samples rates and queues.
    pub(crate) fn sample(&mut self, world: &mut World) {
        let links = self
            .link_baselines
            .iter_mut()
            .enumerate()
            .map(|(index, baseline)| {
                let link = LinkId(index as u32);
                let statistics = world.link_statistics(link);
                let since = statistics.since(baseline);
                *baseline = statistics;
                let transit = world.one_way_delay(link, PACKET_BYTES);
                LinkSample {
                    queued_bytes: statistics.queued_bytes,
                    transit_ms: transit.map(Duration::as_millis_f64),
                    delivered_bps: since.delivered_rate().bits_per_second(),
                    dropped: since.dropped.total(),
                }
            });
        let links: Vec<LinkSample> = links.collect();
        let flows = self
            .counts
            .iter_mut()
            .zip(&mut self.stream_bytes)
            .enumerate()
            .map(|(index, (counts, stream_bytes))| {
                let flow = FlowId(index as u32);
                FlowSample::take(flow, counts, stream_bytes, world)
            });
        let flows: Vec<FlowSample> = flows.collect();
        self.samples.push(Sample {
            at_ms: millis(world.now()),
            links,
            flows,
        });
    }
}

impl FlowSample {
    fn take(
        flow: FlowId,
        counts: &mut [PathCount],
        stream_bytes: &mut u64,
        world: &mut World,
    ) -> FlowSample {
        let is_session = world.is_session(flow);
        let target = is_session.then(|| world.target_bitrate(flow).bits_per_second());
        let views = if is_session {
            world.sender_paths(flow)
        } else {
            Vec::new()
        };
        let paths = counts.iter_mut().enumerate().map(|(index, count)| {
            let PathCount {
                bytes,
                packets,
                delay,
            } = std::mem::take(count);
            let view = views.get(index);
            let rtt = view.and_then(|view| view.rtt.smoothed);
            let per_second = bytes as f64 * 8.0 / SAMPLE_INTERVAL.as_secs_f64();
            PathSample {
                delivered_bps: per_second as u64,
                delay_ms: (packets > 0).then(|| delay.as_millis_f64() / packets as f64),
                bandwidth_bps: view.map(|view| view.bandwidth.bits_per_second()),
                rtt_ms: rtt.map(Duration::as_millis_f64),
                state: view.map_or("", |view| path_state(view.state)),
            }
        });
        FlowSample {
            target_bps: target.filter(|bps| *bps > 0),
            stream_bytes: std::mem::take(stream_bytes),
            paths: paths.collect(),
        }
    }
}

fn path_state(state: anabranch_core::PathState) -> &'static str {
    use anabranch_core::PathState::{Active, Out, Removed, Suspect};
    match state {
        Active => "active",
        Suspect => "suspect",
        Out => "out",
        Removed => "removed",
    }
}

impl Observer for Picture {
    fn on_sent(&mut self, now: Instant, packet: &PacketEvent) {
        self.packets.send(now, packet);
    }

    fn on_delivered(&mut self, now: Instant, packet: &PacketEvent, delay: Duration) {
        self.packets.deliver(now, packet, delay);
        if packet.direction == Direction::Forward
            && let Some(paths) = self.counts.get_mut(packet.flow.index())
            && let Some(count) = paths.get_mut(packet.path.index())
        {
            count.bytes += u64::from(packet.size_bytes);
            count.packets += 1;
            count.delay += delay;
        }
    }

    fn on_dropped(&mut self, now: Instant, packet: &PacketEvent, link: LinkId, _: DropCause) {
        self.packets.drop(now, packet, link);
    }

    fn on_frame_outcome(&mut self, now: Instant, frame: &FrameEvent, outcome: FrameOutcome) {
        let Some(deadline_ms) = self.deadlines_ms.get(frame.flow.index()) else {
            return;
        };
        let (over_at, is_complete) = match outcome {
            FrameOutcome::Complete { completed_at } => (completed_at, true),
            FrameOutcome::Incomplete | FrameOutcome::Missing => (now, false),
        };
        let delay_ms = (over_at - frame.captured_at).as_millis_f64();
        let is_late = deadline_ms.is_some_and(|deadline_ms| delay_ms > deadline_ms);
        self.frames.extend([
            frame.flow.index() as f64,
            millis(frame.captured_at),
            match (is_complete, is_late) {
                (true, false) => 0.0,
                (true, true) => 1.0,
                (false, _) => 2.0,
            },
            delay_ms,
            f64::from(u8::from(frame.importance == Importance::Key)),
        ]);
    }

    fn on_stream_delivered(&mut self, _now: Instant, flow: FlowId, bytes: u64) {
        if let Some(sum) = self.stream_bytes.get_mut(flow.index()) {
            *sum += bytes;
        }
    }
}

//! Course of a run over time: sums over equal intervals, which add up to any window of them.

use anabranch_core::{PathId, PathView};
use anabranch_link::DropCause;
use anabranch_sim::{
    Direction, FlowId, FrameEvent, FrameOutcome, LinkId, Observer, PacketEvent, World,
};
use anabranch_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// A run cut into intervals; entry `i` of every list covers the time from `i` to `i + 1` intervals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Length of an interval.
    pub interval_ms: u64,
    /// Each flow, in the scenario's order.
    pub flows: Vec<FlowSeries>,
    /// Each link, in the scenario's order.
    pub links: Vec<LinkSeries>,
}

/// Series of a flow. Packets and bytes are those from sender to receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSeries {
    /// Its name.
    pub name: String,
    /// Its beginning.
    pub start_ms: u64,
    /// Its end, if before that of the run.
    pub stop_ms: Option<u64>,
    /// Bytes handed to the network.
    pub sent_bytes: Vec<u64>,
    /// Packets handed to the network.
    pub sent_packets: Vec<u64>,
    /// Bytes that arrived.
    pub delivered_bytes: Vec<u64>,
    /// Packets that arrived.
    pub delivered_packets: Vec<u64>,
    /// Packets that links lost.
    pub dropped_packets: Vec<u64>,
    /// Packets that the receiver sent back.
    pub feedback_packets: Vec<u64>,
    /// Sum of the one-way delays of those that arrived.
    pub delay_nanos: Vec<u64>,
    /// Longest time from a frame's capture to its last fragment's arrival.
    pub frame_delay_max_nanos: Vec<u64>,
    /// Complete frames.
    pub frames: Vec<u64>,
    /// Sum of their delays, from capture to the last fragment's arrival.
    pub frame_delay_nanos: Vec<u64>,
    /// Bandwidth estimate of all paths' controllers together, at the interval's end; zero while the
    /// flow does not run.
    pub bandwidth_bits_per_second: Vec<u64>,
    /// States of the first path's controller at the ends of intervals, each with the end at which
    /// it was first seen.
    pub states: Vec<(u64, String)>,
    /// Its largest packet, the unit of windows in packets.
    pub packet_bytes: u64,
    /// Paths of a flow that has several, in the scenario's order.
    pub paths: Vec<PathSeries>,
}

/// Series of a flow on one of its paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathSeries {
    /// The route that it takes.
    pub route: String,
    /// Bytes handed to the network.
    pub sent_bytes: Vec<u64>,
    /// Bytes that arrived.
    pub delivered_bytes: Vec<u64>,
    /// The congestion window at the interval's end; zero: the controller has none.
    pub congestion_window_bytes: Vec<u64>,
    /// Bytes in flight at the interval's end.
    pub bytes_in_flight: Vec<u64>,
    /// The smoothed round-trip time at the interval's end; zero while it is unknown.
    pub smoothed_rtt_nanos: Vec<u64>,
}

/// Series of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSeries {
    /// Its name.
    pub name: String,
    /// Bytes queued at the interval's end, the packet in service included.
    pub queued_bytes: Vec<u64>,
    /// Time in which it was sending.
    pub busy_nanos: Vec<u64>,
    /// Bytes that left it.
    pub delivered_bytes: Vec<u64>,
    /// Packets that it lost.
    pub dropped_packets: Vec<u64>,
}

/// One flow's interval that is not over yet.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    sent_bytes: u64,
    sent_packets: u64,
    delivered_bytes: u64,
    delivered_packets: u64,
    dropped_packets: u64,
    feedback_packets: u64,
    delay_nanos: u64,
    frame_delay_max_nanos: u64,
    frames: u64,
    frame_delay_nanos: u64,
}

/// The same of one of several paths.
#[derive(Clone, Copy, Debug, Default)]
struct PathInterval {
    sent_bytes: u64,
    delivered_bytes: u64,
}

/// Observes a run. The driver calls [`SeriesRecorder::at_interval`] at each interval's end.
#[derive(Debug)]
pub(crate) struct SeriesRecorder {
    series: Series,
    current: Vec<Interval>,
    /// By flow and path; empty for flows with one path.
    current_paths: Vec<Vec<PathInterval>>,
    link_baselines: Vec<anabranch_link::LinkStatistics>,
}

impl SeriesRecorder {
    pub(crate) fn new(scenario: &Scenario, interval: Duration) -> SeriesRecorder {
        let end = Instant::ZERO + scenario.duration;
        let mut flows = Vec::new();
        for flow in &scenario.flows {
            let stop = flow.stop.filter(|stop| *stop < end);
            flows.push(FlowSeries {
                name: flow.name.clone(),
                start_ms: (flow.start - Instant::ZERO).as_millis(),
                stop_ms: stop.map(|stop| (stop - Instant::ZERO).as_millis()),
                paths: PathSeries::of(scenario, flow),
                ..FlowSeries::default()
            });
        }
        SeriesRecorder {
            current_paths: flows
                .iter()
                .map(|flow| vec![PathInterval::default(); flow.paths.len()])
                .collect(),
            series: Series {
                interval_ms: interval.as_millis(),
                flows,
                links: scenario
                    .links
                    .iter()
                    .map(|link| LinkSeries {
                        name: link.name.clone(),
                        ..LinkSeries::default()
                    })
                    .collect(),
            },
            current: vec![Interval::default(); scenario.flows.len()],
            link_baselines: vec![Default::default(); scenario.links.len()],
        }
    }

    /// Closes an interval, after all events up to now.
    pub(crate) fn at_interval(&mut self, world: &mut World) {
        let now_ms = (world.now() - Instant::ZERO).as_millis();
        let flows = self.series.flows.iter_mut().zip(&mut self.current);
        for (index, (flow, interval)) in flows.enumerate() {
            let id = FlowId(index as u32);
            flow.push(std::mem::take(interval));
            // Raw traffic has no controller.
            if !world.is_session(id) {
                flow.bandwidth_bits_per_second.push(0);
                continue;
            }
            let paths = world.sender_paths(id);
            let intervals = self.current_paths[index].iter_mut();
            for ((path, view), interval) in flow.paths.iter_mut().zip(&paths).zip(intervals) {
                path.push(std::mem::take(interval), view);
            }
            // A flow that does not run has no bandwidth estimate.
            let is_running =
                now_ms > flow.start_ms && flow.stop_ms.is_none_or(|stop| now_ms <= stop);
            let bandwidth = if is_running {
                let of_paths = paths.iter().map(|path| path.bandwidth.bits_per_second());
                of_paths.sum()
            } else {
                0
            };
            flow.bandwidth_bits_per_second.push(bandwidth);
            let state = world.controller_state(id, PathId(0));
            if flow.states.last().is_none_or(|(_, last)| last != state) {
                flow.states.push((now_ms, state.to_owned()));
            }
        }
        for (index, link) in self.series.links.iter_mut().enumerate() {
            let statistics = world.link_statistics(LinkId(index as u32));
            let since = statistics.since(&self.link_baselines[index]);
            link.queued_bytes.push(statistics.queued_bytes);
            link.busy_nanos.push(since.queue.busy.as_nanos());
            link.delivered_bytes.push(since.delivered_bytes);
            link.dropped_packets.push(since.dropped.total());
            self.link_baselines[index] = statistics;
        }
    }

    pub(crate) fn finish(self) -> Series {
        self.series
    }

    fn interval_of(&mut self, packet: &PacketEvent) -> Option<&mut Interval> {
        (packet.direction == Direction::Forward).then(|| &mut self.current[packet.flow.index()])
    }

    /// Returns the interval of a packet to the receiver, by one of several paths.
    fn path_of(&mut self, packet: &PacketEvent) -> Option<&mut PathInterval> {
        let paths = &mut self.current_paths[packet.flow.index()];
        let is_forward = packet.direction == Direction::Forward;
        if is_forward {
            paths.get_mut(packet.path.index())
        } else {
            None
        }
    }
}

impl PathSeries {
    fn of(scenario: &Scenario, flow: &crate::scenario::FlowSpec) -> Vec<PathSeries> {
        if flow.paths.len() < 2 {
            return Vec::new();
        }
        flow.paths
            .iter()
            .map(|path| PathSeries {
                route: scenario.routes[path.route].name.clone(),
                ..PathSeries::default()
            })
            .collect()
    }

    fn push(&mut self, interval: PathInterval, view: &PathView) {
        self.sent_bytes.push(interval.sent_bytes);
        self.delivered_bytes.push(interval.delivered_bytes);
        let window = view.congestion_window.unwrap_or(0);
        self.congestion_window_bytes.push(window);
        self.bytes_in_flight.push(view.bytes_in_flight);
        let rtt = view.rtt.smoothed.unwrap_or(Duration::ZERO);
        self.smoothed_rtt_nanos.push(rtt.as_nanos());
    }
}

impl FlowSeries {
    fn push(&mut self, interval: Interval) {
        self.sent_bytes.push(interval.sent_bytes);
        self.sent_packets.push(interval.sent_packets);
        self.delivered_bytes.push(interval.delivered_bytes);
        self.delivered_packets.push(interval.delivered_packets);
        self.dropped_packets.push(interval.dropped_packets);
        self.feedback_packets.push(interval.feedback_packets);
        self.delay_nanos.push(interval.delay_nanos);
        self.frame_delay_max_nanos
            .push(interval.frame_delay_max_nanos);
        self.frames.push(interval.frames);
        self.frame_delay_nanos.push(interval.frame_delay_nanos);
    }
}

impl Observer for SeriesRecorder {
    #[inline]
    fn on_sent(&mut self, _now: Instant, packet: &PacketEvent) {
        if let Some(path) = self.path_of(packet) {
            path.sent_bytes += u64::from(packet.size_bytes);
        }
        if let Some(interval) = self.interval_of(packet) {
            interval.sent_bytes += u64::from(packet.size_bytes);
            interval.sent_packets += 1;
            let largest = &mut self.series.flows[packet.flow.index()].packet_bytes;
            *largest = (*largest).max(u64::from(packet.size_bytes));
        } else {
            self.current[packet.flow.index()].feedback_packets += 1;
        }
    }

    #[inline]
    fn on_delivered(&mut self, _now: Instant, packet: &PacketEvent, delay: Duration) {
        if let Some(path) = self.path_of(packet) {
            path.delivered_bytes += u64::from(packet.size_bytes);
        }
        if let Some(interval) = self.interval_of(packet) {
            interval.delivered_bytes += u64::from(packet.size_bytes);
            interval.delivered_packets += 1;
            interval.delay_nanos += delay.as_nanos();
        }
    }

    fn on_dropped(
        &mut self,
        _now: Instant,
        packet: &PacketEvent,
        _link: LinkId,
        _cause: DropCause,
    ) {
        if let Some(interval) = self.interval_of(packet) {
            interval.dropped_packets += 1;
        }
    }

    fn on_frame_outcome(&mut self, _now: Instant, frame: &FrameEvent, outcome: FrameOutcome) {
        if let FrameOutcome::Complete { completed_at } = outcome {
            let delay = (completed_at - frame.captured_at).as_nanos();
            let interval = &mut self.current[frame.flow.index()];
            interval.frame_delay_max_nanos = interval.frame_delay_max_nanos.max(delay);
            interval.frames += 1;
            interval.frame_delay_nanos += delay;
        }
    }
}

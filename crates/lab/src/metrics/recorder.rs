//! Collects what happens in a run into the statistics of its windows.

use anabranch_core::{PathId, SourceLimits};
use anabranch_link::DropCause;
use anabranch_sim::{
    Direction, FlowId, FrameEvent, FrameOutcome, LinkId, Observer, PacketEvent, World,
};
use anabranch_units::{Duration, Instant};
use anabranch_video::source::SourceConfig;

use super::fairness::{jain_index, smallest_over_largest};
use super::rates::RateSeries;
use super::record::{FlowRecord, FrameRecord, LinkRecord, PathRecord, per_second};
use super::statistics::{Distribution, FlowStatistics, PathStatistics, Statistics};
use super::window::Window;
use crate::scenario::{FlowSpec, Scenario};

/// Observes a run. Whoever drives it calls [`Recorder::at_boundary`] at every instant of
/// [`Recorder::boundaries`] and at the start, and [`Recorder::at_second`] every second.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    scenario: &'a Scenario,
    windows: Vec<WindowRecord>,
    /// By flow.
    series: Vec<RateSeries>,
    /// By flow: whether a frame that later ones depend on is missing.
    is_broken: Vec<bool>,
}

#[derive(Debug)]
struct WindowRecord {
    window: Window,
    is_open: bool,
    opened_at: Instant,
    flows: Vec<FlowRecord>,
    links: Vec<LinkRecord>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(scenario: &'a Scenario, windows: &[Window]) -> Recorder<'a> {
        let flow = |flow: &FlowSpec| FlowRecord {
            paths: vec![PathRecord::default(); flow.paths.len()],
            ..FlowRecord::default()
        };
        let record = |window: &Window| WindowRecord {
            window: *window,
            is_open: false,
            opened_at: Instant::ZERO,
            flows: scenario.flows.iter().map(flow).collect(),
            links: scenario
                .links
                .iter()
                .map(|_| LinkRecord::default())
                .collect(),
        };
        Recorder {
            scenario,
            windows: windows.iter().map(record).collect(),
            series: vec![RateSeries::default(); scenario.flows.len()],
            is_broken: vec![false; scenario.flows.len()],
        }
    }

    /// When [`Recorder::at_boundary`] is to be called.
    pub(crate) fn boundaries(&self) -> impl Iterator<Item = Instant> {
        self.windows
            .iter()
            .flat_map(|record| record.window.boundaries())
    }

    /// Opens and closes windows; everything up to now has happened.
    pub(crate) fn at_boundary(&mut self, world: &mut World) {
        let now = world.now();
        for record in &mut self.windows {
            let should_be_open = record.window.is_open_after(now);
            match (record.is_open, should_be_open) {
                (false, true) => record.open(now, world),
                (true, false) => record.close(now, world, &self.scenario.flows),
                _ => {}
            }
        }
    }

    /// Takes the 1 s samples of the flows' rates.
    pub(crate) fn at_second(&mut self, now: Instant) {
        let second = Duration::from_secs(1);
        let since = now.saturating_sub(second);
        for record in &mut self.windows {
            for (flow, spec) in record.flows.iter_mut().zip(&self.scenario.flows) {
                let bytes = std::mem::take(&mut flow.second_bytes);
                let is_running = spec.start <= since && spec.stop.is_none_or(|stop| now <= stop);
                if record.is_open && record.opened_at <= since && is_running {
                    flow.rates.record(bytes as f64);
                }
            }
        }
    }

    /// The statistics of each window, in their order. The run is over.
    pub(crate) fn finish(self, end: Instant) -> Vec<Statistics> {
        let scenario = self.scenario;
        self.windows
            .iter()
            .map(|record| record.statistics(scenario, &self.series, end))
            .collect()
    }

    #[inline]
    fn open_paths(&mut self, packet: &PacketEvent) -> impl Iterator<Item = &mut PathRecord> {
        let (flow, path) = (packet.flow.index(), packet.path.index());
        let is_data = packet.direction == Direction::Forward;
        self.windows
            .iter_mut()
            .filter(move |record| is_data && record.is_open)
            .map(move |record| &mut record.flows[flow].paths[path])
    }

    fn frames_of(&mut self, frame: &FrameEvent) -> impl Iterator<Item = &mut FrameRecord> {
        let (flow, captured_at) = (frame.flow.index(), frame.captured_at);
        self.windows
            .iter_mut()
            .filter(move |record| record.window.contains(captured_at))
            .map(move |record| &mut record.flows[flow].frames)
    }

    /// Notes that a frame can be shown now.
    fn show(&mut self, now: Instant, flow: FlowId) {
        for record in &mut self.windows {
            let is_open = record.is_open;
            let frames = &mut record.flows[flow.index()].frames;
            if let Some(shown_at) = frames.shown_at.filter(|_| is_open) {
                frames.longest_gap = frames.longest_gap.max(Some(now - shown_at));
            }
            frames.shown_at = Some(now);
        }
    }
}

impl Observer for Recorder<'_> {
    #[inline]
    fn on_sent(&mut self, now: Instant, packet: &PacketEvent) {
        let size_bytes = u64::from(packet.size_bytes);
        if packet.direction == Direction::Reverse {
            let open = self.windows.iter_mut().filter(|record| record.is_open);
            for record in open {
                let flow = &mut record.flows[packet.flow.index()];
                flow.paths[packet.path.index()].feedback_bytes += size_bytes;
            }
            return;
        }
        self.series[packet.flow.index()].record_sent(now, packet.size_bytes);
        for path in self.open_paths(packet) {
            path.sent_packets += 1;
            path.sent_bytes += size_bytes;
        }
    }

    #[inline]
    fn on_delivered(&mut self, now: Instant, packet: &PacketEvent, delay: Duration) {
        if packet.direction != Direction::Forward {
            return;
        }
        self.series[packet.flow.index()].record_received(now, packet.size_bytes);
        for record in &mut self.windows {
            let flow = &mut record.flows[packet.flow.index()];
            flow.second_bytes += u64::from(packet.size_bytes);
            if record.is_open {
                let path = &mut flow.paths[packet.path.index()];
                path.delivered_packets += 1;
                path.delivered_bytes += u64::from(packet.size_bytes);
                path.delays.record_span(delay);
            }
        }
    }

    fn on_dropped(
        &mut self,
        _now: Instant,
        packet: &PacketEvent,
        _link: LinkId,
        _cause: DropCause,
    ) {
        self.open_paths(packet)
            .for_each(|path| path.dropped_packets += 1);
    }

    fn on_frame_captured(&mut self, frame: &FrameEvent) {
        let end = Instant::ZERO + self.scenario.duration;
        let Some(media) = self.scenario.flows[frame.flow.index()].media() else {
            return;
        };
        let has_time = frame.captured_at + media.config.media.deadline <= end;
        for frames in self.frames_of(frame) {
            frames.captured += 1;
            frames.judged += u64::from(has_time);
        }
    }

    fn on_frame_outcome(&mut self, now: Instant, frame: &FrameEvent, outcome: FrameOutcome) {
        let end = Instant::ZERO + self.scenario.duration;
        let Some(media) = self.scenario.flows[frame.flow.index()].media() else {
            return;
        };
        let deadline = media.config.media.deadline;
        let has_time = frame.captured_at + deadline <= end;
        let depends = matches!(media.source, SourceConfig::Gop { .. });
        let completed_at = match outcome {
            FrameOutcome::Complete { completed_at } => Some(completed_at),
            FrameOutcome::Incomplete | FrameOutcome::Missing => None,
        };
        for frames in self.frames_of(frame) {
            let over_at = completed_at.unwrap_or(now);
            let delay = over_at - frame.captured_at;
            frames.delays_with_dropped.record_span(delay);
            if completed_at.is_some() {
                frames.complete += 1;
                frames.complete_bytes += u64::from(frame.size_bytes);
                frames.delays.record_span(delay);
                frames.late += u64::from(delay > deadline);
                frames.on_time += u64::from(has_time && delay <= deadline);
            } else {
                frames.dropped += 1;
            }
        }
        let is_complete = completed_at.is_some();
        let is_broken = &mut self.is_broken[frame.flow.index()];
        *is_broken = depends && (!is_complete || (*is_broken && !frame.importance.is_key()));
        if is_complete && !*is_broken {
            self.show(now, frame.flow);
        }
    }

    fn on_frame_abandoned(&mut self, _now: Instant, flow: FlowId) {
        let open = self.windows.iter_mut().filter(|record| record.is_open);
        open.for_each(|record| record.flows[flow.index()].frames.abandoned += 1);
    }

    fn on_stream_delivered(&mut self, _now: Instant, flow: FlowId, bytes: u64) {
        let open = self.windows.iter_mut().filter(|record| record.is_open);
        open.for_each(|record| record.flows[flow.index()].stream.bytes += bytes);
    }

    fn on_stream_finished(&mut self, now: Instant, flow: FlowId, began_at: Instant) {
        for record in self.windows.iter_mut().filter(|record| record.is_open) {
            let transfers = &mut record.flows[flow.index()].stream.transfers;
            transfers.record_span(now - began_at);
        }
    }
}

impl WindowRecord {
    fn open(&mut self, now: Instant, world: &mut World) {
        self.is_open = true;
        self.opened_at = now;
        for (index, link) in self.links.iter_mut().enumerate() {
            link.baseline = world.link_statistics(LinkId(index as u32));
        }
        for (flow, record) in self.flows.iter_mut().enumerate() {
            let flow = FlowId(flow as u32);
            if world.is_session(flow) {
                let counters = world.receiver_counters(flow);
                record.frames.recovered_baseline = counters.recovered_fragments;
            }
            for (path, record) in record.paths.iter_mut().enumerate() {
                if world.is_session(flow) {
                    record.baseline = world.sender_path_counters(flow, PathId(path as u8));
                }
            }
        }
    }

    fn close(&mut self, now: Instant, world: &mut World, specs: &[FlowSpec]) {
        self.is_open = false;
        for (index, link) in self.links.iter_mut().enumerate() {
            link.add(
                &world
                    .link_statistics(LinkId(index as u32))
                    .since(&link.baseline),
            );
        }
        for (flow, (record, spec)) in self.flows.iter_mut().zip(specs).enumerate() {
            let flow = FlowId(flow as u32);
            if world.is_session(flow) {
                let recovered = world.receiver_counters(flow).recovered_fragments;
                let frames = &mut record.frames;
                frames.recovered_fragments += recovered - frames.recovered_baseline;
            }
            for (path, record) in record.paths.iter_mut().enumerate() {
                if world.is_session(flow) {
                    record.add(&world.sender_path_counters(flow, PathId(path as u8)));
                }
            }
            // A picture that has stood still to the end has stood still.
            if let Some(shown_at) = record.frames.shown_at {
                let until = spec.stop.map_or(now, |stop| stop.min(now));
                let gap = until.saturating_since(shown_at.max(self.opened_at));
                record.frames.longest_gap = record.frames.longest_gap.max(Some(gap));
            }
        }
    }

    /// The least fairness over periods in which all flows of adaptive media run.
    fn least_fairness(
        &self,
        scenario: &Scenario,
        series: &[RateSeries],
        seconds: u64,
        end: Instant,
    ) -> Option<f64> {
        let flows = scenario.flows.iter().zip(series);
        let flows = flows.filter(|(flow, _)| is_adaptive(flow));
        let flows: Vec<(&FlowSpec, &RateSeries)> = flows.collect();
        let spans = || flows.iter().map(|(flow, _)| span(flow, end));
        let common = (
            spans().map(|(from, _)| from).max()?,
            spans().map(|(_, to)| to).min()?,
        );
        let period = Duration::from_secs(seconds);
        let rates = flows
            .iter()
            .map(|(_, series)| series.received(period, &self.window, common));
        let rates: Vec<Vec<f64>> = rates.collect();
        let ratios = (0..rates[0].len())
            .filter_map(|index| smallest_over_largest(rates.iter().map(|rates| rates[index])));
        ratios.min_by(f64::total_cmp)
    }

    fn statistics(&self, scenario: &Scenario, series: &[RateSeries], end: Instant) -> Statistics {
        let mut total = FlowRecord {
            paths: vec![PathRecord::default()],
            ..FlowRecord::default()
        };
        let mut flows = Vec::new();
        for (record, spec) in self.flows.iter().zip(&scenario.flows) {
            let (start, stop) = span(spec, end);
            let seconds = self.window.overlap(start, stop).as_secs_f64();
            let mut all_paths = PathRecord::default();
            record.paths.iter().for_each(|path| all_paths.merge(path));
            let path = |(path, spec): (&PathRecord, &crate::scenario::PathSpec)| PathStatistics {
                route: scenario.routes[spec.route].name.clone(),
                traffic: path.traffic(seconds),
            };
            flows.push(FlowStatistics {
                name: spec.name.clone(),
                controller: spec.controller().to_owned(),
                scheduler: spec.scheduler().to_owned(),
                goodput_bits_per_second: per_second(record.useful_bytes(), seconds),
                rate_variation: record.rates.coefficient(),
                rates: series[flows.len()].samples(&self.window, span(spec, end)),
                traffic: all_paths.traffic(seconds),
                frames: record.frames.statistics(),
                transfers: record.stream.transfers.count(),
                transfer_time_ms: Distribution::of(&record.stream.transfers),
                paths: record.paths.iter().zip(&spec.paths).map(path).collect(),
            });
            total.paths[0].merge(&all_paths);
            total.frames.merge(&record.frames);
            total.stream.bytes += record.stream.bytes;
            total.stream.transfers.merge(&record.stream.transfers);
        }
        let seconds = self.window.length().as_secs_f64();
        let links = self.links.iter().zip(&scenario.links);
        Statistics {
            jain_index: jain_index(
                flows
                    .iter()
                    .zip(&scenario.flows)
                    .filter(|(_, spec)| spec.config().is_some())
                    .map(|(flow, _)| flow.traffic.throughput_bits_per_second),
            ),
            fairness_ratio: smallest_over_largest(
                flows
                    .iter()
                    .zip(&scenario.flows)
                    .filter(|(_, spec)| is_adaptive(spec))
                    .map(|(flow, _)| flow.traffic.throughput_bits_per_second),
            ),
            fairness_ratio_min: [1, 5, 20]
                .map(|seconds| self.least_fairness(scenario, series, seconds, end)),
            total: FlowStatistics {
                name: "all flows".to_owned(),
                goodput_bits_per_second: per_second(total.useful_bytes(), seconds),
                traffic: total.paths[0].traffic(seconds),
                frames: total.frames.statistics(),
                transfers: total.stream.transfers.count(),
                transfer_time_ms: Distribution::of(&total.stream.transfers),
                ..FlowStatistics::default()
            },
            links: links
                .map(|(link, spec)| {
                    let has_rate = spec.config.rate.is_some() || spec.config.trace.is_some();
                    link.statistics(&spec.name, has_rate)
                })
                .collect(),
            flows,
        }
    }
}

/// From when to when a flow runs.
fn span(flow: &FlowSpec, end: Instant) -> (Instant, Instant) {
    (flow.start, flow.stop.unwrap_or(end))
}

/// Whether it is fair to ask for fairness: the flow follows what the network gives.
fn is_adaptive(flow: &FlowSpec) -> bool {
    let source = flow.media().map(|media| media.config.media.source);
    matches!(source, Some(SourceLimits::Adaptive { .. }))
}

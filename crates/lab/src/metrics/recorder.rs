//! Collects the events of a run into the statistics of its windows.

use std::sync::Arc;

use anabranch_core::{PathId, SendReason};
use anabranch_link::{DropCause, LinkConfig};
use anabranch_sim::{
    Direction, FlowId, FragmentId, FrameEvent, FrameOutcome, LinkId, Observer, PacketEvent,
};
use anabranch_units::{Duration, Instant};
use anabranch_video::player::Display;

use super::counters::Counters;
use super::fairness::{jain_index, smallest_over_largest};
use super::fragments::FragmentTrails;
use super::phases::record_phases;
use super::rates::RateSeries;
use super::record::{FlowRecord, FrameRecord, LinkRecord, Outcome, PathRecord, per_second, ratio};
use super::statistics::{Distribution, FlowStatistics, PathStatistics, Statistics};
use super::viewer::Viewer;
use super::window::Window;
use crate::scenario::{FlowSpec, Scenario};

/// Observes a run. The driver calls [`Recorder::at_boundary`] at every instant of
/// [`Recorder::boundaries`] and at the start, and [`Recorder::at_second`] every second.
#[derive(Debug)]
pub(crate) struct Recorder {
    scenario: Arc<Scenario>,
    windows: Vec<WindowRecord>,
    /// By flow.
    watches: Vec<Watch>,
}

/// State of a flow over the whole run.
#[derive(Debug)]
struct Watch {
    series: RateSeries,
    /// Bytes delivered since the last full second.
    second_bytes: u64,
    /// Time from a frame's capture until its sender gives it up, of a flow of media.
    deadline: Duration,
    /// The least propagation delay of its paths.
    base_delay: Duration,
    trails: FragmentTrails,
    /// The path of the newest segment, of a stream over several.
    last_path: Option<PathId>,
    /// Viewer of a flow of media.
    viewer: Option<Viewer>,
}

impl Watch {
    fn new(scenario: &Scenario, flow: &FlowSpec) -> Watch {
        let routes = flow.paths.iter().map(|path| &scenario.routes[path.route]);
        let delays = routes.map(|route| {
            let links = route.forward.iter().map(|link| &scenario.links[*link]);
            links.map(|link| least_delay(&link.config)).sum()
        });
        let media = flow.media().map(|media| &media.config.media);
        Watch {
            series: RateSeries::default(),
            second_bytes: 0,
            deadline: media.map_or(Duration::ZERO, |media| media.deadline),
            trails: FragmentTrails::new(flow.paths.len()),
            last_path: None,
            viewer: flow.media().map(|media| Viewer::new(flow, media)),
            base_delay: delays.min().unwrap_or(Duration::ZERO),
        }
    }
}

/// Returns a link's least propagation delay.
pub(crate) fn least_delay(link: &LinkConfig) -> Duration {
    let later = link.delay_schedule.iter().map(|(_, delay)| *delay);
    later.fold(link.delay, Duration::min)
}

#[derive(Debug)]
struct WindowRecord {
    window: Window,
    is_open: bool,
    opened_at: Instant,
    flows: Vec<FlowRecord>,
    links: Vec<LinkRecord>,
}

impl Recorder {
    pub(crate) fn new(scenario: &Arc<Scenario>, windows: &[Window]) -> Recorder {
        let specs = scenario.flows.iter();
        Recorder {
            scenario: Arc::clone(scenario),
            windows: windows
                .iter()
                .map(|window| WindowRecord {
                    window: *window,
                    is_open: false,
                    opened_at: Instant::ZERO,
                    flows: specs.clone().map(FlowRecord::of).collect(),
                    links: vec![LinkRecord::default(); scenario.links.len()],
                })
                .collect(),
            watches: specs.map(|flow| Watch::new(scenario, flow)).collect(),
        }
    }

    /// Returns the times at which [`Recorder::at_boundary`] is due.
    pub(crate) fn boundaries(&self) -> impl Iterator<Item = Instant> {
        self.windows
            .iter()
            .flat_map(|record| record.window.boundaries())
    }

    /// Opens and closes windows, after all events up to now.
    pub(crate) fn at_boundary(&mut self, world: &mut impl Counters) {
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
        let watches = self.watches.iter_mut().zip(&self.scenario.flows);
        for (flow, (watch, spec)) in watches.enumerate() {
            let bytes = std::mem::take(&mut watch.second_bytes);
            let is_running = spec.start <= since && spec.stop.is_none_or(|stop| now <= stop);
            if !is_running {
                continue;
            }
            for record in &mut self.windows {
                if record.is_open && record.opened_at <= since {
                    record.flows[flow].rates.record(bytes as f64);
                }
            }
        }
    }

    /// Takes the measurements of these flows from another recorder of the same windows.
    pub(crate) fn take_flows(&mut self, other: Recorder, is_taken: impl Fn(FlowId) -> bool) {
        let watches = self.watches.iter_mut().zip(other.watches);
        for (index, (mine, theirs)) in watches.enumerate() {
            if is_taken(FlowId(index as u32)) {
                *mine = theirs;
            }
        }
        for (mine, theirs) in self.windows.iter_mut().zip(other.windows) {
            let flows = mine.flows.iter_mut().zip(theirs.flows);
            for (index, (mine, theirs)) in flows.enumerate() {
                if is_taken(FlowId(index as u32)) {
                    *mine = theirs;
                }
            }
        }
    }

    /// Counts packets of a flow's path that links have lost, one by one unseen.
    pub(crate) fn count_dropped(&mut self, flow: FlowId, path: PathId, count: u64) {
        for record in self.windows.iter_mut().filter(|record| record.is_open) {
            record.flows[flow.index()].paths[path.index()].dropped_packets += count;
        }
    }

    /// Returns the statistics of each window, in their order. The run is over.
    pub(crate) fn finish(mut self, end: Instant) -> Vec<Statistics> {
        let scenario = &*Arc::clone(&self.scenario);
        self.count_frames_without_outcome();
        for (flow, (watch, spec)) in self.watches.iter_mut().zip(&scenario.flows).enumerate() {
            let Some(viewer) = &mut watch.viewer else {
                continue;
            };
            let (_, stop) = spec.span(end);
            viewer.finish(stop.min(end));
            for record in &mut self.windows {
                let of_flow = &mut record.flows[flow].viewer;
                viewer.record_times(&record.window, stop.min(end), of_flow);
            }
        }
        let series: Vec<RateSeries> = self.watches.into_iter().map(|watch| watch.series).collect();
        self.windows
            .iter()
            .map(|record| record.statistics(scenario, &series, end))
            .collect()
    }

    /// Counts frames of unknown outcome as not complete.
    fn count_frames_without_outcome(&mut self) {
        for (flow, (watch, spec)) in self.watches.iter().zip(&self.scenario.flows).enumerate() {
            if spec.media().is_none() {
                continue;
            }
            let excess = watch.deadline.saturating_sub(watch.base_delay);
            for record in &mut self.windows {
                let frames = &mut record.flows[flow].frames;
                let failed = &mut frames.exceptions.failed_excesses;
                for _ in frames.excesses.count() + failed.count()..frames.judged {
                    failed.record_span(excess);
                }
            }
        }
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

    /// Handles an arrived packet of media.
    fn on_fragment(&mut self, now: Instant, packet: &PacketEvent, id: FragmentId) {
        let trails = &mut self.watches[packet.flow.index()].trails;
        let Some(arrival) = trails.on_arrived(now, id) else {
            return;
        };
        for record in self.windows.iter_mut().filter(|record| record.is_open) {
            let flow = &mut record.flows[packet.flow.index()];
            let path = &mut flow.paths[packet.path.index()];
            path.fragments += 1;
            path.fragment_times += arrival.took;
            flow.fragments.out_of_order += u64::from(arrival.is_out_of_order);
            for gap in arrival.gaps.into_iter().flatten() {
                flow.fragments.gap_count += 1;
                flow.fragments.gaps += gap;
            }
        }
    }

    /// Counts a frame that the player displays.
    fn count_display(&mut self, flow: FlowId, display: &Display) {
        let windows = self.windows.iter_mut();
        for record in windows.filter(|record| record.window.contains(display.at)) {
            let viewer = &mut record.flows[flow.index()].viewer;
            viewer.displayed += u64::from(!display.is_substitute);
            viewer.skipped += u64::from(display.is_substitute);
            viewer.late += u64::from(display.is_late);
        }
    }
}

impl Recorder {
    /// Handles a sent packet of a stream.
    fn record_segment(&mut self, packet: &PacketEvent) {
        let flow = packet.flow.index();
        let has_paths = self.scenario.flows[flow].paths.len() > 1;
        if !has_paths || packet.reason != Some(SendReason::New) {
            return;
        }
        let last = self.watches[flow].last_path.replace(packet.path);
        if last.is_some_and(|last| last != packet.path) {
            for record in self.windows.iter_mut().filter(|record| record.is_open) {
                record.flows[flow].stream.path_switches += 1;
            }
        }
    }
}

impl Observer for Recorder {
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
        let flow = packet.flow.index();
        self.watches[flow]
            .series
            .record_sent(now, packet.size_bytes);
        for path in self.open_paths(packet) {
            path.sent_packets += 1;
            path.sent_bytes += size_bytes;
        }
        let Some(id) = packet.fragment else {
            return self.record_segment(packet);
        };
        if self.watches[flow].trails.on_sent(id, packet.path) {
            for record in self.windows.iter_mut().filter(|record| record.is_open) {
                record.flows[flow].fragments.path_switches += 1;
            }
        }
    }

    #[inline]
    fn on_delivered(&mut self, now: Instant, packet: &PacketEvent, delay: Duration) {
        if packet.direction != Direction::Forward {
            return;
        }
        let watch = &mut self.watches[packet.flow.index()];
        watch.series.record_received(now, packet.size_bytes);
        watch.second_bytes += u64::from(packet.size_bytes);
        for path in self.open_paths(packet) {
            path.delivered_packets += 1;
            path.delivered_bytes += u64::from(packet.size_bytes);
            path.delays.record_span(delay);
        }
        if let Some(id) = packet.fragment {
            self.on_fragment(now, packet, id);
        }
    }

    fn on_dropped(
        &mut self,
        _now: Instant,
        packet: &PacketEvent,
        _link: LinkId,
        _cause: DropCause,
    ) {
        for path in self.open_paths(packet) {
            path.dropped_packets += 1;
        }
    }

    fn on_frame_captured(&mut self, frame: &FrameEvent) {
        let end = Instant::ZERO + self.scenario.duration;
        let watch = &mut self.watches[frame.flow.index()];
        let has_time = frame.captured_at + watch.deadline <= end;
        watch.trails.on_captured(frame);
        for frames in self.frames_of(frame) {
            frames.on_captured(u64::from(frame.size_bytes), has_time);
        }
    }

    fn on_frame_outcome(&mut self, now: Instant, frame: &FrameEvent, outcome: FrameOutcome) {
        let end = Instant::ZERO + self.scenario.duration;
        let watch = &mut self.watches[frame.flow.index()];
        let deadline = watch.deadline;
        let has_time = frame.captured_at + deadline <= end;
        watch.trails.on_outcome(frame);
        let viewer = watch.viewer.as_mut();
        let display = viewer.and_then(|viewer| viewer.on_outcome(now, frame, outcome));
        let base_delay = watch.base_delay;
        let completed_at = match outcome {
            FrameOutcome::Complete { completed_at } => Some(completed_at),
            FrameOutcome::Incomplete | FrameOutcome::Missing => None,
        };
        let outcome = Outcome {
            delay: completed_at.unwrap_or(now) - frame.captured_at,
            out_delay: now - frame.captured_at,
            is_complete: completed_at.is_some(),
            is_displayed: display.is_some(),
            size_bytes: u64::from(frame.size_bytes),
            has_time,
        };
        for frames in self.frames_of(frame) {
            frames.on_outcome(&outcome, deadline, base_delay);
        }
        if let Some(display) = display {
            for record in &mut self.windows {
                let frames = &mut record.flows[frame.flow.index()].frames;
                frames.show(now, record.is_open);
            }
            self.count_display(frame.flow, &display);
        }
    }

    fn on_frame_abandoned(&mut self, _now: Instant, flow: FlowId) {
        let open = self.windows.iter_mut().filter(|record| record.is_open);
        open.for_each(|record| record.flows[flow.index()].frames.exceptions.abandoned += 1);
    }

    fn on_stream_delivered(&mut self, _now: Instant, flow: FlowId, bytes: u64) {
        let open = self.windows.iter_mut().filter(|record| record.is_open);
        open.for_each(|record| record.flows[flow.index()].stream.bytes += bytes);
    }

    fn on_stream_in_order(&mut self, _now: Instant, flow: FlowId, bytes: u64, waited: Duration) {
        for record in self.windows.iter_mut().filter(|record| record.is_open) {
            let stream = &mut record.flows[flow.index()].stream;
            stream.head_of_line.add(bytes, waited);
        }
    }

    fn on_stream_finished(&mut self, now: Instant, flow: FlowId, began_at: Instant) {
        for record in self.windows.iter_mut().filter(|record| record.is_open) {
            let transfers = &mut record.flows[flow.index()].stream.transfers;
            transfers.record_span(now - began_at);
        }
    }
}

impl WindowRecord {
    fn open(&mut self, now: Instant, world: &mut impl Counters) {
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
                record.stream.open(flow, world);
            }
            for (path, record) in record.paths.iter_mut().enumerate() {
                if world.is_session(flow) {
                    record.baseline = world.sender_path_counters(flow, PathId(path as u8));
                }
            }
        }
    }

    fn close<C: Counters>(&mut self, now: Instant, world: &mut C, specs: &[FlowSpec]) {
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
                record.stream.close(flow, world);
            }
            for (path, record) in record.paths.iter_mut().enumerate() {
                if world.is_session(flow) {
                    record.add(&world.sender_path_counters(flow, PathId(path as u8)));
                }
            }
            if spec.media().is_some() {
                let counters = world.receiver_counters(flow);
                record.fragments.peak_bytes = counters.reassembly_peak_bytes;
                record.fragments.peak_frames = counters.reassembly_peak_frames;
            }
            let until = spec.stop.map_or(now, |stop| stop.min(now));
            record.frames.close(self.opened_at, until);
        }
    }

    /// Returns the least fairness over periods in which all flows of adaptive media run.
    fn least_fairness(
        &self,
        scenario: &Scenario,
        series: &[RateSeries],
        seconds: u64,
        end: Instant,
    ) -> Option<f64> {
        let all = scenario.flows.iter().zip(series);
        let flows: Vec<(&FlowSpec, &RateSeries)> =
            all.filter(|(flow, _)| flow.is_adaptive()).collect();
        let spans = flows.iter().map(|(flow, _)| flow.span(end));
        let common = (
            spans.clone().map(|(from, _)| from).max()?,
            spans.map(|(_, to)| to).min()?,
        );
        let period = Duration::from_secs(seconds);
        let rates: Vec<Vec<f64>> = flows
            .iter()
            .map(|(_, series)| series.received(period, &self.window, common))
            .collect();
        let ratios = (0..rates[0].len())
            .filter_map(|index| smallest_over_largest(rates.iter().map(|rates| rates[index])));
        ratios.min_by(f64::total_cmp)
    }

    fn flow_statistics(
        &self,
        flow: usize,
        scenario: &Scenario,
        series: &RateSeries,
        end: Instant,
    ) -> FlowStatistics {
        let (record, spec) = (&self.flows[flow], &scenario.flows[flow]);
        let (start, stop) = spec.span(end);
        let seconds = self.window.overlap(start, stop).as_secs_f64();
        let all_paths = record.all_paths();
        let paths = record.paths.iter().zip(&spec.paths);
        let is_media = spec.media().is_some();
        FlowStatistics {
            name: spec.name.clone(),
            controller: spec.controller().to_owned(),
            scheduler: spec.scheduler().to_owned(),
            goodput_bits_per_second: per_second(record.useful_bytes(), seconds),
            rate_variation: record.rates.coefficient(),
            rates: series.samples(&self.window, spec.span(end)),
            phases: Vec::new(),
            traffic: all_paths.traffic(seconds),
            overhead_ratio: overhead(&all_paths, &record.frames),
            frames: record.frames.statistics(),
            fragments: is_media.then(|| record.fragments.statistics(&all_paths)),
            player: is_media.then(|| record.viewer.statistics()),
            download: record.stream.download(seconds),
            adaptive: record.stream.adaptive(seconds),
            segment_path_switches: record.stream.path_switches,
            head_of_line: record.stream.head_of_line.statistics(),
            transfers: record.stream.transfers.count(),
            transfer_time_ms: Distribution::of(&record.stream.transfers),
            paths: paths
                .map(|(path, spec)| PathStatistics {
                    route: scenario.routes[spec.route].name.clone(),
                    traffic: path.traffic(seconds),
                    media_ratio: ratio(path.fragments, all_paths.fragments),
                    cost_ms: path.cost_ms(),
                })
                .collect(),
        }
    }

    fn statistics(&self, scenario: &Scenario, series: &[RateSeries], end: Instant) -> Statistics {
        let mut total = FlowRecord {
            paths: vec![PathRecord::default()],
            ..FlowRecord::default()
        };
        let mut media_paths = PathRecord::default();
        for (record, spec) in self.flows.iter().zip(&scenario.flows) {
            let all_paths = record.all_paths();
            total.paths[0].merge(&all_paths);
            total.frames.merge(&record.frames);
            total.stream.bytes += record.stream.bytes;
            total.stream.transfers.merge(&record.stream.transfers);
            let of_flow = &record.stream.head_of_line;
            total.stream.head_of_line.merge(of_flow);
            if spec.media().is_some() {
                media_paths.merge(&all_paths);
                total.fragments.merge(&record.fragments);
                total.viewer.merge(&record.viewer);
            }
        }
        let mut flows: Vec<FlowStatistics> = (0..scenario.flows.len())
            .map(|flow| self.flow_statistics(flow, scenario, &series[flow], end))
            .collect();
        record_phases(&mut flows, scenario, series, &self.window, end);
        let has_media = scenario.flows.iter().any(|flow| flow.media().is_some());
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
                    .filter(|(_, spec)| spec.is_adaptive())
                    .map(|(flow, _)| flow.traffic.throughput_bits_per_second),
            ),
            fairness_ratio_min: [1, 5, 20]
                .map(|seconds| self.least_fairness(scenario, series, seconds, end)),
            total: FlowStatistics {
                name: "all flows".to_owned(),
                goodput_bits_per_second: per_second(total.useful_bytes(), seconds),
                traffic: total.paths[0].traffic(seconds),
                overhead_ratio: overhead(&media_paths, &total.frames),
                frames: total.frames.statistics(),
                fragments: has_media.then(|| total.fragments.statistics(&media_paths)),
                player: has_media.then(|| total.viewer.statistics()),
                head_of_line: total.stream.head_of_line.statistics(),
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

/// Returns the overhead of flows of media: the bytes that both ends sent beyond the frames, over
/// the frames' bytes.
fn overhead(paths: &PathRecord, frames: &FrameRecord) -> Option<f64> {
    let sent_bytes = paths.sent_bytes + paths.feedback_bytes;
    ratio(sent_bytes, frames.captured_bytes).map(|ratio| ratio - 1.0)
}

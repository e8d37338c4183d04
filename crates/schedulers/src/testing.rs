//! A bed for schedulers under test.

use std::collections::VecDeque;

use anabranch_core::scheduler::{Assignment, PacketView, Scheduler, SchedulerEvent, SendQueue};
use anabranch_core::{
    Forecast, FrameId, PathId, PathRtt, PathSet, PathView, SendReason, SessionView,
};
use anabranch_units::{DataRate, Duration, Importance, Instant};

use super::PathChoice;

/// Returns an active path of this round-trip time and rate that has room for everything.
pub(super) fn path(id: u8, rtt_millis: u64, megabits_per_second: u64) -> PathView {
    let rtt = Duration::from_millis(rtt_millis);
    let rate = DataRate::from_megabits_per_second(megabits_per_second);
    PathView {
        id: PathId(id),
        rtt: PathRtt::constant(rtt),
        forecast: Forecast::constant(rtt, rate),
        pacing_rate: Some(rate),
        bandwidth: rate,
        sendable_bytes: u64::MAX,
        weight: 1.0,
        ..PathView::default()
    }
}

/// Returns a path of this round-trip time with a window of `packets` packets of 1000 bytes.
pub(super) fn windowed(id: u8, rtt_millis: u64, packets: u64, bytes_in_flight: u64) -> PathView {
    let window = packets * 1000;
    let rtt = Duration::from_millis(rtt_millis);
    PathView {
        congestion_window: Some(window),
        bytes_in_flight,
        sendable_bytes: window.saturating_sub(bytes_in_flight),
        pacing_rate: None,
        bandwidth: DataRate::from_bytes_per(window, rtt),
        ..path(id, rtt_millis, 0)
    }
}

/// A scheduler, and paths whose queues grow by the packets bound to them.
pub(super) struct Bed {
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) paths: Vec<PathView>,
    next_frame: u64,
}

impl Bed {
    pub(super) fn new(scheduler: Box<dyn Scheduler>, paths: Vec<PathView>) -> Self {
        Bed {
            scheduler,
            paths,
            next_frame: 0,
        }
    }

    pub(super) fn source(fragment: u16, bytes: u32) -> PacketView {
        PacketView {
            frame: FrameId(0),
            fragment,
            fragment_count: 1,
            reason: SendReason::New,
            importance: Importance::Reference,
            bytes,
            deadline: None,
            in_flight_on: PathSet::EMPTY,
            avoid: PathSet::EMPTY,
        }
    }

    /// Lifetime of a frame.
    const DEADLINE: Duration = Duration::from_millis(500);

    /// Returns the packets of a frame.
    pub(super) fn frame(fragment_count: u16, bytes: u32) -> Vec<PacketView> {
        (0..fragment_count)
            .map(|fragment| PacketView {
                fragment_count,
                ..Self::source(fragment, bytes)
            })
            .collect()
    }

    /// Offers packets as the next frame, and returns the bound packets with their paths.
    pub(super) fn schedule(&mut self, packets: &[PacketView]) -> Vec<(PacketView, PathSet)> {
        self.schedule_at(Instant::ZERO, packets)
    }

    /// Does the same at a moment.
    pub(super) fn schedule_at(
        &mut self,
        now: Instant,
        packets: &[PacketView],
    ) -> Vec<(PacketView, PathSet)> {
        let frame = FrameId(self.next_frame);
        self.next_frame += 1;
        let packets: Vec<PacketView> = packets
            .iter()
            .map(|packet| PacketView { frame, ..*packet })
            .collect();
        let mut out: Vec<Assignment> = Vec::new();
        let queue = SendQueue::new(&packets);
        let session = SessionView {
            deadline: Self::DEADLINE,
            ..SessionView::default()
        };
        self.scheduler
            .schedule(now, &queue, &session, &self.paths, &mut out);
        out.iter()
            .map(|assignment| {
                let packet = packets[assignment.index];
                for id in assignment.paths.iter() {
                    self.paths[id.index()].queued_bytes += u64::from(packet.bytes);
                }
                (packet, assignment.paths)
            })
            .collect()
    }
}

/// Paths of constant rate and delay, each with a queue of its own, first in, first out. Frames come
/// at a constant pace, and every bound packet arrives.
pub(super) struct FluidBed {
    pub(super) bed: Bed,
    /// By path: the queued packets, with the time at which the last byte of each leaves, and its
    /// bytes.
    queues: Vec<VecDeque<(Instant, u32)>>,
    now: Instant,
    /// Time of each packet from its frame's capture to the receiver.
    pub(super) packet_delays: Vec<Duration>,
    /// Time of each frame.
    pub(super) frame_delays: Vec<Duration>,
    /// Bytes bound to each path.
    pub(super) bound_bytes: Vec<u64>,
    /// Path of each packet, in order.
    pub(super) trail: Vec<PathId>,
}

/// Test bed M1: 10 Mbit/s with a round-trip time of 20 ms, 10 Mbit/s with 100 ms.
pub(super) fn m1() -> Vec<PathView> {
    vec![path(0, 20, 10), path(1, 100, 10)]
}

/// The same as [`Lines`]: Mbit/s and ms one way.
pub(super) const M1_LINES: [(u64, u64); 2] = [(10, 10), (10, 50)];

impl FluidBed {
    pub(super) fn new(scheduler: Box<dyn Scheduler>, paths: Vec<PathView>) -> Self {
        FluidBed {
            queues: paths.iter().map(|_| VecDeque::new()).collect(),
            now: Instant::ZERO,
            packet_delays: Vec::new(),
            frame_delays: Vec::new(),
            bound_bytes: vec![0; paths.len()],
            trail: Vec::new(),
            bed: Bed::new(scheduler, paths),
        }
    }

    /// Runs over `frame_count` frames, one every `interval`, of `fragment_count` packets of 1000
    /// bytes.
    pub(super) fn run(&mut self, frame_count: u32, interval: Duration, fragment_count: u16) {
        for _ in 0..frame_count {
            let packets = Bed::frame(fragment_count, 1000);
            self.offer(&packets);
            self.drain(self.now + interval);
        }
    }

    /// Runs for `seconds` at a share of the paths' total capacity, 25 frames per second.
    pub(super) fn run_at(&mut self, load: f64, seconds: u32) {
        let rates = self.bed.paths.iter().map(PathView::drain_rate);
        let rate = rates.sum::<DataRate>().mul_f64(load);
        let interval = Duration::from_millis(40);
        let fragment_count = rate.bytes_in(interval).div_ceil(1000).max(1) as u16;
        let interval = rate.time_for(u64::from(fragment_count) * 1000);
        let frame_count = Duration::from_secs(u64::from(seconds)).as_nanos() / interval.as_nanos();
        self.run(frame_count as u32, interval, fragment_count);
    }

    fn offer(&mut self, packets: &[PacketView]) {
        let now = self.now;
        let mut frame_delay = Duration::ZERO;
        for (packet, set) in self.bed.schedule_at(now, packets) {
            let mut first_delay = Duration::MAX;
            for id in set.iter() {
                let path = &self.bed.paths[id.index()];
                let queue = &mut self.queues[id.index()];
                let free_at = queue.back().map_or(now, |(leaves_at, _)| *leaves_at);
                let leaves_at = free_at + path.drain_rate().time_for(u64::from(packet.bytes));
                queue.push_back((leaves_at, packet.bytes));
                let one_way = path.rtt.least.expect("the bed's paths are known") / 2;
                let delay = (leaves_at + one_way).saturating_since(now);
                first_delay = first_delay.min(delay);
                self.bound_bytes[id.index()] += u64::from(packet.bytes);
                self.trail.push(id);
            }
            self.packet_delays.push(first_delay);
            frame_delay = frame_delay.max(first_delay);
        }
        self.frame_delays.push(frame_delay);
    }

    /// Advances the time, and reports departures meanwhile to the scheduler in order.
    fn drain(&mut self, until: Instant) {
        loop {
            let heads = self
                .queues
                .iter()
                .enumerate()
                .filter_map(|(index, queue)| Some((queue.front()?.0, index)));
            let Some((at, index)) = heads.min().filter(|(at, _)| *at <= until) else {
                break;
            };
            let (_, bytes) = self.queues[index].pop_front().expect("it has a head");
            self.bed.paths[index].queued_bytes -= u64::from(bytes);
            let path = PathId(index as u8);
            let event = SchedulerEvent::Sent {
                path,
                bytes,
                queued_bytes: self.bed.paths[index].queued_bytes,
            };
            self.bed.scheduler.on_event(at, &event);
        }
        self.now = until;
    }

    /// Returns the path's share of the bytes.
    pub(super) fn share(&self, path: usize) -> f64 {
        self.bound_bytes[path] as f64 / self.bound_bytes.iter().sum::<u64>() as f64
    }
}

/// Returns the mean, in milliseconds.
pub(super) fn mean_millis(delays: &[Duration]) -> f64 {
    delays
        .iter()
        .map(|delay| delay.as_millis_f64())
        .sum::<f64>()
        / delays.len() as f64
}

/// The path of the least round-trip time that has room: the reference of comparisons.
#[derive(Debug)]
pub(super) struct LeastRtt;

impl PathChoice for LeastRtt {
    fn choose(&mut self, _now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let with_room = paths
            .iter()
            .filter(|path| path.sendable_bytes >= u64::from(packet.bytes));
        with_room
            .min_by_key(|path| path.rtt.smoothed)
            .map(|path| path.id)
    }
}

/// Time between frames of [`Lines`].
const FRAME_INTERVAL: Duration = Duration::from_millis(40);
/// Bytes of each packet of [`Lines`].
const LINE_PACKET_BYTES: u32 = 1000;

/// Lines of constant rate and delay with exact views, and a stream of frames.
pub(super) struct Lines {
    scheduler: Option<Box<dyn Scheduler>>,
    lines: Vec<Line>,
    now: Instant,
    waiting: Vec<PacketView>,
    frames: Vec<Instant>,
    acks: Vec<(Instant, Arrived)>,
    pub(super) arrived: Vec<Arrived>,
    /// Path of each packet, in the order of sending.
    pub(super) left_on: Vec<PathId>,
}

struct Line {
    rate: DataRate,
    there: Duration,
    back: Duration,
    /// Limit of the bytes in flight; `None`: a packet leaves when the one before it has left.
    window: Option<u64>,
    queue: VecDeque<PacketView>,
    free_at: Instant,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) at: Instant,
    pub(super) path: PathId,
    pub(super) packet: PacketView,
}

impl Lines {
    /// Returns lines of the given Mbit/s and ms one way.
    pub(super) fn new(scheduler: Box<dyn Scheduler>, lines: &[(u64, u64)]) -> Self {
        let lines: Vec<_> = lines.iter().map(|&(rate, ms)| (rate, ms, ms)).collect();
        Lines {
            scheduler: Some(scheduler),
            ..Self::of(&lines)
        }
    }

    /// Returns lines of the given Mbit/s, ms one way, and packets in the window.
    pub(super) fn with_windows(scheduler: Box<dyn Scheduler>, windows: &[(u64, u64, u64)]) -> Self {
        let lines: Vec<_> = windows.iter().map(|&(rate, ms, _)| (rate, ms)).collect();
        let mut lines = Self::new(scheduler, &lines);
        for (line, (_, _, packets)) in lines.lines.iter_mut().zip(windows) {
            line.window = Some(packets * u64::from(LINE_PACKET_BYTES));
        }
        lines
    }

    /// Returns lines of the given Mbit/s, ms forward and ms back.
    pub(super) fn of(lines: &[(u64, u64, u64)]) -> Self {
        Lines {
            scheduler: None,
            lines: lines
                .iter()
                .map(|&(rate, there, back)| Line {
                    rate: DataRate::from_megabits_per_second(rate),
                    there: Duration::from_millis(there),
                    back: Duration::from_millis(back),
                    window: None,
                    queue: VecDeque::new(),
                    free_at: Instant::ZERO,
                })
                .collect(),
            now: Instant::ZERO,
            waiting: Vec::new(),
            frames: Vec::new(),
            acks: Vec::new(),
            arrived: Vec::new(),
            left_on: Vec::new(),
        }
    }

    /// Streams `frame_count` frames of `packet_count` packets, and waits until all have arrived.
    pub(super) fn stream(&mut self, packet_count: u16, frame_count: u64) {
        let mut scheduler = self.scheduler.take().expect("it was given");
        self.stream_over(&mut *scheduler, packet_count, frame_count);
    }

    pub(super) fn stream_over(
        &mut self,
        scheduler: &mut dyn Scheduler,
        packet_count: u16,
        frame_count: u64,
    ) {
        for index in 0..frame_count {
            self.frames.push(self.now);
            let packets = Bed::frame(packet_count, LINE_PACKET_BYTES).into_iter();
            let frame = FrameId(index);
            self.waiting
                .extend(packets.map(|packet| PacketView { frame, ..packet }));
            self.run_until(scheduler, self.now + FRAME_INTERVAL);
        }
        while !self.waiting.is_empty() || self.lines.iter().any(|line| !line.queue.is_empty()) {
            self.run_until(scheduler, self.now + FRAME_INTERVAL);
        }
        // Packets that arrive at the same moment are in order.
        self.arrived
            .sort_by_key(|arrived| (arrived.at, arrived.packet.frame, arrived.packet.fragment));
    }

    fn run_until(&mut self, scheduler: &mut dyn Scheduler, end: Instant) {
        loop {
            self.schedule(scheduler);
            self.send();
            let line_free_at = self.lines.iter().map(|line| line.free_at);
            let acked_at = self.acks.iter().map(|(at, _)| *at);
            let next = line_free_at.chain(acked_at).chain(scheduler.wake_at());
            let Some(next) = next.filter(|at| *at > self.now && *at < end).min() else {
                break;
            };
            self.now = next;
            self.acknowledge(scheduler);
        }
        self.now = end;
        self.acknowledge(scheduler);
    }

    fn schedule(&mut self, scheduler: &mut dyn Scheduler) {
        let views: Vec<PathView> = self
            .lines
            .iter()
            .zip(0..)
            .map(|(line, id)| {
                let queued_bytes = line
                    .queue
                    .iter()
                    .map(|packet| u64::from(packet.bytes))
                    .sum();
                let is_ready = queued_bytes == 0 && line.free_at <= self.now;
                let in_flight = self.acks.iter().filter(|(_, ack)| ack.path == PathId(id));
                let bytes_in_flight = in_flight.count() as u64 * u64::from(LINE_PACKET_BYTES);
                PathView {
                    queued_bytes,
                    bytes_in_flight,
                    congestion_window: line.window,
                    sendable_bytes: match line.window {
                        Some(window) => window.saturating_sub(bytes_in_flight + queued_bytes),
                        None if is_ready => u64::from(LINE_PACKET_BYTES),
                        None => 0,
                    },
                    rtt: PathRtt::constant(line.there + line.back),
                    forecast: Forecast::constant(line.there + line.back, line.rate),
                    pacing_rate: line.window.is_none().then_some(line.rate),
                    bandwidth: line.rate,
                    ..path(id, 0, 0)
                }
            })
            .collect();
        let mut out = Vec::new();
        let queue = SendQueue::new(&self.waiting);
        scheduler.schedule(self.now, &queue, &SessionView::default(), &views, &mut out);
        for assignment in &out {
            for id in assignment.paths.iter() {
                self.lines[id.index()]
                    .queue
                    .push_back(self.waiting[assignment.index]);
            }
        }
        let mut index = 0;
        self.waiting.retain(|_| {
            index += 1;
            !out.iter().any(|assignment| assignment.index == index - 1)
        });
    }

    fn send(&mut self) {
        for (line, id) in self.lines.iter_mut().zip(0..) {
            // Packets that the window releases wait in the line.
            while (line.window.is_some() || line.free_at <= self.now)
                && let Some(packet) = line.queue.pop_front()
            {
                let begins_at = line.free_at.max(self.now);
                line.free_at = begins_at + line.rate.time_for(u64::from(packet.bytes));
                let path = PathId(id);
                let at = line.free_at + line.there;
                let arrived = Arrived { at, path, packet };
                self.left_on.push(path);
                self.arrived.push(arrived);
                self.acks.push((at + line.back, arrived));
            }
        }
    }

    fn acknowledge(&mut self, scheduler: &mut dyn Scheduler) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) = self.acks.drain(..).partition(|(at, _)| *at <= now);
        self.acks = later;
        for (_, Arrived { at, path, packet }) in due {
            let event = SchedulerEvent::Delivered {
                path,
                frame: packet.frame,
                fragment: packet.fragment,
                received_at: at,
            };
            scheduler.on_event(now, &event);
        }
    }

    /// Returns the bytes that a receiver in order holds after each arrival.
    fn held_bytes(&self) -> Vec<u64> {
        fn key(arrived: &Arrived) -> (FrameId, u16) {
            (arrived.packet.frame, arrived.packet.fragment)
        }
        let mut sent: Vec<_> = self.arrived.iter().map(key).collect();
        sent.sort_unstable();
        let mut next = sent.iter().peekable();
        let mut held = Vec::new();
        self.arrived
            .iter()
            .map(|arrived| {
                held.push(key(arrived));
                while let Some(place) = held.iter().position(|key| Some(&key) == next.peek()) {
                    held.swap_remove(place);
                    next.next();
                }
                held.len() as u64 * u64::from(LINE_PACKET_BYTES)
            })
            .collect()
    }

    /// Returns the share of packets that arrive when all before them have.
    pub(super) fn in_order_share(&self) -> f64 {
        let mut before = 0;
        let in_order = self.held_bytes().into_iter().filter(|held| {
            let is_in_order = *held <= before;
            before = *held;
            is_in_order
        });
        in_order.count() as f64 / self.arrived.len() as f64
    }

    pub(super) fn mean_held_bytes(&self) -> f64 {
        self.held_bytes().iter().sum::<u64>() as f64 / self.arrived.len() as f64
    }

    pub(super) fn max_held_bytes(&self) -> u64 {
        self.held_bytes().into_iter().max().unwrap_or(0)
    }

    /// Returns the mean time from a frame's capture to its last packet's arrival.
    pub(super) fn mean_frame_delay(&self) -> Duration {
        let delays = self.frames.iter().zip(0..).map(|(came_at, frame)| {
            let mut last_first = self.arrived.iter().rev();
            let last = last_first.find(|arrived| arrived.packet.frame.0 == frame);
            last.expect("it has arrived").at - *came_at
        });
        let total: Duration = delays.sum();
        total / self.frames.len() as u64
    }
}

//! Events of both ends, as the laboratory's recorder counts them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_core::{FrameId, PathCounters, PathId, SendReason, SessionCounters};
use anabranch_lab::metrics::Counters;
use anabranch_lab::{Outcome, Recording};
use anabranch_link::LinkStatistics;
use anabranch_net::{PacketEvent as Seen, PacketEventKind, PacketObserver};
use anabranch_sim::{
    Direction, FlowId, FragmentId, FrameEvent, FrameOutcome, LinkId, Observer, PacketCounts,
    PacketEvent, TraceHash,
};
use anabranch_units::{Duration, Importance, Instant};

/// The only flow.
const FLOW: FlowId = FlowId(0);
/// Headers of IPv4 and UDP, which observers of packets do not count.
const HEADER_BYTES: u32 = 28;
/// Time after which a packet that has not arrived counts as lost.
const LONGEST_FLIGHT: Duration = Duration::from_secs(60);

/// A packet in flight.
#[derive(Debug)]
struct Sent {
    number: u64,
    at: Instant,
    reason: SendReason,
    fragment: Option<FragmentId>,
}

/// The recorder of a run, and the state that it needs from event to event.
#[derive(Debug)]
pub(super) struct Meter {
    /// `None`: the run is over.
    recording: Option<Recording>,
    /// The scenario's begin, by the world's clocks.
    zero: Instant,
    /// Packets in flight to the receiver and back, by path.
    sent: [Vec<VecDeque<Sent>>; 2],
    packets: PacketCounts,
    data_packets_delivered: u64,
    /// Number of the first frame of each session.
    first_frames: Vec<u64>,
    captured_count: u64,
    /// Frames whose outcome is not known, as in the simulator.
    open_frames: VecDeque<FrameEvent>,
    /// Packets that the links of each path had lost at the last stop, to the receiver and back.
    lost_before: Vec<[u64; 2]>,
}

/// A handle of a meter.
#[derive(Clone, Debug)]
pub(super) struct SharedMeter(Arc<Mutex<Meter>>);

impl SharedMeter {
    pub(super) fn new(recording: Recording, zero: Instant, path_count: usize) -> Self {
        fn none(path_count: usize) -> Vec<VecDeque<Sent>> {
            (0..path_count).map(|_| VecDeque::new()).collect()
        }
        SharedMeter(Arc::new(Mutex::new(Meter {
            recording: Some(recording),
            zero,
            sent: [none(path_count), none(path_count)],
            packets: PacketCounts::default(),
            data_packets_delivered: 0,
            first_frames: vec![0],
            captured_count: 0,
            open_frames: VecDeque::new(),
            lost_before: vec![[0; 2]; path_count],
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Meter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an observer of the packets of the end that sends in this direction.
    pub(super) fn tap(&self, direction: Direction) -> Arc<dyn PacketObserver> {
        Arc::new(Tap {
            meter: self.clone(),
            direction,
        })
    }
}

/// The observer of an end's packets.
#[derive(Debug)]
struct Tap {
    meter: SharedMeter,
    /// Direction of the packets that the end sends.
    direction: Direction,
}

impl PacketObserver for Tap {
    fn on_packet(&self, seen: &Seen) {
        let opposite = match self.direction {
            Direction::Forward => Direction::Reverse,
            Direction::Reverse => Direction::Forward,
        };
        let mut meter = self.meter.lock();
        match seen.kind {
            PacketEventKind::Sent {
                number,
                bytes,
                reason,
                fragment,
            } => {
                let sent = Sent {
                    number,
                    at: seen.at,
                    reason,
                    fragment: fragment.map(|(frame, fragment)| meter.fragment(frame, fragment)),
                };
                meter.on_sent(self.direction, seen.path, sent, bytes);
            }
            PacketEventKind::Received { number, bytes } => {
                meter.on_received(opposite, seen.path, number, seen.at, bytes);
            }
            PacketEventKind::Lost { .. } => {}
        }
    }
}

impl Meter {
    /// Returns the recorder and the scenario's time, if the run has begun and is not over.
    fn recording(&mut self, at: Instant) -> Option<(&mut Recording, Instant)> {
        let since = at.as_nanos().checked_sub(self.zero.as_nanos())?;
        Some((self.recording.as_mut()?, Instant::from_nanos(since)))
    }

    /// Returns the number of a frame of the present session, counted over all sessions.
    fn index_of(&self, frame: FrameId) -> u64 {
        self.first_frames.last().expect("there is a first session") + frame.0
    }

    fn fragment(&self, frame: FrameId, fragment: u16) -> FragmentId {
        FragmentId {
            frame: self.index_of(frame) as u32,
            fragment,
        }
    }

    fn on_sent(&mut self, direction: Direction, path: PathId, sent: Sent, bytes: usize) {
        let event = packet_event(direction, path, bytes, &sent);
        let at = sent.at;
        let in_flight = &mut self.sent[direction as usize][path.index()];
        if in_flight
            .back()
            .is_some_and(|last| last.number >= sent.number)
        {
            // Another session, which counts from zero.
            in_flight.clear();
        }
        while in_flight
            .front()
            .is_some_and(|first| first.at + LONGEST_FLIGHT < at)
        {
            in_flight.pop_front();
        }
        in_flight.push_back(sent);
        if let Some((recording, at)) = self.recording(at) {
            recording.observer().on_sent(at, &event);
            self.packets.sent += 1;
        }
    }

    fn on_received(
        &mut self,
        direction: Direction,
        path: PathId,
        number: u64,
        at: Instant,
        bytes: usize,
    ) {
        let in_flight = &mut self.sent[direction as usize][path.index()];
        let found = in_flight.binary_search_by_key(&number, |sent| sent.number);
        let Some(sent) = found.ok().and_then(|index| in_flight.remove(index)) else {
            return;
        };
        let event = packet_event(direction, path, bytes, &sent);
        let has_begun = sent.at >= self.zero;
        let delay = at.saturating_since(sent.at);
        if has_begun && let Some((recording, at)) = self.recording(at) {
            recording.observer().on_delivered(at, &event, delay);
            self.packets.delivered += 1;
            self.data_packets_delivered += u64::from(direction == Direction::Forward);
        }
    }

    /// Handles a frame that the sender has taken, at `now`.
    pub(super) fn on_captured(
        &mut self,
        now: Instant,
        id: FrameId,
        size_bytes: u32,
        importance: Importance,
    ) {
        let index = self.index_of(id);
        let Some((recording, captured_at)) = self.recording(now) else {
            return;
        };
        let frame = FrameEvent {
            flow: FLOW,
            index,
            captured_at,
            size_bytes,
            importance,
        };
        recording.observer().on_frame_captured(&frame);
        self.open_frames.push_back(frame);
        self.captured_count = index + 1;
    }

    /// Handles the outcome of a frame at the receiver, in its session of this index.
    pub(super) fn on_outcome(
        &mut self,
        now: Instant,
        session: usize,
        id: FrameId,
        outcome: FrameOutcome,
    ) {
        let Some(first) = self.first_frames.get(session) else {
            return;
        };
        let index = first + id.0;
        let outcome = match outcome {
            FrameOutcome::Complete { completed_at } => {
                let since = completed_at.saturating_since(self.zero);
                FrameOutcome::Complete {
                    completed_at: Instant::ZERO + since,
                }
            }
            other => other,
        };
        while let Some(frame) = self.open_frames.front().copied()
            && frame.index <= index
        {
            self.open_frames.pop_front();
            let outcome = if frame.index == index {
                outcome
            } else {
                FrameOutcome::Missing
            };
            if let Some((recording, now)) = self.recording(now) {
                recording.observer().on_frame_outcome(now, &frame, outcome);
            }
        }
    }

    /// Handles a frame that the sender has given up.
    pub(super) fn on_abandoned(&mut self, now: Instant) {
        if let Some((recording, now)) = self.recording(now) {
            recording.observer().on_frame_abandoned(now, FLOW);
        }
    }

    /// Returns whether a key frame after this one may still arrive.
    pub(super) fn has_later_key(&self, id: FrameId) -> bool {
        let index = self.index_of(id);
        let mut open = self.open_frames.iter();
        open.any(|frame| frame.index > index && frame.importance.is_key())
    }

    /// Begins another session, whose frames are numbered from zero.
    pub(super) fn begin_session(&mut self) {
        self.first_frames.push(self.captured_count);
    }

    pub(super) fn next_stop(&self) -> Option<Instant> {
        let stop = self.recording.as_ref()?.next_stop()?;
        Some(self.zero + (stop - Instant::ZERO))
    }

    /// Takes the counts of a stop. `links` are those of each path, to the receiver and back.
    pub(super) fn at_stop(&mut self, counts: &mut Counts, links: &[[usize; 2]]) {
        let Some(recording) = &mut self.recording else {
            return;
        };
        for (index, links) in links.iter().enumerate() {
            let lost = links.map(|link| counts.links[link].dropped.total());
            let before = core::mem::replace(&mut self.lost_before[index], lost);
            let [forward, reverse] = [lost[0] - before[0], lost[1] - before[1]];
            recording.count_dropped(FLOW, PathId(index as u8), forward);
            self.packets.dropped += forward + reverse;
        }
        recording.at_stop(counts);
    }

    /// Begins the counts of lost packets.
    pub(super) fn begin(&mut self, counts: &Counts, links: &[[usize; 2]]) {
        for (before, links) in self.lost_before.iter_mut().zip(links) {
            *before = links.map(|link| counts.links[link].dropped.total());
        }
    }

    /// Ends the run. Returns its results.
    pub(super) fn finish(&mut self, trace_hash: u64) -> Outcome {
        let recording = self.recording.take().expect("a run ends once");
        let trace_hash = TraceHash::of_u64(trace_hash);
        recording.finish(trace_hash, self.packets, self.data_packets_delivered)
    }
}

fn packet_event(direction: Direction, path: PathId, bytes: usize, sent: &Sent) -> PacketEvent {
    PacketEvent {
        flow: FLOW,
        path,
        direction,
        size_bytes: bytes as u32 + HEADER_BYTES,
        fragment: sent.fragment,
        reason: Some(sent.reason),
    }
}

/// Counts of the world at a stop.
#[derive(Debug)]
pub(super) struct Counts {
    /// Time from the scenario's begin.
    pub(super) now: Instant,
    /// By the scenario's numbers.
    pub(super) links: Vec<LinkStatistics>,
    pub(super) receiver: SessionCounters,
    pub(super) sender_paths: Vec<PathCounters>,
}

impl Counters for Counts {
    fn now(&self) -> Instant {
        self.now
    }

    fn link_statistics(&mut self, link: LinkId) -> LinkStatistics {
        self.links[link.index()]
    }

    fn is_session(&self, _flow: FlowId) -> bool {
        true
    }

    fn receiver_counters(&self, _flow: FlowId) -> SessionCounters {
        self.receiver
    }

    fn sender_path_counters(&self, _flow: FlowId, path: PathId) -> PathCounters {
        self.sender_paths[path.index()]
    }
}

//! A flow's turn: all its actions in a window of time.

use std::collections::VecDeque;

use anabranch_core::media::{DropReason, MAX_FRAME_BYTES};
use anabranch_core::{DatagramMeta, Event, Frame, ReceivedFrame, Timer, Transmit};
use anabranch_units::Instant;
use bytes::Bytes;

use crate::flow::{Due, End, Flow, Work};
use crate::groups::Window;
use crate::ids::{FlowId, Side};
use crate::mailboxes::Arrival;
use crate::network::{Datagram, Network, Traffic};
use crate::observer::{FragmentId, FrameEvent, FrameOutcome, Observer, PacketEvent};
use crate::oracle;
use crate::payload::Unpacked;

/// Bytes that all flows use in turn.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The datagram being sent.
    datagram: Vec<u8>,
    /// The datagram being received.
    pub(super) received: Unpacked,
    /// Zeros: the contents of frames and streams.
    zeros: Bytes,
}

impl Buffers {
    /// Returns `size` zeros.
    pub(super) fn zeros(&mut self, size: usize) -> Bytes {
        if self.zeros.len() < size {
            self.zeros = vec![0; size.next_power_of_two()].into();
        }
        self.zeros.slice(..size)
    }
}

/// A flow, and the parts of the world that it uses during its turn.
pub(super) struct Turn<'a, O> {
    /// The ends that take their turn.
    pub(super) sides: &'static [Side],
    pub(super) window: Window,
    /// Instant that this flow has reached.
    pub(super) now: Instant,
    pub(super) flow_id: FlowId,
    pub(super) flow: &'a mut Flow,
    /// Unread arrivals of the window, by side.
    pub(super) mailboxes: [&'a [Arrival]; 2],
    pub(super) traffic: &'a mut Traffic,
    /// The network, for oracles.
    pub(super) network: Option<&'a mut Network>,
    pub(super) buffers: &'a mut Buffers,
    pub(super) observer: &'a mut O,
}

impl<O: Observer> Turn<'_, O> {
    /// Performs all steps that are due in the window for the ends of its group.
    pub(super) fn run(mut self) {
        while let Some((at, due)) = self.next_due()
            && at < self.window.before
            && !self.traffic.is_at_limit()
        {
            debug_assert!(at >= self.now, "time does not go back");
            self.now = at;
            self.traffic.count_step();
            match due {
                Due::Start(side) => self.start(side),
                Due::Arrival(side) => self.take_arrival(side),
                Due::Frame => self.take_frame(),
                Due::Timeout(side) => {
                    let End {
                        endpoint, deadline, ..
                    } = self.flow.end(side);
                    if !matches!(deadline, Some((_, Timer::Pacing))) {
                        endpoint.handle_timeout(at);
                    }
                    self.serve(side);
                }
                Due::Stop => self.stop(),
            }
        }
    }

    fn next_due(&self) -> Option<(Instant, Due)> {
        self.flow.next_due(self.sides, |side| {
            let first = self.mailboxes[side as usize].first();
            first.map(|arrival| arrival.at)
        })
    }

    #[cold]
    fn start(&mut self, side: Side) {
        let now = self.now;
        self.flow.end(side).start_at = None;
        if side == Side::Sender {
            self.flow.stop_at = self.flow.stop.map(|stop| stop.max(now));
            let first_at = match &mut self.flow.source {
                Work::Frames(source) => source.next_at(),
                Work::Objects(objects) => Some(objects.first_at(now)),
                Work::Download(_) | Work::Adaptive(_) => Some(now),
                Work::Bytes(_) => None,
            };
            self.flow.frame_at = first_at.map(|at| at.max(now));
            self.write_stream();
        }
        self.serve(side);
    }

    #[cold]
    fn stop(&mut self) {
        self.flow.stop_at = None;
        self.flow.end(Side::Sender).endpoint.close(self.now);
        self.serve(Side::Sender);
    }

    /// Reads the first datagram of an endpoint's mailbox.
    fn take_arrival(&mut self, side: Side) {
        let Some((arrival, rest)) = self.mailboxes[side as usize].split_first() else {
            return;
        };
        self.mailboxes[side as usize] = rest;
        let buffer = &mut self.buffers.received;
        let arrived = self.traffic.arrive(arrival, buffer, self.observer);
        if self.flow.session != arrived.session {
            return;
        }
        let meta = DatagramMeta {
            path: arrived.path,
            received_at: self.now,
            ecn: arrival.ecn,
        };
        let endpoint = &mut self.flow.end(side).endpoint;
        endpoint.handle_datagram(self.now, meta, arrived.bytes);
        if side == Side::Receiver {
            self.watch_head_of_line();
        }
        self.serve(side);
    }

    fn take_frame(&mut self) {
        let now = self.now;
        self.flow.frame_at = None;
        if self.flow.stop.is_some_and(|stop| stop <= now) {
            return;
        }
        let source = match &mut self.flow.source {
            Work::Frames(source) => source,
            Work::Download(_) | Work::Adaptive(_) => return self.go_on_viewing(),
            Work::Objects(_) | Work::Bytes(_) => return self.begin_object(),
        };
        let sender = &mut self.flow.ends[Side::Sender as usize].endpoint;
        let Some(sender) = sender.media_mut() else {
            return;
        };
        let shape = source.produce(now, sender.target_bitrate());
        // The session refuses longer frames.
        let size = (shape.bytes as usize).min(MAX_FRAME_BYTES + 1);
        let frame = Frame {
            bytes: self.buffers.zeros(size),
            importance: shape.importance,
            captured_at: now,
            lifetime: None,
        };
        if let Ok(id) = sender.send_frame(now, &frame) {
            let frame = FrameEvent {
                flow: self.flow_id,
                index: id.0,
                captured_at: now,
                size_bytes: shape.bytes,
                importance: shape.importance,
            };
            self.flow.open_frames.push_back(frame);
            self.observer.on_frame_captured(&frame);
        }
        self.flow.frame_at = source.next_at().map(|at| at.max(now));
        self.serve(Side::Sender);
    }

    /// Makes the calls that follow every call of an endpoint: sends its datagrams, handles its
    /// events, plans its next timeout.
    pub(super) fn serve(&mut self, side: Side) {
        let now = self.now;
        if side == Side::Sender && self.flow.truth.is_some() {
            self.update_oracle();
        }
        while !self.traffic.is_at_limit() {
            self.buffers.datagram.clear();
            let endpoint = &mut self.flow.ends[side as usize].endpoint;
            let transmit = endpoint.poll_transmit(now, &mut self.buffers.datagram);
            let Some(transmit) = transmit else {
                break;
            };
            self.send(side, &transmit);
        }
        let flow = &mut *self.flow;
        let end = &mut flow.ends[side as usize];
        let mut has_streamed = false;
        while let Some(event) = end.endpoint.poll_event() {
            if let (Event::FrameDropped { id, .. }, Work::Frames(source)) =
                (&event, &mut flow.source)
                && side == Side::Sender
                && !flow
                    .open_frames
                    .iter()
                    .any(|frame| frame.index > id.0 && frame.importance.is_key())
            {
                source.on_frame_lost();
            }
            match event {
                Event::StreamReadable | Event::StreamWritable | Event::StreamFinished => {
                    has_streamed = true;
                }
                event => report(
                    now,
                    self.flow_id,
                    &mut flow.open_frames,
                    event,
                    self.traffic,
                    self.observer,
                ),
            }
        }
        if has_streamed {
            // Reading may open a window, and writing may produce a datagram.
            self.serve_stream(side);
            return self.serve(side);
        }
        let deadline = end.endpoint.poll_timeout();
        end.deadline = deadline.map(|(at, timer)| (at.max(now), timer));
    }

    /// Hands the datagram in the buffer to the network. Apart, as half of the turns send none.
    #[inline(never)]
    fn send(&mut self, side: Side, transmit: &Transmit) {
        let datagram = Datagram {
            event: PacketEvent {
                flow: self.flow_id,
                path: transmit.path,
                direction: side.direction(),
                size_bytes: transmit.size as u32 + self.flow.ends[side as usize].overhead_bytes,
                fragment: transmit.fragment.map(|(frame, fragment)| FragmentId {
                    frame: frame.0 as u32,
                    fragment,
                }),
                reason: Some(transmit.reason),
            },
            session: self.flow.session,
            route: self.flow.paths[transmit.path.index()].route,
            ecn: transmit.ecn,
            payload: &self.buffers.datagram,
        };
        self.traffic.send(self.now, &datagram, self.observer);
    }

    /// Shows an oracle the state of the links. This requires that all packets sent so far have been
    /// carried.
    #[cold]
    fn update_oracle(&mut self) {
        let Some(truth) = &self.flow.truth else {
            return;
        };
        let network = self
            .network
            .as_deref_mut()
            .expect("an oracle requires a single shard");
        let mut shards = (&mut *self.traffic, &mut *self.observer);
        network.carry(self.window, self.now, &mut shards);
        let routes = self.flow.paths.iter().map(|path| path.route);
        let direction = Side::Sender.direction();
        oracle::publish(
            truth,
            routes.map(|route| network.forecast(self.now, route, direction, self.traffic)),
        );
    }
}

/// Reports an endpoint's event to the observer. A function of its own, as most turns have no event.
#[inline(never)]
fn report(
    now: Instant,
    flow: FlowId,
    open_frames: &mut VecDeque<FrameEvent>,
    event: Event,
    traffic: &mut Traffic,
    observer: &mut impl Observer,
) {
    let (index, outcome) = match event {
        Event::FrameReceived(ReceivedFrame {
            id, completed_at, ..
        }) => (id.0, FrameOutcome::Complete { completed_at }),
        Event::FrameDropped {
            id,
            reason: DropReason::Incomplete,
        } => (id.0, FrameOutcome::Incomplete),
        Event::FrameDropped {
            id,
            reason: DropReason::Missing,
        } => (id.0, FrameOutcome::Missing),
        Event::FrameDropped {
            id,
            reason: DropReason::Late,
        } => {
            traffic.record_abandoned(now, flow, id.0);
            return observer.on_frame_abandoned(now, flow);
        }
        Event::TargetBitrate(target) => {
            return observer.on_target_bitrate(now, flow, target);
        }
        Event::PathState { path, state } => {
            return observer.on_path_state(now, flow, path, state);
        }
        _ => return,
    };
    // The receiver learns of a frame that vanished completely only by the numbers of later ones.
    while let Some(frame) = open_frames
        .front()
        .copied()
        .filter(|frame| frame.index <= index)
    {
        open_frames.pop_front();
        let outcome = if frame.index == index {
            outcome
        } else {
            FrameOutcome::Missing
        };
        traffic.record_outcome(now, &frame, outcome);
        observer.on_frame_outcome(now, &frame, outcome);
    }
}

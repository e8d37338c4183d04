//! The interface for observers of a [`World`](crate::World).

use anabranch_core::{PathId, PathState, SendReason};
use anabranch_link::DropCause;
use anabranch_units::{DataRate, Duration, Importance, Instant};

use crate::ids::{Direction, FlowId, LinkId};

/// Receiver of every event. All methods do nothing unless overridden. Calls are resolved at compile
/// time, so that unobserved events cost nothing.
pub trait Observer {
    /// Reports that an endpoint has handed a datagram to the first link of a route.
    fn on_sent(&mut self, _now: Instant, _packet: &PacketEvent) {}

    /// Reports that a datagram has arrived, `delay` after it was sent.
    fn on_delivered(&mut self, _now: Instant, _packet: &PacketEvent, _delay: Duration) {}

    /// Reports that a link has dropped a datagram.
    fn on_dropped(
        &mut self,
        _now: Instant,
        _packet: &PacketEvent,
        _link: LinkId,
        _cause: DropCause,
    ) {
    }

    /// Reports that a source has produced a frame, and that its sender has taken it.
    fn on_frame_captured(&mut self, _frame: &FrameEvent) {}

    /// Reports the outcome of a frame at the receiver. Each frame has one, in the order of capture.
    fn on_frame_outcome(&mut self, _now: Instant, _frame: &FrameEvent, _outcome: FrameOutcome) {}

    /// Reports that a sender has given up a frame that was not completely sent.
    fn on_frame_abandoned(&mut self, _now: Instant, _flow: FlowId) {}

    /// Reports that a receiver has received `_bytes` more of its stream in order.
    fn on_stream_delivered(&mut self, _now: Instant, _flow: FlowId, _bytes: u64) {}

    /// Reports that `_bytes` of a stream have become readable at its receiver, after they waited
    /// for missing bytes before them.
    fn on_stream_in_order(&mut self, _now: Instant, _flow: FlowId, _bytes: u64, _waited: Duration) {
    }

    /// Reports that a stream that began at `_began_at` has arrived completely.
    fn on_stream_finished(&mut self, _now: Instant, _flow: FlowId, _began_at: Instant) {}

    /// Reports that a sender requests another bitrate from its encoder.
    fn on_target_bitrate(&mut self, _now: Instant, _flow: FlowId, _target: DataRate) {}

    /// Reports that a sender's trust in a path has changed.
    fn on_path_state(&mut self, _now: Instant, _flow: FlowId, _path: PathId, _state: PathState) {}
}

/// Ignores all events.
impl Observer for () {}

/// A datagram in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// Flow of the packet.
    pub flow: FlowId,
    /// Number of its path in the flow.
    pub path: PathId,
    /// Direction of the packet: data go forward, feedback goes back.
    pub direction: Direction,
    /// Bytes on the wire.
    pub size_bytes: u32,
    /// The piece of media that it carries, if any.
    pub fragment: Option<FragmentId>,
    /// Reason for which its session sent it; `None` for packets of generators.
    pub reason: Option<SendReason>,
}

/// Identifies a piece of media: every copy of it has the same identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FragmentId {
    /// The frame's number, from zero; a simulation has fewer than 2^32.
    pub frame: u32,
    /// Index of the fragment in its frame, from zero.
    pub fragment: u16,
}

/// A frame of video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEvent {
    /// Flow of the frame.
    pub flow: FlowId,
    /// Its number, from zero.
    pub index: u64,
    /// Time at which the source produced it.
    pub captured_at: Instant,
    /// Its encoded size in bytes.
    pub size_bytes: u32,
    /// Importance of the frame.
    pub importance: Importance,
}

/// The outcome of a frame at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameOutcome {
    /// The frame has arrived completely.
    Complete {
        /// Arrival of the last missing piece. The frame is handed out later if it waits for frames
        /// before it.
        completed_at: Instant,
    },
    /// A part of it arrived; the receiver has given up the rest.
    Incomplete,
    /// No part of it arrived.
    Missing,
}

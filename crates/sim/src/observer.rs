//! The interface for observers of a [`World`](crate::World).

use anabranch_core::{PathId, PathState, SendReason};
use anabranch_link::DropCause;
use anabranch_units::{DataRate, Duration, Importance, Instant};

use crate::flow::{Direction, FlowId};
use crate::topology::LinkId;

/// Receiver of every event. All methods do nothing unless overridden. Calls are resolved at compile
/// time, so that unobserved events cost nothing.
pub trait Observer {
    /// An endpoint has handed a datagram to the first link of a route.
    fn on_sent(&mut self, _now: Instant, _packet: &PacketEvent) {}

    /// A datagram has arrived, `delay` after it was sent.
    fn on_delivered(&mut self, _now: Instant, _packet: &PacketEvent, _delay: Duration) {}

    /// A link has lost a datagram.
    fn on_dropped(
        &mut self,
        _now: Instant,
        _packet: &PacketEvent,
        _link: LinkId,
        _cause: DropCause,
    ) {
    }

    /// A source has produced a frame, and its sender has taken it.
    fn on_frame_captured(&mut self, _frame: &FrameEvent) {}

    /// Reports the outcome of a frame at the receiver. Each frame has one, in the order of capture.
    fn on_frame_outcome(&mut self, _now: Instant, _frame: &FrameEvent, _outcome: FrameOutcome) {}

    /// A sender has given a frame up before it was wholly sent.
    fn on_frame_abandoned(&mut self, _now: Instant, _flow: FlowId) {}

    /// Reports that a receiver has received `_bytes` more of its stream in order.
    fn on_stream_delivered(&mut self, _now: Instant, _flow: FlowId, _bytes: u64) {}

    /// Reports that `_bytes` of a stream have become readable at its receiver, after they waited
    /// for missing bytes before them.
    fn on_stream_in_order(&mut self, _now: Instant, _flow: FlowId, _bytes: u64, _waited: Duration) {
    }

    /// A stream that was begun at `began_at` has arrived to its end.
    fn on_stream_finished(&mut self, _now: Instant, _flow: FlowId, _began_at: Instant) {}

    /// A sender asks its encoder for another bitrate.
    fn on_target_bitrate(&mut self, _now: Instant, _flow: FlowId, _target: DataRate) {}

    /// A sender trusts a path more, or less, than before.
    fn on_path_state(&mut self, _now: Instant, _flow: FlowId, _path: PathId, _state: PathState) {}
}

/// Watches nothing.
impl Observer for () {}

/// A datagram on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// Whose it is.
    pub flow: FlowId,
    /// Which of the flow's paths it takes.
    pub path: PathId,
    /// Data go forward, feedback goes back.
    pub direction: Direction,
    /// Bytes on the wire.
    pub size_bytes: u32,
    /// The piece of media that it carries; `None`: something else.
    pub fragment: Option<FragmentId>,
    /// Why its session sent it; `None`: it is of no session.
    pub reason: Option<SendReason>,
}

/// Names a piece of media: every copy of it has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FragmentId {
    /// The frame's number, from zero; a simulation has fewer than 2^32.
    pub frame: u32,
    /// Which of the frame's fragments, from zero.
    pub fragment: u16,
}

/// A frame of video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEvent {
    /// Whose it is.
    pub flow: FlowId,
    /// Its number, from zero.
    pub index: u64,
    /// When the source produced it.
    pub captured_at: Instant,
    /// Its encoded size in bytes.
    pub size_bytes: u32,
    /// Importance of the frame.
    pub importance: Importance,
}

/// The outcome of a frame at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameOutcome {
    /// All of it has arrived.
    Complete {
        /// When its last missing piece arrived, which is before it is handed out if it had to wait
        /// for frames before it.
        completed_at: Instant,
    },
    /// Part of it arrived; the receiver waits no more.
    Incomplete,
    /// Nothing of it arrived.
    Missing,
}

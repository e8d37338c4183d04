//! Packet scheduling as the session sees it: which packet takes which path.
//!
//! One trait carries early binding (to a path's own queue as a packet arrives), late binding (hold
//! it until a path is [`PathView::sendable_bytes`]), reordering and duplication. The algorithms are
//! in a crate of their own, `anabranch-schedulers`; the session is handed a [`SchedulerFactory`]
//! and knows none of them. The session itself chooses the path of retransmissions and repairs, by
//! the rule of [`fastest`].

mod eligible;

use core::fmt::Debug;

use anabranch_units::{Importance, Instant};

use crate::factory::Factory;
use crate::fragment::{FragmentId, FrameId};
use crate::path_view::{PathId, PathSet, PathView};
use crate::send_reason::SendReason;
use crate::session_view::SessionView;

pub use eligible::{cheapest, eligible_paths, fastest, usable};

/// The scheduler of a configuration.
pub type SchedulerFactory = Factory<dyn Scheduler>;

/// Binds packets to paths.
///
/// This scheduler sends each packet on every usable path:
///
/// ```
/// use anabranch_core::scheduler::{Assignment, Scheduler, SchedulerFactory, SendQueue};
/// use anabranch_core::{PathSet, PathView, SessionView};
/// use anabranch_units::Instant;
///
/// #[derive(Debug)]
/// struct Everywhere;
///
/// impl Scheduler for Everywhere {
///     fn schedule(
///         &mut self,
///         _now: Instant,
///         queue: &SendQueue<'_>,
///         _session: &SessionView,
///         paths: &[PathView],
///         out: &mut Vec<Assignment>,
///     ) {
///         let usable = paths.iter().filter(|path| path.state.is_usable());
///         let paths: PathSet = usable.map(|path| path.id).collect();
///         if !paths.is_empty() {
///             out.extend((0..queue.len()).map(|index| Assignment { index, paths }));
///         }
///     }
///
///     fn is_redundant(&self) -> bool {
///         true
///     }
/// }
///
/// let everywhere = SchedulerFactory::new("everywhere", || Box::new(Everywhere));
/// assert!(everywhere.build().is_redundant());
/// ```
pub trait Scheduler: Debug + Send {
    /// Binds packets of the queue, any of them and in any order, to paths: one path, several
    /// (duplicates), or none yet (hold: no assignment). A packet is assigned at most once a call,
    /// and never to a path whose state is not usable. Packets that stay are offered again at the
    /// next frame, report, path event or [`Scheduler::wake_at`].
    fn schedule(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    );

    /// Handles an event from which the scheduler may learn.
    fn on_event(&mut self, _now: Instant, _event: &SchedulerEvent) {}

    /// Returns whether a call is useless while no path has room ([`PathView::sendable_bytes`]) and
    /// each has packets in flight: the scheduler then binds nothing, and learns nothing. Sessions
    /// of streams omit such calls.
    fn needs_room(&self) -> bool {
        false
    }

    /// Returns when the scheduler wants to be called again though nothing has happened.
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    /// Returns whether every packet goes to every path. Their rates then do not add up: the
    /// encoder's target is the rate of the best path.
    fn is_redundant(&self) -> bool {
        false
    }
}

/// The packets that wait to be bound: retransmissions first, then sources, oldest first. Repairs
/// are not among them: the session keeps them away from the paths of the symbols they cover.
#[derive(Clone, Copy, Debug)]
pub struct SendQueue<'a> {
    packets: &'a [PacketView],
}

impl<'a> SendQueue<'a> {
    /// Creates a queue of these packets.
    pub fn new(packets: &'a [PacketView]) -> Self {
        SendQueue { packets }
    }

    /// Returns the number of waiting packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the packet at `index`, which is also the index in an [`Assignment`].
    pub fn packet(&self, index: usize) -> Option<&'a PacketView> {
        self.packets.get(index)
    }

    /// Iterates over all packets with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &'a PacketView)> {
        self.packets.iter().enumerate()
    }
}

/// Waiting packet as schedulers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketView {
    /// The frame that it is a fragment of.
    pub frame: FrameId,
    /// Which fragment, from zero.
    pub fragment: u16,
    /// Number of fragments of the frame.
    pub fragment_count: u16,
    /// Reason of the packet.
    pub reason: SendReason,
    /// Effect of the loss of its frame.
    pub importance: Importance,
    /// Its bytes on the wire.
    pub bytes: u32,
    /// When the frame is worthless; `None` for key frames, which later frames need at any age.
    pub deadline: Option<Instant>,
    /// Paths on which a copy is in flight.
    pub in_flight_on: PathSet,
    /// Paths to take only when there is no other: a copy was lost there, or is stuck there.
    pub avoid: PathSet,
}

impl PacketView {
    /// Returns the fragment of which the packet is a copy.
    pub(crate) const fn id(&self) -> FragmentId {
        FragmentId {
            frame: self.frame,
            fragment: self.fragment,
        }
    }

    /// Returns the kind of the packet, which follows from its reason.
    pub const fn kind(&self) -> PacketKind {
        match self.reason {
            SendReason::Repair => PacketKind::Repair,
            reason if reason.is_retransmission() => PacketKind::Retransmission,
            _ => PacketKind::Source,
        }
    }
}

/// Kind of a waiting packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// A fragment as its frame was handed in.
    Source,
    /// Another copy of a fragment that has left, for a [`SendReason::is_retransmission`].
    Retransmission,
    /// To stand in for fragments that may be lost. Its `frame` is the newest of theirs, its
    /// `fragment` counts that frame's repairs. Schedulers are offered none.
    Repair,
}

/// "Packet `index` of the queue goes to these paths."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Index in the [`SendQueue`].
    pub index: usize,
    /// Where it goes; more than one path sends copies.
    pub paths: PathSet,
}

impl Assignment {
    /// Returns the reason of the packet on each of the paths, if another copy has left before.
    pub(crate) fn reason(&self, packet: &PacketView) -> SendReason {
        if packet.kind() == PacketKind::Source && self.paths.len() > 1 {
            SendReason::Duplicate
        } else {
            packet.reason
        }
    }
}

/// Event for schedulers beside the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerEvent {
    /// A packet has left.
    Sent {
        /// On this path.
        path: PathId,
        /// Its bytes on the wire.
        bytes: u32,
        /// Bytes that still wait for the path, as [`PathView::queued_bytes`].
        queued_bytes: u64,
    },
    /// A packet has arrived.
    Acked {
        /// On this path.
        path: PathId,
        /// Its bytes on the wire.
        bytes: u32,
    },
    /// A fragment has arrived, or a copy of it.
    Delivered {
        /// On this path.
        path: PathId,
        /// A fragment of this frame.
        frame: FrameId,
        /// Which one.
        fragment: u16,
        /// When, by the peer's clock: good for differences only.
        received_at: Instant,
    },
    /// A packet is lost.
    Lost {
        /// On this path.
        path: PathId,
        /// Its bytes on the wire.
        bytes: u32,
    },
    /// A path has joined, or come back.
    PathUp(PathId),
    /// A path is suspect, out or removed.
    PathDown(PathId),
}

//! Packet scheduling: which packet takes which path.
//!
//! One trait carries early binding (to a path's own queue as a packet arrives), late binding (hold
//! it until a path is [`PathView::sendable_bytes`]), reordering and duplication. Most schedulers
//! choose a path for one packet after the other, and most of these by a cost per path: they
//! implement [`PathChoice`] or [`PathCost`] and are schedulers by way of [`OneByOne`]. To add one:
//! one file in `scheduler/`, one line in [`SCHEDULERS`].

mod anabranch;
mod binding;
#[cfg(test)]
mod contract;
mod daps;
mod dems;
mod edcld;
mod frame_wise;
mod mdp;
mod min_cost;
mod oms;
mod one_by_one;
mod qaware;
mod redundant;
mod round_robin;
mod sfl;
mod stms;
#[cfg(test)]
mod testing;
mod wrr;

use core::fmt::Debug;

use anabranch_units::{Importance, Instant, known_names};

use crate::media::{FragmentId, FrameId};
use crate::path_view::{PathId, PathSet, PathView};
use crate::send_reason::SendReason;
use crate::session_view::SessionView;

pub(crate) use one_by_one::fastest;
pub use one_by_one::{OneByOne, PathChoice, PathCost, transfer_cost};

/// Binds packets to paths.
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

    /// Something has happened that the scheduler may learn from.
    fn on_event(&mut self, _now: Instant, _event: &SchedulerEvent) {}

    /// When the scheduler wants to be asked again though nothing has happened.
    fn wake_at(&self) -> Option<Instant> {
        None
    }

    /// Whether every packet goes to every path, so that their rates do not add up: the encoder is
    /// asked for what the best of them carries.
    fn is_redundant(&self) -> bool {
        false
    }
}

/// The packets that wait to be bound: retransmissions first, then sources, oldest first. Repairs
/// are not among them: the session sends them away from what they protect.
#[derive(Clone, Copy, Debug)]
pub struct SendQueue<'a> {
    packets: &'a [PacketView],
}

impl<'a> SendQueue<'a> {
    /// A queue of these packets.
    pub fn new(packets: &'a [PacketView]) -> Self {
        SendQueue { packets }
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packet at `index`, which is also the index that an [`Assignment`] names.
    pub fn packet(&self, index: usize) -> Option<&'a PacketView> {
        self.packets.get(index)
    }

    /// All packets with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &'a PacketView)> {
        self.packets.iter().enumerate()
    }
}

/// What a scheduler may know of a waiting packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketView {
    /// The frame that it is a fragment of.
    pub frame: FrameId,
    /// Which fragment, from zero.
    pub fragment: u16,
    /// How many fragments the frame has.
    pub fragment_count: u16,
    /// Why it is to be sent.
    pub reason: SendReason,
    /// What is lost with its frame.
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
    /// The fragment that it is a copy of.
    pub(crate) const fn id(&self) -> FragmentId {
        FragmentId {
            frame: self.frame,
            fragment: self.fragment,
        }
    }

    /// What it is among the packets that wait, by the reason it is sent for.
    pub const fn kind(&self) -> PacketKind {
        match self.reason {
            SendReason::Repair => PacketKind::Repair,
            reason if reason.is_retransmission() => PacketKind::Retransmission,
            _ => PacketKind::Source,
        }
    }
}

/// What a packet is among those that wait.
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
    /// Why the packet leaves on each of the paths, if another copy has left before.
    pub(crate) fn reason(&self, packet: &PacketView) -> SendReason {
        match packet.kind() == PacketKind::Source && self.paths.len() > 1 {
            true => SendReason::Duplicate,
            false => packet.reason,
        }
    }
}

/// What schedulers are told beside the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerEvent {
    /// A packet has left.
    Sent {
        /// On this path.
        path: PathId,
        /// Its bytes on the wire.
        bytes: u32,
        /// What still waits for the path, as [`PathView::queued_bytes`].
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

/// An entry of the registry.
#[derive(Clone, Copy)]
pub struct SchedulerEntry {
    /// The name used in scenario files and on the command line.
    pub name: &'static str,
    /// One line on what it is.
    pub summary: &'static str,
    build: fn() -> Box<dyn Scheduler>,
}

/// Every scheduler there is.
pub const SCHEDULERS: &[SchedulerEntry] = &[
    SchedulerEntry {
        name: "anabranch",
        summary: "the path that delivers first, by a forecast that sees paths slow down (ours)",
        build: anabranch::build,
    },
    SchedulerEntry {
        name: "daps",
        summary: "places in a list of coming arrivals, by rate and delay (Kuhn et al. 2014)",
        build: daps::build,
    },
    SchedulerEntry {
        name: "dems",
        summary: "frames from both ends, repeated where the paths meet (Guo et al. 2017)",
        build: dems::build,
    },
    SchedulerEntry {
        name: "edcld",
        summary: "shares that level the paths' delays (Prabhavat et al. 2011; Zhang & Lei eq. 17)",
        build: edcld::build,
    },
    SchedulerEntry {
        name: "mdp",
        summary: "a Markov decision process over the paths' backlogs (Bui et al. 2010)",
        build: mdp::build,
    },
    SchedulerEntry {
        name: "min-cost",
        summary: "the path with the least RTT/2 + queue/rate (Zhang & Lei §4.2; the default)",
        build: min_cost::build,
    },
    SchedulerEntry {
        name: "oms",
        summary: "the path that delivers first, shares kept (Cetinkaya & Knightly 2004)",
        build: oms::build,
    },
    SchedulerEntry {
        name: "qaware",
        summary: "local queue at its measured rate + RTT/2 (Shreedhar et al. 2018)",
        build: qaware::build,
    },
    SchedulerEntry {
        name: "redundant",
        summary: "every packet on every path (MPTCP's redundant scheduler)",
        build: redundant::build,
    },
    SchedulerEntry {
        name: "round-robin",
        summary: "one packet per path in turn",
        build: round_robin::build,
    },
    SchedulerEntry {
        name: "sfl",
        summary: "each frame poured over the paths like water (Wu et al. 2015)",
        build: sfl::build,
    },
    SchedulerEntry {
        name: "stms",
        summary: "slow paths run ahead by what the fast one brings meanwhile (Shi et al. 2018)",
        build: stms::build,
    },
    SchedulerEntry {
        name: "wrr",
        summary: "shares by bandwidth, interleaved (Zhang & Lei eq. 16)",
        build: wrr::build,
    },
];

/// No scheduler has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no scheduler is called {name:?}; known are {}",
    known_names(name, SCHEDULERS.iter().map(|entry| entry.name))
)]
pub struct UnknownScheduler {
    /// The name asked for.
    pub name: String,
}

/// Name of the scheduler that a session has unless told otherwise.
pub const DEFAULT: &str = "min-cost";

/// A scheduler by its name in [`SCHEDULERS`].
///
/// # Errors
/// [`UnknownScheduler`], which lists the known names.
pub fn build(name: &str) -> Result<Box<dyn Scheduler>, UnknownScheduler> {
    SCHEDULERS
        .iter()
        .find(|entry| entry.name == name)
        .map(|entry| (entry.build)())
        .ok_or_else(|| UnknownScheduler {
            name: name.to_owned(),
        })
}

//! Invariants of a session between any two calls, checked from outside the code that keeps them.
//!
//! [`Session::check_invariants`](crate::Session::check_invariants) looks at all state, and its time
//! grows with it. It exists with debug assertions, and with the feature `invariants`.

use core::fmt;
use std::collections::BTreeMap;

use crate::media::FrameId;
use crate::path_view::{PathId, PathSet};
use crate::recovery::{PacketContent, SentPacket};
use crate::scheduler::{PacketKind, PacketView};

/// Property that must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// A sum or count that is kept is that of its parts.
    Sums,
    /// A fragment that is queued is in exactly one place: it waits for the scheduler, is bound to
    /// paths, or waits for repairs. One that is not queued is in none, except for the scheduler's
    /// copies. Fragments that have arrived and frames that were given up are exempt: their
    /// remaining packets are dropped later. Redundant schedulers are, too.
    OnePlace,
    /// A fragment is in flight on exactly the paths on which recovery has a copy outstanding.
    InFlight,
    /// A fragment that has not arrived is queued or in flight, unless its frame was given up or
    /// repairs may still recover it.
    NotForgotten,
    /// Lists are in order and hold their own kind of entries, no more than once.
    Lists,
    /// Datagrams counted by reason add up to those counted otherwise.
    Reasons,
    /// The segments of a stream lie side by side, and waiting retransmissions are not in flight.
    Segments,
    /// Repairs are paid from their budget.
    Budget,
    /// A session that has performed all due actions asks to be called later than now. No timer
    /// expires before the time that is kept as the earliest.
    Timer,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// Object and kind of the violation.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.detail)
    }
}

/// Exceptions of a session that cannot keep an invariant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exceptions {
    /// A redundant scheduler binds several copies of a retransmission. They cannot be
    /// distinguished, so one may leave, be lost and wait again while another is still bound.
    pub(crate) is_redundant: bool,
}

/// Collects violations.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    pub(crate) violations: Vec<Violation>,
}

impl Checker {
    pub(crate) fn require(
        &mut self,
        invariant: Invariant,
        holds: bool,
        detail: impl FnOnce() -> String,
    ) {
        if !holds {
            let detail = detail();
            self.violations.push(Violation { invariant, detail });
        }
    }

    /// Checks that a `kept` sum equals the `counted` one.
    pub(crate) fn sum(&mut self, of: &str, kept: u64, counted: u64) {
        self.equal(Invariant::Sums, of, kept, counted);
    }

    pub(crate) fn equal(&mut self, invariant: Invariant, of: &str, kept: u64, counted: u64) {
        self.require(invariant, kept == counted, || {
            format!("{of}: {kept}, counted {counted}")
        });
    }
}

/// Where copies of a fragment are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Entries in the list of those that wait for the scheduler.
    pub(crate) waiting: u32,
    /// Entries in the list of those that wait for repairs.
    pub(crate) awaiting_repairs: u32,
    /// Paths to which it is bound, scheduler's copies not counted.
    pub(crate) bound_to: PathSet,
    /// Paths to which the scheduler bound one of several copies.
    pub(crate) copies_bound_to: PathSet,
    /// Paths on which a copy is outstanding: of all of it, if it was cut again.
    pub(crate) outstanding_on: PathSet,
    /// Paths on which a copy of its first piece is outstanding.
    pub(crate) pieces_on: PathSet,
}

/// Where copies of all fragments are.
#[derive(Debug, Default)]
pub(crate) struct Places(BTreeMap<(FrameId, u16), Place>);

impl Places {
    pub(crate) fn of(&self, frame: FrameId, fragment: u16) -> Place {
        self.0.get(&(frame, fragment)).copied().unwrap_or_default()
    }

    pub(crate) fn at(&mut self, frame: FrameId, fragment: u16) -> &mut Place {
        self.0.entry((frame, fragment)).or_default()
    }

    /// Adds a packet bound to a path. Returns whether it is the only copy there.
    pub(crate) fn add_bound(&mut self, path: PathId, packet: &PacketView) -> bool {
        if packet.kind() == PacketKind::Repair {
            return true;
        }
        let place = self.at(packet.frame, packet.fragment);
        let set = match packet.reason.is_scheduled_copy() {
            true => &mut place.copies_bound_to,
            false => &mut place.bound_to,
        };
        let is_first = !set.contains(path);
        set.insert(path);
        is_first
    }

    /// Adds a packet outstanding on a path.
    pub(crate) fn add_outstanding(&mut self, path: PathId, packet: SentPacket) {
        let PacketContent::Fragment {
            frame,
            fragment,
            is_piece,
        } = packet.content
        else {
            return;
        };
        let place = self.at(frame, fragment);
        let set = match is_piece {
            true => &mut place.pieces_on,
            false => &mut place.outstanding_on,
        };
        set.insert(path);
    }
}

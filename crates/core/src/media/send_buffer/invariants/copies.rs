//! Places of the copies of fragments, for the check of invariants.

use std::collections::BTreeMap;

use crate::fragment::FrameId;
use crate::path_view::{PathId, PathSet};
use crate::recovery::{PacketContent, SentPacket};
use crate::scheduler::{PacketKind, PacketView};

/// Exceptions of a session that cannot keep an invariant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exceptions {
    /// A redundant scheduler binds several copies of a retransmission. They cannot be
    /// distinguished, so one may leave, be lost and wait again while another is still bound.
    pub(crate) is_redundant: bool,
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
pub(crate) struct CopyMap(BTreeMap<(FrameId, u16), Place>);

impl CopyMap {
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
        let set = if packet.reason.is_scheduled_copy() {
            &mut place.copies_bound_to
        } else {
            &mut place.bound_to
        };
        let is_first = !set.contains(path);
        set.insert(path);
        is_first
    }

    /// Adds a packet outstanding on a path.
    pub(crate) fn add_outstanding(&mut self, path: PathId, packet: SentPacket) {
        if let PacketContent::Fragment {
            frame,
            fragment,
            is_piece,
        } = packet.content
        {
            let place = self.at(frame, fragment);
            let set = if is_piece {
                &mut place.pieces_on
            } else {
                &mut place.outstanding_on
            };
            set.insert(path);
        }
    }
}

//! What a call of a scheduler has bound so far.

use anabranch_units::Instant;

use super::one_by_one::fastest;
use super::{Assignment, PacketKind, PacketView, RepairPlacement};
use crate::path_view::{PathId, PathSet, PathView};

/// The paths as they are with what the present call has bound, and the session's rules for
/// packets whose path is not the scheduler's choice.
#[derive(Debug, Default)]
pub(super) struct Binding {
    /// What has been bound in this call counts in `queued_bytes` and `sendable_bytes` already.
    pub(super) paths: Vec<PathView>,
    repairs: RepairPlacement,
}

impl Binding {
    /// A call begins.
    pub(super) fn begin(&mut self, paths: &[PathView]) {
        self.paths.clear();
        self.paths.extend_from_slice(paths);
    }

    /// The path of a packet by the session's rules.
    pub(super) fn by_rule(&self, now: Instant, packet: &PacketView) -> Option<PathId> {
        self.repairs.path_by_rule(now, packet, &self.paths)
    }

    /// Packet `index` of the queue goes to `paths`.
    pub(super) fn bind(
        &mut self,
        index: usize,
        packet: &PacketView,
        paths: PathSet,
        out: &mut Vec<Assignment>,
    ) {
        self.repairs.note(packet, paths, &mut self.paths);
        out.push(Assignment { index, paths });
    }
}

impl RepairPlacement {
    /// The path of a packet by the session's rules: a repair goes away from its sources, and
    /// everything else to the path that delivers it first.
    pub(super) fn path_by_rule(
        &self,
        now: Instant,
        packet: &PacketView,
        paths: &[PathView],
    ) -> Option<PathId> {
        match packet.kind {
            PacketKind::Repair { window } => self.path_for(now, packet, window, paths),
            PacketKind::Source | PacketKind::Retransmission => fastest(packet, paths),
        }
    }

    /// A packet has been bound to `bound_to`, some of `paths`, where it counts from now on.
    pub(super) fn note(&mut self, packet: &PacketView, bound_to: PathSet, paths: &mut [PathView]) {
        if let Some(first) = bound_to.iter().next() {
            self.on_bound(packet, first);
        }
        let bytes = u64::from(packet.bytes);
        for id in bound_to.iter() {
            let path = &mut paths[id.index()];
            path.queued_bytes += bytes;
            if packet.kind == PacketKind::Retransmission {
                path.queued_retransmission_bytes += bytes;
            }
            path.sendable_bytes = path.sendable_bytes.saturating_sub(bytes);
        }
    }
}

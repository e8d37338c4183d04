//! Packets that a scheduler's call has bound so far.

use anabranch_core::scheduler::{Assignment, PacketKind, PacketView, fastest};
use anabranch_core::{PathId, PathSet, PathView};

/// The paths with the packets that the present call has bound.
#[derive(Debug, Default)]
pub(super) struct Binding {
    /// Packets bound in this call already count in `queued_bytes` and `sendable_bytes`.
    pub(super) paths: Vec<PathView>,
}

impl Binding {
    /// Begins a call.
    pub(super) fn begin(&mut self, paths: &[PathView]) {
        self.paths.clear();
        self.paths.extend_from_slice(paths);
    }

    /// Returns the path of a packet whose path is not the scheduler's choice. By the session's rule
    /// it is the one that delivers the packet first.
    pub(super) fn by_rule(&self, packet: &PacketView) -> Option<PathId> {
        fastest(packet, &self.paths)
    }

    /// Binds packet `index` of the queue to `paths`.
    pub(super) fn bind(
        &mut self,
        index: usize,
        packet: &PacketView,
        paths: PathSet,
        out: &mut Vec<Assignment>,
    ) {
        count_bound(packet, paths, &mut self.paths);
        out.push(Assignment { index, paths });
    }
}

/// Counts a packet that has been bound to `bound_to` in the views of these paths.
pub(super) fn count_bound(packet: &PacketView, bound_to: PathSet, paths: &mut [PathView]) {
    let bytes = u64::from(packet.bytes);
    for id in bound_to.iter() {
        let path = &mut paths[id.index()];
        path.queued_bytes += bytes;
        if packet.kind() == PacketKind::Retransmission {
            path.retransmission_bytes += bytes;
        }
        path.sendable_bytes = path.sendable_bytes.saturating_sub(bytes);
    }
}

//! What a call of a scheduler has bound so far.

use anabranch_core::scheduler::{Assignment, PacketKind, PacketView, fastest};
use anabranch_core::{PathId, PathSet, PathView};

/// The paths as they are with what the present call has bound.
#[derive(Debug, Default)]
pub(super) struct Binding {
    /// What has been bound in this call counts in `queued_bytes` and `sendable_bytes` already.
    pub(super) paths: Vec<PathView>,
}

impl Binding {
    /// A call begins.
    pub(super) fn begin(&mut self, paths: &[PathView]) {
        self.paths.clear();
        self.paths.extend_from_slice(paths);
    }

    /// The path of a packet by the session's rule for those whose path is not the scheduler's
    /// choice: the one that delivers it first.
    pub(super) fn by_rule(&self, packet: &PacketView) -> Option<PathId> {
        fastest(packet, &self.paths)
    }

    /// Packet `index` of the queue goes to `paths`.
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

/// A packet has been bound to `bound_to`, some of `paths`, where it counts from now on.
pub(super) fn count_bound(packet: &PacketView, bound_to: PathSet, paths: &mut [PathView]) {
    let bytes = u64::from(packet.bytes);
    for id in bound_to.iter() {
        let path = &mut paths[id.index()];
        path.queued_bytes += bytes;
        if packet.kind() == PacketKind::Retransmission {
            path.forecast.again_bytes += bytes;
        }
        path.sendable_bytes = path.sendable_bytes.saturating_sub(bytes);
    }
}

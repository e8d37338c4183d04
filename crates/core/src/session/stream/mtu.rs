//! Packets no larger than their paths carry: cutting segments, and again, and probing.

use super::Stream;
use crate::path::Path;
use crate::path_view::PathId;
use crate::session::content::{Context, Written};
use crate::session::sizes::Sizes;
use crate::stream::Chunk;

/// Returns the maximum length of the next segment. It fits each path in use, since any of them may
/// deliver it in the end.
pub(super) fn segment_bytes(sizes: &Sizes, paths: &[Path]) -> usize {
    let is_only = paths.len() == 1;
    // One that has not answered yet may never do.
    let used = paths
        .iter()
        .filter(|path| path.state().is_usable() && (is_only || path.recovery.rtt().has_sample()));
    let room = used.map(|path| path.recovery.carried_bytes() - path.unannounced_bytes());
    usize::from(sizes.fragment_bytes_for(room))
}

impl Stream {
    /// Returns the segment as the path carries it: all of it, or its first bytes.
    pub(super) fn fit(&mut self, chunk: Chunk, path: &Path, sizes: &Sizes) -> Chunk {
        let Some(first_bytes) = sizes.base_fragment_bytes().map(usize::from) else {
            return chunk;
        };
        let bytes = chunk.length as u32 + sizes.header_bytes;
        if bytes <= path.recovery.carried_bytes() || chunk.length <= first_bytes {
            return chunk;
        }
        self.request_scheduling();
        self.send.cut_again(&chunk, first_bytes)
    }

    /// Writes a probe for a larger MTU, if it is time and something else is about to leave.
    pub(super) fn write_due_mtu_probe(
        &mut self,
        ctx: &mut Context<'_>,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        let path = &ctx.paths[id.index()];
        path.mtu_probe_at().filter(|at| *at <= ctx.now)?;
        let due_at = self.segment_due_at(id, ctx.sizes, ctx.paths);
        let is_segment_next = due_at.is_some_and(|at| at <= ctx.now);
        let path = &mut ctx.paths[id.index()];
        path.write_due_mtu_probe(ctx.now, |_| is_segment_next, ctx.sizes.overhead_bytes, buf)
    }
}

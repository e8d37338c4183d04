//! Packets no larger than their paths carry: cutting segments, and again, and probing.

use anabranch_units::Instant;

use super::StreamSession;
use crate::path::Path;
use crate::path_view::PathId;
use crate::session::content::Written;
use crate::stream::Chunk;

impl StreamSession {
    /// Returns the maximum length of the next segment. It fits each path in use, since any of them
    /// may deliver it in the end.
    pub(super) fn segment_bytes(&self) -> usize {
        let Some(limits) = self.config.mtu else {
            return usize::from(self.config.fragment_bytes);
        };
        let is_only = self.paths.len() == 1;
        // One that has not answered yet may never do.
        let is_used = |path: &&Path| {
            path.state().is_usable() && (is_only || path.recovery.rtt().has_sample())
        };
        let used = self.paths.iter().filter(is_used);
        let room = used.map(|path| path.recovery.carried_bytes() - path.unannounced_bytes());
        let bytes = room.min().unwrap_or(limits.base_bytes);
        usize::from(self.fragment_bytes_in(bytes))
    }

    /// Returns the segment as the path carries it: all of it, or its first bytes.
    pub(super) fn fit(&mut self, id: PathId, chunk: Chunk) -> Chunk {
        let header_bytes = self.header_bytes();
        let carried = self.paths[id.index()].recovery.carried_bytes();
        let Some(limits) = self.config.mtu else {
            return chunk;
        };
        if chunk.length as u32 + header_bytes <= carried {
            return chunk;
        }
        let first_bytes = usize::from(self.fragment_bytes_in(limits.base_bytes));
        if chunk.length <= first_bytes {
            return chunk;
        }
        self.content.request_scheduling();
        self.content.send.cut_again(&chunk, first_bytes)
    }

    /// Writes a probe for a larger MTU, if it is time and something else is about to leave.
    pub(super) fn write_due_mtu_probe(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        let overhead_bytes = self.config.overhead_bytes;
        let path = &self.paths[id.index()];
        path.mtu_probe_at().filter(|at| *at <= now)?;
        let is_segment_next = self.segment_due_at(id).is_some_and(|at| at <= now);
        let path = &mut self.paths[id.index()];
        path.write_due_mtu_probe(now, |_| is_segment_next, overhead_bytes, buf)
    }
}

//! Waiting segments as schedulers see them: packets of frames that have one fragment and no
//! deadline; the frame's number is the segment's offset.

use std::collections::VecDeque;

use anabranch_units::Importance;

use super::mtu::segment_bytes;
use super::schedule::{SegmentQueue, has_room};
use crate::config::Config;
use crate::media::FrameId;
use crate::path::Path;
use crate::path_view::{PathId, PathSet, PathState};
use crate::scheduler::{Assignment, PacketView};
use crate::send_reason::SendReason;
use crate::session::content::Context;
use crate::stream::{Chunk, SendStream, Waiting};
use crate::wire;

/// Maximum of bytes bound to paths: more would be bound by an old forecast. Linux binds the same
/// amount at a time.
const MAX_BOUND_BYTES: u64 = 64 << 10;

impl SegmentQueue {
    /// Cuts as many segments as may be bound now.
    pub(super) fn cut_segments(&mut self, ctx: &Context<'_>, send: &mut SendStream) {
        let queued_bytes = ctx.paths.iter().map(Path::queued_bytes);
        let mut bytes = queued_bytes.sum::<u64>() + send.waiting_bytes();
        if bytes >= MAX_BOUND_BYTES {
            return;
        }
        let max_bytes = segment_bytes(ctx.sizes, ctx.paths);
        let is_known = self.version == Some(send.waiting_version());
        let mut is_short_wanted = bytes == 0 && has_room(ctx.now, ctx.sizes, ctx.paths);
        while bytes < MAX_BOUND_BYTES
            && let Some(chunk) = send.cut_next(max_bytes, is_short_wanted)
        {
            bytes += chunk.length as u64 + 1;
            is_short_wanted = false;
            if is_known {
                // New segments are the last.
                self.views
                    .push_back(packet_view(ctx.config, &chunk, PathSet::EMPTY));
            }
        }
        if is_known {
            self.version = Some(send.waiting_version());
        }
    }

    /// Brings the queue up to date. Segments whose path is the one that lost them are assigned.
    pub(super) fn list_waiting(&mut self, config: &Config, send: &SendStream, paths: &[Path]) {
        let (queue, assignments) = (&mut self.views, &mut self.binding.assignments);
        assignments.clear();
        let version = Some(send.waiting_version());
        if self.version != version || config.laboratory.retransmits_on_same_path {
            list(config, send, paths, queue, assignments);
            self.version = version;
        }
        debug_assert!({
            let mut listed = VecDeque::new();
            list(config, send, paths, &mut listed, &mut Vec::new());
            listed == self.views
        });
    }
}

fn list(
    config: &Config,
    send: &SendStream,
    paths: &[Path],
    queue: &mut VecDeque<PacketView>,
    assignments: &mut Vec<Assignment>,
) {
    let is_same_wanted = config.laboratory.retransmits_on_same_path;
    queue.clear();
    for is_retransmission in [true, false] {
        let waiting = send
            .waiting()
            .filter(|(chunk, ..)| chunk.is_new() != is_retransmission);
        for (index, (chunk, waiting, in_flight_on)) in (queue.len()..).zip(waiting) {
            if is_same_wanted && let Some(path) = same_path(&waiting, paths) {
                let paths = PathSet::only(path);
                assignments.push(Assignment { index, paths });
            }
            queue.push_back(packet_view(config, &chunk, in_flight_on));
        }
    }
}

/// Returns the path that must resend a segment since it has lost it.
fn same_path(waiting: &Waiting, paths: &[Path]) -> Option<PathId> {
    let path = waiting.lost?.on;
    let is_kept =
        waiting.reason == SendReason::Lost && paths[path.index()].state() == PathState::Active;
    is_kept.then_some(path)
}

/// Returns a segment as schedulers see it.
pub(super) fn packet_view(config: &Config, chunk: &Chunk, in_flight_on: PathSet) -> PacketView {
    let bytes = (chunk.length + wire::SEGMENT_HEADER_BYTES) as u32;
    PacketView {
        frame: FrameId(chunk.offset),
        fragment: 0,
        fragment_count: 1,
        reason: chunk.reason,
        importance: Importance::Reference,
        bytes: bytes + config.overhead_bytes,
        deadline: None,
        in_flight_on,
        avoid: PathSet::EMPTY,
    }
}

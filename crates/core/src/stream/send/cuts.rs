//! Segments that are too long for their path.

use super::{Chunk, Segment, SendStream, Waiting};
use crate::fragment::Edges;

impl SendStream {
    /// Cuts a segment that is about to leave in two. The first part, of `first_bytes` bytes, leaves
    /// instead; the other waits. Copies of the whole that are in flight count for the first.
    pub(crate) fn cut_again(&mut self, chunk: &Chunk, first_bytes: usize) -> Chunk {
        debug_assert!((1..chunk.length).contains(&first_bytes));
        if chunk.offset == self.next_offset {
            self.cut(chunk);
        }
        let (first_edges, second_edges) = if self.carries_messages {
            chunk.edges.cut()
        } else {
            (Edges::WHOLE, Edges::WHOLE)
        };
        let first = Chunk {
            length: first_bytes,
            is_last: false,
            edges: first_edges,
            ..*chunk
        };
        let second = Chunk {
            offset: chunk.offset + first_bytes as u64,
            length: chunk.length - first_bytes,
            edges: second_edges,
            ..*chunk
        };
        let Some(index) = self.index(chunk.offset) else {
            return first;
        };
        let whole = &mut self.segments[index];
        (whole.length, whole.is_last, whole.edges) = (first_bytes as u32, false, first_edges);
        let has_left = whole.has_left;
        // A copy of its own has not left.
        let packet_number = u64::MAX;
        let rest = Segment {
            has_left,
            packet_number,
            ..Segment::new(&second)
        };
        self.segments.insert(index + 1, rest);
        if self.waiting.contains_key(&chunk.offset) {
            self.waiting_bytes -= second.length as u64;
        }
        let (reason, lost) = (chunk.reason, None);
        self.wait(second.offset, Waiting { reason, lost });
        first
    }
}

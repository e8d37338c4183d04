//! Messages that have arrived, and parts of messages.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use crate::fragment::Edges;

/// Memory that messages which come one after the other share …
const SHARED_BYTES: usize = 16 << 10;
/// … unless they are shorter: one that its reader leaves keeps at most sixteen times its bytes.
const MIN_SHARED_BYTES: usize = SHARED_BYTES / 16;

/// The longest message: a segment, which is no longer than a packet. So the cost of joining parts
/// is bounded.
const MAX_JOINED_BYTES: usize = 9_000;

/// Messages for their reader, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Messages {
    whole: VecDeque<Bytes>,
    /// Parts of messages of which others are missing, by their offsets. Each borders a gap, so that
    /// the window and the limit of pieces bound them.
    parts: BTreeMap<u64, (Edges, Vec<u8>)>,
    /// Room for the next ones.
    room: BytesMut,
}

impl Messages {
    pub(super) fn has_whole(&self) -> bool {
        !self.whole.is_empty()
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        self.whole.pop_front()
    }

    /// Returns whether a part that ends here lacks the rest of its message.
    pub(super) fn is_open_before(&self, offset: u64) -> bool {
        let before = self.parts.range(..offset).next_back();
        before.is_some_and(|(start, (edges, bytes))| {
            !edges.ends && start + bytes.len() as u64 == offset
        })
    }

    /// Returns whether a part that begins here lacks the bytes before it.
    pub(super) fn is_open_behind(&self, offset: u64) -> bool {
        let part = self.parts.get(&offset);
        part.is_some_and(|(edges, _)| !edges.begins)
    }

    /// Takes bytes that have not arrived and contradict nothing. Returns false, and takes nothing,
    /// if their message becomes too long.
    pub(super) fn take(&mut self, offset: u64, payload: &[u8], edges: Edges) -> bool {
        if edges == Edges::WHOLE {
            let message = self.copy(payload);
            self.whole.push_back(message);
            return true;
        }
        self.join(offset, payload, edges)
    }

    #[cold]
    fn join(&mut self, offset: u64, payload: &[u8], mut edges: Edges) -> bool {
        let end = offset + payload.len() as u64;
        let before = if !edges.begins && self.is_open_before(offset) {
            let parts_before = self.parts.range(..offset);
            parts_before.map(|(start, _)| *start).next_back()
        } else {
            None
        };
        let is_followed = !edges.ends && self.is_open_behind(end);
        let behind = is_followed.then_some(end);
        let parts = [before, behind].into_iter().flatten();
        let lengths = parts.filter_map(|start| Some(self.parts.get(&start)?.1.len()));
        let around: usize = lengths.sum();
        if around + payload.len() > MAX_JOINED_BYTES {
            return false;
        }
        let (start, mut bytes) = (before.unwrap_or(offset), Vec::new());
        if let Some((earlier, first)) = before.and_then(|start| self.parts.remove(&start)) {
            edges.begins = earlier.begins;
            bytes = first;
        }
        bytes.extend_from_slice(payload);
        if is_followed && let Some((later, rest)) = self.parts.remove(&end) {
            edges.ends = later.ends;
            bytes.extend_from_slice(&rest);
        }
        if edges == Edges::WHOLE {
            self.whole.push_back(bytes.into())
        } else {
            self.parts.insert(start, (edges, bytes));
        }
        true
    }

    fn copy(&mut self, payload: &[u8]) -> Bytes {
        if payload.len() < MIN_SHARED_BYTES {
            return Bytes::copy_from_slice(payload);
        }
        if self.room.capacity() < payload.len() {
            self.room = BytesMut::with_capacity(SHARED_BYTES.max(payload.len()));
        }
        self.room.extend_from_slice(payload);
        self.room.split().freeze()
    }

    #[cfg(test)]
    pub(super) fn part_count(&self) -> usize {
        self.parts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_follow_one_another_share_memory_unless_they_are_short() {
        let mut messages = Messages::default();
        let payloads =
            [1_024, 1_400, 1_023, 1_400, 20_000].map(|length| vec![length as u8; length]);
        for (payload, offset) in payloads.iter().zip([0, 1_024, 2_424, 3_447, 4_847]) {
            assert!(messages.take(offset, payload, Edges::WHOLE));
        }
        let taken: Vec<Bytes> = core::iter::from_fn(|| messages.pop()).collect();
        assert_eq!(taken, payloads);
        assert_eq!(taken[1].as_ptr(), taken[0].as_ptr_range().end);
        assert_eq!(taken[3].as_ptr(), taken[1].as_ptr_range().end);
        assert!(taken[2].is_unique() && !taken[3].is_unique());
    }
}

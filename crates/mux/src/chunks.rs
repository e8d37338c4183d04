//! Bytes in order, for their reader.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Length below which messages share memory: each alone would take many times its length.
const SHORT_BYTES: usize = 1 << 10;
/// Size of a piece of shared memory.
const SHARED_BYTES: usize = 16 << 10;

/// Bytes that can be read.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    whole: VecDeque<Bytes>,
    /// Short messages behind them.
    tail: BytesMut,
}

impl Chunks {
    pub(crate) fn push(&mut self, bytes: Bytes) {
        // A reader that keeps up takes each message unchanged.
        let is_only = self.whole.is_empty() && self.tail.is_empty();
        if bytes.len() >= SHORT_BYTES || is_only {
            self.seal();
            self.whole.push_back(bytes);
            return;
        }
        if self.tail.len() + bytes.len() > SHARED_BYTES {
            self.seal();
        }
        self.tail.extend_from_slice(&bytes);
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            let tail = core::mem::take(&mut self.tail);
            self.whole.push_back(tail.freeze());
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        if self.whole.is_empty() {
            self.seal();
        }
        self.whole.pop_front()
    }

    /// Forgets all bytes.
    pub(crate) fn clear(&mut self) {
        *self = Chunks::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_chunks_share_memory_and_all_come_in_order() {
        let mut chunks = Chunks::default();
        let mut expected = Vec::new();
        for index in 0..40_000_usize {
            let length = if index % 5_000 == 4_999 { 2_000 } else { 1 };
            let bytes = vec![index as u8; length];
            expected.extend_from_slice(&bytes);
            chunks.push(bytes.into());
        }
        assert!(chunks.whole.len() < 30, "{}", chunks.whole.len());
        let read = core::iter::from_fn(|| chunks.pop());
        assert_eq!(read.flatten().collect::<Vec<u8>>(), expected);
    }
}

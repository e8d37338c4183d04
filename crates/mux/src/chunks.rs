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
    fn long_messages_and_those_of_a_reader_that_keeps_up_are_not_copied() {
        fn take(chunks: &mut Chunks, length: usize) -> *const u8 {
            let bytes = Bytes::from(vec![7; length]);
            chunks.push(bytes.clone());
            bytes.as_ptr()
        }

        let mut chunks = Chunks::default();
        for length in [1, SHORT_BYTES - 1, SHORT_BYTES] {
            let given = take(&mut chunks, length);
            assert_eq!(chunks.pop().unwrap().as_ptr(), given, "{length}");
        }
        let given = [1, SHORT_BYTES - 1, SHORT_BYTES].map(|length| take(&mut chunks, length));
        let read = [0, 1, 2].map(|_| chunks.pop().unwrap().as_ptr());
        assert_eq!(
            [
                read[0] == given[0],
                read[1] == given[1],
                read[2] == given[2]
            ],
            [true, false, true]
        );
    }

    #[test]
    fn shared_memory_is_filled_to_its_size() {
        let mut chunks = Chunks::default();
        chunks.push(vec![7; 1].into());
        for _ in 0..3 * SHARED_BYTES / 512 {
            chunks.push(vec![7; 512].into());
        }
        let lengths = core::iter::from_fn(|| chunks.pop()).map(|piece| piece.len());
        let [first, others @ ..] = &lengths.collect::<Vec<usize>>()[..] else {
            panic!("nothing to read");
        };
        assert_eq!((*first, others), (1, &[SHARED_BYTES; 3][..]));
    }

    #[test]
    fn nothing_is_left_of_cleared_bytes() {
        let mut chunks = Chunks::default();
        chunks.push(vec![7; 2_000].into());
        chunks.push(vec![7; 1].into());
        chunks.clear();
        assert_eq!(chunks.pop(), None);
    }

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

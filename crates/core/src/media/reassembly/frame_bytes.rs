//! The bytes of a frame, whose fragments arrive in any order.

use std::collections::BTreeMap;

/// Longest gap that is filled with zeros at once. A fragment costs no more than these, wherever it
/// claims to lie: some microseconds.
const MAX_GAP_BYTES: usize = 64 << 10;
/// Memory of a fragment apart, beside its bytes: its place in the tree.
const BESIDE_BYTES: usize = 64;

#[derive(Debug, Default)]
pub(super) struct FrameBytes {
    /// The frame from its first byte on, with zeros in gaps.
    placed: Vec<u8>,
    /// Fragments beyond a longer gap, by their first bytes.
    ahead: BTreeMap<usize, Vec<u8>>,
    ahead_bytes: usize,
}

impl FrameBytes {
    /// Returns the memory of fragments that lie apart.
    pub(super) fn ahead_bytes(&self) -> usize {
        self.ahead_bytes
    }

    /// Returns the bytes of fragments before which none is missing.
    pub(super) fn placed(&self) -> &[u8] {
        &self.placed
    }

    /// Takes all bytes of a frame of which no fragment is missing.
    pub(super) fn take(&mut self) -> Vec<u8> {
        debug_assert!(self.ahead.is_empty());
        core::mem::take(&mut self.placed)
    }

    /// Takes a fragment that has not arrived before.
    pub(super) fn place(&mut self, start: usize, payload: &[u8]) {
        if start > self.placed.len() + MAX_GAP_BYTES {
            self.ahead_bytes += payload.len() + BESIDE_BYTES;
            self.ahead.insert(start, payload.to_vec());
            return;
        }
        self.copy(start, payload);
        while let Some(first) = self.ahead.first_entry()
            && *first.key() <= self.placed.len() + MAX_GAP_BYTES
        {
            let (start, payload) = first.remove_entry();
            self.ahead_bytes -= payload.len() + BESIDE_BYTES;
            self.copy(start, &payload);
        }
    }

    /// Copies a fragment to its place. One that comes in order is appended, so that nothing is
    /// zeroed for it.
    fn copy(&mut self, start: usize, payload: &[u8]) {
        if self.placed.len() <= start {
            self.placed.resize(start, 0);
            self.placed.extend_from_slice(payload);
        } else {
            self.placed[start..start + payload.len()].copy_from_slice(payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Seed;

    const FRAGMENT_BYTES: usize = 1_000;
    const COUNT: usize = 500;

    fn payload(index: usize) -> Vec<u8> {
        vec![index as u8; FRAGMENT_BYTES - usize::from(index + 1 == COUNT)]
    }

    #[test]
    fn fragments_in_any_order_make_the_frame() {
        let whole: Vec<u8> = (0..COUNT).flat_map(payload).collect();
        let orders: [fn(usize) -> usize; 3] = [
            |index| index,
            |index| COUNT - 1 - index,
            |index| index * 7 % COUNT,
        ];
        for order in orders {
            let mut bytes = FrameBytes::default();
            for index in (0..COUNT).map(order) {
                bytes.place(index * FRAGMENT_BYTES, &payload(index));
            }
            assert_eq!((bytes.ahead_bytes(), bytes.take()), (0, whole.clone()));
        }
        let mut rng = Seed(1).rng();
        let mut left: Vec<usize> = (0..COUNT).collect();
        let mut bytes = FrameBytes::default();
        while !left.is_empty() {
            let index = left.swap_remove(rng.below(left.len() as u64) as usize);
            bytes.place(index * FRAGMENT_BYTES, &payload(index));
        }
        assert_eq!(bytes.take(), whole);
    }

    #[test]
    fn a_fragment_far_ahead_takes_its_own_memory_alone() {
        let mut bytes = FrameBytes::default();
        bytes.place(10 << 20, &payload(7));
        assert!(bytes.placed().is_empty());
        assert_eq!(bytes.ahead_bytes(), FRAGMENT_BYTES + BESIDE_BYTES);
        bytes.place(MAX_GAP_BYTES, &payload(7));
        assert_eq!(bytes.placed().len(), MAX_GAP_BYTES + FRAGMENT_BYTES);
    }
}

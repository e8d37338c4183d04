//! Fetching memory before it is needed.
//!
//! Who serves thousands of flows in turn waits for memory most of the time, though it knows long
//! before whose turn comes next (`docs/decisions/0007-prefetching.md`).
#![allow(
    unsafe_code,
    reason = "the instruction takes an address; it reads nothing, and cannot fault"
)]

use std::collections::VecDeque;

/// Which part of something is fetched. Where contents lie is read from what holds them, which has
/// to be there before: they are fetched a while after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What holds the contents.
    Shell,
    /// What the shell points to.
    Contents,
}

/// The bytes of a line of the cache.
const LINE_BYTES: usize = 64;

/// Has the processor fetch what `value` occupies, and not what it points to. Changes nothing but
/// how soon it can be used; without effect where the processor is not known to be able to.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    let start = core::ptr::from_ref(value).cast::<u8>();
    for offset in (0..size_of_val(value)).step_by(LINE_BYTES) {
        prefetch_line(start.wrapping_add(offset));
    }
}

/// [`prefetch`] of all elements.
#[inline]
pub fn prefetch_ring<T>(ring: &VecDeque<T>) {
    let (first, second) = ring.as_slices();
    prefetch(first);
    prefetch(second);
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(address: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction is a hint; an address that cannot be read is ignored. Every x86-64
    // processor has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch_line(_address: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_fetched_stays_as_it_is() {
        let ring: VecDeque<u64> = (0..100).collect();
        prefetch_ring(&ring);
        prefetch(&[] as &[u8]);
        prefetch("text");
        assert!(ring.iter().copied().eq(0..100));
    }
}

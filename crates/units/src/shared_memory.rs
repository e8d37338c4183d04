//! Memory that several holders share, such as the sessions of a receiver.
//!
//! A holder has too much if it holds more than is free (dynamic thresholds with α = 1; Choudhury &
//! Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998). One holder
//! can have half, and n active ones have the (n + 1)th part each. However many come, the total is
//! not exceeded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A total of bytes; clones are the same. The default has no limit.
#[derive(Clone, Debug, Default)]
pub struct SharedMemory(Option<Arc<Total>>);

#[derive(Debug)]
struct Total {
    most: usize,
    held: AtomicUsize,
}

/// One holder's part, which is free again when this is dropped. The default belongs to no total.
#[derive(Debug, Default)]
pub struct MemoryShare {
    total: Option<Arc<Total>>,
    bytes: AtomicUsize,
}

impl SharedMemory {
    /// Creates a total of `most` bytes.
    pub fn new(most: usize) -> Self {
        SharedMemory(Some(Arc::new(Total {
            most,
            held: AtomicUsize::new(0),
        })))
    }

    /// Returns the part of a new holder.
    pub fn share(&self) -> MemoryShare {
        MemoryShare {
            total: self.0.clone(),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Returns the bytes of all holders; 0 without a limit.
    pub fn held_bytes(&self) -> usize {
        let total = self.0.as_ref();
        total.map_or(0, |total| total.held.load(Ordering::Relaxed))
    }
}

impl PartialEq for SharedMemory {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl MemoryShare {
    /// Returns the holder's bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds bytes to the holder's.
    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(total) = &self.total {
            total.held.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Removes bytes of the holder's.
    pub fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(total) = &self.total {
            total.held.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Sets the holder's bytes. Only one thread may do so.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes();
        if bytes > before {
            self.add(bytes - before);
        } else if bytes < before {
            self.remove(before - bytes);
        }
    }

    /// Returns whether the holder has too much.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded_with(0)
    }

    /// Returns whether the holder would have too much with `more` bytes.
    pub fn is_exceeded_with(&self, more: usize) -> bool {
        let Some(total) = &self.total else {
            return false;
        };
        let held = total.held.load(Ordering::Relaxed);
        let free = total.most.saturating_sub(held + more);
        self.bytes() + more > free
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.remove(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    #[test]
    fn whatever_holders_do_the_total_is_not_exceeded() {
        const MOST: usize = 100_000;
        for seed in 0..200 {
            let mut rng = Seed(seed).rng();
            let memory = SharedMemory::new(MOST);
            let mut shares = Vec::new();
            for _ in 0..2_000 {
                let kind = rng.next_f64();
                let place = (rng.next_f64() * shares.len() as f64) as usize;
                if shares.is_empty() || kind < 0.05 {
                    shares.push(memory.share());
                } else if kind < 0.07 {
                    shares.swap_remove(place);
                } else {
                    let share: &MemoryShare = &shares[place];
                    let more = (rng.next_f64() * 20_000.0) as usize;
                    if share.is_exceeded_with(more) {
                        share.remove(share.bytes().min(more));
                    } else {
                        share.add(more);
                    }
                }
                let sum: usize = shares.iter().map(MemoryShare::bytes).sum();
                assert_eq!(memory.held_bytes(), sum, "seed {seed}");
                assert!(sum <= MOST, "seed {seed}: {sum}");
            }
            drop(shares);
            assert_eq!(memory.held_bytes(), 0);
        }
    }

    #[test]
    fn active_holders_have_the_same_and_one_has_half() {
        fn fill(share: &MemoryShare) {
            while share.is_exceeded() {
                share.remove(100);
            }
            while !share.is_exceeded_with(100) {
                share.add(100);
            }
        }

        let memory = SharedMemory::new(90_000);
        let shares: Vec<MemoryShare> = (0..8).map(|_| memory.share()).collect();
        fill(&shares[0]);
        assert_eq!(shares[0].bytes(), 45_000);
        for _ in 0..50 {
            shares.iter().for_each(fill);
        }
        for share in &shares {
            assert!(share.bytes().abs_diff(10_000) <= 1_000, "{shares:?}");
        }
    }

    #[test]
    fn a_holder_of_no_total_has_no_limit() {
        let share = MemoryShare::default();
        share.set(usize::MAX / 2);
        assert!(!share.is_exceeded());
    }
}

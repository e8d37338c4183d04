//! Limits of resets, so that a flood of datagrams of unknown sessions does not double itself.
//!
//! Each source has a limit of its own: a flood from one does not use up another's. A source is an
//! address of a [`Network`]. The memory is fixed: sources share slots, by a hash that nobody can
//! predict and that changes, so that no source shares a flooding source's slot for long.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use anabranch_units::{Duration, Instant, Network};

/// Number of slots for sources. With the interval they limit all resets together to 25,600 a
/// second, of about 5 µs each.
const SLOTS: usize = 256;
/// Least time from one reset to the next of a slot: senders behind one address ask together.
const INTERVAL: Duration = Duration::from_millis(10);
/// Time for which sources share the same slot.
const SHUFFLED_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Resets {
    hasher: RandomState,
    next_at: [Instant; SLOTS],
}

impl Resets {
    pub(super) fn new() -> Self {
        Resets {
            hasher: RandomState::new(),
            next_at: [Instant::ZERO; SLOTS],
        }
    }

    /// Returns whether `source` may get a reset now, which then counts.
    pub(super) fn may_answer(&mut self, now: Instant, source: IpAddr) -> bool {
        let period = now.as_nanos() / SHUFFLED_EVERY.as_nanos();
        let hash = self.hasher.hash_one((period, Network::host(source)));
        let next_at = &mut self.next_at[hash as usize % SLOTS];
        let is_due = now >= *next_at;
        if is_due {
            *next_at = now + INTERVAL;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_secs(1) + Duration::from_millis(millis)
    }

    #[test]
    fn a_source_gets_a_reset_every_ten_milliseconds() {
        let mut resets = Resets::new();
        let source = IpAddr::from([192, 0, 2, 1]);
        // Slots change every second.
        let count = |millis: &u64| resets.may_answer(at(*millis), source);
        assert_eq!((0..1_000).filter(count).count(), 100);
    }

    #[test]
    fn one_source_that_floods_does_not_use_up_the_others_resets() {
        let mut resets = Resets::new();
        let mut answered = 0;
        for second in 0..100 {
            let flooding = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, second]);
            for millis in 0..100 {
                let now = at(1_000 * u64::from(second) + millis);
                resets.may_answer(now, flooding);
                let other = IpAddr::from([192, 0, 2, 1]);
                answered += usize::from(millis % 10 == 9 && resets.may_answer(now, other));
            }
        }
        // All except those in the same slot: one of 256.
        assert!(answered >= 950, "{answered} of 1,000");
    }

    #[test]
    fn many_sources_together_have_a_limit() {
        let mut resets = Resets::new();
        let sources = (0..100_000_u32).map(|number| IpAddr::from(number.to_be_bytes()));
        let count = sources.filter(|source| resets.may_answer(at(0), *source));
        assert!(count.count() <= SLOTS);
    }
}

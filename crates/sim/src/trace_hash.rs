//! One number that two runs share only if they were the same run.

use core::fmt;

/// A hash of all events of a run and their times. It is the sum of a number for each event, so that
/// the order of the reports does not matter. It depends on the code, the scenario and the seed, not
/// on the machine. It is not cryptographic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceHash(u64);

impl TraceHash {
    /// Returns the hash with this number, of a run elsewhere.
    pub const fn of_u64(number: u64) -> TraceHash {
        TraceHash(number)
    }

    /// Returns the hash as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the hash of the events of both.
    pub(crate) const fn plus(self, other: TraceHash) -> TraceHash {
        TraceHash(self.0.wrapping_add(other.0))
    }

    /// Adds one event, given as its time and a word that distinguishes it from others of that time.
    #[inline]
    pub(crate) fn add(&mut self, at_nanos: u64, word: u64) {
        // Two multiplications make every bit of either affect all bits of the others (as in
        // wyhash).
        let mixed = fold_product(
            at_nanos ^ 0x243f_6a88_85a3_08d3,
            word ^ 0x1319_8a2e_0370_7344,
        );
        let mixed = fold_product(
            mixed ^ 0xa409_3822_299f_31d0,
            at_nanos ^ 0x082e_fa98_ec4e_6c89,
        );
        self.0 = self.0.wrapping_add(mixed);
    }
}

fn fold_product(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

impl fmt::Display for TraceHash {
    /// Writes sixteen hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(events: &[(u64, u64)]) -> TraceHash {
        let mut hash = TraceHash::default();
        events.iter().for_each(|&(at, word)| hash.add(at, word));
        hash
    }

    #[test]
    fn hash_counts_events_but_not_their_order() {
        let base = hash_of(&[(1, 2), (3, 4)]);
        assert_eq!(base, hash_of(&[(3, 4), (1, 2)]));
        for other in [
            &[(1, 4), (3, 2)][..],
            &[(2, 1), (4, 3)],
            &[(1, 2), (3, 5)],
            &[(1, 2), (4, 4)],
            &[(1, 2)],
            &[(1, 2), (3, 4), (3, 4)],
        ] {
            assert_ne!(base, hash_of(other));
        }
    }

    #[test]
    fn events_that_are_alike_have_nothing_in_common() {
        let mut all: Vec<u64> = (0..10_000)
            .map(|index| hash_of(&[(index / 100, index % 100)]).as_u64())
            .collect();
        let ones: u32 = all.iter().map(|hash| hash.count_ones()).sum();
        assert!((310_000..330_000).contains(&ones), "{ones} of 640,000 bits");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 10_000);
    }
}

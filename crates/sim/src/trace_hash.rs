//! One number that two runs share only if they were the same run.

use core::fmt;

/// A hash of everything that happened in a run, in the order in which it happened. It depends on
/// the code, the scenario and the seed, not on the machine. Not for cryptography.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        // Any odd number does; zero would swallow leading zeros.
        TraceHash(0x243f_6a88_85a3_08d3)
    }
}

impl TraceHash {
    /// The hash as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Folds one event in, given as its time and a word that tells it from the others of that time.
    #[inline]
    pub(crate) fn fold(&mut self, at_nanos: u64, word: u64) {
        // Two rounds of the multiply-rotate step of FxHash, each a bijection of the state.
        let mut state = (self.0.rotate_left(5) ^ at_nanos).wrapping_mul(0x517c_c1b7_2722_0a95);
        state = (state.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        self.0 = state ^ (state >> 32);
    }
}

impl fmt::Display for TraceHash {
    /// Sixteen hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(events: &[(u64, u64)]) -> TraceHash {
        let mut hash = TraceHash::default();
        events.iter().for_each(|&(at, word)| hash.fold(at, word));
        hash
    }

    #[test]
    fn time_content_and_order_all_count() {
        let base = hash_of(&[(1, 2), (3, 4)]);
        assert_eq!(base, hash_of(&[(1, 2), (3, 4)]));
        for other in [
            &[(3, 4), (1, 2)][..],
            &[(1, 2), (3, 5)],
            &[(1, 2), (4, 4)],
            &[(1, 2)],
        ] {
            assert_ne!(base, hash_of(other));
        }
    }
}

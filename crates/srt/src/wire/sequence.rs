//! Sequence numbers of 31 bits, which wrap around.

use core::fmt;

/// Number of sequence numbers.
const MODULUS: u32 = 1 << 31;

/// Sequence number of a data packet (draft-sharabayko-srt-01, §3.1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SequenceNumber(u32);

impl SequenceNumber {
    /// Returns the number in the lowest 31 bits.
    pub const fn new(bits: u32) -> Self {
        SequenceNumber(bits % MODULUS)
    }

    /// Returns the number as a field of the wire.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the number `count` after this one.
    pub const fn after(self, count: u64) -> Self {
        SequenceNumber::new(self.0.wrapping_add(count as u32))
    }

    /// Returns the distance from `base`, negative if this number lies before it. A distance of half
    /// of all numbers is negative.
    pub const fn distance_from(self, base: SequenceNumber) -> i64 {
        let forward = self.0.wrapping_sub(base.0) % MODULUS;
        if forward < MODULUS / 2 {
            forward as i64
        } else {
            forward as i64 - MODULUS as i64
        }
    }
}

impl fmt::Debug for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A sequence number that does not wrap around: the count of packets since the connection's first.
///
/// Buffers order packets by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unwrapped {
    first: SequenceNumber,
}

impl Unwrapped {
    pub(crate) fn new(first: SequenceNumber) -> Self {
        Unwrapped { first }
    }

    /// Returns the index of the number that is nearest to the index `near`; `None` if it lies
    /// before the first packet.
    pub(crate) fn index(self, number: SequenceNumber, near: u64) -> Option<u64> {
        let distance = number.distance_from(self.number(near));
        near.checked_add_signed(distance)
    }

    pub(crate) fn number(self, index: u64) -> SequenceNumber {
        self.first.after(index % u64::from(MODULUS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_each_other_over_the_wrap_around() {
        let last = SequenceNumber::new(MODULUS - 1);
        let first = SequenceNumber::new(0);
        assert_eq!(last.after(1), first);
        assert_eq!(first.distance_from(last), 1);
        assert_eq!(last.distance_from(first), -1);
        let half = first.after(u64::from(MODULUS / 2));
        assert_eq!(half.distance_from(first), -i64::from(MODULUS / 2));
    }

    #[test]
    fn indices_count_on_over_wrap_arounds() {
        let unwrapped = Unwrapped::new(SequenceNumber::new(MODULUS - 2));
        for index in [0, 1, 2, 9, 1 << 31, (1 << 31) + 5, 1 << 40] {
            let number = unwrapped.number(index);
            for near in [index.saturating_sub(5), index, index + 5] {
                assert_eq!(unwrapped.index(number, near), Some(index));
            }
        }
        assert_eq!(unwrapped.index(SequenceNumber::new(MODULUS - 3), 0), None);
    }
}

//! Damage that a link does to packets: copies of them, and wrong bytes.
//!
//! Checksums of IP and UDP find most wrong bytes, and the kernel drops such packets. Here two words
//! of the payload change places, which leaves the sum of all words as it is (RFC 1071): programs
//! receive wrong bytes.

use anabranch_units::{Rng, Seed};

/// Length of the headers of IPv6 and TCP, behind which bytes are exchanged.
const HEADER_BYTES: usize = 60;

/// Probabilities of damage to a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Damage {
    /// Probability that a packet arrives twice, 0 to 1.
    pub duplicate: f64,
    /// Probability that two words of a packet's payload are exchanged, 0 to 1.
    pub corrupt: f64,
}

/// Damage with its random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Damager {
    damage: Damage,
    rng: Rng,
}

impl Damager {
    pub(crate) fn new(damage: Damage, seed: Seed) -> Damager {
        Damager {
            damage,
            rng: seed.rng(),
        }
    }

    /// Damages a packet of IP. Returns whether it arrives twice.
    pub(crate) fn apply(&mut self, packet: &mut [u8]) -> bool {
        if self.damage == Damage::default() {
            return false;
        }
        if self.rng.chance(self.damage.corrupt) {
            self.exchange_words(packet);
        }
        self.rng.chance(self.damage.duplicate)
    }

    fn exchange_words(&mut self, packet: &mut [u8]) {
        let word_count = packet.len().saturating_sub(HEADER_BYTES) / 2;
        if word_count < 2 {
            return;
        }
        let (first, second) = (self.place(word_count), self.place(word_count));
        for byte in 0..2 {
            packet.swap(first + byte, second + byte);
        }
    }

    /// Returns the position of a word by chance.
    fn place(&mut self, word_count: usize) -> usize {
        HEADER_BYTES + 2 * self.rng.below(word_count as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(packet: &[u8]) -> u64 {
        let words = packet.chunks_exact(2);
        words
            .map(|word| u64::from(word[0]) << 8 | u64::from(word[1]))
            .sum()
    }

    #[test]
    fn wrong_bytes_leave_headers_and_checksums() {
        let damage = Damage {
            duplicate: 0.0,
            corrupt: 1.0,
        };
        let mut damager = Damager::new(damage, Seed(1));
        let before: Vec<u8> = (0..200).map(|byte| byte as u8).collect();
        let mut packet = before.clone();
        let mut changed_count = 0;
        for _ in 0..20 {
            packet.copy_from_slice(&before);
            assert!(!damager.apply(&mut packet));
            assert_eq!(packet[..HEADER_BYTES], before[..HEADER_BYTES]);
            assert_eq!(sum(&packet), sum(&before));
            changed_count += usize::from(packet != before);
        }
        assert!(changed_count >= 18, "{changed_count}");
        let mut short = vec![7; HEADER_BYTES + 3];
        assert!(!damager.apply(&mut short));
    }

    #[test]
    fn packets_arrive_twice_by_chance() {
        let damage = Damage {
            duplicate: 0.25,
            corrupt: 0.0,
        };
        let mut damager = Damager::new(damage, Seed(1));
        let mut packet = [1; 100];
        let count = (0..10_000).filter(|_| damager.apply(&mut packet)).count();
        assert!((2_300..2_700).contains(&count), "{count}");
        assert_eq!(packet, [1; 100]);
        let mut none = Damager::new(Damage::default(), Seed(1));
        assert!((0..1_000).all(|_| !none.apply(&mut packet)));
    }
}

//! Reproducible randomness: named seeds, and a small portable generator.

/// Source of a run's random choices. Each component derives a seed of its own by name. One more
/// draw in one component therefore leaves every other component's draws unchanged: two algorithms
/// compared under one seed meet the same random network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seed(pub u64);

impl Seed {
    /// Returns the seed of the component called `name`, such as `"flow/2/path/0/loss"`.
    pub fn derive(self, name: &str) -> Seed {
        // FNV-1a spreads the name, splitmix64 mixes it with this seed.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut state = self.0 ^ hash.rotate_left(17);
        splitmix64(&mut state);
        Seed(splitmix64(&mut state) ^ hash)
    }

    /// Returns a generator started from this seed.
    pub fn rng(self) -> Rng {
        let mut state = self.0;
        Rng {
            state: core::array::from_fn(|_| splitmix64(&mut state)),
        }
    }
}

/// Returns the next output of SplitMix64 (Steele, Lea & Flood 2014), a generator whose outputs are
/// good seeds for another one.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A pseudo-random generator, xoshiro256++ (Blackman & Vigna 2019). Not for cryptography.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Returns the next 64 uniformly random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number uniform in `[0, 1)`, a multiple of 2^-53.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Returns an integer uniform in `0..bound` (Lemire's multiplication; its bias, below 2^-32 for
    /// bounds under 2^32, does not matter here).
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no integer is below zero");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns `true` with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.next_f64() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xoshiro256plusplus_matches_the_published_generator() {
        // First outputs of the authors' C program for the state {1, 2, 3, 4}.
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        let outputs: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(
            outputs,
            [
                41_943_041,
                58_720_359,
                3_588_806_011_781_223,
                3_591_011_842_654_386
            ]
        );
    }

    #[test]
    fn named_streams_are_independent_and_repeatable() {
        let seed = Seed(7);
        assert_eq!(seed.derive("a"), seed.derive("a"));
        assert_ne!(seed.derive("a"), seed.derive("b"));
        assert_ne!(seed.derive("a"), Seed(8).derive("a"));
    }

    #[test]
    fn chance_has_the_asked_frequency() {
        let mut rng = Seed(1).rng();
        let hits = (0..100_000).filter(|_| rng.chance(0.05)).count();
        assert!((4_700..5_300).contains(&hits), "{hits}");
    }
}

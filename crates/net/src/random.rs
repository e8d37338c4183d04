//! Randomness from the operating system.

use anabranch_units::Seed;
use ring::rand::{SecureRandom, SystemRandom};

/// # Panics
/// If the operating system has no randomness.
fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system's random generator failed");
    bytes
}

/// Returns a seed that nobody can guess.
pub(crate) fn seed() -> Seed {
    Seed(u64::from_ne_bytes(bytes()))
}

/// Returns a number that names a session.
pub(crate) fn session_index() -> u32 {
    u32::from_ne_bytes(bytes())
}

/// Returns a number that others cannot guess.
pub(crate) fn token() -> u64 {
    u64::from_ne_bytes(bytes())
}

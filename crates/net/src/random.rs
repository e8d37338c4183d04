//! Randomness from the operating system; in a world, from its seed.

#[cfg(feature = "testing")]
use core::cell::RefCell;
use std::io;

#[cfg(feature = "testing")]
use anabranch_units::Rng;
use anabranch_units::Seed;
use ring::rand::{SecureRandom, SystemRandom};

#[cfg(feature = "testing")]
std::thread_local! {
    /// The generator of the world that this thread runs.
    static SEEDED: RefCell<Option<Rng>> = const { RefCell::new(None) };
}

/// Makes the thread's numbers follow from a seed, until it is dropped.
#[cfg(feature = "testing")]
pub(crate) struct Seeded(Option<Rng>);

#[cfg(feature = "testing")]
impl Seeded {
    pub(crate) fn begin(seed: Seed) -> Seeded {
        Seeded(SEEDED.replace(Some(seed.rng())))
    }
}

#[cfg(feature = "testing")]
impl Drop for Seeded {
    fn drop(&mut self) {
        SEEDED.set(self.0.take());
    }
}

/// Fills `bytes` with random ones.
///
/// # Errors
/// The operating system has no randomness.
pub(crate) fn fill(bytes: &mut [u8]) -> io::Result<()> {
    #[cfg(feature = "testing")]
    if SEEDED.with_borrow_mut(|rng| fill_by(rng.as_mut(), bytes)) {
        return Ok(());
    }
    let filled = SystemRandom::new().fill(bytes);
    filled.map_err(|_| io::Error::other("the operating system's random generator failed"))
}

/// Fills `bytes` from a world's generator. Returns whether there is one.
#[cfg(feature = "testing")]
fn fill_by(rng: Option<&mut Rng>, bytes: &mut [u8]) -> bool {
    let Some(rng) = rng else {
        return false;
    };
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_ne_bytes()[..word.len()]);
    }
    true
}

/// # Panics
/// If the operating system has no randomness.
fn number() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes).expect("the system has random numbers");
    u64::from_ne_bytes(bytes)
}

/// Returns a seed that nobody can guess.
pub(crate) fn seed() -> Seed {
    Seed(number())
}

/// Returns a number that names a session.
pub(crate) fn session_index() -> u32 {
    number() as u32
}

/// Returns a number that others cannot guess.
pub(crate) fn token() -> u64 {
    number()
}

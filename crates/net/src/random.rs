//! Randomness from the operating system; in a world, from its seed.

#[cfg(feature = "testing")]
use core::cell::RefCell;

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

/// # Panics
/// If the operating system has no randomness.
fn number() -> u64 {
    #[cfg(feature = "testing")]
    if let Some(number) = SEEDED.with_borrow_mut(|rng| Some(rng.as_mut()?.next_u64())) {
        return number;
    }
    let mut bytes = [0; 8];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system's random generator failed");
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

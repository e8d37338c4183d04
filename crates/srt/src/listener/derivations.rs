//! A limit on the requests of all callers, since a key costs a millisecond to derive (PBKDF2).

use anabranch_units::{Duration, Instant};

/// Requests that may come at once.
const BURST: u64 = 64;
/// Time per request afterwards: 50 a second take a twentieth of a core.
const INTERVAL: Duration = Duration::from_millis(20);

/// Bucket of tokens, as the time at which it is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Derivations {
    full_at: Instant,
}

impl Derivations {
    pub(super) fn new(now: Instant) -> Self {
        Derivations { full_at: now }
    }

    /// Returns whether a request may cost time now.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + INTERVAL;
        let is_admitted = full_at.saturating_since(now) <= INTERVAL * BURST;
        if is_admitted {
            self.full_at = full_at;
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_fifty_a_second() {
        let mut derivations = Derivations::new(Instant::ZERO);
        let mut admitted = |second| {
            let now = Instant::from_secs(second);
            (0..1_000).filter(|_| derivations.admit(now)).count()
        };
        assert_eq!([admitted(10), admitted(11), admitted(100)], [64, 50, 64]);
    }
}

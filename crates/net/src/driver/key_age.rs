//! The age of a session's sealing key.

use anabranch_units::{Duration, Instant};

/// Maximum age of a key, and with it the period that a stolen key reveals (WireGuard has the same
/// age).
const LIFETIME: Duration = Duration::from_secs(120);

/// Time from which on the present key seals.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyAge {
    since: Instant,
}

impl KeyAge {
    pub(super) fn new(now: Instant) -> Self {
        KeyAge { since: now }
    }

    /// Returns whether the next key must seal from now on. A peer that misses two generations can
    /// open nothing more, so it must have spoken in this one.
    pub(super) fn is_over(&mut self, now: Instant, heard_at: Instant) -> bool {
        let is_over = now >= self.since + LIFETIME && heard_at > self.since;
        if is_over {
            self.since = now;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_over_after_two_minutes_in_which_the_peer_has_spoken() {
        let at = Instant::from_secs;
        let mut age = KeyAge::new(at(10));
        assert!(!age.is_over(at(129), at(100)));
        assert!(age.is_over(at(130), at(100)));
        assert!(!age.is_over(at(249), at(140)));
        assert!(!age.is_over(at(900), at(100)), "silent since before");
        assert!(age.is_over(at(901), at(901)));
    }
}

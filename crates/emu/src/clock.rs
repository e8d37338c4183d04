//! The real clock, in links' instants.

use anabranch_units::{Duration, Instant};

/// A clock that counts from an origin, which is never in the future.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// Returns a clock whose origin is `wanted`, or the present if that is earlier or `wanted` is
    /// `None`. Also returns the time from the clock's origin to the wanted one.
    #[allow(clippy::disallowed_methods, reason = "the emulator's clock")]
    pub(crate) fn since(wanted: Option<std::time::Instant>) -> (Clock, Duration) {
        let present = std::time::Instant::now();
        let wanted = wanted.unwrap_or(present);
        let ahead = Duration::from_std(wanted.saturating_duration_since(present));
        (
            Clock {
                origin: wanted.min(present),
            },
            ahead,
        )
    }

    #[allow(clippy::disallowed_methods, reason = "the emulator's clock")]
    pub(crate) fn now(&self) -> Instant {
        let elapsed = std::time::Instant::now().saturating_duration_since(self.origin);
        Instant::ZERO + Duration::from_std(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn future_origin_is_reported_and_the_clock_runs() {
        let (now_clock, ahead) = Clock::since(None);
        assert!(ahead.is_zero());
        let wanted = now_clock.origin + core::time::Duration::from_secs(60);
        let (clock, ahead) = Clock::since(Some(wanted));
        assert!(
            ahead > Duration::from_secs(30) && ahead <= Duration::from_secs(60),
            "{ahead}"
        );
        assert!(clock.now() < Instant::from_secs(30));
    }

    #[test]
    fn a_past_origin_is_the_clocks_own() {
        let (past, _) = Clock::since(None);
        let (clock, ahead) = Clock::since(Some(past.origin));
        assert_eq!((clock.origin, ahead), (past.origin, Duration::ZERO));
    }
}

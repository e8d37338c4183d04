//! The real clock: the only place here that reads one.

use core::time::Duration as StdDuration;
use std::time::SystemTime;

use anabranch_units::{Duration, Instant};

/// Kernel timestamps that claim a datagram waited longer than this come of a wall clock that was
/// set meanwhile.
const LONGEST_WAIT: StdDuration = StdDuration::from_secs(1);

/// Counts from an origin. Ends that share a clock, such as sender and receiver in one process, can
/// compare their instants.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// A clock whose origin is the present.
    #[allow(clippy::disallowed_methods, reason = "the runtime's clock")]
    pub fn start() -> Clock {
        Clock {
            origin: std::time::Instant::now(),
        }
    }

    /// The origin, for whatever else is to count from it.
    pub fn origin(&self) -> std::time::Instant {
        self.origin
    }

    /// The present.
    #[allow(clippy::disallowed_methods, reason = "the runtime's clock")]
    pub fn now(&self) -> Instant {
        let elapsed = std::time::Instant::now().saturating_duration_since(self.origin);
        Instant::ZERO + Duration::from_std(elapsed)
    }

    /// Both clocks at once, to place the kernel's timestamps.
    pub(crate) fn reading(&self) -> Reading {
        Reading {
            now: self.now(),
            wall: since_1970(),
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "kernel timestamps are wall-clock"
)]
fn since_1970() -> StdDuration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// The two clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) now: Instant,
    wall: StdDuration,
}

impl Reading {
    /// When a datagram arrived that the kernel stamped with `timestamp`, time since 1970; the
    /// present without a plausible stamp.
    pub(crate) fn arrival(&self, timestamp: Option<StdDuration>) -> Instant {
        let waited = timestamp
            .and_then(|timestamp| self.wall.checked_sub(timestamp))
            .filter(|waited| *waited <= LONGEST_WAIT)
            .unwrap_or_default();
        self.now.saturating_sub(Duration::from_std(waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_lie_before_the_reading_by_what_the_kernel_waited() {
        let wall = StdDuration::from_secs(1_000_000);
        let reading = Reading {
            now: Instant::from_secs(5),
            wall,
        };
        let stamped = wall - StdDuration::from_micros(300);
        assert_eq!(
            reading.arrival(Some(stamped)),
            Instant::from_micros(4_999_700)
        );
    }

    #[test]
    fn implausible_stamps_count_as_the_present() {
        let wall = StdDuration::from_secs(1_000_000);
        let reading = Reading {
            now: Instant::from_secs(5),
            wall,
        };
        let stamps = [
            Some(wall + LONGEST_WAIT),
            Some(wall - 2 * LONGEST_WAIT),
            None,
        ];
        for stamp in stamps {
            assert_eq!(reading.arrival(stamp), reading.now);
        }
    }

    #[test]
    fn a_copy_counts_from_the_same_origin() {
        let clock = Clock::start();
        let copy = clock;
        let before = clock.now();
        assert!(copy.now() >= before);
        assert_eq!(copy.origin(), clock.origin());
    }
}

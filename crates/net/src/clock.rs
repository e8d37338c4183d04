//! The real clock: the only place in the crate that reads one.

#[cfg(feature = "testing")]
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration as StdDuration;
use std::time::SystemTime;

use anabranch_units::{Duration, Instant};

/// Maximum wait that a timestamp of a session's datagram may show. An older datagram counts as
/// present: it proves that the peer is alive, and the wall clock may have been set.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A clock that counts from an origin. Ends that share a clock, such as sender and receiver in one
/// process, can compare their instants.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use anabranch_net::Clock;
///
/// let clock = Clock::start();
/// let captured_at = Instant::now() + Duration::from_millis(5);
/// // An instant of the standard library as a session counts it.
/// let captured_at = clock.at(captured_at);
/// let after_start = Duration::from(captured_at - clock.at(clock.origin()));
/// assert!(after_start >= Duration::from_millis(5));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
    /// The hand of a clock in a world, in nanoseconds since the origin.
    #[cfg(feature = "testing")]
    hand: Option<&'static AtomicU64>,
}

impl Clock {
    /// Starts a clock whose origin is the present.
    #[allow(clippy::disallowed_methods, reason = "the runtime's clock")]
    pub fn start() -> Clock {
        Clock {
            origin: std::time::Instant::now(),
            #[cfg(feature = "testing")]
            hand: None,
        }
    }

    /// Creates a clock of a world, which moves its hand.
    #[cfg(feature = "testing")]
    pub(crate) fn by_hand(hand: &'static AtomicU64) -> Clock {
        Clock {
            hand: Some(hand),
            ..Clock::start()
        }
    }

    /// Returns the origin, for other clocks that count from it.
    pub fn origin(&self) -> std::time::Instant {
        self.origin
    }

    /// Returns the present time.
    #[allow(clippy::disallowed_methods, reason = "the runtime's clock")]
    pub fn now(&self) -> Instant {
        #[cfg(feature = "testing")]
        if let Some(hand) = self.hand {
            return Instant::from_nanos(hand.load(Ordering::Relaxed));
        }
        self.at(std::time::Instant::now())
    }

    /// Converts an instant of the standard library, such as a camera's capture time. Instants
    /// before the origin become the origin.
    pub fn at(&self, instant: std::time::Instant) -> Instant {
        let elapsed = instant.saturating_duration_since(self.origin);
        Instant::ZERO + Duration::from_std(elapsed)
    }

    /// Reads this clock and the wall clock together, to place the kernel's timestamps.
    pub fn reading(&self) -> Reading {
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
pub struct Reading {
    now: Instant,
    wall: StdDuration,
}

impl Reading {
    /// Returns the time of the reading by the clock that was read.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the arrival time of a datagram that the kernel stamped with `timestamp`, time since
    /// 1970. It is at least `earliest`, and at most the time of the reading, which it is without a
    /// stamp.
    ///
    /// Returns the arrival of a datagram. Stamps are by the wall clock, which may be set between
    /// arrival and reading. `earliest`, before which the datagram cannot have arrived, bounds that
    /// error.
    pub fn arrival(&self, timestamp: Option<StdDuration>, earliest: Instant) -> Instant {
        let arrived_at = self.now.saturating_sub(self.waited(timestamp));
        arrived_at.max(earliest).min(self.now)
    }

    /// Returns the arrival time of a session's datagram: the present without a plausible stamp.
    pub(crate) fn recent_arrival(&self, timestamp: Option<StdDuration>) -> Instant {
        match self.waited(timestamp) {
            waited if waited <= LONGEST_WAIT => self.now.saturating_sub(waited),
            _ => self.now,
        }
    }

    /// Returns the time since the stamp, zero if there is none or it lies ahead.
    fn waited(&self, timestamp: Option<StdDuration>) -> Duration {
        let waited = timestamp.and_then(|timestamp| self.wall.checked_sub(timestamp));
        Duration::from_std(waited.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading() -> Reading {
        Reading {
            now: Instant::from_secs(50),
            wall: StdDuration::from_secs(1_000_000),
        }
    }

    /// Returns the arrival of a datagram whose stamp lies `waited` before the reading.
    fn arrival(waited: StdDuration, earliest: Instant) -> Instant {
        let reading = reading();
        reading.arrival(Some(reading.wall - waited), earliest)
    }

    #[test]
    fn arrivals_precede_the_reading_by_kernel_delay() {
        let earliest = Instant::from_secs(10);
        let moment_ago = arrival(StdDuration::from_micros(300), earliest);
        assert_eq!(moment_ago, Instant::from_micros(49_999_700));
        let while_stopped = arrival(StdDuration::from_secs(20), earliest);
        assert_eq!(while_stopped, Instant::from_secs(30));
    }

    #[test]
    fn a_wall_clock_that_was_set_shifts_no_arrival_beyond_its_bounds() {
        let (reading, earliest) = (reading(), Instant::from_secs(49));
        let set_forward = arrival(StdDuration::from_secs(3_600), earliest);
        assert_eq!(set_forward, earliest);
        let set_back = reading.wall + StdDuration::from_secs(3_600);
        assert_eq!(reading.arrival(Some(set_back), earliest), reading.now);
        assert_eq!(reading.arrival(None, earliest), reading.now);
    }

    #[test]
    fn implausible_stamps_of_a_session_count_as_the_present() {
        let (reading, second) = (reading(), StdDuration::from_secs(1));
        let recent = reading.recent_arrival(Some(reading.wall - second));
        assert_eq!(recent, Instant::from_secs(49));
        let stamps = [
            Some(reading.wall + second),
            Some(reading.wall - 2 * second),
            None,
        ];
        for stamp in stamps {
            assert_eq!(reading.recent_arrival(stamp), reading.now);
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

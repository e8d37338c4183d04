//! Delivery by timestamps (TSBPD; draft-sharabayko-srt-01, §4.5): a packet leaves as long after its
//! origin as the latency says.

use anabranch_units::{Duration, Instant};

/// Samples of the drift that make an average (§4.7).
const DRIFT_SAMPLES: u32 = 1_000;
/// A timestamp further ahead is wrong and held no longer: senders stamp packets before they leave.
const MAX_AHEAD_MICROS: i64 = 1_000_000;

/// Relation of the peer's timestamps to this end's time, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerClock {
    /// This end's time at the peer's timestamp 0.
    base_micros: i64,
    latency: Duration,
    drift: Drift,
}

/// Average of the drift since the last correction.
#[derive(Clone, Copy, Debug, Default)]
struct Drift {
    count: u32,
    sum_micros: i64,
    first_rtt: Option<Duration>,
}

impl PeerClock {
    /// Begins with the timestamp of the handshake that has arrived now (§4.5.1.1).
    pub(crate) fn new(now: Instant, timestamp: u32, latency: Duration) -> Self {
        PeerClock {
            base_micros: micros(now) - i64::from(timestamp),
            latency,
            drift: Drift::default(),
        }
    }

    /// Returns the time at which a packet of this timestamp is due.
    pub(crate) fn due_at(&self, now: Instant, timestamp: u32) -> Instant {
        let due = self.believed_origin(now, timestamp) + (self.latency.as_micros() as i64);
        Instant::from_micros(u64::try_from(due).unwrap_or(0))
    }

    /// Returns the time at which a packet with this timestamp would have arrived if it had been on
    /// its way as long as the handshake was.
    pub(crate) fn origin(&self, now: Instant, timestamp: u32) -> Instant {
        let origin = self.believed_origin(now, timestamp);
        Instant::from_micros(u64::try_from(origin).unwrap_or(0))
    }

    fn believed_origin(&self, now: Instant, timestamp: u32) -> i64 {
        let origin = self.origin_micros(now, timestamp);
        origin.min(micros(now) + MAX_AHEAD_MICROS)
    }

    /// Takes the timestamp of an answer to an acknowledgement, and the round-trip time that it
    /// shows (§4.7). The base contains the delay of the handshake. A round trip that is longer than
    /// the first one is taken to be longer by half in each direction.
    pub(crate) fn on_answer(&mut self, now: Instant, timestamp: u32, rtt: Duration) {
        let first = *self.drift.first_rtt.get_or_insert(rtt);
        let longer = (rtt.as_micros() as i64 - first.as_micros() as i64) / 2;
        let sample = micros(now) - self.origin_micros(now, timestamp) - longer;
        self.drift.sum_micros += sample;
        self.drift.count += 1;
        if self.drift.count == DRIFT_SAMPLES {
            self.base_micros += self.drift.sum_micros / i64::from(DRIFT_SAMPLES);
            (self.drift.count, self.drift.sum_micros) = (0, 0);
        }
    }

    /// Returns this end's time of a timestamp's origin. Timestamps wrap around after 72 minutes
    /// (§4.5.1.1); the value nearest to the present is meant.
    fn origin_micros(&self, now: Instant, timestamp: u32) -> i64 {
        let expected = micros(now) - self.base_micros;
        let difference = timestamp.wrapping_sub(expected as u32) as i32;
        self.base_micros + expected + i64::from(difference)
    }
}

fn micros(at: Instant) -> i64 {
    at.as_micros() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Duration = Duration::from_millis(120);

    #[test]
    fn section_4_5_due_times_over_wrap_arounds_of_the_timestamp() {
        let began_at = Instant::from_secs(10);
        let first = u32::MAX - 4_000_000;
        let clock = PeerClock::new(began_at, first, LATENCY);
        for second in [0, 1, 5, 1_000, 4_294, 4_300, 9_000] {
            let sent_at = began_at + Duration::from_secs(second);
            let timestamp = first.wrapping_add((second * 1_000_000) as u32);
            for late in [0, 30, 900] {
                let now = sent_at + Duration::from_millis(late);
                assert_eq!(clock.due_at(now, timestamp), sent_at + LATENCY);
            }
        }
    }

    #[test]
    fn a_timestamp_of_the_future_holds_nothing_up() {
        let now = Instant::from_secs(10);
        let clock = PeerClock::new(now, 0, LATENCY);
        let due_at = clock.due_at(now, 1 << 30);
        assert_eq!(due_at, now + Duration::from_secs(1) + LATENCY);
        // Before this end's origin.
        let clock = PeerClock::new(Instant::ZERO, 0, Duration::ZERO);
        assert_eq!(clock.due_at(Instant::ZERO, 1 << 31), Instant::ZERO);
    }

    /// A peer whose clock is 100 ppm fast is followed within a millisecond or two.
    #[test]
    fn section_4_7_drift_is_corrected() {
        let began_at = Instant::from_secs(10);
        let mut clock = PeerClock::new(began_at, 0, LATENCY);
        let rtt = Duration::from_millis(20);
        let mut now = began_at;
        for _ in 0..60_000_u64 {
            now += Duration::from_millis(10);
            let elapsed = now.saturating_since(began_at).as_micros();
            clock.on_answer(now, (elapsed + elapsed / 10_000) as u32, rtt);
        }
        let elapsed = now.saturating_since(began_at).as_micros();
        let due_at = clock.due_at(now, (elapsed + elapsed / 10_000) as u32);
        let error = due_at.saturating_since(now).abs_diff(LATENCY);
        assert!(error < Duration::from_millis(3), "{error}");
    }

    #[test]
    fn a_longer_round_trip_is_no_drift() {
        let began_at = Instant::from_secs(10);
        let mut clock = PeerClock::new(began_at, 0, LATENCY);
        let before = clock;
        clock.on_answer(began_at, 0, Duration::from_millis(20));
        for _ in 1..DRIFT_SAMPLES {
            // 30 ms more in each direction.
            let now = began_at + Duration::from_millis(30);
            clock.on_answer(now, 0, Duration::from_millis(80));
        }
        assert_eq!(clock.drift.count, 0, "an average was taken");
        assert_eq!(clock.base_micros, before.base_micros);
    }
}

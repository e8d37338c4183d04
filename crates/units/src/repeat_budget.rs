//! Budget of repeated packets: a peer that asks for repeats without end gets a share of the media.

use crate::time::{Duration, Instant};

/// Share of the media by default, in percent: libsrt's overhead (`SRTO_OHEADBW`).
pub const REPEATED_PERCENT: u32 = 25;
/// Period of the media whose share may be repeated at once. With a share of a quarter, an outage of
/// two seconds can be repeated as fast as the links carry it.
const PERIOD: Duration = Duration::from_secs(8);
/// Bytes that may be repeated at once beside that (chosen): a second of 4 Mbit/s, so that a stream
/// that has just begun survives an outage.
const LEAST_BYTES: u64 = 500_000;
/// Bytes per second that are earned without media, so that the last packets of a stream are
/// repeated: a packet in 50 ms.
const LEAST_BYTES_PER_SECOND: u64 = 30_000;

/// Budget of one output. It is earned by bytes that leave for the first time.
#[derive(Clone, Copy, Debug)]
pub struct RepeatBudget {
    percent: u32,
    /// Bytes that may be repeated now.
    credit: u64,
    /// Bytes that left first in the last whole period and in this one.
    earlier_bytes: u64,
    bytes: u64,
    period_at: Instant,
    /// Time up to which bytes were earned without media, and those since the last media.
    earned_at: Instant,
    trickled: u64,
}

impl RepeatBudget {
    /// Creates the budget of an output that begins: `percent` of the media.
    pub fn new(now: Instant, percent: u32) -> Self {
        RepeatBudget {
            percent,
            credit: LEAST_BYTES,
            earlier_bytes: 0,
            bytes: 0,
            period_at: now,
            earned_at: now,
            trickled: 0,
        }
    }

    /// Counts bytes that leave for the first time.
    pub fn on_first(&mut self, now: Instant, bytes: u64) {
        if now.saturating_since(self.period_at) >= PERIOD {
            self.earlier_bytes = self.bytes;
            self.bytes = 0;
            self.period_at = now;
        }
        self.bytes += bytes;
        // Fractions of bytes are lost: packets have hundreds.
        let share = bytes * u64::from(self.percent) / 100;
        let earned = share.saturating_sub(self.trickled);
        (self.earned_at, self.trickled) = (now, 0);
        self.credit = (self.credit + earned).min(self.most());
    }

    /// Returns whether `bytes` may be repeated now.
    pub fn allows(&mut self, now: Instant, bytes: u64) -> bool {
        let earned = self.trickle(now);
        if earned > 0 {
            self.earned_at = now;
            // Without media, no more than the least budget is filled.
            let most = LEAST_BYTES.max(self.credit);
            self.credit = (self.credit + earned).min(most);
            self.trickled = self.trickled.saturating_add(earned);
        }
        self.credit >= bytes
    }

    /// Returns the time from which on `bytes` may be repeated, if no media leaves before.
    pub fn allows_at(&self, bytes: u64) -> Instant {
        let missing = bytes.saturating_sub(self.credit);
        let micros = (missing * 1_000_000).div_ceil(LEAST_BYTES_PER_SECOND);
        self.earned_at + Duration::from_micros(micros)
    }

    /// Counts bytes that are repeated.
    pub fn on_repeat(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_sub(bytes);
    }

    /// Returns the bytes that are earned without media since the last ones were.
    fn trickle(&self, now: Instant) -> u64 {
        let micros = now.saturating_since(self.earned_at).as_micros();
        micros.saturating_mul(LEAST_BYTES_PER_SECOND) / 1_000_000
    }

    fn most(&self) -> u64 {
        let media = self.earlier_bytes.max(self.bytes);
        LEAST_BYTES + media * u64::from(self.percent) / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    /// Sends 5 Mbit/s for `seconds`, and repeats all that is allowed in the last `asked` of them.
    /// Returns the repeated bytes.
    fn repeated(seconds: u64, asked: u64) -> u64 {
        let mut budget = RepeatBudget::new(Instant::ZERO, REPEATED_PERCENT);
        let mut bytes = 0;
        for millis in (0..1_000 * seconds).step_by(2) {
            let now = Instant::from_millis(millis);
            budget.on_first(now, 1_250);
            while millis >= 1_000 * (seconds - asked) && budget.allows(now, 1_250) {
                budget.on_repeat(1_250);
                bytes += 1_250;
            }
        }
        bytes
    }

    #[test]
    fn a_peer_that_asks_for_everything_gets_a_quarter() {
        let a_quarter = 625_000 / 4 * 60;
        let got = repeated(60, 60);
        assert!(got >= a_quarter && got <= a_quarter + LEAST_BYTES, "{got}");
    }

    #[test]
    fn an_outage_of_two_seconds_is_repeated_at_once() {
        let got = repeated(60, 1);
        // The share of 8 s, and of the second in which it is asked for.
        let most = LEAST_BYTES + 625_000 / 4 * 9 + 1_250;
        assert!((2 * 625_000..=most).contains(&got), "{got}");
    }

    #[test]
    fn a_stream_that_begins_and_one_that_ends_have_a_little() {
        let mut budget = RepeatBudget::new(Instant::ZERO, REPEATED_PERCENT);
        assert!(budget.allows(Instant::ZERO, LEAST_BYTES));
        budget.on_repeat(LEAST_BYTES);
        assert!(!budget.allows(Instant::from_millis(10), 1_500));
        let at = budget.allows_at(1_500);
        assert!(budget.allows(at, 1_500), "{at}");
        assert!(budget.allows(Instant::from_secs(1_000), LEAST_BYTES));
        assert!(!budget.allows(Instant::from_secs(2_000), LEAST_BYTES + 1));
    }

    /// Checks media of random rates with pauses, and a peer that asks at random times.
    #[test]
    fn each_wait_for_the_budget_has_an_end_and_is_enough() {
        for seed in 0..50 {
            let mut rng = Seed(seed).rng();
            let media_bytes = 100 + rng.below(20_000);
            let mut budget = RepeatBudget::new(Instant::ZERO, REPEATED_PERCENT);
            for millis in 0..20_000 {
                let now = Instant::from_millis(millis);
                if millis % 10 == 0 && (millis / 1_000) % 7 != 6 {
                    budget.on_first(now, media_bytes);
                }
                if rng.chance(0.9) {
                    continue;
                }
                let bytes = 200 + rng.below(1_200);
                while budget.allows(now, bytes) {
                    budget.on_repeat(bytes);
                }
                let next = budget.allows_at(bytes);
                assert!(next > now, "seed {seed}: no pause at {now}");
                let mut later = budget;
                assert!(later.allows(next, bytes), "seed {seed}: {now}");
            }
        }
    }
}

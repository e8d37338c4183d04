//! Further conditions of a bed's path: policers and changes of the delay.

use anabranch_units::{DataRate, Duration, Instant};

/// Token bucket that drops packets for which it has no tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policer {
    rate: DataRate,
    bucket_bytes: u64,
    tokens: u64,
    filled_at: Instant,
}

impl Policer {
    pub(super) fn new(rate: DataRate, bucket_bytes: u64) -> Self {
        Policer {
            rate,
            bucket_bytes,
            tokens: bucket_bytes,
            filled_at: Instant::ZERO,
        }
    }

    /// Whether a packet passes.
    pub(super) fn passes(&mut self, now: Instant, bytes: u64) -> bool {
        let filled = self.rate.bytes_in(now - self.filled_at);
        if filled > 0 {
            self.tokens = (self.tokens + filled).min(self.bucket_bytes);
            self.filled_at = now;
        }
        let passes = self.tokens >= bytes;
        if passes {
            self.tokens -= bytes;
        }
        passes
    }
}

/// Additional delay in every second half of a period, without reordering.
#[derive(Clone, Copy, Debug)]
pub(super) struct DelayWave {
    pub(super) extra_delay: Duration,
    pub(super) period: Duration,
}

impl DelayWave {
    pub(super) fn extra_delay(&self, now: Instant) -> Duration {
        let into_period = now.as_nanos() % self.period.as_nanos();
        if into_period * 2 < self.period.as_nanos() {
            Duration::ZERO
        } else {
            self.extra_delay
        }
    }
}

//! Bits per second in the last window, in fifty bins that never allocate.

use anabranch_units::{Duration, Instant};

const BIN_COUNT: u64 = 50;
/// Least bins of a rate; fewer are too small a sample.
const MIN_BINS: u64 = 10;

/// Rate over a sliding window. Times are of any one clock.
#[derive(Clone, Debug)]
pub(super) struct RateMeter {
    bin: Duration,
    /// Whole bins of the window, and the one that is being filled.
    bytes: [u64; BIN_COUNT as usize + 1],
    /// Number of the bin that is being filled, and of the first ever.
    newest: u64,
    first: Option<u64>,
}

impl RateMeter {
    /// Returns a meter over a window of this length.
    pub(super) fn new(window: Duration) -> Self {
        RateMeter {
            bin: (window / BIN_COUNT).max(Duration::from_nanos(1)),
            bytes: [0; BIN_COUNT as usize + 1],
            newest: 0,
            first: None,
        }
    }

    /// Forgets everything.
    pub(super) fn restart(&mut self) {
        self.first = None;
    }

    /// Adds bytes at this moment.
    pub(super) fn on_bytes(&mut self, at: Instant, bytes: u64) {
        self.advance(at);
        let number = at.as_nanos() / self.bin.as_nanos();
        if number + BIN_COUNT >= self.newest {
            self.bytes[(number % (BIN_COUNT + 1)) as usize] += bytes;
        }
    }

    /// Advances to this moment, without bytes.
    pub(super) fn advance(&mut self, at: Instant) {
        let number = at.as_nanos() / self.bin.as_nanos();
        if self.first.is_none() {
            self.bytes.fill(0);
            (self.first, self.newest) = (Some(number), number);
        }
        let skipped = number.saturating_sub(self.newest).min(BIN_COUNT + 1);
        for back in 0..skipped {
            self.bytes[((number - back) % (BIN_COUNT + 1)) as usize] = 0;
        }
        self.newest = self.newest.max(number);
    }

    /// Returns the bits per second over the whole bins of the window, or of its part since the
    /// first byte.
    pub(super) fn bits_per_second(&self) -> Option<f64> {
        let count = (self.newest - self.first?).min(BIN_COUNT);
        if count < MIN_BINS {
            return None;
        }
        let bytes: u64 = (1..=count)
            .map(|back| self.bytes[((self.newest - back) % (BIN_COUNT + 1)) as usize])
            .sum();
        Some(bytes as f64 * 8.0 / (self.bin * count).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_has_its_rate_after_a_fifth_of_the_window() {
        let mut meter = RateMeter::new(Duration::from_millis(500));
        for milli in 0..110 {
            assert_eq!(meter.bits_per_second().is_some(), milli > 100, "{milli}");
            meter.on_bytes(Instant::from_millis(milli), 125);
        }
        assert_eq!(meter.bits_per_second(), Some(1e6));
    }

    #[test]
    fn bytes_older_than_the_window_are_dropped() {
        let mut meter = RateMeter::new(Duration::from_millis(500));
        for milli in 0..600 {
            meter.on_bytes(Instant::from_millis(milli), 125);
        }
        meter.advance(Instant::from_millis(850));
        assert_eq!(meter.bits_per_second(), Some(0.5e6));
        meter.advance(Instant::from_millis(1_150));
        assert_eq!(meter.bits_per_second(), Some(0.0));
        meter.advance(Instant::from_secs(1_000_000));
        assert_eq!(meter.bits_per_second(), Some(0.0));
        meter.restart();
        assert_eq!(meter.bits_per_second(), None);
    }
}

//! Minimum, mean and maximum of an interval's samples.

use super::status::Spread;

/// Accumulated values of an interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Series {
    sum: f64,
    count: u32,
    min: f64,
    max: f64,
}

impl Series {
    pub(super) fn add(&mut self, value: f64) {
        if self.count == 0 {
            (self.min, self.max) = (value, value);
        }
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += value;
        self.count += 1;
    }

    /// Ends the interval. Returns `None` if there was no value.
    pub(super) fn take(&mut self) -> Option<Spread> {
        let Series {
            sum,
            count,
            min,
            max,
        } = core::mem::take(self);
        let avg = sum / f64::from(count.max(1));
        (count > 0).then_some(Spread { min, avg, max })
    }
}

/// Rate of a byte counter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateMeter {
    bytes: u64,
    /// Bits in the interval.
    bits: f64,
    span_s: f64,
    series: Series,
}

impl RateMeter {
    /// Records that the counter starts at zero again.
    pub(super) fn reset(&mut self) {
        self.bytes = 0;
    }

    /// Records the counter, `span_s` seconds after the last time. Returns bits per second since
    /// then.
    pub(super) fn see(&mut self, bytes: u64, span_s: f64) -> f64 {
        let bits = bytes.saturating_sub(self.bytes) as f64 * 8.0;
        self.bytes = bytes;
        self.add(bits, span_s)
    }

    /// Records that `bits` arrived in `span_s` seconds.
    pub(super) fn add(&mut self, bits: f64, span_s: f64) -> f64 {
        if span_s <= 0.0 {
            return 0.0;
        }
        let rate = bits / span_s;
        self.bits += bits;
        self.span_s += span_s;
        self.series.add(rate);
        rate
    }

    /// Ends the interval. The mean covers the whole interval.
    pub(super) fn take(&mut self) -> Spread {
        let avg = if self.span_s > 0.0 {
            self.bits / self.span_s
        } else {
            0.0
        };
        (self.bits, self.span_s) = (0.0, 0.0);
        let spread = self.series.take().unwrap_or_default();
        Spread { avg, ..spread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_each_sample_and_their_mean_is_of_the_interval() {
        let mut meter = RateMeter::default();
        meter.see(0, 0.0);
        meter.see(1_000, 0.1);
        meter.see(1_000, 0.3);
        let spread = meter.take();
        assert_eq!((spread.min, spread.max), (0.0, 80_000.0));
        assert!((spread.avg - 20_000.0).abs() < 1e-6, "{spread:?}");
        assert_eq!(meter.take(), Spread::default());
    }

    #[test]
    fn a_counter_that_began_again_counts_from_zero() {
        let mut meter = RateMeter::default();
        meter.see(5_000, 1.0);
        meter.take();
        meter.reset();
        meter.see(1_000, 1.0);
        assert_eq!(meter.take().avg, 8_000.0);
    }

    #[test]
    fn no_value_is_not_zero() {
        let mut series = Series::default();
        assert_eq!(series.take(), None);
        series.add(2.0);
        series.add(4.0);
        let expected = Spread {
            min: 2.0,
            avg: 3.0,
            max: 4.0,
        };
        assert_eq!(series.take(), Some(expected));
    }
}

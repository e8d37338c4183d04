//! Percentiles of any number of samples in bounded memory.

use anabranch_units::{Duration, percentile_place};

/// Counts of samples in bins of equal width on a logarithmic scale with linear steps: below 256 a
/// bin holds one integer, above it 1/128 of a power of two. So a percentile is exact below 256 and
/// within 0.4 % above it; mean, least and largest are exact. Samples are integers of any unit;
/// spans count in nanoseconds.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Counts from the bin of the least sample to that of the largest: at most 7,424 bins.
    bins: Vec<u64>,
    first_bin: u32,
    sum: u128,
    /// [`u64::MAX`] without samples.
    min: u64,
    max: u64,
}

const STEP_BITS: u32 = 7;
const STEPS: u64 = 1 << STEP_BITS;

#[inline]
fn bin_of(sample: u64) -> usize {
    let shift = (u64::BITS - (sample >> STEP_BITS).leading_zeros()).saturating_sub(1);
    (u64::from(shift) * STEPS + (sample >> shift)) as usize
}

/// Returns the middle of a bin.
fn value_of(bin: usize) -> u64 {
    let bin = bin as u64;
    let shift = (bin / STEPS).saturating_sub(1);
    let low = (bin - shift * STEPS) << shift;
    low + ((1 << shift) - 1) / 2
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            bins: Vec::new(),
            first_bin: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Histogram {
    /// Adds a sample.
    #[inline]
    pub fn record(&mut self, sample: u64) {
        *self.bin(bin_of(sample)) += 1;
        self.min = self.min.min(sample);
        self.max = self.max.max(sample);
        self.sum += u128::from(sample);
    }

    /// Returns the count of a bin.
    #[inline]
    fn bin(&mut self, bin: usize) -> &mut u64 {
        // A bin before the first one wraps around to beyond the last.
        let index = bin.wrapping_sub(self.first_bin as usize);
        if index < self.bins.len() {
            return &mut self.bins[index];
        }
        self.new_bin(bin)
    }

    /// Returns the count of a new bin.
    #[cold]
    fn new_bin(&mut self, bin: usize) -> &mut u64 {
        if self.bins.is_empty() {
            self.first_bin = bin as u32;
        }
        let more_before = (self.first_bin as usize).saturating_sub(bin);
        self.bins.splice(..0, std::iter::repeat_n(0, more_before));
        self.first_bin -= more_before as u32;
        let index = bin - self.first_bin as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, 0);
        }
        &mut self.bins[index]
    }

    /// Adds a span, in nanoseconds.
    #[inline]
    pub fn record_span(&mut self, span: Duration) {
        self.record(span.as_nanos());
    }

    /// Adds all samples of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (index, more) in other.bins.iter().enumerate().filter(|(_, more)| **more > 0) {
            *self.bin(other.first_bin as usize + index) += more;
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// Returns the number of samples, summed up at the call.
    pub fn count(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// Returns the largest sample; zero without any.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the exact mean; `None` without samples.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// Returns the sample of the nearest rank ([`percentile_place`]), up to the width of its bin;
    /// `None` without samples.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let rank = percentile_place(self.count(), percent)? + 1;
        let mut passed = 0;
        let bin = self.bins.iter().position(|bin| {
            passed += bin;
            passed >= rank
        })?;
        Some(value_of(self.first_bin as usize + bin).clamp(self.min, self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_1_to_100_are_their_ranks() {
        let mut histogram = Histogram::default();
        (1..=100).rev().for_each(|sample| histogram.record(sample));
        for rank in [1, 50, 95, 99, 100] {
            assert_eq!(histogram.percentile(rank), Some(u64::from(rank)));
        }
        assert_eq!(histogram.mean(), Some(50.5));
        assert_eq!(Histogram::default().percentile(50), None);
    }

    #[test]
    fn a_bin_is_never_wider_than_one_percent() {
        for exponent in 0..62 {
            for step in 0..50_u64 {
                let power = 1_u64 << exponent;
                let sample = power + power / 50 * step;
                let value = value_of(bin_of(sample));
                let error = value.abs_diff(sample) as f64 / sample as f64;
                assert!(error <= 0.004, "{sample}: {value}");
            }
        }
        assert!(bin_of(u64::MAX) < 7_424);
    }

    #[test]
    fn a_merger_is_as_if_recorded_together() {
        let (mut all, mut even, mut odd) = (
            Histogram::default(),
            Histogram::default(),
            Histogram::default(),
        );
        for sample in 1_000..5_000_u64 {
            all.record(sample);
            if sample % 2 == 0 {
                even.record(sample)
            } else {
                odd.record(sample)
            }
        }
        odd.merge(&even);
        odd.merge(&Histogram::default());
        assert_eq!(
            (odd.count(), odd.max(), odd.mean()),
            (all.count(), all.max(), all.mean())
        );
        assert_eq!(odd.percentile(95), all.percentile(95));
    }
}

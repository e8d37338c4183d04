//! The release error of a relay: the time from a packet's due departure to its departure.

use anabranch_units::{Duration, percentile_place};

/// Width of a class. A tenth of the error that a link may have at the 99th percentile is wider.
const CLASS: Duration = Duration::from_micros(10);
/// Number of classes; the last one has all errors of 50 ms and more.
const CLASS_COUNT: usize = 5_001;

/// Release error at the 99th percentile above which measurements describe the machine: half of the
/// millisecond in which programs give times.
pub const MAX_RELEASE_ERROR: Duration = Duration::from_micros(500);

/// Release errors of all packets so far. Values are the upper ends of classes of 10 µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReleaseErrors {
    /// Number of packets.
    pub packet_count: u64,
    /// Median.
    pub p50: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// The largest one.
    pub max: Duration,
}

/// A histogram of release errors.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Box<[u64]>,
    packet_count: u64,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: vec![0; CLASS_COUNT].into(),
            packet_count: 0,
            max: Duration::ZERO,
        }
    }
}

#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "for packets of IP")
)]
impl Histogram {
    pub(crate) fn record(&mut self, error: Duration) {
        let class = (error.as_nanos() / CLASS.as_nanos()) as usize;
        self.counts[class.min(CLASS_COUNT - 1)] += 1;
        self.packet_count += 1;
        self.max = self.max.max(error);
    }

    pub(crate) fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.packet_count += other.packet_count;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn summary(&self) -> ReleaseErrors {
        ReleaseErrors {
            packet_count: self.packet_count,
            p50: self.percentile(50),
            p99: self.percentile(99),
            max: self.max,
        }
    }

    fn percentile(&self, percent: u8) -> Duration {
        let Some(place) = percentile_place(self.packet_count, percent) else {
            return Duration::ZERO;
        };
        let mut passed = 0;
        for (class, count) in self.counts.iter().enumerate() {
            passed += count;
            if passed > place && class < CLASS_COUNT - 1 {
                return (CLASS * (class as u64 + 1)).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_upper_ends_of_classes() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.summary(), ReleaseErrors::default());
        for _ in 0..98 {
            histogram.record(Duration::from_micros(25));
        }
        histogram.record(Duration::from_micros(395));
        let mut other = Histogram::default();
        other.record(Duration::from_millis(70));
        histogram.add(&other);
        let expected = ReleaseErrors {
            packet_count: 100,
            p50: Duration::from_micros(30),
            p99: Duration::from_micros(400),
            max: Duration::from_millis(70),
        };
        assert_eq!(histogram.summary(), expected);
        histogram.record(Duration::from_millis(70));
        histogram.record(Duration::from_millis(71));
        assert_eq!(histogram.summary().p99, Duration::from_millis(71));
    }
}

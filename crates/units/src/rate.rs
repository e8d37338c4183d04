//! Data rates, in integer bits per second.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign};
use core::str::FromStr;

use crate::quantity::{self, ParseQuantityError};
use crate::time::Duration;

const BIT_NANOS_PER_BYTE_SECOND: u128 = 8 * 1_000_000_000;

/// A data rate in bits per second (1 Mbit/s = 10^6 bit/s).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataRate(u64);

impl DataRate {
    /// The rate zero.
    pub const ZERO: DataRate = DataRate(0);
    /// The highest rate; "no limit".
    pub const MAX: DataRate = DataRate(u64::MAX);

    /// Returns a rate of `bits` bits per second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        DataRate(bits)
    }

    /// Returns a rate of `kilobits` times 1,000 bits per second.
    pub const fn from_kilobits_per_second(kilobits: u64) -> Self {
        DataRate(kilobits * 1_000)
    }

    /// Returns a rate of `megabits` times 1,000,000 bits per second.
    pub const fn from_megabits_per_second(megabits: u64) -> Self {
        DataRate(megabits * 1_000_000)
    }

    /// Returns the rate at which `bytes` bytes pass in `span`; [`DataRate::MAX`] if `span` is
    /// empty.
    pub const fn from_bytes_per(bytes: u64, span: Duration) -> Self {
        if span.is_zero() {
            return DataRate::MAX;
        }
        let nanos = span.as_nanos();
        // 64 bits suffice up to 2.3 GB, and dividing 128 bits is several times slower.
        match bytes.checked_mul(8 * 1_000_000_000) {
            Some(bit_nanos) => DataRate(bit_nanos / nanos),
            None => {
                let rate = bytes as u128 * BIT_NANOS_PER_BYTE_SECOND / nanos as u128;
                DataRate(if rate > u64::MAX as u128 {
                    u64::MAX
                } else {
                    rate as u64
                })
            }
        }
    }

    /// Returns the rate in bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the rate in 10^6 bits per second.
    pub fn megabits_per_second(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns whether the rate is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the time that `bytes` take at this rate, rounded up to the nanosecond;
    /// [`Duration::MAX`] at rate zero.
    pub const fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        match bytes.checked_mul(8 * 1_000_000_000) {
            Some(bit_nanos) => Duration::from_nanos(bit_nanos.div_ceil(self.0)),
            None => {
                let nanos = (bytes as u128 * BIT_NANOS_PER_BYTE_SECOND).div_ceil(self.0 as u128);
                Duration::from_nanos(if nanos > u64::MAX as u128 {
                    u64::MAX
                } else {
                    nanos as u64
                })
            }
        }
    }

    /// Returns the number of whole bytes that pass in `span`.
    pub const fn bytes_in(self, span: Duration) -> u64 {
        if let Some(bit_nanos) = self.0.checked_mul(span.as_nanos()) {
            return bit_nanos / BIT_NANOS_PER_BYTE_SECOND as u64;
        }
        let bytes = self.0 as u128 * span.as_nanos() as u128 / BIT_NANOS_PER_BYTE_SECOND;
        if bytes > u64::MAX as u128 {
            u64::MAX
        } else {
            bytes as u64
        }
    }

    /// Returns the rate scaled by a non-negative factor.
    pub fn mul_f64(self, factor: f64) -> DataRate {
        DataRate((self.0 as f64 * factor + 0.5) as u64)
    }

    /// Returns `self - other`, or zero if `other` is larger.
    pub const fn saturating_sub(self, other: DataRate) -> DataRate {
        DataRate(self.0.saturating_sub(other.0))
    }
}

impl fmt::Debug for DataRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for DataRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => quantity::write_trimmed(f, n as f64 / 1e9, "Gbit/s"),
            n if n >= 1_000_000 => quantity::write_trimmed(f, n as f64 / 1e6, "Mbit/s"),
            n if n >= 1_000 => quantity::write_trimmed(f, n as f64 / 1e3, "kbit/s"),
            n => quantity::write_trimmed(f, n as f64, "bit/s"),
        }
    }
}

impl FromStr for DataRate {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        quantity::parse(
            text,
            "a data rate",
            &["bit/s", "kbit/s", "Mbit/s", "Gbit/s"],
            |unit| match unit {
                "bit/s" | "bps" => Some(1.0),
                "kbit/s" | "kbps" => Some(1e3),
                "Mbit/s" | "Mbps" => Some(1e6),
                "Gbit/s" | "Gbps" => Some(1e9),
                _ => None,
            },
        )
        .map(DataRate)
    }
}

impl Add for DataRate {
    type Output = DataRate;
    fn add(self, other: DataRate) -> DataRate {
        DataRate(self.0.saturating_add(other.0))
    }
}

impl AddAssign for DataRate {
    fn add_assign(&mut self, other: DataRate) {
        *self = *self + other;
    }
}

impl Sum for DataRate {
    fn sum<I: Iterator<Item = DataRate>>(rates: I) -> DataRate {
        rates.fold(DataRate::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialization_time_is_exact_and_rounds_up() {
        let rate = DataRate::from_megabits_per_second(3);
        assert_eq!(rate.time_for(1000), Duration::from_nanos(2_666_667));
        assert_eq!(
            DataRate::from_megabits_per_second(1).time_for(125),
            Duration::from_millis(1)
        );
        assert_eq!(DataRate::ZERO.time_for(1), Duration::MAX);
    }

    #[test]
    fn large_volumes_do_not_overflow() {
        let rate = DataRate::from_bits_per_second(8);
        assert_eq!(
            rate.time_for(10_000_000_000),
            Duration::from_secs(10_000_000_000)
        );
        let volume = 10_000_000_000_000;
        assert_eq!(
            DataRate::from_bytes_per(volume, Duration::from_secs(80)).0,
            1_000_000_000_000
        );
    }

    #[test]
    fn rates_read_and_write_as_people_do() {
        assert_eq!("3 Mbit/s".parse(), Ok(DataRate(3_000_000)));
        assert_eq!("0.5Mbps".parse(), Ok(DataRate(500_000)));
        assert_eq!(DataRate(2_500_000).to_string(), "2.5 Mbit/s");
        let error = "3 MB".parse::<DataRate>().unwrap_err().to_string();
        assert!(error.contains("Mbit/s"), "{error}");
    }
}

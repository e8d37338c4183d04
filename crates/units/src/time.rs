//! Points in time and spans of it, in integer nanoseconds.
//!
//! Nanoseconds, because pacing gaps and serialization times must not be rounded: a gap rounded to a
//! coarser tick changes the results of rate-based controllers.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use core::str::FromStr;

use crate::quantity::{self, ParseQuantityError};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A point in time: nanoseconds since an origin that the driver chooses (the start of the run).
/// Instants of different origins, such as the two ends of a real session, must not be mixed.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin.
    pub const ZERO: Instant = Instant(0);
    /// Later than every instant that can occur; "never".
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// Returns the instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Returns the instant `micros` microseconds after the origin.
    pub const fn from_micros(micros: u64) -> Self {
        Instant(micros * 1_000)
    }

    /// Returns the instant `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Instant(millis * 1_000_000)
    }

    /// Returns the instant `seconds` seconds after the origin.
    pub const fn from_secs(seconds: u64) -> Self {
        Instant(seconds * NANOS_PER_SECOND)
    }

    /// Returns the nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the whole microseconds since the origin.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the seconds since the origin.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// Returns the span from `earlier` to `self`; zero if `earlier` is the later one.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Returns the instant `span` before `self`, or the origin if that lies before it.
    pub const fn saturating_sub(self, span: Duration) -> Instant {
        Instant(self.0.saturating_sub(span.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        quantity::write_trimmed(f, self.as_secs_f64(), "s")
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, span: Duration) -> Instant {
        Instant(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    /// Returns the span from `earlier` to `self`.
    ///
    /// # Panics
    /// If `earlier` is the later one: a span is never negative.
    fn sub(self, earlier: Instant) -> Duration {
        Duration(
            self.0
                .checked_sub(earlier.0)
                .expect("an earlier instant minus a later one"),
        )
    }
}

/// A span of time in nanoseconds, never negative.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Duration {
    /// The empty span.
    pub const ZERO: Duration = Duration(0);
    /// The longest span; "for ever".
    pub const MAX: Duration = Duration(u64::MAX);

    /// Returns a span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Duration(nanos)
    }

    /// Returns a span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Duration(micros * 1_000)
    }

    /// Returns a span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Duration(millis * 1_000_000)
    }

    /// Returns a span of `seconds` seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Duration(seconds * NANOS_PER_SECOND)
    }

    /// Returns a span of `seconds` seconds, rounded to the nanosecond; negative or NaN gives zero.
    pub fn from_secs_f64(seconds: f64) -> Self {
        Duration((seconds * NANOS_PER_SECOND as f64 + 0.5) as u64)
    }

    /// Returns the span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the span in whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the span in whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns the span in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// Returns whether the span is empty.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns `self - other`, or zero if `other` is longer.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }

    /// Returns the distance between two spans.
    pub const fn abs_diff(self, other: Duration) -> Duration {
        Duration(self.0.abs_diff(other.0))
    }

    /// Returns the span scaled by a non-negative factor, rounded to the nanosecond.
    pub fn mul_f64(self, factor: f64) -> Duration {
        Duration((self.0 as f64 * factor + 0.5) as u64)
    }

    /// Converts to the standard library's span, for drivers that wait on a real clock.
    pub const fn to_std(self) -> core::time::Duration {
        core::time::Duration::from_nanos(self.0)
    }

    /// Converts from the standard library's span; spans beyond 584 years become [`Duration::MAX`].
    pub fn from_std(span: core::time::Duration) -> Self {
        Duration(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<core::time::Duration> for Duration {
    /// Converts as [`Duration::from_std`] does.
    fn from(span: core::time::Duration) -> Self {
        Duration::from_std(span)
    }
}

impl From<Duration> for core::time::Duration {
    fn from(span: Duration) -> Self {
        span.to_std()
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= NANOS_PER_SECOND || n == 0 => {
                quantity::write_trimmed(f, self.as_secs_f64(), "s")
            }
            n if n >= 1_000_000 => quantity::write_trimmed(f, n as f64 / 1e6, "ms"),
            n if n >= 1_000 => quantity::write_trimmed(f, n as f64 / 1e3, "us"),
            n => quantity::write_trimmed(f, n as f64, "ns"),
        }
    }
}

impl FromStr for Duration {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        quantity::parse(
            text,
            "a duration",
            &["ns", "us", "ms", "s", "min", "h"],
            |unit| match unit {
                "ns" => Some(1.0),
                "us" | "µs" | "μs" => Some(1e3),
                "ms" => Some(1e6),
                "s" => Some(1e9),
                "min" => Some(60e9),
                "h" => Some(3600e9),
                _ => None,
            },
        )
        .map(Duration)
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Duration;
    /// # Panics
    /// If `other` is longer: a span is never negative.
    fn sub(self, other: Duration) -> Duration {
        Duration(
            self.0
                .checked_sub(other.0)
                .expect("a shorter span minus a longer one"),
        )
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Duration) {
        *self = *self - other;
    }
}

impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, factor: u64) -> Duration {
        Duration(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Duration {
    type Output = Duration;
    fn div(self, divisor: u64) -> Duration {
        Duration(self.0 / divisor)
    }
}

impl Sum for Duration {
    fn sum<I: Iterator<Item = Duration>>(spans: I) -> Duration {
        spans.fold(Duration::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_write_as_people_do() {
        for (text, nanos) in [
            ("100 ms", 100_000_000),
            ("1.5s", 1_500_000_000),
            ("250 µs", 250_000),
            ("2 min", 120_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Duration(nanos)), "{text}");
        }
        assert_eq!(Duration::from_millis(100).to_string(), "100 ms");
        assert_eq!(Duration::from_micros(1_500_000).to_string(), "1.5 s");
    }

    #[test]
    fn a_bad_duration_names_the_known_units() {
        for text in [
            "",
            "ms",
            "-1 s",
            "5",
            "5 parsec",
            "1e999 s",
            "99999999999999999999 h",
        ] {
            let error = text.parse::<Duration>().unwrap_err().to_string();
            assert!(error.contains("ms, s, min"), "{text}: {error}");
        }
    }

    #[test]
    #[should_panic(expected = "earlier instant")]
    fn a_span_is_never_negative() {
        let _ = Instant::ZERO - Instant::from_secs(1);
    }
}

//! Amounts of data.

use core::fmt;
use core::str::FromStr;

use crate::quantity::{self, ParseQuantityError};

/// An amount of data in bytes (1 kB = 1,000 B, 1 KiB = 1,024 B), for scenario files and reports.
/// Inside algorithms a plain integer named `…_bytes` suffices.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(pub u64);

impl fmt::Debug for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => quantity::write_trimmed(f, n as f64 / 1e9, "GB"),
            n if n >= 1_000_000 => quantity::write_trimmed(f, n as f64 / 1e6, "MB"),
            n if n >= 10_000 => quantity::write_trimmed(f, n as f64 / 1e3, "kB"),
            n => quantity::write_trimmed(f, n as f64, "B"),
        }
    }
}

impl FromStr for ByteCount {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        quantity::parse(
            text,
            "an amount of data",
            &["B", "kB", "KiB", "MB", "MiB", "GB"],
            |unit| match unit {
                "B" => Some(1.0),
                "kB" => Some(1e3),
                "KiB" => Some(1024.0),
                "MB" => Some(1e6),
                "MiB" => Some(1024.0 * 1024.0),
                "GB" => Some(1e9),
                _ => None,
            },
        )
        .map(ByteCount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_read_and_write_as_people_do() {
        assert_eq!("64 kB".parse(), Ok(ByteCount(64_000)));
        assert_eq!("64 KiB".parse(), Ok(ByteCount(65_536)));
        assert_eq!(ByteCount(1316).to_string(), "1316 B");
        assert!("64 kbit".parse::<ByteCount>().is_err());
    }
}

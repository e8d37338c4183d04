//! Reading "number unit", the notation that all quantities share.

use core::fmt;

/// Reason for which a text is not a quantity of the wanted kind. Its message names the known units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseQuantityError {
    text: String,
    wanted: &'static str,
    known_units: &'static [&'static str],
}

impl fmt::Display for ParseQuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not {}: write a number and one of the units {}, as in \"{}\"",
            self.text,
            self.wanted,
            self.known_units.join(", "),
            match self.wanted {
                "a duration" => "100 ms",
                "a data rate" => "3 Mbit/s",
                _ => "64 kB",
            }
        )
    }
}

impl core::error::Error for ParseQuantityError {}

/// Splits `text` into a non-negative finite number and a unit and returns `number * scale(unit)`,
/// rounded to the nearest integer. A bare `0` needs no unit.
pub(crate) fn parse(
    text: &str,
    wanted: &'static str,
    known_units: &'static [&'static str],
    scale: fn(&str) -> Option<f64>,
) -> Result<u64, ParseQuantityError> {
    parsed(text.trim(), scale).ok_or_else(|| ParseQuantityError {
        text: text.to_owned(),
        wanted,
        known_units,
    })
}

/// Parses a number and a unit without blanks around them.
fn parsed(trimmed: &str, scale: fn(&str) -> Option<f64>) -> Option<u64> {
    let unit_at = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (digits, rest) = trimmed.split_at(unit_at);
    let number: f64 = digits.replace('_', "").parse().ok()?;
    let unit = rest.trim();
    if unit.is_empty() && number == 0.0 {
        return Some(0);
    }
    let value = number * scale(unit)?;
    // 2^63 bounds every quantity so that sums of two cannot overflow.
    let is_bounded = value.is_finite() && value < 9.2e18;
    is_bounded.then_some((value + 0.5) as u64)
}

/// Writes `value` with at most three decimals and without trailing zeros.
pub(crate) fn write_trimmed(f: &mut fmt::Formatter<'_>, value: f64, unit: &str) -> fmt::Result {
    let decimals = format!("{value:.3}");
    let number = decimals.trim_end_matches('0').trim_end_matches('.');
    f.pad(&format!("{number} {unit}"))
}

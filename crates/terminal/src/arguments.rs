//! Parsers of arguments that several commands share.

use anabranch_units::Duration;

/// Parses a duration that must be positive.
///
/// # Errors
/// The text is no duration, or zero.
pub fn positive(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Duration::ZERO) => Err("it must be longer than nothing".to_owned()),
        Ok(span) => Ok(span),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_at_all_is_refused() {
        assert_eq!(positive("5 ms"), Ok(Duration::from_millis(5)));
        assert!(positive("0 s").unwrap_err().contains("longer than nothing"));
        assert!(positive("5").unwrap_err().contains("units"));
    }
}

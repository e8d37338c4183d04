//! The latency of video, which both ends choose.

use core::fmt;
use core::str::FromStr;

use anabranch_units::Duration;
use anabranch_video::player::JitterBuffer;

/// Longest latency that both ends can agree on.
const LONGEST: Duration = Duration::from_secs(60);

/// Value of `--latency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Latency {
    /// Frames leave as soon as they are complete.
    Min,
    /// Frames leave this long after the earliest possible arrival of their fastest packet.
    Constant(Duration),
}

impl Latency {
    /// Returns the latency that this end requests from the other.
    pub(crate) fn requested(self) -> Option<Duration> {
        match self {
            Latency::Min => None,
            Latency::Constant(latency) => Some(latency),
        }
    }

    /// Returns the jitter buffer's setting if this end alone determines it.
    pub(crate) fn buffer(self) -> Option<JitterBuffer> {
        (self == Latency::Min).then_some(JitterBuffer::Off)
    }
}

/// Describes the latency that both ends agreed on.
pub(crate) fn describe_latency(agreed: Option<Duration>) -> String {
    agreed.map_or_else(String::new, |latency| format!(", latency {latency}"))
}

impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "min" {
            return Ok(Latency::Min);
        }
        match text.parse() {
            Ok(Duration::ZERO) => Err("it must be longer than nothing, or min".to_owned()),
            Ok(latency) if latency > LONGEST => Err(format!("it may be {LONGEST} at most")),
            Ok(latency) => Ok(Latency::Constant(latency)),
            Err(error) => Err(format!("expected min or a time: {error}")),
        }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Latency::Min => f.write_str("min"),
            Latency::Constant(latency) => latency.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_latencies() {
        assert_eq!("min".parse(), Ok(Latency::Min));
        let half = Latency::Constant(Duration::from_millis(500));
        assert_eq!("500 ms".parse(), Ok(half));
        assert_eq!(half.to_string().parse(), Ok(half));
        for (wrong, part) in [
            ("0 s", "min"),
            ("2 min", "60 s"),
            ("soon", "min"),
            ("5", "min"),
        ] {
            let error = wrong.parse::<Latency>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}

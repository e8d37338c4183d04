//! How long video may take, as both ends are asked.

use core::fmt;
use core::str::FromStr;

use anabranch_units::Duration;
use anabranch_video::player::JitterBuffer;

/// The longest that can be agreed on.
const LONGEST: Duration = Duration::from_secs(60);

/// What `--latency` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Latency {
    /// Frames leave as soon as they are there.
    Min,
    /// Frames leave so long after their fastest packet could have come.
    Constant(Duration),
}

impl Latency {
    /// What this end asks the other for.
    pub(crate) fn wish(self) -> Option<Duration> {
        match self {
            Latency::Min => None,
            Latency::Constant(latency) => Some(latency),
        }
    }

    /// How frames are kept back, if this end alone decides it.
    pub(crate) fn buffer(self) -> Option<JitterBuffer> {
        (self == Latency::Min).then_some(JitterBuffer::Off)
    }
}

/// What is told of the latency that both ends agreed on.
pub(crate) fn told_latency(agreed: Option<Duration>) -> String {
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

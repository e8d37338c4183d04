//! The text of the fallback to TCP where UDP is blocked: a port, `off` or `only`.

use core::str::FromStr;

use crate::tcp::TcpFallback;

/// Port of HTTPS, which networks that block UDP allow.
const DEFAULT_PORT: u16 = 443;

/// The use of TCP that a user wishes. Default: port 443.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpChoice(pub TcpFallback);

impl Default for TcpChoice {
    fn default() -> Self {
        TcpChoice(TcpFallback::Port(DEFAULT_PORT))
    }
}

/// Mistake in the text of a [`TcpChoice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a port from 1 to 65535, `off` or `only`")]
#[non_exhaustive]
pub struct ParseTcpChoiceError;

impl FromStr for TcpChoice {
    type Err = ParseTcpChoiceError;

    fn from_str(text: &str) -> Result<Self, ParseTcpChoiceError> {
        Ok(TcpChoice(match (text, text.parse()) {
            ("off", _) => TcpFallback::Off,
            ("only", _) => TcpFallback::Only,
            (_, Ok(port @ 1..)) => TcpFallback::Port(port),
            _ => return Err(ParseTcpChoiceError),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_off_or_only() {
        assert_eq!(TcpChoice::default().0, TcpFallback::Port(443));
        for (text, expected) in [
            ("8443", TcpFallback::Port(8_443)),
            ("off", TcpFallback::Off),
            ("only", TcpFallback::Only),
        ] {
            assert_eq!(text.parse(), Ok(TcpChoice(expected)));
        }
        for wrong in ["0", "65536", "on", ""] {
            assert_eq!(wrong.parse::<TcpChoice>(), Err(ParseTcpChoiceError));
        }
    }
}

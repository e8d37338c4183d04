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

impl FromStr for TcpChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(TcpChoice(match (text, text.parse()) {
            ("off", _) => TcpFallback::Off,
            ("only", _) => TcpFallback::Only,
            (_, Ok(port @ 1..)) => TcpFallback::Port(port),
            _ => return Err("expected a port from 1 to 65535, `off` or `only`".to_owned()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_off_or_only() {
        let choice = |text: &str| text.parse::<TcpChoice>().map(|choice| choice.0);
        assert_eq!(TcpChoice::default().0, TcpFallback::Port(443));
        assert_eq!(choice("8443"), Ok(TcpFallback::Port(8_443)));
        assert_eq!(choice("off"), Ok(TcpFallback::Off));
        assert_eq!(choice("only"), Ok(TcpFallback::Only));
        for wrong in ["0", "65536", "on", ""] {
            assert!(choice(wrong).is_err(), "{wrong}");
        }
    }
}

//! Links by which peers register: `anabranch://studio.example:7000?key=abpub_…&code=…`.

use core::fmt;
use core::str::FromStr;

use anabranch_secure::{PairingCode, ParseCodeError, ParseKeyError, PublicKey};

use super::with_port;

/// Beginning of a link.
const SCHEME: &str = "anabranch://";

/// Address and key of a receiver, and a code that lets a sender in.
#[derive(Clone, Debug)]
pub struct Link {
    /// Host and port.
    pub to: String,
    /// The receiver's public key.
    pub key: PublicKey,
    /// Code by which the receiver lets a sender in once.
    pub code: Option<PairingCode>,
}

impl Link {
    /// Beginning of the text.
    pub const SCHEME: &str = SCHEME;

    /// Returns the link as it is given to senders. It holds the code.
    pub fn to_text(&self) -> String {
        let Link { to, key, code } = self;
        let mut text = format!("{SCHEME}{to}?key={key}");
        if let Some(code) = code {
            text.push_str("&code=");
            text.push_str(&code.to_text());
        }
        text
    }
}

/// Mistake in a link. The text repeats nothing of the link, which may hold a good code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseLinkError {
    /// There is no host.
    #[error("the link names no host")]
    NoHost,
    /// The receiver's key is wrong.
    #[error("the link's key: {0}")]
    Key(ParseKeyError),
    /// The code is wrong.
    #[error("the link's code: {0}")]
    Code(ParseCodeError),
    /// There is a parameter that links do not have.
    #[error("the link has other parameters than `key` and `code`")]
    Parameter,
    /// There is no key.
    #[error(
        "the link has no key of the receiver: was it copied whole? A shell needs quotes around it, \
         because of its `&`"
    )]
    NoKey,
}

impl FromStr for Link {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, ParseLinkError> {
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        let (to, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let to = to.trim_end_matches('/');
        if to.is_empty() {
            return Err(ParseLinkError::NoHost);
        }
        let (mut key, mut code) = (None, None);
        for parameter in parameters.split('&').filter(|text| !text.is_empty()) {
            match parameter.split_once('=') {
                Some(("key", text)) => {
                    key = Some(text.parse::<PublicKey>().map_err(ParseLinkError::Key)?);
                }
                Some(("code", text)) => {
                    code = Some(text.parse::<PairingCode>().map_err(ParseLinkError::Code)?);
                }
                _ => return Err(ParseLinkError::Parameter),
            }
        }
        Ok(Link {
            to: with_port(to).into_owned(),
            key: key.ok_or(ParseLinkError::NoKey)?,
            code,
        })
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.to)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    fn link() -> Link {
        Link {
            to: "studio.example:7000".to_owned(),
            key: SecretKey::generate().public_key(),
            code: Some(PairingCode::generate()),
        }
    }

    #[test]
    fn a_link_reads_as_it_is_written_and_shows_no_code() {
        let link = link();
        let text = link.to_text();
        let read: Link = text.parse().unwrap();
        assert_eq!((&read.to, read.key), (&link.to, link.key));
        assert_eq!(read.to_text(), text);
        let code = link.code.as_ref().unwrap().to_text();
        assert!(text.ends_with(code.as_str()));
        assert!(!format!("{link} {link:?}").contains(code.as_str()));
        let bare = format!("{SCHEME}[::1]/?key={}", link.key);
        assert_eq!(bare.parse::<Link>().unwrap().to, "[::1]:7000");
        for wrong in [
            format!("{SCHEME}?key={}", link.key),
            format!("{SCHEME}studio.example"),
            format!("{SCHEME}studio.example?key={}&x=1", link.key),
            format!("{SCHEME}studio.example?key=abpub_x"),
            format!("{SCHEME}studio.example?key={}&code={}x", link.key, *code),
        ] {
            let error = wrong.parse::<Link>().unwrap_err().to_string();
            assert!(!error.contains(code.as_str()), "{error}");
        }
    }
}

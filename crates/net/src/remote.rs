//! The other end's location: an address, or a name that is resolved while it is needed.

use core::convert::Infallible;
use core::fmt;
use core::str::FromStr;
use std::net::SocketAddr;

/// The longest name (RFC 1035 §2.3.4) without its length byte and root.
const MAX_NAME_BYTES: usize = 253;
/// The longest part of a name between dots (RFC 1035 §2.3.4).
const MAX_LABEL_BYTES: usize = 63;

/// The other end of a path.
///
/// ```
/// use anabranch_net::{Remote, RemoteError};
///
/// let address = Remote::try_from("192.0.2.1:7000")?;
/// assert!(matches!(address, Remote::Address(_)));
/// let name = Remote::try_from("studio.example:7000")?;
/// assert!(matches!(name, Remote::Name(_)));
/// assert_eq!(Remote::try_from("2001:db8::1:7000"), Err(RemoteError::Brackets));
/// # Ok::<(), RemoteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remote {
    /// An address and a port.
    Address(SocketAddr),
    /// A name of the domain name system, or of the machine's table of hosts, and a port.
    Name(HostName),
}

/// A host's name and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostName {
    host: String,
    port: u16,
}

impl HostName {
    /// Returns the name of the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, above zero.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Reasons for which a text can name no other end, with any resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The port is missing, zero, or no number.
    #[error("the port is missing or wrong")]
    Port,
    /// An address of IPv6 without brackets.
    #[error("an IPv6 address stands in brackets")]
    Brackets,
    /// Neither an address nor a name.
    #[error("the host is neither a name nor an address")]
    Host,
}

impl FromStr for Remote {
    type Err = RemoteError;

    /// Parses `192.0.2.1:7000`, `[2001:db8::1]:7000` or `studio.example:7000`.
    fn from_str(text: &str) -> Result<Self, RemoteError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return match address.port() {
                0 => Err(RemoteError::Port),
                _ => Ok(Remote::Address(address)),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or(RemoteError::Port)?;
        if host.contains(':') && !host.starts_with('[') {
            return Err(RemoteError::Brackets);
        }
        let port = port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or(RemoteError::Port)?;
        if !is_host_name(host) {
            return Err(RemoteError::Host);
        }
        let host = host.to_owned();
        Ok(Remote::Name(HostName { host, port }))
    }
}

/// Returns whether a resolver may know the name. A name that ends in a number is an address with a
/// mistake.
fn is_host_name(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= MAX_NAME_BYTES
        && name.split('.').all(|label| {
            let is_of_name =
                |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(is_of_name)
        })
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

impl TryFrom<&str> for Remote {
    type Error = RemoteError;

    fn try_from(text: &str) -> Result<Self, RemoteError> {
        text.parse()
    }
}

impl TryFrom<String> for Remote {
    type Error = RemoteError;

    fn try_from(text: String) -> Result<Self, RemoteError> {
        text.parse()
    }
}

impl From<Infallible> for RemoteError {
    /// Converts the error of locations that cannot be wrong.
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<SocketAddr> for Remote {
    fn from(address: SocketAddr) -> Self {
        Remote::Address(address)
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remote::Address(address) => address.fmt(f),
            Remote::Name(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_read_back() {
        for text in [
            "192.0.2.1:7000",
            "[2001:db8::1]:7000",
            "studio.example:7000",
            "my_nas-2:1",
            "4.example.:65535",
        ] {
            assert_eq!(text.parse::<Remote>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn malformed_names_fail_without_resolver() {
        let long = format!("{}.example:7000", "a".repeat(64));
        for (text, error) in [
            ("studio.example", RemoteError::Port),
            ("studio.example:0", RemoteError::Port),
            ("192.0.2.1:0", RemoteError::Port),
            ("studio.example:65536", RemoteError::Port),
            ("studio.example:port", RemoteError::Port),
            ("192.0.2.1", RemoteError::Port),
            ("2001:db8::1:7000", RemoteError::Brackets),
            ("300.0.2.1:7000", RemoteError::Host),
            ("[studio]:7000", RemoteError::Host),
            ("studio example:7000", RemoteError::Host),
            ("udp//studio:7000", RemoteError::Host),
            ("studio..example:7000", RemoteError::Host),
            (":7000", RemoteError::Host),
            (&long, RemoteError::Host),
        ] {
            assert_eq!(text.parse::<Remote>(), Err(error), "{text}");
        }
    }
}

//! Rules for destinations (`--connect`), and the targets that proxies request.

use core::fmt;
use core::str::FromStr;
use std::net::IpAddr;

use super::network::Network;
use super::reach::Reach;

/// Hosts and ports that connections may lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    host: Host,
    /// Port; `None` for any.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// Every public address.
    Any,
    Network(Network),
    /// Name in lower case.
    Name(String),
}

/// Mistake in the text of a rule for destinations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: expected any, HOST:PORT, NETWORK/PREFIX:PORT, HOST:* or *:PORT")]
#[non_exhaustive]
pub struct ParseDestinationError {
    /// The text.
    pub text: String,
}

impl FromStr for Destination {
    type Err = ParseDestinationError;

    /// Parses `any`, `example.org:443`, `example.org:*`, `*:443`, `10.0.0.0/8:*` or `[fc00::/7]:*`.
    fn from_str(text: &str) -> Result<Self, ParseDestinationError> {
        Destination::read(text).ok_or_else(|| ParseDestinationError {
            text: text.to_owned(),
        })
    }
}

impl Destination {
    fn read(text: &str) -> Option<Self> {
        let (host, port) = match text {
            "any" => ("*", "*"),
            text => text.rsplit_once(':')?,
        };
        let port = match port {
            "*" => None,
            port => Some(port.parse().ok()?),
        };
        let host = match host {
            "*" => Host::Any,
            host => match bare(host).and_then(|bare| bare.parse().ok()) {
                Some(network) => Host::Network(network),
                None if is_name(host) => Host::Name(plain(host)),
                None => return None,
            },
        };
        Some(Destination { host, port })
    }

    /// Returns whether the rule may permit an address of the target, before the addresses are
    /// known.
    pub fn may_permit(&self, target: &Target) -> bool {
        let is_of_host = match &self.host {
            Host::Any | Host::Network(_) => true,
            Host::Name(name) => *name == target.host,
        };
        is_of_host && self.port.is_none_or(|port| port == target.port)
    }

    /// Returns whether a target may be connected to at this address.
    pub fn permits(&self, target: &Target, address: IpAddr, reach: Reach) -> bool {
        let is_named = match &self.host {
            Host::Any => reach == Reach::Public,
            Host::Network(network) if !network.contains(address.to_canonical()) => false,
            Host::Network(network) => match reach {
                Reach::Public => true,
                Reach::Special => network.is_one_address() || network.is_special(),
                Reach::Neighbour(of) => of.covers(network),
                Reach::Own => network.is_one_address(),
            },
            Host::Name(_) => true,
        };
        is_named && self.may_permit(target)
    }
}

/// A host and a port that a proxy requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host in the form of [`Destination`].
    host: String,
    port: u16,
    text: String,
}

impl Target {
    /// Returns the target of a request; `None` if it is no host and port.
    pub fn of(text: &str) -> Option<Target> {
        let (host, port) = text.rsplit_once(':')?;
        let is_host = is_name(host) || bare(host)?.parse::<IpAddr>().is_ok();
        is_host.then_some(())?;
        Some(Target {
            host: plain(host),
            port: port.parse().ok()?,
            text: text.to_owned(),
        })
    }

    /// Returns the text `HOST:PORT`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns an address without the brackets of IPv6; `None` if these are missing.
fn bare(host: &str) -> Option<&str> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']'),
        None => (!host.contains(':')).then_some(host),
    }
}

/// Returns whether the name is safe for a resolver and for a line of the log.
fn is_name(host: &str) -> bool {
    !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Returns a name in the form for comparison: in lower case, without the root's dot.
fn plain(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::Surroundings;

    fn permits(rule: &str, target: &str, address: &str) -> bool {
        let rule: Destination = rule.parse().unwrap();
        let own = ["10.0.0.5", "203.0.113.7"].map(|own| own.parse().unwrap());
        let mut own = Surroundings::of_own(&own);
        own.add_neighbours("198.51.100.0/24".parse().unwrap());
        let (target, address) = (Target::of(target).unwrap(), address.parse().unwrap());
        let is_permitted = rule.permits(&target, address, Reach::of(address, &own));
        assert!(!is_permitted || rule.may_permit(&target));
        is_permitted
    }

    #[test]
    fn destinations_are_hosts_networks_and_ports_or_any_of_either() {
        let public = "1.1.1.1";
        for (rule, target, expected) in [
            ("any", "a.b:1", true),
            ("a.b:80", "A.B:80", true),
            ("A.b:80", "a.b.:80", true),
            ("a.b:80", "a.b:81", false),
            ("a.b:80", "c.a.b:80", false),
            ("a.b:*", "a.b:81", true),
            ("*:443", "a.b:443", true),
            ("*:443", "a.b:80", false),
            ("1.1.1.1:80", "1.1.1.1:80", true),
            ("1.1.1.1:80", "one.example:80", true),
            ("1.1.1.2:80", "one.example:80", false),
            ("1.1.0.0/16:80", "one.example:80", true),
            ("0.0.0.0/0:80", "one.example:80", true),
        ] {
            assert_eq!(permits(rule, target, public), expected, "{rule} {target}");
        }
        for wrong in [
            "",
            "a.b",
            ":80",
            "a.b:x",
            "a.b:70000",
            "::1:80",
            "10.0.0.0/33:*",
            "[a.b]:80",
            "a b:80",
        ] {
            let error_text = wrong.parse::<Destination>().unwrap_err().to_string();
            assert!(error_text.contains("expected any"), "{error_text}");
        }
        for wrong in [
            "a.b", "a.b:x", ":80", "a\nb:80", "::1:80", "[::1:80", "a b:80", "[a]:80",
        ] {
            assert_eq!(Target::of(wrong), None, "{wrong}");
        }
    }

    /// An attack found by the audit: `*:80` reached the server's own services and a cloud's
    /// metadata.
    #[test]
    fn special_and_own_addresses_are_reached_only_by_rules_that_name_them() {
        for rule in ["any", "*:80", "0.0.0.0/0:80", "[::/0]:80", "172.0.0.0/8:80"] {
            for address in [
                "127.0.0.1",
                "169.254.169.254",
                "10.0.0.1",
                "172.16.0.1",
                "::1",
                "fd00::1",
                "::ffff:127.0.0.1",
                "64:ff9b::10.0.0.1",
                "0.0.0.0",
                "10.0.0.5",
                "203.0.113.7",
                "198.51.100.9",
            ] {
                assert!(
                    !permits(rule, "rebound.example:80", address),
                    "{rule} {address}"
                );
            }
        }
        for (rule, target, address, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", "127.0.0.1", true),
            ("198.51.100.0/24:80", "a.example:80", "198.51.100.9", true),
            ("198.51.100.0/28:80", "a.example:80", "198.51.100.9", true),
            ("198.51.0.0/16:80", "a.example:80", "198.51.100.9", false),
            ("a.example:80", "a.example:80", "198.51.100.9", true),
            (
                "127.0.0.1:80",
                "[::ffff:127.0.0.1]:80",
                "::ffff:127.0.0.1",
                true,
            ),
            ("127.0.0.1:80", "127.1:80", "127.0.0.1", true),
            ("127.0.0.1:80", "localhost:80", "127.0.0.2", false),
            ("localhost:80", "localhost:80", "127.0.0.1", true),
            ("localhost:80", "127.0.0.1:80", "127.0.0.1", false),
            ("127.0.0.0/8:80", "127.0.0.1:80", "127.0.0.1", true),
            ("10.0.0.0/8:80", "nas.example:80", "10.0.0.1", true),
            ("10.0.0.0/8:80", "nas.example:80", "10.0.0.5", false),
            ("10.0.0.5:80", "10.0.0.5:80", "10.0.0.5", true),
            ("203.0.113.0/24:80", "a.b:80", "203.0.113.7", false),
            ("203.0.113.7:80", "a.b:80", "203.0.113.7", true),
            ("[::1]:80", "[::1]:80", "::1", true),
            ("[fc00::/7]:*", "a.b:80", "fd00::1", true),
        ] {
            assert_eq!(
                permits(rule, target, address),
                expected,
                "{rule} {target} {address}"
            );
        }
    }
}

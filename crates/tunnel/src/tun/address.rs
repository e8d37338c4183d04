//! An interface's address with its network, as `10.99.0.2/24`.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Address and prefix length of a tunnel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerAddress {
    address: IpAddr,
    prefix: u8,
}

impl InnerAddress {
    /// Default of a server.
    pub(super) const OF_SERVER: InnerAddress = InnerAddress::default_with(1);
    /// Default of a proxy: the address that a server with its default reserves for the first key.
    pub(super) const OF_PROXY: InnerAddress = InnerAddress::default_with(2);

    const fn default_with(host: u8) -> InnerAddress {
        InnerAddress {
            address: IpAddr::V4(Ipv4Addr::new(10, 99, 0, host)),
            prefix: 24,
        }
    }

    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the number of bits in the network's part.
    pub(super) fn prefix(&self) -> u8 {
        self.prefix
    }

    pub(super) fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Returns whether `other` can be another host's address in the same network.
    pub(super) fn has_room_for(&self, other: IpAddr) -> bool {
        let (first, last) = self.hosts();
        other.is_ipv4() == self.is_ipv4()
            && other != self.address
            && (first..=last).contains(&bits(other))
    }

    /// Returns the network's host of that number, counted from 0 without this one, if it exists.
    pub(super) fn other_host(&self, number: usize) -> Option<IpAddr> {
        let (first, last) = self.hosts();
        let counted = first.checked_add(number as u128)?;
        let host = counted.checked_add(u128::from(counted >= bits(self.address)))?;
        let address = self.of_bits(host);
        (host <= last && address != self.address).then_some(address)
    }

    /// Returns the smallest and the largest address of a host.
    fn hosts(&self) -> (u128, u128) {
        let width: u32 = if self.is_ipv4() { 32 } else { 128 };
        let host_mask = match width - u32::from(self.prefix) {
            128 => u128::MAX,
            host_bits => (1 << host_bits) - 1,
        };
        let network = bits(self.address) & !host_mask;
        let end = network | host_mask;
        match (host_mask, self.is_ipv4()) {
            // Links of two hosts have neither network nor broadcast addresses (RFC 3021, RFC 6164).
            (0 | 1, _) => (network, end),
            (_, true) => (network + 1, end - 1),
            // The first address belongs to any router (RFC 4291 §2.6.1).
            (_, false) => (network + 1, end),
        }
    }

    fn of_bits(&self, bits: u128) -> IpAddr {
        match self.address {
            IpAddr::V4(_) => Ipv4Addr::from(bits as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from(bits).into(),
        }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// Mistake in the text of an interface's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseInnerAddressError {
    /// It is no address with the length of a prefix.
    #[error("{text:?}: expected an address and its network, as 10.99.0.2/24")]
    Syntax {
        /// The text.
        text: String,
    },
    /// No host can have the address.
    #[error("{text:?}: not the address of a host in its network")]
    NoHost {
        /// The text.
        text: String,
    },
}

/// Reads an address and the length of its network's prefix; `None` if the text is something else.
fn address_and_prefix(text: &str) -> Option<InnerAddress> {
    let (address_text, prefix_text) = text.split_once('/')?;
    let address: IpAddr = address_text.parse().ok()?;
    let prefix: u8 = prefix_text.parse().ok()?;
    let is_prefix = prefix <= if address.is_ipv4() { 32 } else { 128 };
    is_prefix.then_some(InnerAddress { address, prefix })
}

impl FromStr for InnerAddress {
    type Err = ParseInnerAddressError;

    fn from_str(text: &str) -> Result<Self, ParseInnerAddressError> {
        let Some(inner) = address_and_prefix(text) else {
            let text = text.to_owned();
            return Err(ParseInnerAddressError::Syntax { text });
        };
        let address = inner.address;
        let (first, last) = inner.hosts();
        let is_special = match address {
            IpAddr::V4(address) => address.is_broadcast() || address.is_link_local(),
            IpAddr::V6(address) => {
                address.is_unicast_link_local() || address.to_ipv4_mapped().is_some()
            }
        };
        let is_hosts = (first..=last).contains(&bits(address));
        let is_nobodys =
            address.is_unspecified() || address.is_loopback() || address.is_multicast();
        if is_special || is_nobodys || !is_hosts {
            let text = text.to_owned();
            return Err(ParseInnerAddressError::NoHost { text });
        }
        Ok(inner)
    }
}

impl fmt::Display for InnerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inner(text: &str) -> InnerAddress {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_those_of_hosts() {
        for text in [
            "10.99.0.2/24",
            "10.0.0.0/31",
            "10.0.0.1/32",
            "fd00::2/64",
            "2001:db8::/127",
            "fd00::1/128",
        ] {
            assert_eq!(inner(text).to_string(), text);
        }
        for wrong in [
            "",
            "10.99.0.2",
            "10.99.0.2/",
            "10.99.0.2/33",
            "fd00::2/129",
            "x/24",
        ] {
            let error_text = wrong.parse::<InnerAddress>().unwrap_err().to_string();
            assert!(error_text.contains("expected an address"), "{error_text}");
        }
        for wrong in [
            "10.99.0.0/24",
            "10.99.0.255/24",
            "127.0.0.1/8",
            "0.0.0.0/0",
            "224.0.0.1/4",
            "255.255.255.255/32",
            "169.254.1.1/16",
            "fd00::/64",
            "fe80::1/64",
            "::1/128",
            "::/128",
            "ff02::1/64",
            "::ffff:10.0.0.1/120",
        ] {
            let error_text = wrong.parse::<InnerAddress>().unwrap_err().to_string();
            assert!(
                error_text.contains("not the address of a host"),
                "{error_text}"
            );
        }
    }

    #[test]
    fn a_network_has_room_for_its_hosts_but_not_for_its_own_address() {
        for (own, other, expected) in [
            ("10.99.0.1/24", "10.99.0.2", true),
            ("10.99.0.1/24", "10.99.0.254", true),
            ("10.99.0.1/24", "10.99.0.1", false),
            ("10.99.0.1/24", "10.99.0.0", false),
            ("10.99.0.1/24", "10.99.0.255", false),
            ("10.99.0.1/24", "10.99.1.2", false),
            ("10.99.0.1/24", "::a63:2", false),
            ("10.99.0.0/31", "10.99.0.1", true),
            ("10.99.0.1/32", "10.99.0.1", false),
            ("fd00::1/64", "fd00::ffff:ffff:ffff:ffff", true),
            ("fd00::1/64", "fd00::", false),
            ("fd00::1/64", "fd00:0:0:1::2", false),
        ] {
            let has_room = inner(own).has_room_for(other.parse().unwrap());
            assert_eq!(has_room, expected, "{own} {other}");
        }
    }

    #[test]
    fn hosts_are_numbered_without_ones_own() {
        for (own, number, expected) in [
            ("10.99.0.1/24", 0, Some("10.99.0.2")),
            ("10.99.0.1/24", 252, Some("10.99.0.254")),
            ("10.99.0.1/24", 253, None),
            ("10.99.0.254/24", 0, Some("10.99.0.1")),
            ("10.99.0.254/24", 252, Some("10.99.0.253")),
            ("10.99.0.254/24", 253, None),
            ("10.99.0.3/24", 1, Some("10.99.0.2")),
            ("10.99.0.3/24", 2, Some("10.99.0.4")),
            ("10.99.0.0/31", 0, Some("10.99.0.1")),
            ("10.99.0.1/31", 0, Some("10.99.0.0")),
            ("10.99.0.1/32", 0, None),
            ("fd00::1/64", 1, Some("fd00::3")),
        ] {
            let host = inner(own).other_host(number);
            assert_eq!(host, expected.map(|host| host.parse().unwrap()), "{own}");
        }
    }
}

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
        let host = first.checked_add(number as u128)?;
        let host = host.checked_add(u128::from(host >= bits(self.address)))?;
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

impl FromStr for InnerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?}: expected an address and its network, as 10.99.0.2/24");
        let (address, prefix) = text.split_once('/').ok_or_else(expected)?;
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let prefix: u8 = prefix.parse().map_err(|_| expected())?;
        if prefix > if address.is_ipv4() { 32 } else { 128 } {
            return Err(expected());
        }
        let inner = InnerAddress { address, prefix };
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
            return Err(format!(
                "{text:?}: not the address of a host in its network"
            ));
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
            let told = wrong.parse::<InnerAddress>().unwrap_err();
            assert!(told.contains("expected an address"), "{told}");
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
            let told = wrong.parse::<InnerAddress>().unwrap_err();
            assert!(told.contains("not the address of a host"), "{told}");
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

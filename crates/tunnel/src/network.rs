//! Networks of addresses.

use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network of addresses, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Returns the network of a prefix length, at most the address's width.
    pub fn new(address: IpAddr, prefix: u8) -> Self {
        let prefix = prefix.min(width(address));
        Network { address, prefix }
    }

    /// Returns the network of one address.
    pub fn of_one(address: IpAddr) -> Self {
        Network::new(address, width(address))
    }

    /// Returns the network of an address with a mask.
    pub fn masked(address: IpAddr, mask: IpAddr) -> Self {
        let prefix = match mask {
            IpAddr::V4(mask) => u32::from(mask).leading_ones(),
            IpAddr::V6(mask) => u128::from(mask).leading_ones(),
        };
        Network::new(address, prefix as u8)
    }

    /// Returns whether it is all addresses.
    pub fn is_all(&self) -> bool {
        self.prefix == 0
    }

    pub(crate) const fn ipv4([a, b, c, d]: [u8; 4], prefix: u8) -> Self {
        let address = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
        Network { address, prefix }
    }

    pub(crate) const fn ipv6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Self {
        let address = IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h));
        Network { address, prefix }
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let difference = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => u128::from(u32::from(own) ^ u32::from(other)),
            (IpAddr::V6(own), IpAddr::V6(other)) => u128::from(own) ^ u128::from(other),
            _ => return false,
        };
        let host_bits = u32::from(width(self.address) - self.prefix);
        difference.checked_shr(host_bits).unwrap_or(0) == 0
    }

    /// Returns whether it contains all addresses of the other network.
    pub fn covers(&self, other: &Network) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }

    pub fn is_one_address(&self) -> bool {
        self.prefix == width(self.address)
    }
}

impl FromStr for Network {
    type Err = ();

    /// Parses `10.0.0.0/8`, `fc00::/7` or `192.0.2.1`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| ())?,
            None => width(address),
        };
        if prefix <= width(address) {
            Ok(Network { address, prefix })
        } else {
            Err(())
        }
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

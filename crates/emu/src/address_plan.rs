//! Addresses of emulated networks, which may be inside one another.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Second byte of the addresses of the outermost network. Chosen: rare in other networks.
const FIRST_BLOCK: u8 = 27;
/// Number of networks inside one another. Chosen: more than anybody has a use for.
pub(crate) const MAX_DEPTH: u8 = 16;

/// Addresses of a network's interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPlan {
    block: u8,
}

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// Addresses of one end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends<T> {
    /// Value at the near end.
    pub near: T,
    /// Value at the far end.
    pub far: T,
}

impl<T> Ends<T> {
    fn map<U>(self, with: impl Fn(T) -> U) -> Ends<U> {
        Ends {
            near: with(self.near),
            far: with(self.far),
        }
    }
}

impl AddressPlan {
    /// Returns the plan of a network inside `depth` others; `None` if these are too many.
    pub fn inside(depth: u8) -> Option<AddressPlan> {
        (depth < MAX_DEPTH).then_some(AddressPlan {
            block: FIRST_BLOCK + depth,
        })
    }

    /// Returns the IPv4 addresses of a path, whose network has 24 bits.
    pub fn v4(&self, path_index: usize) -> Ends<Ipv4Addr> {
        let [near, far] = [2, 1].map(|host| Ipv4Addr::new(10, self.block, path_index as u8, host));
        Ends { near, far }
    }

    /// Returns the IPv6 addresses of a path, whose network has 64 bits. The block has the same
    /// digits as in IPv4.
    pub fn v6(&self, path_index: usize) -> Ends<Ipv6Addr> {
        fn address(host: u16, block: u16, path_index: usize) -> Ipv6Addr {
            Ipv6Addr::new(0xfd00, block, path_index as u16, 0, 0, 0, 0, host)
        }

        let block = u16::from(self.block / 10) * 16 + u16::from(self.block % 10);
        Ends {
            near: address(2, block, path_index),
            far: address(1, block, path_index),
        }
    }

    /// Returns the addresses of a path in a family.
    pub(crate) fn of(&self, family: Family, path_index: usize) -> Ends<IpAddr> {
        match family {
            Family::V4 => self.v4(path_index).map(IpAddr::V4),
            Family::V6 => self.v6(path_index).map(IpAddr::V6),
        }
    }

    /// Returns the block's number, which networks inside one another do not share.
    pub(crate) fn block(&self) -> u8 {
        self.block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_depth_and_path_has_networks_of_its_own() {
        let outer = AddressPlan::inside(0).unwrap();
        assert_eq!(outer.v4(1).near.to_string(), "10.27.1.2");
        assert_eq!(outer.v4(1).far.to_string(), "10.27.1.1");
        assert_eq!(outer.v6(0).far.to_string(), "fd00:27::1");
        assert_eq!(outer.v6(1).near.to_string(), "fd00:27:1::2");
        let inner = AddressPlan::inside(4).unwrap();
        assert_eq!(inner.v4(0).near.to_string(), "10.31.0.2");
        assert_eq!(inner.v6(1).far.to_string(), "fd00:31:1::1");
        assert_eq!(AddressPlan::inside(MAX_DEPTH), None);
    }
}

//! The addresses of this machine, and the networks that it reaches without a router. Its neighbours
//! trust it, by public addresses too.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use if_addrs::IfAddr;

use crate::network::Network;

/// Table of IPv4 routes: those of all routing tables, with scope and type.
const IPV4_ROUTES: &str = "/proc/net/fib_trie";
/// Table of IPv6 routes.
const IPV6_ROUTES: &str = "/proc/net/ipv6_route";
/// Flags of an IPv6 route: by a gateway, and to this machine (`linux/ipv6_route.h`).
const RTF_GATEWAY: u32 = 0x2;
const RTF_LOCAL: u32 = 0x8000_0000;

/// This machine's addresses and its neighbours'.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    own: Vec<Network>,
    neighbours: Vec<Network>,
}

impl Surroundings {
    /// Reads the addresses of interfaces, and the kernel's routes if it is Linux.
    ///
    /// # Errors
    /// The operating system does not list them.
    pub fn read() -> io::Result<Self> {
        let mut found = Surroundings::default();
        for interface in if_addrs::get_if_addrs()? {
            let (address, mask): (IpAddr, IpAddr) = match interface.addr {
                IfAddr::V4(own) => (own.ip.into(), own.netmask.into()),
                IfAddr::V6(own) => (own.ip.into(), own.netmask.into()),
            };
            found.own.push(Network::of_one(address));
            found.add_neighbours(Network::masked(address, mask));
        }
        if cfg!(target_os = "linux") {
            // A kernel without one of the two has none of its routes.
            found.add_ipv4(&fs::read_to_string(IPV4_ROUTES).unwrap_or_default());
            found.add_ipv6(&fs::read_to_string(IPV6_ROUTES).unwrap_or_default());
        }
        Ok(found)
    }

    /// Returns the surroundings of a machine with these addresses and no neighbours.
    #[cfg(test)]
    pub(crate) fn of_own(own: &[IpAddr]) -> Self {
        Surroundings {
            own: own.iter().copied().map(Network::of_one).collect(),
            neighbours: Vec::new(),
        }
    }

    /// Returns whether the kernel delivers packets to the address on this machine.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.own.iter().any(|own| own.contains(address))
    }

    /// Returns the network without a router that contains the address.
    pub fn neighbours_of(&self, address: IpAddr) -> Option<Network> {
        let mut all = self.neighbours.iter();
        all.find(|network| network.contains(address)).copied()
    }

    /// Adds a network, unless it is all addresses: a line of a modem has no router.
    pub(crate) fn add_neighbours(&mut self, network: Network) {
        if !network.is_all() && !self.neighbours.contains(&network) {
            self.neighbours.push(network);
        }
    }

    fn add_ipv4(&mut self, routes: &str) {
        let mut address = None;
        for line in routes.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match (&words[..], address) {
                (["|--", text], _) => address = text.parse::<Ipv4Addr>().ok(),
                ([prefix, scope, kind, ..], Some(address)) if prefix.starts_with('/') => {
                    let text = format!("{address}{prefix}");
                    let Ok(network) = text.parse::<Network>() else {
                        continue;
                    };
                    match (*scope, *kind) {
                        ("host", "LOCAL") => self.own.push(network),
                        ("link", "UNICAST" | "BROADCAST") => self.add_neighbours(network),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    fn add_ipv6(&mut self, routes: &str) {
        for line in routes.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [to, prefix, _, _, _, _, _, _, flags, interface] = words[..] else {
                continue;
            };
            let parsed = (
                u128::from_str_radix(to, 16),
                u8::from_str_radix(prefix, 16),
                u32::from_str_radix(flags, 16),
            );
            let (Ok(to), Ok(prefix @ ..=128), Ok(flags)) = parsed else {
                continue;
            };
            let network = Network::new(Ipv6Addr::from(to).into(), prefix);
            if flags & RTF_LOCAL != 0 {
                self.own.push(network);
            } else if flags & RTF_GATEWAY == 0 && interface != "lo" {
                self.add_neighbours(network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ipv4_routes_without_a_gateway_lead_to_neighbours() {
        let mut found = Surroundings::default();
        found.add_ipv4(
            "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     \
             +-- 203.0.113.0/24 2 0 2\n        |-- 203.0.113.0\n           /24 link UNICAST\n  \
             |-- 198.51.100.0\n        /25 universe UNICAST\n  \
             |-- 192.0.2.0\n     /28 host LOCAL\n",
        );
        for (address, is_own, is_neighbour) in [
            ("203.0.113.200", false, true),
            ("203.0.114.1", false, false),
            ("198.51.100.1", false, false),
            ("192.0.2.15", true, false),
            ("192.0.2.16", false, false),
        ] {
            let address = ip(address);
            assert_eq!(found.is_own(address), is_own, "{address}");
            assert_eq!(
                found.neighbours_of(address).is_some(),
                is_neighbour,
                "{address}"
            );
        }
        let mut modem = Surroundings::default();
        modem.add_ipv4("  |-- 0.0.0.0\n     /0 link UNICAST\n");
        assert!(modem.neighbours_of(ip("203.0.113.1")).is_none());
    }

    #[test]
    fn ipv6_routes_without_a_gateway_lead_to_neighbours() {
        let mut table = String::new();
        for (to, prefix, via, flags, interface) in [
            ("2600abcd", "40", "", "00000001", "eth0"),
            ("26000001", "20", "2600abcd", "00000003", "eth0"),
            ("26000002", "30", "", "80200001", "lo"),
            ("", "00", "", "00000001", "ppp0"),
        ] {
            table.push_str(&format!(
                "{to:0<32} {prefix} {zero:0<32} 00 {via:0<32} 00000100 00000001 00000000 {flags} \
                 {interface}\n",
                zero = ""
            ));
        }
        table.push_str("damaged\n");
        let mut found = Surroundings::default();
        found.add_ipv6(&table);
        assert!(found.neighbours_of(ip("2600:abcd::9")).is_some());
        assert!(found.neighbours_of(ip("2600:abcd:0:1::9")).is_none());
        assert!(
            found.neighbours_of(ip("2600:1::1")).is_none(),
            "by a router"
        );
        assert!(found.is_own(ip("2600:2:0:ffff::1")));
        assert!(
            found.neighbours_of(ip("2a00::1")).is_none(),
            "a line of a modem"
        );
    }

    #[test]
    fn this_machine_is_in_its_surroundings() {
        let found = Surroundings::read().unwrap();
        assert!(found.is_own(ip("127.0.0.1")));
    }
}

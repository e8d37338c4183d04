//! Addresses that any rule reaches, and those that a rule must name.
//!
//! A proxy that may connect to `*:80` must not reach the services that the server's machine and
//! network offer internally. The address therefore decides, independently of its notation:
//!
//! | address | named by |
//! |---|---|
//! | public | any rule |
//! | special | itself, its host's name, a network of special addresses |
//! | a neighbour's | itself, its host's name, a network of these neighbours |
//! | the machine's own | itself, its host's name |
//!
//! Special are loopback, private, link-local, shared, multicast and reserved addresses. Neighbours
//! are in networks that the machine reaches without a router ([`Surroundings`]). IPv6
//! addresses that represent an IPv4 address have the kind of that address.

use core::time::Duration;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::network::Network;
use crate::surroundings::Surroundings;

/// Age at which the list of the machine's surroundings is renewed.
const MAX_LIST_AGE: Duration = Duration::from_secs(1);

/// IPv4 networks outside the public Internet (IANA, IPv4 special-purpose address registry).
const SPECIAL_IPV4: [Network; 10] = [
    // This host: Linux connects to itself.
    Network::ipv4([0, 0, 0, 0], 8),
    Network::ipv4([10, 0, 0, 0], 8),
    // Shared by the customers of a carrier's NAT (RFC 6598).
    Network::ipv4([100, 64, 0, 0], 10),
    LOOPBACK_IPV4,
    // Link-local, with the metadata service of clouds.
    Network::ipv4([169, 254, 0, 0], 16),
    Network::ipv4([172, 16, 0, 0], 12),
    Network::ipv4([192, 0, 0, 0], 24),
    Network::ipv4([192, 168, 0, 0], 16),
    // Benchmarks (RFC 2544).
    Network::ipv4([198, 18, 0, 0], 15),
    // Multicast, reserved, and the limited broadcast.
    Network::ipv4([224, 0, 0, 0], 3),
];
const LOOPBACK_IPV4: Network = Network::ipv4([127, 0, 0, 0], 8);

/// IPv6 networks outside of global unicast, 2000::/3: loopback, unique local fc00::/7, link-local
/// fe80::/10, multicast ff00::/8, translation by a local prefix 64:ff9b:1::/48 (RFC 8215) and
/// unassigned networks. Within 2000::/3, protocol assignments such as Teredo.
const SPECIAL_IPV6: [Network; 4] = [
    Network::ipv6([0, 0, 0, 0, 0, 0, 0, 0], 3),
    Network::ipv6([0x4000, 0, 0, 0, 0, 0, 0, 0], 2),
    Network::ipv6([0x8000, 0, 0, 0, 0, 0, 0, 0], 1),
    Network::ipv6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
];
/// Translation to IPv4 by the well-known prefix (RFC 6052).
const NAT64: Network = Network::ipv6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);
const SIX_TO_FOUR: Network = Network::ipv6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16);

/// Kind of an address, by the rules that reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Any rule reaches it.
    Public,
    /// A rule must name it, its host or a special network that contains it.
    Special,
    /// A rule must name it, its host or a part of this network, which has no router before it.
    Neighbour(Network),
    /// A rule must name it or its host.
    Own,
}

impl Reach {
    /// Returns the kind of an address from a machine in these surroundings.
    pub fn of(address: IpAddr, surroundings: &Surroundings) -> Reach {
        let address = address.to_canonical();
        let meant = ipv4_of(address).map_or(address, IpAddr::from);
        if meant.is_loopback() {
            return Reach::Special;
        }
        if surroundings.is_own(address) || surroundings.is_own(meant) {
            return Reach::Own;
        }
        if is_special(meant) {
            return Reach::Special;
        }
        let network = surroundings
            .neighbours_of(meant)
            .or_else(|| surroundings.neighbours_of(address));
        network.map_or(Reach::Public, Reach::Neighbour)
    }
}

impl Network {
    /// Returns whether all its addresses are special.
    pub fn is_special(&self) -> bool {
        let mut special = SPECIAL_IPV4.iter().chain(&SPECIAL_IPV6);
        special.any(|special| special.covers(self))
    }
}

fn is_special(address: IpAddr) -> bool {
    let of_family: &[Network] = match address {
        IpAddr::V4(_) => &SPECIAL_IPV4,
        IpAddr::V6(_) => &SPECIAL_IPV6,
    };
    of_family.iter().any(|network| network.contains(address))
}

/// Returns the IPv4 address that an IPv6 address is translated to, or that it embeds.
fn ipv4_of(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ipv6) = address else {
        return None;
    };
    let bits = u128::from(ipv6);
    let bits = match () {
        () if NAT64.contains(address) => bits,
        () if SIX_TO_FOUR.contains(address) => bits >> 80,
        () => return None,
    };
    Some(Ipv4Addr::from(bits as u32))
}

/// The machine's surroundings, which may change.
#[derive(Debug, Default)]
pub struct CurrentSurroundings(Mutex<Option<(Instant, Arc<Surroundings>)>>);

impl CurrentSurroundings {
    /// Returns them.
    ///
    /// # Errors
    /// The operating system does not list them.
    pub fn get(&self) -> io::Result<Arc<Surroundings>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made_at, list)) = &*known
            && made_at.elapsed() < MAX_LIST_AGE
        {
            return Ok(Arc::clone(list));
        }
        let list = Arc::new(Surroundings::read()?);
        *known = Some((Instant::now(), Arc::clone(&list)));
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_of_the_machine_and_its_networks_are_special_in_every_form() {
        let ipv4 = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.255",
        ];
        for text in ipv4 {
            let IpAddr::V4(address) = ip(text) else {
                panic!("{text}")
            };
            let [a, b, c, d] = address.octets();
            let forms = [
                text.to_owned(),
                format!("::ffff:{text}"),
                format!("64:ff9b::{text}"),
                format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1"),
                format!("::{text}"),
                format!("64:ff9b:1::{text}"),
            ];
            for form in forms {
                assert_eq!(
                    Reach::of(ip(&form), &Surroundings::default()),
                    Reach::Special,
                    "{form}"
                );
            }
        }
        for text in [
            "::",
            "::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "100::1",
            "5f00::1",
            "4000::1",
        ] {
            assert_eq!(
                Reach::of(ip(text), &Surroundings::default()),
                Reach::Special,
                "{text}"
            );
        }
    }

    #[test]
    fn addresses_of_the_internet_are_public() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2606:4700::1111",
            "2a00::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:0101:0101::1",
            "3fff:ffff::1",
        ] {
            assert_eq!(
                Reach::of(ip(text), &Surroundings::default()),
                Reach::Public,
                "{text}"
            );
        }
    }

    #[test]
    fn the_machines_own_addresses_are_own_in_every_form_except_loopback() {
        let own = Surroundings::of_own(&[
            ip("203.0.113.7"),
            ip("10.0.0.5"),
            ip("2a00::7"),
            ip("127.0.0.1"),
        ]);
        for text in [
            "203.0.113.7",
            "10.0.0.5",
            "2a00::7",
            "::ffff:203.0.113.7",
            "64:ff9b::203.0.113.7",
            "2002:cb00:7107::1",
        ] {
            assert_eq!(Reach::of(ip(text), &own), Reach::Own, "{text}");
        }
        assert_eq!(Reach::of(ip("127.0.0.1"), &own), Reach::Special);
        assert_eq!(Reach::of(ip("203.0.113.8"), &own), Reach::Public);
        let found = CurrentSurroundings::default().get().unwrap();
        assert!(found.is_own(ip("127.0.0.1")), "{found:?}");
    }

    #[test]
    fn neighbours_are_those_of_the_machines_networks_in_every_form() {
        let mut surroundings = Surroundings::of_own(&[ip("203.0.113.7")]);
        surroundings.add_neighbours(network("203.0.113.0/24"));
        surroundings.add_neighbours(network("0.0.0.0/0"));
        for text in ["203.0.113.8", "::ffff:203.0.113.8", "64:ff9b::203.0.113.8"] {
            let reach = Reach::of(ip(text), &surroundings);
            assert_eq!(reach, Reach::Neighbour(network("203.0.113.0/24")), "{text}");
        }
        for (text, expected) in [("203.0.113.7", Reach::Own), ("203.0.114.1", Reach::Public)] {
            assert_eq!(Reach::of(ip(text), &surroundings), expected, "{text}");
        }
    }

    #[test]
    fn networks_contain_addresses_of_their_prefix() {
        for (text, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "203.0.113.7", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2a00::1", true),
            ("fc00::/7", "fd00::1", true),
            ("fc00::/7", "fe00::1", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            assert_eq!(
                network(text).contains(ip(address)),
                expected,
                "{text} {address}"
            );
        }
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "a.b/8",
            "::/129",
            "10.0.0.0/-1",
        ] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_network_is_special_if_all_of_it_is() {
        for text in [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "127.0.0.1",
            "fc00::/7",
            "fe80::/10",
            "::1",
        ] {
            assert!(network(text).is_special(), "{text}");
        }
        for text in [
            "0.0.0.0/0",
            "8.0.0.0/6",
            "172.0.0.0/8",
            "::/0",
            "2000::/3",
            "8.8.8.8",
        ] {
            assert!(!network(text).is_special(), "{text}");
        }
    }
}

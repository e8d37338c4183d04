//! Places for groups: the choice of the group to remove for a new one, so that no network takes all
//! places.

use core::cmp::Reverse;
use core::net::IpAddr;

use anabranch_units::{Duration, Network};

/// Maximum number of groups, of about 1 kB and a socket each. The SRT listener accepts 64 of them.
pub const MAX_GROUPS: usize = 256;
/// Maximum number of groups of one network. Carriers' NAT gives many customers one address.
pub const MAX_GROUPS_OF_NETWORK: usize = 128;
/// Time for which a group keeps its place against others of its network: three round trips of
/// 330 ms, in which the SRT listener accepts a sender. A network founds 128 groups a second at
/// most, and a crowd behind an address keeps nobody out who has a place.
pub(crate) const TRIAL: Duration = Duration::from_secs(1);

/// Network from which a sender registers. Providers give a customer one IPv4 address or a few, and
/// an IPv6 network of 48 to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Largest network: the first 24 bits of an IPv4 address, or 48 bits of an IPv6 address.
    network: Network,
    host: Network,
}

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        let host = Network::host(address);
        let largest = Network::around(address).last();
        Origin {
            network: largest.map_or(host, |(network, _)| network),
            host,
        }
    }
}

/// Properties by which a group keeps its place or gives way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<Id> {
    pub(crate) id: Id,
    pub(crate) origin: Origin,
    /// Whether the SRT listener has accepted it. Such a group keeps its place.
    pub(crate) is_accepted: bool,
    /// Whether it is older than [`TRIAL`].
    pub(crate) is_tried: bool,
}

/// Returns the group that gives way to another from `origin`; none if there is room. Older groups
/// have smaller ids.
///
/// The oldest group of the most crowded host in the most crowded network gives way. A sender alone
/// in its network loses its place only to [`MAX_GROUPS`] other networks.
///
/// # Errors
/// If there is no place: all groups that could give way are accepted, or new in a full network.
pub(crate) fn given_up<Id: Copy + Ord>(
    places: &[Place<Id>],
    origin: Origin,
) -> Result<Option<Id>, NoPlace> {
    let is_neighbour = |place: &&Place<Id>| place.origin.network == origin.network;
    let is_network_full = places.iter().filter(is_neighbour).count() >= MAX_GROUPS_OF_NETWORK;
    if places.len() < MAX_GROUPS && !is_network_full {
        return Ok(None);
    }
    let strangers = || places.iter().filter(|place| !place.is_accepted);
    let crowd = |of: Origin| {
        let all = || strangers().map(|place| place.origin).chain([origin]);
        (
            all().filter(|its| its.network == of.network).count(),
            all().filter(|its| its.host == of.host).count(),
        )
    };
    let gives_way = |place: &&Place<Id>| place.is_tried && is_neighbour(place);
    let candidates = strangers().filter(|place| !is_network_full || gives_way(place));
    let most = candidates.max_by_key(|place| (crowd(place.origin), Reverse(place.id)));
    most.map(|place| Some(place.id)).ok_or(NoPlace)
}

/// The error that every group has a better right to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace;

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn places(addresses: impl IntoIterator<Item = String>) -> Vec<Place<usize>> {
        let numbered = addresses.into_iter().enumerate();
        let places = numbered.map(|(id, address)| Place {
            id,
            origin: origin(&address),
            is_accepted: false,
            is_tried: true,
        });
        places.collect()
    }

    #[test]
    fn networks_and_hosts() {
        let network = |left: &str, right: &str| origin(left).network == origin(right).network;
        let host = |left: &str, right: &str| origin(left).host == origin(right).host;
        assert!(network("192.0.2.1", "192.0.2.250") && !host("192.0.2.1", "192.0.2.250"));
        assert!(!network("192.0.2.1", "192.0.3.1"));
        assert!(host("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!network("192.0.2.1", "::ffff:192.0.3.1"));
        assert!(network("2001:db8::1", "2001:db8:0:9::1"));
        assert!(host("2001:db8::1", "2001:db8::2") && !host("2001:db8::1", "2001:db8:0:9::1"));
        assert!(!network("2001:db8::1", "2001:db8:1::1"));
    }

    #[test]
    fn a_full_network_gives_up_its_own_and_of_its_hosts_the_most_crowded() {
        let mut addresses: Vec<_> = (0..4).map(|host| format!("192.0.2.{host}")).collect();
        addresses.extend(vec!["192.0.2.9".to_owned(); MAX_GROUPS_OF_NETWORK - 5]);
        addresses.push("198.51.100.1".to_owned());
        let last = addresses.len();
        assert_eq!(
            given_up(&places(addresses.clone()), origin("192.0.2.7")),
            Ok(None)
        );
        addresses.push("192.0.2.8".to_owned());
        let mut places = places(addresses);
        let asked = |places: &[Place<usize>], from: &str| given_up(places, origin(from));
        assert_eq!(asked(&places, "192.0.2.7"), Ok(Some(4)));
        assert_eq!(asked(&places, "198.51.100.1"), Ok(None));
        let mut new = places.clone();
        new.iter_mut().for_each(|place| place.is_tried = false);
        assert_eq!(asked(&new, "192.0.2.7"), Err(NoPlace), "all are new");
        new[7].is_tried = true;
        assert_eq!(asked(&new, "192.0.2.7"), Ok(Some(7)));
        for place in places
            .iter_mut()
            .filter(|place| (4..last - 1).contains(&place.id))
        {
            place.is_accepted = true;
        }
        assert_eq!(asked(&places, "192.0.2.7"), Ok(Some(0)));
        assert_eq!(asked(&places, "192.0.2.3"), Ok(Some(3)), "its own first");
        for place in places.iter_mut().filter(|place| place.id != last - 1) {
            place.is_accepted = true;
        }
        assert_eq!(asked(&places, "192.0.2.7"), Err(NoPlace), "not another's");
    }

    #[test]
    fn a_sender_alone_in_its_network_keeps_its_place_against_sixty_networks() {
        let alone = core::iter::once("198.51.100.1".to_owned());
        let others = (0..MAX_GROUPS - 1).map(|at| format!("10.0.{}.{at}", at % 60));
        let places = places(alone.chain(others));
        for network in 0..200 {
            let from = origin(&format!("10.0.{network}.9"));
            // The first of a network with two.
            assert_ne!(given_up(&places, from), Ok(Some(0)), "{network}");
        }
    }
}

//! Places of a full listener: the choice of the connection that gives way to another one.

use core::cmp::Reverse;
use core::net::IpAddr;

use anabranch_units::{Instant, Network};

use super::ConnectionId;

/// Properties by which a connection keeps its place or gives way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) id: ConnectionId,
    pub(super) address: IpAddr,
    /// Time of the peer's last packet.
    pub(super) heard_at: Instant,
    pub(super) is_encrypted: bool,
    /// Whether it is an input's.
    pub(super) keeps_place: bool,
}

impl Place {
    /// Returns the right to a place: of an input, a caller with the passphrase, or a stranger.
    fn right(&self) -> u8 {
        2 * u8::from(self.keeps_place) + u8::from(self.is_encrypted)
    }

    /// Returns the numbers of strangers in the networks around this one, the largest first.
    fn crowd(&self, places: &[Place]) -> Vec<usize> {
        let around: Vec<_> = Network::around(self.address).collect();
        let count = |network: Network| {
            let others = places.iter().filter(|other| !other.keeps_place);
            let is_within =
                |other: &&Place| Network::around(other.address).any(|(other, _)| other == network);
            others.filter(is_within).count()
        };
        let counts = around.iter().rev().map(|&(network, _)| count(network));
        counts.collect()
    }
}

/// Returns the connection that gives way to `newcomer`: of those with the least right, the one of
/// the most crowded network and of its most crowded host that has been silent for longest. Inputs
/// keep their places.
pub(super) fn given_up(places: &[Place], newcomer: &Place) -> Option<ConnectionId> {
    let may_go = |place: &&Place| !place.keeps_place && place.right() <= newcomer.right();
    let all: Vec<_> = places.iter().chain([newcomer]).copied().collect();
    let candidates = places.iter().filter(may_go);
    let first = candidates.max_by_key(|place| {
        let order = (place.crowd(&all), Reverse(place.heard_at));
        (Reverse(place.right()), order)
    });
    first.map(|place| place.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(id: u32, address: &str, heard_at: u64) -> Place {
        Place {
            id: ConnectionId(id),
            address: address.parse().unwrap(),
            heard_at: Instant::from_secs(heard_at),
            is_encrypted: false,
            keeps_place: false,
        }
    }

    fn choice(places: &[Place], newcomer: Place) -> Option<u32> {
        given_up(places, &newcomer).map(|id| id.0)
    }

    #[test]
    fn the_idlest_of_the_most_crowded_network_gives_way() {
        let mut places = vec![place(0, "198.51.100.1", 1)];
        for host in 1..4 {
            places.push(place(
                host,
                &format!("192.0.2.{host}"),
                20 + u64::from(host),
            ));
        }
        places.push(place(4, "192.0.2.3", 30));
        // Two of one host, in a network of four.
        assert_eq!(choice(&places, place(9, "203.0.113.1", 40)), Some(3));
        // The newcomer makes its own host the most crowded one.
        let newcomer = || (0..2).map(|_| place(9, "192.0.2.1", 40));
        let more: Vec<_> = places.iter().copied().chain(newcomer()).collect();
        assert_eq!(choice(&more, place(10, "192.0.2.1", 40)), Some(1));
        for (address, other) in [
            ("2001:db8:0:1::1", "2001:db8:0:2::1"),
            ("::ffff:10.0.0.1", "10.0.0.2"),
        ] {
            let places = [
                place(0, "2001:db8:9::1", 1),
                place(1, address, 5),
                place(2, other, 4),
            ];
            assert_eq!(
                choice(&places, place(9, "203.0.113.1", 40)),
                Some(2),
                "{address}"
            );
        }
    }

    #[test]
    fn inputs_keep_their_places_and_callers_with_a_key_those_of_strangers() {
        let mut places = vec![place(0, "192.0.2.1", 1), place(1, "192.0.2.1", 2)];
        places[0].keeps_place = true;
        places[1].is_encrypted = true;
        assert_eq!(choice(&places, place(9, "192.0.2.1", 3)), None);
        let mut camera = place(9, "192.0.2.1", 3);
        camera.keeps_place = true;
        assert_eq!(choice(&places, camera), Some(1));
        places.push(place(2, "203.0.113.1", 9));
        assert_eq!(choice(&places, camera), Some(2), "a stranger first");
        places[1].keeps_place = true;
        places[2].keeps_place = true;
        assert_eq!(choice(&places, camera), None);
    }
}

//! Places for groups: the choice of the group to remove for a new one, and the rate of new ones.

use anabranch_units::{Duration, Instant, Limits, Network, Occupant, Rate, evicted};

/// Maximum number of groups, of about 1 kB and a socket each. The SRT listener accepts 64 of them.
pub const MAX_GROUPS: usize = 256;
/// Maximum number of groups of one network. Carriers' NAT gives many customers one address.
pub const MAX_GROUPS_OF_NETWORK: usize = 128;
/// Time for which a group keeps its place against others of its network: three round trips of
/// 330 ms, in which the SRT listener accepts a sender. A network founds 128 groups a second at
/// most, and a crowd behind an address keeps nobody out who has a place.
const TRIAL: Duration = Duration::from_secs(1);
/// Groups that are founded: a host may fill the places of its network within a second, and four
/// networks that do so leave half of the total to others.
pub(crate) const FOUNDINGS: Limits = Limits {
    total: Rate {
        burst: 1_024,
        interval: Duration::from_micros(1_000),
    },
    host: Rate {
        burst: 128,
        interval: Duration::from_micros(7_800),
    },
};

/// The place of a group, which was founded at a time. One that the SRT listener has accepted keeps
/// it.
pub(crate) type GroupOccupant = Occupant<GroupId, Instant>;

/// Returns the group that gives way to another; none if there is room.
///
/// The oldest group of the most crowded host in the most crowded network gives way. A sender alone
/// in its network loses its place only to [`MAX_GROUPS`] other networks. In a full network only its
/// own groups give way, and those after their trial.
///
/// # Errors
/// If there is no place: all groups that could give way are accepted, or new in a full network.
pub(crate) fn given_up(
    places: &[GroupOccupant],
    newcomer: &GroupOccupant,
) -> Result<Option<GroupId>, NoPlace> {
    let largest = Network::around(newcomer.address).last();
    let neighbours = places
        .iter()
        .filter(|place| Network::around(place.address).last() == largest);
    let neighbour_count = neighbours.count();
    let is_network_full = neighbour_count >= MAX_GROUPS_OF_NETWORK;
    if places.len() < MAX_GROUPS && !is_network_full {
        return Ok(None);
    }
    evicted(places, newcomer, |place| {
        let is_tried = newcomer.used_at >= place.used_at + TRIAL;
        let is_neighbour = Network::around(place.address).last() == largest;
        !is_network_full || (is_tried && is_neighbour)
    })
    .map(Some)
    .ok_or(NoPlace)
}

/// The error that every group has a better right to its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPlace;

/// Identifies a sender while it is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(pub(crate) u64);

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Right;

    const NOW: Instant = Instant::from_secs(9);

    fn place(id: u64, address: &str) -> GroupOccupant {
        Occupant {
            id: GroupId(id),
            address: address.parse().unwrap(),
            right: Right::Stranger,
            used_at: NOW,
        }
    }

    /// Returns the places of groups at these addresses, which were founded one after the other.
    fn places(addresses: impl IntoIterator<Item = String>) -> Vec<GroupOccupant> {
        let places = (0..).zip(addresses).map(|(id, address)| {
            let used_at = Instant::from_millis(id);
            Occupant {
                used_at,
                ..place(id, &address)
            }
        });
        places.collect()
    }

    fn asked(places: &[GroupOccupant], from: &str) -> Result<Option<u64>, NoPlace> {
        let given_up = given_up(places, &place(999, from));
        given_up.map(|group| group.map(|group| group.0))
    }

    #[test]
    fn a_full_network_gives_up_its_own_and_of_its_hosts_the_most_crowded() {
        let mut addresses: Vec<_> = (0..4).map(|host| format!("192.0.2.{host}")).collect();
        addresses.extend(vec!["192.0.2.9".to_owned(); MAX_GROUPS_OF_NETWORK - 5]);
        addresses.push("198.51.100.1".to_owned());
        let last = addresses.len();
        assert_eq!(asked(&places(addresses.clone()), "192.0.2.7"), Ok(None));
        addresses.push("192.0.2.8".to_owned());
        let mut places = places(addresses);
        assert_eq!(asked(&places, "192.0.2.7"), Ok(Some(4)));
        assert_eq!(asked(&places, "198.51.100.1"), Ok(None));
        let mut new = places.clone();
        new.iter_mut().for_each(|place| place.used_at = NOW);
        assert_eq!(asked(&new, "192.0.2.7"), Err(NoPlace), "all are new");
        new[7].used_at = Instant::ZERO;
        assert_eq!(asked(&new, "192.0.2.7"), Ok(Some(7)));
        let of_one_host = 4..last as u64 - 1;
        let crowd = places.iter_mut();
        crowd
            .filter(|place| of_one_host.contains(&place.id.0))
            .for_each(|place| place.right = Right::Kept);
        assert_eq!(asked(&places, "192.0.2.7"), Ok(Some(0)));
        assert_eq!(asked(&places, "192.0.2.3"), Ok(Some(3)), "its own first");
        let others = places.iter_mut();
        others
            .filter(|place| place.id.0 != last as u64 - 1)
            .for_each(|place| place.right = Right::Kept);
        assert_eq!(asked(&places, "192.0.2.7"), Err(NoPlace), "not another's");
    }

    #[test]
    fn a_sender_alone_in_its_network_keeps_its_place_against_sixty_networks() {
        let alone = core::iter::once("198.51.100.1".to_owned());
        let others = (0..MAX_GROUPS - 1).map(|at| format!("10.0.{}.{at}", at % 60));
        let places = places(alone.chain(others));
        for network in 0..200 {
            // The first of a network with two.
            let given_up = asked(&places, &format!("10.0.{network}.9"));
            assert_ne!(given_up, Ok(Some(0)), "{network}");
        }
    }
}

//! Places at a door that is full: the choice of the holder that gives way to another.
//!
//! All doors use it: SRT callers, groups of SRTLA, TCP connections, and those of HTTP. A holder
//! with few neighbours keeps its place longest, so that no network can take all places.

use core::cmp::Reverse;
use core::net::IpAddr;
use std::collections::BTreeMap;

use crate::network::Network;

/// Right to a place; the least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Nothing is known of the holder.
    Stranger,
    /// The holder has proven a key.
    Proven,
    /// The holder keeps its place.
    Kept,
}

/// A place that is taken, or wanted by a newcomer.
#[derive(Clone, Copy, Debug)]
pub struct Occupant<Id, Order> {
    /// Name of the holder.
    pub id: Id,
    /// Address of the holder.
    pub address: IpAddr,
    /// Right of the holder.
    pub right: Right,
    /// Time of the last use, or another order: the smallest has been idle for longest.
    pub used_at: Order,
}

/// Returns the holder that gives way to `newcomer`: of those with the least right, the one of the
/// most crowded network and of its most crowded host that has been idle for longest. Nobody gives
/// way to a newcomer of less right, or unless `may_go` permits.
pub fn evicted<Id: Copy, Order: Ord>(
    places: &[Occupant<Id, Order>],
    newcomer: &Occupant<Id, Order>,
    may_go: impl Fn(&Occupant<Id, Order>) -> bool,
) -> Option<Id> {
    // Those that keep their places are no crowd.
    let mut counts: BTreeMap<Network, usize> = BTreeMap::new();
    let all = places.iter().chain([newcomer]);
    for place in all.filter(|place| place.right != Right::Kept) {
        for (network, _) in Network::around(place.address) {
            *counts.entry(network).or_default() += 1;
        }
    }
    let candidates = places.iter().filter(|place| {
        place.right != Right::Kept && place.right <= newcomer.right && may_go(place)
    });
    let first = candidates.min_by_key(|place| {
        let crowd = crowd(&counts, place.address);
        (place.right, Reverse(crowd), &place.used_at)
    });
    first.map(|place| place.id)
}

/// Returns the number of occupants of each network around an address, the largest network first.
fn crowd(counts: &BTreeMap<Network, usize>, address: IpAddr) -> Vec<Option<&usize>> {
    let around = Network::around(address);
    let mut crowd: Vec<_> = around.map(|(network, _)| counts.get(&network)).collect();
    crowd.reverse();
    crowd
}

#[cfg(test)]
mod tests;

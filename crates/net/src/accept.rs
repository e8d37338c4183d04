//! The ports of accepted TCP connections, and the limits on their number.
//!
//! Until a connection has brought an authentic datagram, it may be anybody's. There are few of
//! these at a time, few of one network, and they do not last; connections of sessions do not count.

use anabranch_units::{Instant, Occupant, Right, evicted};

use crate::port::Port;
use crate::tcp::Tcp;
use crate::tcp::accepted::Accepted;

/// Maximum number of connections, so that a process with the usual limit of 1,024 files has half of
/// them left.
const MAX_CONNECTIONS: usize = 512;
/// Maximum number of connections of one network: a venue with one address may have dozens of
/// senders.
const MAX_OF_NETWORK: usize = 128;
/// Maximum number of connections that have not brought an authentic datagram yet.
const MAX_UNPROVEN: usize = 64;
/// Maximum number of such connections of one network.
const MAX_UNPROVEN_OF_NETWORK: usize = 16;
/// Number of other slots that are used before one is used again, so that a port's index and the
/// peer's address identify a connection for a long time.
const MIN_SLOTS: usize = 64;

/// Accepts connections at the listening port, if there is one, and gives each a port of its own.
pub(crate) fn accept(now: Instant, ports: &mut Vec<Port>) {
    let listening = ports
        .iter()
        .position(|port| matches!(port.tcp(), Tcp::Listening(_)));
    let Some(listening) = listening else { return };
    let proven: Vec<_> = ports
        .iter()
        .filter_map(|port| match port.tcp() {
            Tcp::Accepted(accepted) if accepted.is_proven() => {
                Some(accepted.connection.peer().ip())
            }
            _ => None,
        })
        .collect();
    let Tcp::Listening(listener) = ports[listening].tcp_mut() else {
        return;
    };
    for source in proven {
        listener.trust(now, source);
    }
    let (accepted, mut latest) = (listener.accept(now), listener.latest);
    for accepted in accepted {
        if make_room(ports, &accepted) {
            latest = place(ports, listening + 1, latest, accepted);
        }
    }
    if let Tcp::Listening(listener) = ports[listening].tcp_mut() {
        listener.latest = latest;
    }
}

/// Returns whether a connection may be accepted. If there are too many unproven connections, one
/// gives way.
fn make_room(ports: &mut [Port], newcomer: &Accepted) -> bool {
    let mut unproven = Vec::new();
    let (mut count, mut count_of_network, mut unproven_of_network) = (0, 0, 0);
    for (index, port) in ports.iter().enumerate() {
        if let Tcp::Accepted(accepted) = port.tcp() {
            let is_neighbour = accepted.network == newcomer.network;
            count += 1;
            count_of_network += usize::from(is_neighbour);
            if !accepted.is_proven() {
                unproven_of_network += usize::from(is_neighbour);
                unproven.push(place_of(index, accepted));
            }
        }
    }
    if count_of_network >= MAX_OF_NETWORK || unproven_of_network >= MAX_UNPROVEN_OF_NETWORK {
        return false;
    }
    if unproven.len() < MAX_UNPROVEN && count < MAX_CONNECTIONS {
        return true;
    }
    let given_up = evicted(&unproven, &place_of(ports.len(), newcomer), |_| true);
    if let Some(index) = given_up {
        *ports[index].tcp_mut() = Tcp::None;
    }
    given_up.is_some()
}

fn place_of(index: usize, accepted: &Accepted) -> Occupant<usize, Instant> {
    Occupant {
        id: index,
        address: accepted.connection.peer().ip(),
        right: Right::Stranger,
        used_at: accepted.accepted_at,
    }
}

/// Puts a connection into a free port after the latest one, or into a new port. Returns its index.
fn place(ports: &mut Vec<Port>, first: usize, latest: usize, accepted: Accepted) -> usize {
    let slots = first..ports.len();
    let after = (latest + 1).max(first)..ports.len();
    let free = if slots.len() >= MIN_SLOTS {
        let mut all = after.chain(slots);
        all.find(|index| matches!(ports[*index].tcp(), Tcp::None))
    } else {
        None
    };
    let index = free.unwrap_or_else(|| {
        ports.push(Port::vacant());
        ports.len() - 1
    });
    *ports[index].tcp_mut() = Tcp::Accepted(accepted);
    index
}

#[cfg(test)]
mod tests;

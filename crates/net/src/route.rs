//! Where a path's datagrams go.

use std::net::{IpAddr, SocketAddr};

use crate::socket::Arrival;

/// IPv4 and UDP headers: 20 + 8 bytes (RFC 791, RFC 768); with IPv6 40 + 8 (RFC 8200).
pub(crate) fn header_bytes(peer: SocketAddr) -> u32 {
    if peer.ip().to_canonical().is_ipv4() {
        28
    } else {
        48
    }
}

/// The addresses of one path at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Index of the socket.
    pub(crate) socket: usize,
    pub(crate) peer: SocketAddr,
    /// The local address to send from, where the socket has several.
    pub(crate) local: Option<IpAddr>,
    /// Counter of the newest datagram that came this way.
    newest_counter: Option<u64>,
}

impl Route {
    /// The way to `peer` by a socket that has one address.
    pub(crate) fn to(socket: usize, peer: SocketAddr) -> Self {
        Route {
            socket,
            peer,
            local: None,
            newest_counter: None,
        }
    }

    /// The way back from where an authentic datagram with this counter came.
    pub(crate) fn back(arrival: &Arrival, counter: u64) -> Self {
        Route {
            socket: arrival.socket,
            peer: arrival.from,
            local: arrival.to,
            newest_counter: Some(counter),
        }
    }

    /// Follows the peer to another address, such as a NAT gives it after a pause: only if the
    /// datagram is newer than all from the old one, so that a late one does not lead back.
    pub(crate) fn follow(&mut self, arrival: &Arrival, counter: u64) {
        if self.newest_counter.is_none_or(|newest| counter > newest) {
            *self = Route::back(arrival, counter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::{Ecn, Instant};
    use std::net::Ipv4Addr;

    fn arrival(port: u16) -> Arrival {
        Arrival {
            socket: 0,
            from: (Ipv4Addr::LOCALHOST, port).into(),
            to: Some(Ipv4Addr::LOCALHOST.into()),
            received_at: Instant::ZERO,
            ecn: Ecn::NotEct,
        }
    }

    #[test]
    fn a_newer_datagram_moves_the_route_and_an_older_one_does_not() {
        let mut route = Route::back(&arrival(1), 10);
        route.follow(&arrival(2), 12);
        assert_eq!(route.peer.port(), 2);
        route.follow(&arrival(1), 11);
        assert_eq!(route.peer.port(), 2);
    }

    #[test]
    fn headers_are_those_of_the_peers_family() {
        assert_eq!(header_bytes("192.0.2.1:9".parse().unwrap()), 28);
        assert_eq!(header_bytes("[::ffff:192.0.2.1]:9".parse().unwrap()), 28);
        assert_eq!(header_bytes("[2001:db8::1]:9".parse().unwrap()), 48);
    }
}

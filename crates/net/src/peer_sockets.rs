//! Kernel queues of their own for the peers of sessions.
//!
//! A socket's queue holds some hundred datagrams, and a flood fills it in milliseconds: datagrams
//! from the session's peer are then lost with the flood. A connected socket at the same address and
//! port gets all datagrams from its peer, and no others. The flood, from other sources, overflows
//! the listening socket alone.
//!
//! Linux only: other systems give the connected socket no precedence, and do without. A receiver of
//! many senders has hundreds of peer sockets, so the kernel reports those with datagrams to read
//! (epoll).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, SockAddr, Type};

use crate::port::Port;
use crate::route::Address;
use crate::socket::Socket;
use crate::system::{self, AsFd, BorrowedFd, Feature, Watch};

/// A peer that wants a peer socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) address: Address,
    /// Whether datagrams may be handed over together ([`Socket::coalesce`]).
    pub(crate) coalesces: bool,
}

/// A socket that is connected to one peer.
#[derive(Debug)]
pub(crate) struct PeerSocket {
    /// Peer whose datagrams come here. Its socket is the listening one, by which answers leave.
    pub(crate) peer: Peer,
    pub(crate) socket: Socket,
}

/// The peer sockets of an end.
#[derive(Debug, Default)]
pub(crate) struct PeerSockets {
    /// Peer sockets by the number that the kernel reports.
    peer_sockets: BTreeMap<u64, PeerSocket>,
    opened_count: u64,
    /// Poll descriptor of all peer sockets; `None` without peer sockets.
    watch: Option<Watch>,
}

impl PeerSockets {
    /// Opens peer sockets for peers that have none, and closes those that their peer no longer
    /// needs. If a peer socket cannot be opened, the listening socket still takes the peer's
    /// datagrams.
    pub(crate) fn update(&mut self, wanted: &[Peer], ports: &[Port]) {
        self.peer_sockets
            .retain(|_, peer_socket| wanted.contains(&peer_socket.peer));
        for peer in wanted {
            if self
                .peer_sockets
                .values()
                .all(|peer_socket| peer_socket.peer.address != peer.address)
                && ports[peer.address.socket].uplink().is_none()
                && let Some(listener) = ports[peer.address.socket].socket()
            {
                // On an error, the listening socket still serves the peer.
                let _ = self.add(*peer, listener);
            }
        }
    }

    fn add(&mut self, peer: Peer, listener: &Socket) -> io::Result<()> {
        let mut socket = open(&peer.address, listener)?;
        if peer.coalesces {
            socket.coalesce();
        }
        self.opened_count += 1;
        let watch = match &mut self.watch {
            Some(watch) => watch,
            none => none.insert(Watch::new()?),
        };
        // A closed socket is no longer watched.
        watch.add(socket.as_fd(), self.opened_count)?;
        self.peer_sockets
            .insert(self.opened_count, PeerSocket { peer, socket });
        Ok(())
    }

    /// Returns a descriptor that is readable when a peer socket is.
    pub(crate) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(Watch::as_fd)
    }

    /// Returns the peer sockets with datagrams to read.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &PeerSocket> {
        let numbers = self.watch.as_ref().map_or_else(Vec::new, Watch::ready);
        numbers
            .into_iter()
            .filter_map(|number| self.peer_sockets.get(&number))
    }
}

fn open(address: &Address, listener: &Socket) -> io::Result<Socket> {
    if system::lacks(Feature::PeerSockets).is_some() {
        return Err(unsupported());
    }
    let listening = listener.local_addr()?;
    let local = address.local.ok_or_else(unsupported)?;
    let local = SocketAddr::new(of_family(local, listening)?, listening.port());
    let domain = Domain::for_address(listening);
    let socket = socket2::Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if listening.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // Sockets share a port only if all of them permit it. The listening one did not when it was
    // bound, so that a second receiver still learns that the port is taken.
    system::share_port(listener.as_fd())?;
    system::share_port(socket.as_fd())?;
    socket.bind(&SockAddr::from(local))?;
    socket.connect(&SockAddr::from(address.peer))?;
    Socket::new(UdpSocket::from(socket))
}

fn unsupported() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// Converts `local` to the family of `listening`'s socket.
fn of_family(local: IpAddr, listening: SocketAddr) -> io::Result<IpAddr> {
    match (local.to_canonical(), listening.is_ipv6()) {
        (IpAddr::V4(local), true) => Ok(local.to_ipv6_mapped().into()),
        // The interface of a link-local address is unknown here.
        (IpAddr::V6(local), true) if local.is_unicast_link_local() => Err(unsupported()),
        (local, is_ipv6) if local.is_ipv6() == is_ipv6 => Ok(local),
        _ => Err(unsupported()),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::socket::{Batch, ReceiveBuffers};
    use anabranch_units::Ecn;
    use std::time::Duration;

    fn bound(address: &str) -> Option<Socket> {
        let socket = UdpSocket::bind(address).ok()?;
        Some(Socket::new(socket).expect("a UDP socket"))
    }

    /// Returns the number of datagrams in a socket's queue.
    fn waiting(socket: &Socket) -> usize {
        let mut count = 0;
        let mut buffers = ReceiveBuffers::new();
        socket.receive(0, &Clock::start(), &mut buffers, |_, _| count += 1);
        count
    }

    #[test]
    fn a_peers_datagrams_come_to_its_socket_and_a_floods_do_not() {
        for (listen, reached) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("0.0.0.0:0", "127.0.0.1"),
            ("[::]:0", "::1"),
            ("[::]:0", "::ffff:127.0.0.1"),
        ] {
            // Some machines have no IPv6.
            let Some(listener) = bound(listen) else {
                continue;
            };
            let reached: IpAddr = reached.parse().expect("an address");
            let to = SocketAddr::new(reached, listener.local_addr().unwrap().port());
            let from = if to.is_ipv6() {
                "[::]:0"
            } else {
                "127.0.0.1:0"
            };
            let peers = [from; 2].map(|from| UdpSocket::bind(from).expect("a port"));
            let peer_port = peers[0].local_addr().unwrap().port();
            let wanted = [Peer {
                address: Address {
                    socket: 0,
                    peer: SocketAddr::new(reached, peer_port),
                    local: Some(reached),
                },
                coalesces: false,
            }];
            let listeners = [Port::fixed(crate::io::Socket::System(listener))];
            let mut peer_sockets = PeerSockets::default();
            peer_sockets.update(&wanted, &listeners);
            assert_eq!(
                peer_sockets.peer_sockets.len(),
                1,
                "{listen} reached as {reached}"
            );
            assert_eq!(peer_sockets.ready().count(), 0);
            // More datagrams than any queue holds.
            for _ in 0..20_000 {
                peers[1].send_to(&[1; 141], to).expect("sent");
            }
            for _ in 0..10 {
                peers[0].send_to(&[3; 1_200], to).expect("sent");
            }
            let overflowing = listeners[0].socket().unwrap().local_addr().expect("bound");
            let ready: Vec<_> = peer_sockets.ready().collect();
            assert_eq!(ready.len(), 1);
            assert_eq!(waiting(&ready[0].socket), 10, "{overflowing}");
            assert!(waiting(listeners[0].socket().unwrap()) > 0);
            // Answers leave by the listening socket, with the destination of the peer's datagram as
            // their source.
            let answer = Batch {
                to: wanted[0].address.peer,
                from: wanted[0].address.local,
                ecn: Ecn::NotEct,
                bytes: &[9; 40],
                datagram_bytes: 40,
            };
            listeners[0].send(&answer).expect("sent");
            let patience = Some(Duration::from_secs(2));
            peers[0].set_read_timeout(patience).expect("a timeout");
            assert_eq!(peers[0].recv_from(&mut [0; 100]).expect("came"), (40, to));
            peer_sockets.update(&[], &listeners);
            assert!(peer_sockets.peer_sockets.is_empty());
        }
    }

    #[test]
    fn second_receiver_still_finds_the_port_taken() {
        let listener = bound("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().unwrap();
        let wanted = [Peer {
            address: Address {
                socket: 0,
                peer: "127.0.0.1:9".parse().unwrap(),
                local: Some(address.ip()),
            },
            coalesces: false,
        }];
        let mut peer_sockets = PeerSockets::default();
        peer_sockets.update(&wanted, &[Port::fixed(crate::io::Socket::System(listener))]);
        assert_eq!(peer_sockets.peer_sockets.len(), 1);
        let taken = UdpSocket::bind(address).expect_err("taken").kind();
        assert_eq!(taken, io::ErrorKind::AddrInUse);
    }
}

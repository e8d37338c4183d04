//! One emulated link of UDP: the socket that the client knows, the socket that the target sees,
//! and the two directions between them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_link::{Link, LinkChange, LinkConfig, LinkConfigError};
use anabranch_units::{Duration, Instant, Seed};
use rustix::fd::BorrowedFd;

use crate::clock::Clock;
use crate::config::{LinkDirection, RelayError, RelayLink};
use crate::direction::{Arrived, Direction, Due, RelayLinkStatistics};
use crate::socket::{MAX_DATAGRAM_BYTES, Socket};
use crate::worker::Port;

/// Number of datagrams read from one source before the others get their turn.
pub(crate) const MAX_BATCH_COUNT: usize = 64;

/// The sockets are outside of the lock, since the worker waits for them without it.
#[derive(Debug)]
pub(crate) struct DatagramPort {
    listen: Socket,
    upstream: Socket,
    pub(crate) listen_addr: SocketAddr,
    target: SocketAddr,
    clock: Clock,
    traffic: Mutex<Traffic>,
}

#[derive(Debug)]
struct Traffic {
    client: Option<SocketAddr>,
    forward: Direction,
    reverse: Direction,
}

impl DatagramPort {
    pub(crate) fn open(
        link: &RelayLink,
        clock: Clock,
        ahead: Duration,
    ) -> Result<Self, RelayError> {
        let (listen, listen_addr) = open_listener(link.listen)
            .map_err(|source| socket_error(link, "listen at", link.listen, source))?;
        let upstream = open_upstream(link.target)
            .map_err(|source| socket_error(link, "send to", link.target, source))?;
        let [forward, reverse] =
            build_links(&link.name, [&link.forward, &link.reverse], link.seed, ahead)?;
        let traffic = Traffic {
            client: None,
            forward: Direction::new(forward, header_bytes(link.listen)),
            reverse: Direction::new(reverse, header_bytes(link.target)),
        };
        Ok(DatagramPort {
            listen,
            upstream,
            listen_addr,
            target: link.target,
            clock,
            traffic: Mutex::new(traffic),
        })
    }

    /// Locks the traffic. Counters stay readable after a panic of the worker, which `Relay::stop`
    /// passes on.
    fn lock(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port for DatagramPort {
    fn sources(&self) -> [BorrowedFd<'_>; 2] {
        [self.listen.as_fd(), self.upstream.as_fd()]
    }

    fn serve(&self, scratch: &mut [u8; MAX_DATAGRAM_BYTES]) -> Option<Instant> {
        let traffic = &mut *self.lock();
        // The clock is read under the lock: a link's time must not go back.
        for _ in 0..MAX_BATCH_COUNT {
            let Ok(arrival) = self.listen.receive(scratch) else {
                break;
            };
            traffic.client = Some(arrival.from);
            let packet = Arrived::new(&arrival, scratch);
            traffic.forward.receive(self.clock.now(), &packet);
        }
        // An error other than "would block" is an ICMP message, such as for a closed port at the
        // target. It does not concern the link, and reading it has cleared it.
        for _ in 0..MAX_BATCH_COUNT {
            let Ok(arrival) = self.upstream.receive(scratch) else {
                break;
            };
            let packet = Arrived::new(&arrival, scratch);
            traffic.reverse.receive(self.clock.now(), &packet);
        }
        let now = self.clock.now();
        traffic
            .forward
            .send_due(now, |due| is_sent(&self.upstream, self.target, &due));
        let client = traffic.client;
        traffic.reverse.send_due(now, |due| {
            client.is_some_and(|client| is_sent(&self.listen, client, &due))
        });
        for direction in [&mut traffic.forward, &mut traffic.reverse] {
            while direction.take_dropped().is_some() {}
        }
        traffic
            .forward
            .next_at()
            .into_iter()
            .chain(traffic.reverse.next_at())
            .min()
    }

    fn change(
        &self,
        link_direction: LinkDirection,
        change: LinkChange,
    ) -> Result<(), LinkConfigError> {
        let traffic = &mut *self.lock();
        let now = self.clock.now();
        match link_direction {
            LinkDirection::Forward => traffic.forward.change(now, change),
            LinkDirection::Reverse => traffic.reverse.change(now, change),
        }
    }

    fn statistics(&self) -> RelayLinkStatistics {
        let traffic = &mut *self.lock();
        let now = self.clock.now();
        RelayLinkStatistics {
            forward: traffic.forward.statistics(now),
            reverse: traffic.reverse.statistics(now),
        }
    }
}

/// Builds both directions' links, whose schedules begin `ahead` of the clock's origin.
pub(crate) fn build_links(
    name: &str,
    configs: [&LinkConfig; 2],
    seed: Seed,
    ahead: Duration,
) -> Result<[Link; 2], RelayError> {
    let [forward, reverse] = configs.map(|config| config.postponed(ahead));
    Ok([
        build_link(name, "forward", &forward, seed)?,
        build_link(name, "reverse", &reverse, seed)?,
    ])
}

/// Builds the link of one direction.
fn build_link(
    name: &str,
    direction: &'static str,
    config: &LinkConfig,
    seed: Seed,
) -> Result<Link, RelayError> {
    let built = config.build_changeable(seed.derive(direction));
    built.map_err(|source| RelayError::Link {
        link: name.to_owned(),
        direction,
        source,
    })
}

/// Returns the error of a link's socket.
fn socket_error(
    link: &RelayLink,
    action: &'static str,
    address: SocketAddr,
    source: io::Error,
) -> RelayError {
    RelayError::Socket {
        link: link.name.clone(),
        action,
        address,
        source,
    }
}

/// Returns whether the operating system accepts it. A pending ICMP error makes one unrelated call
/// fail.
fn is_sent(socket: &Socket, to: SocketAddr, due: &Due<'_>) -> bool {
    match socket.send(to, due.payload, due.ecn) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            socket.send(to, due.payload, due.ecn).is_ok()
        }
        result => result.is_ok(),
    }
}

/// Returns the size of the headers of IP and UDP: 20 + 8 bytes (RFC 791, RFC 768) or 40 + 8 (RFC
/// 8200).
fn header_bytes(address: SocketAddr) -> u32 {
    if address.is_ipv4() { 28 } else { 48 }
}

fn open_listener(address: SocketAddr) -> io::Result<(Socket, SocketAddr)> {
    let socket = Socket::new(UdpSocket::bind(address)?)?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

fn open_upstream(target: SocketAddr) -> io::Result<Socket> {
    let any: SocketAddr = match target {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    // Connected, so that it receives from the target only.
    socket.connect(target)?;
    Socket::new(socket)
}

//! One emulated link: the socket that the client knows, the socket that the target sees, and the
//! two directions between them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_link::LinkConfig;
use anabranch_units::{Duration, Instant};
use socket2::SockRef;

use crate::clock::Clock;
use crate::config::{RelayError, RelayLink, postponed};
use crate::direction::{Direction, DirectionStatistics};

/// What is asked of the operating system, so that nothing is lost before the link while the relay's
/// thread waits for a processor.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Datagrams read from one socket before the others have their turn.
const MAX_BATCH_COUNT: usize = 64;

/// Longer than any UDP datagram.
pub(crate) const MAX_DATAGRAM_BYTES: usize = 1 << 16;

/// What happened on one link of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayLinkStatistics {
    /// From the client to the target.
    pub forward: DirectionStatistics,
    /// From the target to the client.
    pub reverse: DirectionStatistics,
}

/// The sockets stand outside the lock, since the worker waits for them without it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) listen: UdpSocket,
    pub(crate) upstream: UdpSocket,
    pub(crate) listen_addr: SocketAddr,
    clock: Clock,
    traffic: Mutex<Traffic>,
}

#[derive(Debug)]
struct Traffic {
    client: Option<SocketAddr>,
    forward: Direction,
    reverse: Direction,
}

impl Port {
    pub(crate) fn open(
        link: &RelayLink,
        clock: Clock,
        ahead: Duration,
    ) -> Result<Self, RelayError> {
        let socket_error = |action, address| {
            let link = link.name.clone();
            move |source| RelayError::Socket {
                link,
                action,
                address,
                source,
            }
        };
        let (listen, listen_addr) =
            open_listener(link.listen).map_err(socket_error("listen at", link.listen))?;
        let upstream = open_upstream(link.target).map_err(socket_error("send to", link.target))?;
        let direction = |direction: &'static str, config: &LinkConfig, from: SocketAddr| {
            let built = postponed(config, ahead).build(link.seed.derive(direction));
            let link = link.name.clone();
            let built = built.map_err(|source| RelayError::Link {
                link,
                direction,
                source,
            })?;
            Ok(Direction::new(built, header_bytes(from)))
        };
        let traffic = Traffic {
            client: None,
            forward: direction("forward", &link.forward, link.listen)?,
            reverse: direction("reverse", &link.reverse, link.target)?,
        };
        Ok(Port {
            listen,
            upstream,
            listen_addr,
            clock,
            traffic: Mutex::new(traffic),
        })
    }

    /// Reads what has arrived, sends what is due, and says when something is next due. Never
    /// blocks.
    pub(crate) fn serve(&self, scratch: &mut [u8; MAX_DATAGRAM_BYTES]) -> Option<Instant> {
        let traffic = &mut *self.lock();
        // The clock is read under the lock: a link's time must not go back.
        for _ in 0..MAX_BATCH_COUNT {
            let Ok((len, client)) = self.listen.recv_from(scratch) else {
                break;
            };
            traffic.client = Some(client);
            traffic.forward.receive(self.clock.now(), &scratch[..len]);
        }
        // An error other than "nothing there" is an ICMP message, such as that nobody listens at
        // the target: that is not the link's business, and reading it has cleared it.
        for _ in 0..MAX_BATCH_COUNT {
            let Ok(len) = self.upstream.recv(scratch) else {
                break;
            };
            traffic.reverse.receive(self.clock.now(), &scratch[..len]);
        }
        let now = self.clock.now();
        traffic
            .forward
            .send_due(now, |payload| is_sent(|| self.upstream.send(payload)));
        let client = traffic.client;
        traffic.reverse.send_due(now, |payload| {
            client.is_some_and(|client| is_sent(|| self.listen.send_to(payload, client)))
        });
        traffic
            .forward
            .next_at()
            .into_iter()
            .chain(traffic.reverse.next_at())
            .min()
    }

    pub(crate) fn statistics(&self) -> RelayLinkStatistics {
        let traffic = &mut *self.lock();
        let now = self.clock.now();
        RelayLinkStatistics {
            forward: traffic.forward.statistics(now),
            reverse: traffic.reverse.statistics(now),
        }
    }

    /// Counters stay readable after a panic of the worker, which `Relay::stop` passes on.
    fn lock(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `send` succeeds. A pending ICMP error makes one call fail that has nothing to do with
/// it.
fn is_sent(send: impl Fn() -> io::Result<usize>) -> bool {
    match send() {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => send().is_ok(),
        result => result.is_ok(),
    }
}

/// What IP and UDP put before a payload: 20 + 8 bytes (RFC 791, RFC 768) or 40 + 8 (RFC 8200).
fn header_bytes(address: SocketAddr) -> u32 {
    if address.is_ipv4() { 28 } else { 48 }
}

fn open_listener(address: SocketAddr) -> io::Result<(UdpSocket, SocketAddr)> {
    let socket = prepared(UdpSocket::bind(address)?)?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

fn open_upstream(target: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match target {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    // Connected, so that it hears the target only.
    socket.connect(target)?;
    prepared(socket)
}

fn prepared(socket: UdpSocket) -> io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    // The system grants what it allows; less is no error.
    let _ = SockRef::from(&socket).set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = SockRef::from(&socket).set_send_buffer_size(SOCKET_BUFFER_BYTES);
    Ok(socket)
}

//! The local side of a path: a socket, while its interface or address exists.
//!
//! A socket that is bound to an interface is lost with it: an interface that is made again by the
//! same name is another. The port therefore opens its socket again by name, and looks for absent
//! interfaces and addresses.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;

use anabranch_units::{Duration, Instant};

use crate::carrier::Carrier;
use crate::clock::Clock;
use crate::io::{Network, Socket};
use crate::relay::uplink::SharedUplink;
use crate::socket::{Arrival, Batch, ReceiveBuffers, Socket as SystemSocket};
use crate::start_error::StartError;
use crate::system;
use crate::tcp::Tcp;
use crate::tcp::dial::{Carriers, Dial};
use crate::tcp::listener::Listener;
use crate::via::Via;

/// Interval at which an absent or unusable interface or address is checked. Chosen.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Port {
    /// The socket; `None` while the interface or address is absent.
    socket: Option<Socket>,
    network: Network,
    /// Interface and peer for opening the socket; `None` for a receiver's, which is not bound to an
    /// interface.
    target: Option<(Via, SocketAddr)>,
    /// Result of sending since the last check.
    seen: RefCell<Outage>,
    has_sent: Cell<bool>,
    /// Whether its sockets [coalesce](SystemSocket::coalesce).
    coalesces: bool,
    look_at: Instant,
    /// Reason for which it is unusable.
    absence: Option<String>,
    is_absence_reported: bool,
    /// Whether its owner has switched it off.
    is_off: bool,
    /// The TCP connection, in addition to the socket or instead of it.
    tcp: Tcp,
    /// The relay by which all its datagrams go.
    uplink: Option<SharedUplink>,
}

#[derive(Debug, Default)]
enum Outage {
    #[default]
    Nothing,
    /// The socket's interface or address has gone.
    Gone,
    /// The operating system has no route now, and may have one later.
    NoRoute(String),
}

impl Port {
    /// Opens a port of a path. An absent interface or address is waited for.
    ///
    /// # Errors
    /// Errors that waiting cannot fix.
    pub(crate) fn open(
        network: &Network,
        via: &Via,
        remote: SocketAddr,
    ) -> Result<Port, StartError> {
        let target = Some((via.clone(), remote));
        match network.open(via, remote) {
            Ok(socket) => Ok(Port::dialling(network, Some(socket), target)),
            Err(StartError::Via(absent)) if absent.is_absence() => Ok(Port {
                absence: Some(absent.to_string()),
                ..Port::dialling(network, None, target)
            }),
            Err(error) => Err(error),
        }
    }

    /// Creates a port of a path whose other end has no known address yet. [`Port::redirect`] opens
    /// it.
    pub(crate) fn nowhere(network: &Network) -> Port {
        Port {
            absence: Some("the receiver's address is not known yet".to_owned()),
            ..Port::dialling(network, None, None)
        }
    }

    /// Changes the remote address. The socket stays if it is of the same family: answers from the
    /// old address may be in flight. A TCP connection only reaches the old address.
    pub(crate) fn redirect(&mut self, via: &Via, remote: SocketAddr) {
        let old = self.target.replace((via.clone(), remote));
        self.tcp = Tcp::Dialled(Dial::default());
        let is_alike = old.is_some_and(|(_, old)| old.is_ipv4() == remote.is_ipv4());
        if !is_alike || self.socket.is_none() {
            self.reopen();
        }
    }

    /// Closes the sockets and opens none, or opens them again.
    pub(crate) fn switch(&mut self, is_on: bool) {
        self.is_off = !is_on;
        self.look_at = Instant::ZERO;
        if is_on {
            self.reopen();
        } else {
            self.socket = None;
            self.tcp = Tcp::Dialled(Dial::default());
            self.absence = Some("it is switched off".to_owned());
        }
    }

    /// Opens another socket, which has another local port. The present one stays if that fails.
    pub(crate) fn freshen(&mut self) {
        if self.is_off {
            return;
        }
        let before = self.socket.take();
        let absence = self.absence.take();
        self.reopen();
        if self.socket.is_none() {
            (self.socket, self.absence) = (before, absence);
        }
    }

    /// Creates a port that is never opened again.
    pub(crate) fn fixed(socket: Socket) -> Port {
        Port::new(Some(socket), None)
    }

    fn dialling(
        network: &Network,
        socket: Option<Socket>,
        target: Option<(Via, SocketAddr)>,
    ) -> Port {
        Port {
            network: network.clone(),
            tcp: Tcp::Dialled(Dial::default()),
            ..Port::new(socket, target)
        }
    }

    fn new(socket: Option<Socket>, target: Option<(Via, SocketAddr)>) -> Port {
        Port {
            socket,
            network: Network::default(),
            target,
            seen: RefCell::default(),
            has_sent: Cell::new(false),
            coalesces: false,
            look_at: Instant::ZERO,
            absence: None,
            is_absence_reported: false,
            is_off: false,
            tcp: Tcp::None,
            uplink: None,
        }
    }

    /// Creates a server's port to peers behind a relay.
    pub(crate) fn relayed(socket: Socket, uplink: SharedUplink) -> Port {
        Port {
            uplink: Some(uplink),
            ..Port::fixed(socket)
        }
    }

    /// Returns the relay by which its datagrams go, if any.
    pub(crate) fn uplink(&self) -> Option<&SharedUplink> {
        self.uplink.as_ref()
    }

    /// Creates a server's port that accepts TCP connections.
    pub(crate) fn listening(listener: Listener) -> Port {
        Port {
            tcp: Tcp::Listening(listener),
            ..Port::vacant()
        }
    }

    /// Creates a port without socket, for an accepted connection.
    pub(crate) fn vacant() -> Port {
        Port::new(None, None)
    }

    pub(crate) fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    pub(crate) fn tcp_mut(&mut self) -> &mut Tcp {
        &mut self.tcp
    }

    /// Returns the client's TCP connection, or its absence.
    pub(crate) fn dial(&self) -> Option<&Dial> {
        match &self.tcp {
            Tcp::Dialled(dial) => Some(dial),
            _ => None,
        }
    }

    /// Returns whether datagrams leave by TCP only.
    pub(crate) fn is_by_tcp(&self) -> bool {
        match &self.tcp {
            Tcp::None | Tcp::Listening(_) => false,
            Tcp::Accepted(_) => true,
            Tcp::Dialled(dial) => match dial.carriers() {
                Carriers::Udp | Carriers::Both => false,
                Carriers::Tcp => dial.is_open(),
                Carriers::TcpOnly => true,
            },
        }
    }

    /// Records that an authentic datagram of a session has arrived by this port.
    pub(crate) fn on_authentic(&self, now: Instant, carrier: Carrier) {
        match (&self.tcp, carrier) {
            (Tcp::Accepted(accepted), _) => accepted.on_authentic(now),
            (Tcp::Dialled(dial), Carrier::Tcp) => dial.on_authentic(),
            _ => {}
        }
    }

    /// Makes the kernel hand over datagrams together from now on ([`SystemSocket::coalesce`]).
    pub(crate) fn coalesce(&mut self) {
        self.coalesces = true;
        if let Some(socket) = &mut self.socket {
            socket.coalesce();
        }
    }

    /// Returns whether it has a socket.
    pub(crate) fn has_socket(&self) -> bool {
        self.socket.is_some()
    }

    /// Returns the operating system's socket, if it has one.
    pub(crate) fn socket(&self) -> Option<&SystemSocket> {
        self.socket.as_ref()?.system()
    }

    /// Returns the maximum number of datagrams in a batch.
    pub(crate) fn max_batch_count(&self) -> usize {
        self.socket.as_ref().map_or(1, Socket::max_batch_count)
    }

    /// Sends a batch by the port's carriers.
    ///
    /// # Errors
    /// As [`SystemSocket::send`] and
    /// [`Connection::send`](crate::tcp::connection::Connection::send); without a socket, the
    /// reason of its absence.
    pub(crate) fn send(&self, batch: &Batch<'_>) -> Result<(), (usize, io::Error)> {
        if let Some(uplink) = &self.uplink {
            return self.send_by_relay(uplink, batch);
        }
        match &self.tcp {
            Tcp::None | Tcp::Listening(_) => self.send_by_udp(batch),
            Tcp::Accepted(accepted) => accepted.send(batch),
            Tcp::Dialled(dial) => match dial.carriers() {
                Carriers::TcpOnly => dial.send(batch),
                Carriers::Tcp if dial.is_open() => dial.send(batch),
                Carriers::Both if dial.is_open() => {
                    let by_tcp = dial.send(batch);
                    self.send_by_udp(batch).or(by_tcp)
                }
                Carriers::Udp | Carriers::Tcp | Carriers::Both => self.send_by_udp(batch),
            },
        }
    }

    /// Sends a batch to a peer behind a relay.
    fn send_by_relay(
        &self,
        uplink: &SharedUplink,
        batch: &Batch<'_>,
    ) -> Result<(), (usize, io::Error)> {
        let mut uplink = uplink.lock();
        let to = uplink.address();
        let Some(wrapped) = uplink.wrap(batch) else {
            let count = batch.bytes.len().div_ceil(batch.datagram_bytes);
            return Err((count, io::ErrorKind::NotConnected.into()));
        };
        let mut failed: Option<(usize, io::Error)> = None;
        for (bytes, datagram_bytes) in wrapped {
            let sent = self.send_by_udp(&Batch {
                to,
                from: None,
                ecn: batch.ecn,
                bytes: &bytes,
                datagram_bytes,
            });
            if let Err((count, error)) = sent {
                let before = failed.map_or(0, |(count, _)| count);
                failed = Some((before + count, error));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Sends a batch as [`SystemSocket::send`] does.
    ///
    /// # Errors
    /// As there; without a socket, the missing interface or address.
    pub(crate) fn send_by_udp(&self, batch: &Batch<'_>) -> Result<(), (usize, io::Error)> {
        let Some(socket) = &self.socket else {
            let reason = self.absence.clone().unwrap_or_default();
            let count = batch.bytes.len().div_ceil(batch.datagram_bytes);
            return Err((count, io::Error::new(io::ErrorKind::NotConnected, reason)));
        };
        let sent = socket.send(batch);
        match &sent {
            Ok(()) => self.has_sent.set(true),
            Err((_, error)) if system::is_gone(error) => {
                self.seen.replace(Outage::Gone);
            }
            Err((_, error)) if system::is_unreachable(error) => {
                self.seen.replace(Outage::NoRoute(error.to_string()));
            }
            Err(_) => {}
        }
        sent
    }

    /// Receives the datagrams of a socket of a world, for the process `owner`.
    #[cfg(feature = "testing")]
    pub(crate) fn receive(
        &self,
        owner: usize,
        index: usize,
        take: impl FnMut(&Arrival, &mut [u8]),
    ) {
        if let Some(Socket::World(socket)) = &self.socket {
            socket.receive(owner, index, take);
        }
    }

    /// Makes `owner` the process that a world wakes for the TCP side.
    #[cfg(feature = "testing")]
    pub(crate) fn own_tcp(&self, owner: usize) {
        self.tcp.own(owner);
    }

    /// Serves its TCP socket, which poll found ready.
    pub(crate) fn serve_tcp(
        &self,
        index: usize,
        clock: &Clock,
        buffers: &mut ReceiveBuffers,
        take: impl FnMut(&Arrival, &mut [u8]),
    ) {
        self.tcp.serve(index, clock, buffers, take);
    }

    /// Returns the time at which [`tend`](Self::tend) has something to do.
    pub(crate) fn tend_at(&self) -> Option<Instant> {
        [self.look_due_at(), self.tcp.tend_at()]
            .into_iter()
            .flatten()
            .min()
    }

    fn look_due_at(&self) -> Option<Instant> {
        let is_well = self.absence.is_none()
            && !self.is_absence_reported
            && matches!(*self.seen.borrow(), Outage::Nothing);
        (self.target.is_some() && !is_well).then_some(self.look_at)
    }

    /// Looks for an absent interface or address. Returns the reason once when the path becomes
    /// unusable, and `Some(None)` once when it is usable again.
    pub(crate) fn tend(&mut self, now: Instant) -> Option<Option<String>> {
        self.tend_tcp(now);
        if self.look_due_at().is_none_or(|at| at > now) {
            return None;
        }
        self.look_at = now + POLL_INTERVAL;
        let seen = self.seen.take();
        let has_sent = self.has_sent.replace(false);
        match (seen, &self.socket) {
            (Outage::Gone, _) | (_, None) => self.reopen(),
            (Outage::NoRoute(reason), Some(_)) => {
                if !system::KNOWS_INTERFACES_BY_NAME {
                    // The interface may be back by another number.
                    self.reopen();
                }
                if self.socket.is_some() {
                    self.absence = Some(reason);
                }
            }
            (Outage::Nothing, Some(_)) if has_sent => self.absence = None,
            (Outage::Nothing, Some(_)) => {}
        }
        let is_absent = self.absence.is_some();
        let is_new = is_absent != core::mem::replace(&mut self.is_absence_reported, is_absent);
        is_new.then(|| self.absence.clone())
    }

    fn tend_tcp(&mut self, now: Instant) {
        if self.is_off {
            return;
        }
        match (&mut self.tcp, &self.target) {
            (Tcp::Dialled(dial), Some((via, _))) => dial.tend(now, &self.network, via),
            (Tcp::Accepted(accepted), _) if accepted.close_at() <= now => self.tcp = Tcp::None,
            _ => {}
        }
    }

    fn reopen(&mut self) {
        let Some((via, remote)) = &self.target else {
            return;
        };
        if self.is_off {
            return;
        }
        match self.network.open(via, *remote) {
            Ok(mut socket) => {
                if self.coalesces {
                    socket.coalesce();
                }
                self.socket = Some(socket);
                self.absence = None;
            }
            Err(error) => {
                self.socket = None;
                self.absence = Some(error.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Ecn;
    use std::net::Ipv4Addr;

    const REMOTE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

    #[test]
    fn absent_interface_is_reported_once() {
        let via = Via::Interface("nowhere9".into());
        let mut port = Port::open(&Network::default(), &via, REMOTE).expect("it is waited for");
        let batch = Batch {
            to: REMOTE,
            from: None,
            ecn: Ecn::NotEct,
            bytes: &[1; 50],
            datagram_bytes: 20,
        };
        let (count, error) = port.send(&batch).expect_err("nowhere to send by");
        assert_eq!(count, 3);
        assert!(error.to_string().contains("nowhere9"), "{error}");
        let absence_reason = port.tend(Instant::ZERO).expect("it is absent");
        assert!(absence_reason.is_some_and(|reason| reason.contains("nowhere9")));
        assert_eq!(port.tend_at(), Some(Instant::ZERO + POLL_INTERVAL));
        assert_eq!(port.tend(Instant::from_secs(5)), None, "told already");
    }

    #[test]
    fn present_interface_needs_no_tending() {
        let mut port = Port::open(&Network::default(), &Via::DefaultRoute, REMOTE).unwrap();
        assert_eq!(port.tend_at(), None);
        assert_eq!(port.tend(Instant::from_secs(5)), None);
        port.seen.replace(Outage::Gone);
        let before = port.socket().unwrap().local_addr().unwrap();
        assert_eq!(port.tend(Instant::from_secs(5)), None, "it is there again");
        assert_ne!(port.socket().unwrap().local_addr().unwrap(), before);
        assert_eq!(port.tend_at(), None);
    }
}

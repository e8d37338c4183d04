//! Sockets for datagrams on the machines of a world.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

use anabranch_units::{Duration, Ecn, Instant};
use rustix::io::Errno;

use super::fabric::{Due, Fabric, State};
use super::line::Way;
use super::packet::Packet;
use crate::carrier::Carrier;
use crate::socket::{Arrival, Batch};
use crate::system::{NO_DEVICE, NOT_PERMITTED};

/// Limit of a socket's queue in bytes: Linux's default of `net.core.rmem_max` is 208 KiB.
const QUEUE_BYTES: usize = 208 << 10;

pub(super) struct SocketState {
    pub(super) machine: usize,
    /// The line that it is bound to; `None`: any.
    pub(super) line: Option<usize>,
    /// Local address; unspecified: any of the machine.
    pub(super) local: SocketAddr,
    /// The only address that it takes datagrams from, if it is connected.
    peer: Option<SocketAddr>,
    /// The process that reads it, once it has.
    owner: Option<usize>,
    queue: VecDeque<(Instant, Packet)>,
    queued_bytes: usize,
}

impl SocketState {
    pub(super) fn new(machine: usize, line: Option<usize>, local: SocketAddr) -> Self {
        SocketState {
            machine,
            line,
            local,
            peer: None,
            owner: None,
            queue: VecDeque::new(),
            queued_bytes: 0,
        }
    }

    /// Returns whether a datagram that arrives by `line`, or from its own machine, is for it.
    fn takes(&self, line: Option<usize>, packet: &Packet) -> bool {
        let to = packet.to;
        let is_address = match self.local.ip() {
            // A socket at [::] takes both families, as on Linux.
            IpAddr::V6(local) if local.is_unspecified() => true,
            local if local.is_unspecified() => to.is_ipv4(),
            local => local == to.ip(),
        };
        let is_way = self.line.is_none_or(|own| Some(own) == line);
        let is_peer = self.peer.is_none_or(|peer| peer == packet.from);
        is_address && self.local.port() == to.port() && is_way && is_peer
    }
}

/// A socket for datagrams, which closes when it is dropped.
#[derive(Debug)]
pub(crate) struct VirtualSocket {
    pub(super) fabric: Fabric,
    pub(super) number: u64,
}

impl VirtualSocket {
    /// Maximum number of datagrams in a batch; as of sockets without segmentation offload.
    pub(crate) const MAX_BATCH_COUNT: usize = 16;

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.fabric.lock().sockets[&self.number].local
    }

    /// Sends the datagrams of a batch.
    ///
    /// # Errors
    /// The number of refused datagrams, and the error of the last.
    pub(crate) fn send(&self, batch: &Batch<'_>) -> Result<(), (usize, io::Error)> {
        let mut state = self.fabric.lock();
        let mut failed: Option<(usize, io::Error)> = None;
        for datagram in batch.bytes.chunks(batch.datagram_bytes) {
            if let Err(error) = state.send(self.number, batch, datagram) {
                failed = Some((failed.map_or(1, |(count, _)| count + 1), error.into()));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Sets the only address to send to, and to take datagrams from.
    ///
    /// # Errors
    /// There is no route.
    pub(crate) fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        let mut state = self.fabric.lock();
        let SocketState { machine, line, .. } = state.sockets[&self.number];
        let line = line.or_else(|| state.default_line(machine, peer.ip()));
        if line.is_none() && !peer.ip().is_loopback() {
            return Err(Errno::NETUNREACH.into());
        }
        if let Some(socket) = state.sockets.get_mut(&self.number) {
            socket.peer = Some(SocketAddr::new(peer.ip().to_canonical(), peer.port()));
        }
        Ok(())
    }

    /// Sends a datagram to the peer.
    ///
    /// # Errors
    /// The machine's reason.
    pub(crate) fn send_connected(&self, bytes: &[u8]) -> io::Result<()> {
        let peer = self.fabric.lock().sockets[&self.number].peer;
        self.send_one(bytes, peer.ok_or(Errno::DESTADDRREQ)?, None)
    }

    /// Sends a datagram, from this local address if the socket has several.
    ///
    /// # Errors
    /// The machine's reason.
    pub(crate) fn send_one(
        &self,
        bytes: &[u8],
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<()> {
        let batch = Batch {
            to,
            from,
            ecn: Ecn::NotEct,
            bytes,
            datagram_bytes: bytes.len(),
        };
        let sent = self.fabric.lock().send(self.number, &batch, bytes);
        sent.map_err(io::Error::from)
    }

    /// Takes the next datagram: its length, its source, and its destination.
    ///
    /// # Errors
    /// None is waiting.
    pub(crate) fn take(
        &self,
        buffer: &mut [u8],
    ) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
        let mut state = self.fabric.lock();
        let socket = state.sockets.get_mut(&self.number).ok_or(Errno::BADF)?;
        let Some((_, packet)) = socket.queue.pop_front() else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        socket.queued_bytes -= packet.bytes.len();
        let length = packet.bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&packet.bytes[..length]);
        let is_ipv6 = socket.local.is_ipv6();
        let from = SocketAddr::new(seen_by(is_ipv6, packet.from.ip()), packet.from.port());
        let is_any = socket.local.ip().is_unspecified();
        Ok((
            length,
            from,
            is_any.then_some(seen_by(is_ipv6, packet.to.ip())),
        ))
    }

    /// Makes arrivals wake a process. Returns whether datagrams are waiting.
    pub(crate) fn own(&self, process: usize) -> bool {
        let mut state = self.fabric.lock();
        let Some(socket) = state.sockets.get_mut(&self.number) else {
            return false;
        };
        socket.owner = Some(process);
        !socket.queue.is_empty()
    }

    /// Hands every waiting datagram to `take`, for the process `owner`, which is woken from now on
    /// when datagrams arrive.
    pub(crate) fn receive(
        &self,
        owner: usize,
        index: usize,
        mut take: impl FnMut(&Arrival, &mut [u8]),
    ) {
        let is_ipv6 = self.local_addr().is_ipv6();
        let waiting = {
            let mut state = self.fabric.lock();
            let machine = state.sockets[&self.number].machine;
            let waiting = match state.sockets.get_mut(&self.number) {
                Some(socket) => {
                    socket.owner = Some(owner);
                    socket.queued_bytes = 0;
                    core::mem::take(&mut socket.queue)
                }
                None => return,
            };
            // As the kernel stamps them, by the machine's clock.
            let machine = &state.machines[machine];
            let stamped = waiting
                .into_iter()
                .map(|(at, packet)| (machine.reading(at), packet));
            stamped.collect::<Vec<_>>()
        };
        for (received_at, mut packet) in waiting {
            let arrival = Arrival {
                socket: index,
                from: SocketAddr::new(seen_by(is_ipv6, packet.from.ip()), packet.from.port()),
                to: Some(seen_by(is_ipv6, packet.to.ip())),
                received_at,
                ecn: packet.ecn,
                carrier: Carrier::Udp,
            };
            take(&arrival, &mut packet.bytes);
        }
    }
}

impl Drop for VirtualSocket {
    fn drop(&mut self) {
        self.fabric.lock().sockets.remove(&self.number);
    }
}

/// Returns an address as a socket sees it: one of IPv6 sees those of IPv4 mapped (RFC 4291
/// §2.5.5.2).
fn seen_by(is_ipv6: bool, address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) if is_ipv6 => address.to_ipv6_mapped().into(),
        address => address,
    }
}

impl State {
    /// Returns the line of a machine's interface with this address.
    fn line_at(&self, machine: usize, address: IpAddr) -> Option<usize> {
        let mut lines = self.machines[machine].lines.iter().copied();
        lines.find(|line| self.lines[*line].address == address)
    }

    fn send(&mut self, socket: u64, batch: &Batch<'_>, datagram: &[u8]) -> Result<(), Errno> {
        let socket = &self.sockets[&socket];
        let (machine, local, port) = (socket.machine, socket.local.ip(), socket.local.port());
        let to = SocketAddr::new(batch.to.ip().to_canonical(), batch.to.port());
        let source = batch.from.map(|from| from.to_canonical());
        if to.ip().is_loopback() {
            let packet = Packet {
                // A socket at any address sends to loopback from there.
                from: SocketAddr::new(to.ip(), port),
                to,
                ecn: batch.ecn,
                bytes: datagram.to_vec(),
            };
            let now = self.now;
            self.schedule(now, Due::Loopback(machine, packet));
            return Ok(());
        }
        let line = socket
            .line
            .or_else(|| self.line_at(machine, source?))
            .or_else(|| self.line_at(machine, local))
            .or_else(|| self.default_line(machine, to.ip()))
            .ok_or(Errno::NETUNREACH)?;
        let state = &self.lines[line];
        if state.address.is_ipv4() != to.is_ipv4() {
            return Err(Errno::NETUNREACH);
        }
        if !state.is_plugged {
            return Err(NO_DEVICE);
        }
        if state.refuses {
            return Err(NOT_PERMITTED);
        }
        let packet = Packet {
            from: SocketAddr::new(state.address, port),
            to,
            ecn: batch.ecn,
            bytes: datagram.to_vec(),
        };
        if packet.wire_bytes() > state.mtu {
            return Err(Errno::MSGSIZE);
        }
        match self.machines[machine].interrupted_for(self.now) {
            Duration::ZERO => self.push(line, Way::Up, packet),
            rest => self.schedule(self.now + rest, Due::Depart(line, packet)),
        }
        Ok(())
    }

    /// Puts a datagram that has come by a line into its socket's queue.
    pub(super) fn arrive(&mut self, line: usize, packet: Packet) {
        if !self.lines[line].is_plugged {
            return;
        }
        self.arrive_at(self.lines[line].machine, Some(line), packet);
    }

    /// Puts a datagram into the queue of its socket: rather one that is connected to its source.
    pub(super) fn arrive_at(&mut self, machine: usize, line: Option<usize>, packet: Packet) {
        let now = self.now;
        let sockets = self.sockets.values_mut();
        let socket = sockets
            .filter(|socket| socket.machine == machine && socket.takes(line, &packet))
            .min_by_key(|socket| socket.peer.is_none());
        let Some(socket) = socket else { return };
        let bytes = packet.bytes.len();
        if socket.queued_bytes + bytes > QUEUE_BYTES {
            return;
        }
        socket.queued_bytes += bytes;
        socket.queue.push_back((now, packet));
        let owner = socket.owner;
        self.wake_owner(machine, owner);
    }
}

//! The server's listening socket for TCP, and the limits on its connections.
//!
//! Until a connection has brought an authentic datagram, it may be anybody's. There are few of
//! these at a time, few of one network, and they do not last; connections of sessions do not count.
//! New connections are accepted at a limited rate, the others wait in the kernel.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};

use anabranch_units::{Duration, Instant};
use rustix::event::PollFlags;

use super::Tcp;
use super::accepted::Accepted;
use super::connection::Connection;
use crate::gate::Network;
use crate::port::Port;

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
/// Maximum number of connections accepted per turn …
const MAX_ACCEPTED_AT_ONCE: u32 = 16;
/// … and the time that each of them costs: 200 a second, at about 20 µs each 0.4 % of a processor.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(5);
/// Pause when the process has no files left.
const SHORTAGE_PAUSE: Duration = Duration::from_secs(1);
/// Number of other slots that are used before one is used again, so that a port's index and the
/// peer's address identify a connection for a long time.
const MIN_SLOTS: usize = 64;

#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    is_ready: Cell<bool>,
    resume_at: Instant,
    /// Index of the port that took the last connection.
    latest: usize,
}

impl Listener {
    /// Opens the listening socket.
    ///
    /// # Errors
    /// The address is taken, not this machine's, or needs a privilege.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(Listener {
            socket,
            is_ready: Cell::new(false),
            resume_at: Instant::ZERO,
            latest: 0,
        })
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(crate) fn polled(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = match self.is_ready.get() {
            true => PollFlags::empty(),
            false => PollFlags::IN,
        };
        (self.socket.as_fd(), flags)
    }

    /// Records that connections wait to be accepted.
    pub(crate) fn on_ready(&self) {
        self.is_ready.set(true);
    }

    pub(crate) fn tend_at(&self) -> Option<Instant> {
        self.is_ready.get().then_some(self.resume_at)
    }

    /// Takes waiting connections, within the rate.
    fn accept(&mut self, now: Instant) -> Vec<Accepted> {
        let mut accepted = Vec::new();
        if self.tend_at().is_none_or(|at| at > now) {
            return accepted;
        }
        self.is_ready.set(false);
        for count in 1..=MAX_ACCEPTED_AT_ONCE {
            match self.socket.accept() {
                Ok((stream, peer)) => {
                    let connection = Connection::accepted(stream, peer);
                    accepted.extend(connection.ok().map(|one| Accepted::new(now, one)));
                    self.resume_at = now + ACCEPT_INTERVAL * u64::from(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.resume_at = now + SHORTAGE_PAUSE;
                    break;
                }
            }
        }
        accepted
    }
}

/// Accepts connections at the listening port, if there is one, and gives each a port of its own.
pub(crate) fn accept(now: Instant, ports: &mut Vec<Port>) {
    let listening = ports
        .iter()
        .position(|port| matches!(port.tcp(), Tcp::Listening(_)));
    let Some(listening) = listening else { return };
    let Tcp::Listening(listener) = ports[listening].tcp_mut() else {
        return;
    };
    let (accepted, mut latest) = (listener.accept(now), listener.latest);
    for accepted in accepted {
        if make_room(ports, accepted.network) {
            latest = place(ports, listening + 1, latest, accepted);
        }
    }
    if let Tcp::Listening(listener) = ports[listening].tcp_mut() {
        listener.latest = latest;
    }
}

/// Returns whether a connection of `network` may be accepted. If there are too many unproven
/// connections, the oldest one of the network with the most is closed.
fn make_room(ports: &mut [Port], network: Network) -> bool {
    let mut unproven: BTreeMap<Network, Vec<(Instant, usize)>> = BTreeMap::new();
    let (mut count, mut count_of_network) = (0, 0);
    for (index, port) in ports.iter().enumerate() {
        if let Tcp::Accepted(accepted) = port.tcp() {
            count += 1;
            count_of_network += usize::from(accepted.network == network);
            if !accepted.is_proven() {
                let of_network = unproven.entry(accepted.network).or_default();
                of_network.push((accepted.accepted_at, index));
            }
        }
    }
    let unproven_count: usize = unproven.values().map(Vec::len).sum();
    let unproven_of_network = unproven.get(&network).map_or(0, Vec::len);
    if count_of_network >= MAX_OF_NETWORK || unproven_of_network >= MAX_UNPROVEN_OF_NETWORK {
        return false;
    }
    if unproven_count < MAX_UNPROVEN && count < MAX_CONNECTIONS {
        return true;
    }
    let largest = unproven
        .values()
        .max_by_key(|connections| connections.len());
    match largest.and_then(|connections| connections.iter().min()) {
        Some((_, index)) => {
            *ports[*index].tcp_mut() = Tcp::None;
            true
        }
        None => false,
    }
}

/// Puts a connection into a free port after the latest one, or into a new port. Returns its index.
fn place(ports: &mut Vec<Port>, first: usize, latest: usize, accepted: Accepted) -> usize {
    let slots = first..ports.len();
    let is_free = |index: &usize| matches!(ports[*index].tcp(), Tcp::None);
    let after = (latest + 1).max(first)..ports.len();
    let free = after.chain(slots.clone()).find(is_free);
    let free = free.filter(|_| slots.len() >= MIN_SLOTS);
    let index = free.unwrap_or_else(|| {
        ports.push(Port::vacant());
        ports.len() - 1
    });
    *ports[index].tcp_mut() = Tcp::Accepted(accepted);
    index
}

// Needs a clock: connections are real ones.
#[cfg(test)]
mod real_time_tests;

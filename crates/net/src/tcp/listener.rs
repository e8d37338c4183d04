//! The server's listening socket for TCP.
//!
//! New connections are accepted at a limited rate, the others wait in the kernel.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use anabranch_units::{Duration, Instant};
use rustix::event::PollFlags;

use super::accepted::Accepted;
use super::connection::Connection;
use super::stream::Acceptor;

/// Maximum number of connections accepted per turn …
pub(crate) const MAX_ACCEPTED_AT_ONCE: u32 = 16;
/// … and the time that each of them costs: 200 a second, at about 20 µs each 0.4 % of a processor.
pub(crate) const ACCEPT_INTERVAL: Duration = Duration::from_millis(5);
/// Pause when the process has no files left.
const SHORTAGE_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Listener {
    socket: Acceptor,
    is_ready: Cell<bool>,
    resume_at: Instant,
    /// Index of the port that took the last connection.
    pub(crate) latest: usize,
}

impl Listener {
    /// Opens the operating system's listening socket.
    #[cfg(test)]
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(Listener::new(Acceptor::bind(address)?))
    }

    /// Creates the listener of a socket.
    pub(crate) fn new(socket: Acceptor) -> Self {
        Listener {
            socket,
            is_ready: Cell::new(false),
            resume_at: Instant::ZERO,
            latest: 0,
        }
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the operating system's socket, and the events to poll for.
    pub(crate) fn polled(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let flags = match self.is_ready.get() {
            true => PollFlags::empty(),
            false => PollFlags::IN,
        };
        Some((self.socket.system()?, flags))
    }

    /// Records that connections wait to be accepted.
    pub(crate) fn on_ready(&self) {
        self.is_ready.set(true);
    }

    /// Makes `owner` the process that a world wakes, and records that connections wait.
    #[cfg(feature = "testing")]
    pub(crate) fn own(&self, owner: usize) {
        if let Acceptor::World(acceptor) = &self.socket {
            self.is_ready.set(acceptor.own(owner));
        }
    }

    pub(crate) fn tend_at(&self) -> Option<Instant> {
        self.is_ready.get().then_some(self.resume_at)
    }

    /// Takes waiting connections, within the rate.
    pub(crate) fn accept(&mut self, now: Instant) -> Vec<Accepted> {
        let mut accepted = Vec::new();
        if self.tend_at().is_none_or(|at| at > now) {
            return accepted;
        }
        self.is_ready.set(false);
        for count in 1..=MAX_ACCEPTED_AT_ONCE {
            match self.socket.accept() {
                Ok((stream, local, peer)) => {
                    let connection = Connection::accepted(stream, local, peer);
                    accepted.push(Accepted::new(now, connection));
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

//! The server's listening socket for TCP.
//!
//! The kernel hands out connections in their order, so those of a host that has had its share are
//! taken and closed at once: they would keep all behind them waiting.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use anabranch_units::{Duration, Instant, Limiter, Limits, Rate};
use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;

use super::accepted::Accepted;
use super::connection::Connection;
use super::stream::Acceptor;

/// Maximum number of connections taken per turn …
pub(crate) const MAX_ACCEPTED_AT_ONCE: u32 = 64;
/// … and the time that each of them costs: 5,000 a second, at about 20 µs each a tenth of a
/// processor.
pub(crate) const ACCEPT_INTERVAL: Duration = Duration::from_micros(200);
/// Connections that are kept: 200 a second, of which a host has 10. A venue with one address may
/// have dozens of senders.
const CONNECTIONS: Limits = Limits {
    total: Rate {
        burst: 64,
        interval: Duration::from_millis(5),
    },
    host: Rate {
        burst: 32,
        interval: Duration::from_millis(100),
    },
};
/// Pause when the process has no files left.
const SHORTAGE_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Listener {
    socket: Acceptor,
    is_ready: Cell<bool>,
    resume_at: Instant,
    limiter: Limiter,
    /// Index of the port that took the last connection.
    pub(crate) latest: usize,
}

impl Listener {
    /// Creates the listener of a socket.
    pub(crate) fn new(socket: Acceptor) -> Self {
        Listener {
            socket,
            is_ready: Cell::new(false),
            resume_at: Instant::ZERO,
            limiter: Limiter::new(CONNECTIONS),
            latest: 0,
        }
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the operating system's socket, and the events to poll for.
    pub(crate) fn polled(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let flags = if self.is_ready.get() {
            PollFlags::empty()
        } else {
            PollFlags::IN
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

    /// Records that a session has used a connection from `source`.
    pub(crate) fn trust(&mut self, now: Instant, source: IpAddr) {
        self.limiter.trust(now, source);
    }

    /// Takes waiting connections, and returns those that are within the limits.
    pub(crate) fn accept(&mut self, now: Instant) -> Vec<Accepted> {
        let mut accepted = Vec::new();
        if self.tend_at().is_none_or(|at| at > now) {
            return accepted;
        }
        self.is_ready.set(false);
        for count in 1..=MAX_ACCEPTED_AT_ONCE {
            match self.socket.accept() {
                Ok((stream, local, peer)) => {
                    if self.limiter.admit(now, peer.ip()) {
                        let connection = Connection::accepted(stream, local, peer);
                        accepted.push(Accepted::new(now, connection));
                    }
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

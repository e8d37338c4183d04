//! TCP connections that carry the same sealed datagrams where UDP is blocked
//! ([decision 209](../../../docs/decisions/0209-tcp-where-udp-is-blocked.md)).
//!
//! A connection proves nothing: every datagram is authenticated, and a path's route moves to a
//! connection only after a challenge was answered on it, as to any other address. Each accepted
//! connection has a port of its own, so a port's index and the peer's address identify it.
//!
//! | file | idea |
//! |---|---|
//! | `progress.rs`, `stream.rs` | the bytes below a connection, in reality or in a world |
//! | `connection.rs` | one connection: whole datagrams in and out, without ever blocking |
//! | `dial.rs` | the client's end of a path: connects, and connects again |
//! | `listener.rs`, `accepted.rs` | the server's end: limits on connections from strangers |
//! | `fallback.rs` | when a client turns to TCP, and when it goes back |

pub(crate) mod accepted;
pub(crate) mod connection;
pub(crate) mod dial;
pub(crate) mod fallback;
pub(crate) mod listener;
pub(crate) mod progress;
pub(crate) mod stream;

use anabranch_units::Instant;
use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;

use crate::clock::Clock;
use crate::socket::{Arrival, ReceiveBuffers};
use accepted::Accepted;
use dial::Dial;
use listener::Listener;

/// A client's use of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpFallback {
    /// No TCP.
    Off,
    /// This port of each path's remote host, while UDP is answered on no path.
    Port(u16),
    /// Always, by the paths' remote addresses and ports; UDP is not used.
    Only,
}

/// The TCP side of a port.
#[derive(Debug, Default)]
pub(crate) enum Tcp {
    /// No TCP, or a closed connection's.
    #[default]
    None,
    /// A server's listening socket.
    Listening(Listener),
    /// A server's connection.
    Accepted(Accepted),
    /// A client's connection, if it needs one.
    Dialled(Dial),
}

impl Tcp {
    /// Returns the operating system's socket to poll, and the events to poll for.
    pub(crate) fn polled(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match self {
            Tcp::None => None,
            Tcp::Listening(listener) => listener.polled(),
            Tcp::Accepted(accepted) => accepted.connection.polled(),
            Tcp::Dialled(dial) => dial.connection()?.polled(),
        }
    }

    /// Serves a socket that poll found ready: passes each datagram to `take`.
    pub(crate) fn serve(
        &self,
        index: usize,
        clock: &Clock,
        buffers: &mut ReceiveBuffers,
        take: impl FnMut(&Arrival, &mut [u8]),
    ) {
        match self {
            Tcp::None => {}
            Tcp::Listening(listener) => listener.on_ready(),
            Tcp::Accepted(accepted) => accepted.serve(index, clock, buffers, take),
            Tcp::Dialled(dial) => {
                if let Some(connection) = dial.connection() {
                    connection.serve(index, clock, buffers, take);
                }
            }
        }
    }

    /// Makes `owner` the process that a world wakes.
    #[cfg(feature = "testing")]
    pub(crate) fn own(&self, owner: usize) {
        match self {
            Tcp::None => {}
            Tcp::Listening(listener) => listener.own(owner),
            Tcp::Accepted(accepted) => accepted.connection.own(owner),
            Tcp::Dialled(dial) => {
                if let Some(connection) = dial.connection() {
                    connection.own(owner);
                }
            }
        }
    }

    /// Returns the time at which it must be tended.
    pub(crate) fn tend_at(&self) -> Option<Instant> {
        match self {
            Tcp::None => None,
            Tcp::Listening(listener) => listener.tend_at(),
            Tcp::Accepted(accepted) => Some(accepted.close_at()),
            Tcp::Dialled(dial) => dial.tend_at(),
        }
    }
}

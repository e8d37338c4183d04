//! A connection that a server has accepted, and its end.

use std::cell::Cell;
use std::io::{self, ErrorKind};

use anabranch_units::{Duration, Instant, Network};

use super::connection::Connection;
use crate::clock::Clock;
use crate::socket::{Arrival, Batch, ReceiveBuffers};

/// Time for a connection to bring its first datagram of a session. A handshake with a cookie takes
/// three round trips; a satellite has 600 ms each.
const PROOF_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of datagrams on a connection before its first authentic one. A client whose
/// receiver was restarted sends those of its old session meanwhile, about 700 a second at 8 Mbit/s.
const MAX_UNPROVEN_DATAGRAMS: u32 = 2_000;
/// Silence after which a connection is closed: longer than that of a session.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) connection: Connection,
    pub(crate) network: Network,
    pub(crate) accepted_at: Instant,
    /// Time of the last authentic datagram of a session.
    heard_at: Cell<Option<Instant>>,
    datagram_count: Cell<u32>,
}

impl Accepted {
    pub(crate) fn new(now: Instant, connection: Connection) -> Self {
        Accepted {
            network: Network::host(connection.peer().ip()),
            connection,
            accepted_at: now,
            heard_at: Cell::new(None),
            datagram_count: Cell::new(0),
        }
    }

    /// Returns whether it has brought an authentic datagram.
    pub(crate) fn is_proven(&self) -> bool {
        self.heard_at.get().is_some()
    }

    /// Records an authentic datagram.
    pub(crate) fn on_authentic(&self, now: Instant) {
        self.heard_at.set(Some(now));
    }

    /// Returns the time at which it is to be closed.
    pub(crate) fn close_at(&self) -> Instant {
        match (self.connection.is_broken(), self.heard_at.get()) {
            (true, _) => Instant::ZERO,
            (false, Some(heard_at)) => heard_at + SILENCE_TIMEOUT,
            (false, None) => self.accepted_at + PROOF_TIMEOUT,
        }
    }

    /// Serves the connection as [`Connection::serve`] does, within the limits.
    pub(crate) fn serve(
        &self,
        index: usize,
        clock: &Clock,
        buffers: &mut ReceiveBuffers,
        mut take: impl FnMut(&Arrival, &mut [u8]),
    ) {
        self.connection
            .serve(index, clock, buffers, |arrival, datagram| {
                let count = self.datagram_count.get().saturating_add(1);
                self.datagram_count.set(count);
                if self.is_proven() || count <= MAX_UNPROVEN_DATAGRAMS {
                    take(arrival, datagram);
                } else {
                    self.connection.give_up();
                }
            });
    }

    /// Sends a batch as [`Connection::send`] does, if it is for this connection's peer.
    ///
    /// # Errors
    /// As there, or if the peer's connection has been closed.
    pub(crate) fn send(&self, batch: &Batch<'_>) -> Result<(), (usize, io::Error)> {
        if batch.to == self.connection.peer() {
            return self.connection.send(batch);
        }
        let count = batch.bytes.len().div_ceil(batch.datagram_bytes);
        Err((count, ErrorKind::NotConnected.into()))
    }
}

//! One TCP connection: whole datagrams in and out, without blocking.
//!
//! The kernel's queue of unsent bytes is kept short. While it is full, datagrams are dropped, as by
//! a router with a full queue: the session's controller sees the loss and slows down, and its
//! deadlines decide on retransmission. A datagram that the kernel has accepted in part is completed
//! before the next one.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

use anabranch_secure::{Deframer, STREAM_PREAMBLE, append_framed};
use anabranch_units::Ecn;
use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;

use super::progress::Progress;
use super::stream::Stream;
use crate::carrier::Carrier;
use crate::clock::Clock;
use crate::io::Network;
use crate::socket::{Arrival, Batch, ReceiveBuffers};
use crate::via::{Via, ViaError};

/// Number of read calls per turn, of up to 64 KiB each.
const MAX_READS: usize = 4;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    peer: SocketAddr,
    /// The local address, at a server.
    local: Option<IpAddr>,
    is_open: Cell<bool>,
    is_broken: Cell<bool>,
    incoming: RefCell<Deframer>,
    outgoing: RefCell<Outgoing>,
}

#[derive(Debug, Default)]
struct Outgoing {
    has_begun: bool,
    /// The rest of a datagram that the kernel has accepted in part.
    rest: Vec<u8>,
}

impl Connection {
    /// Begins to connect to `peer`; [`serve`](Self::serve) completes it.
    ///
    /// # Errors
    /// If the local side is missing, or there is no route.
    pub(crate) fn dial(network: &Network, via: &Via, peer: SocketAddr) -> Result<Self, ViaError> {
        let stream = network.dial(via, peer)?;
        Ok(Connection::new(stream, peer, None, false))
    }

    /// Creates a connection from `peer` to this local address.
    pub(crate) fn accepted(stream: Stream, local: IpAddr, peer: SocketAddr) -> Self {
        Connection::new(stream, peer, Some(local), true)
    }

    fn new(stream: Stream, peer: SocketAddr, local: Option<IpAddr>, is_open: bool) -> Self {
        Connection {
            stream,
            peer,
            local,
            is_open: Cell::new(is_open),
            is_broken: Cell::new(false),
            incoming: RefCell::default(),
            outgoing: RefCell::default(),
        }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns whether it can carry datagrams.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.get() && !self.is_broken.get()
    }

    /// Returns whether it must be closed.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// Ends its use; the owner closes it.
    pub(crate) fn give_up(&self) {
        self.is_broken.set(true);
    }

    /// Makes `owner` the process that a world wakes.
    #[cfg(feature = "testing")]
    pub(crate) fn own(&self, owner: usize) {
        if let Stream::World(stream) = &self.stream {
            stream.own(owner);
        }
    }

    /// Returns the operating system's socket, and the events to poll for.
    pub(crate) fn polled(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let flags = match (self.is_open.get(), self.outgoing.borrow().rest.is_empty()) {
            (false, _) => PollFlags::OUT,
            (true, true) => PollFlags::IN,
            (true, false) => PollFlags::IN | PollFlags::OUT,
        };
        Some((self.stream.system()?, flags))
    }

    /// Completes the connection, sends the rest of a datagram, and passes to `take` each datagram
    /// that has arrived.
    pub(crate) fn serve(
        &self,
        index: usize,
        clock: &Clock,
        buffers: &mut ReceiveBuffers,
        take: impl FnMut(&Arrival, &mut [u8]),
    ) {
        if !self.is_open.get() {
            match self.stream.progress() {
                Progress::Open => self.is_open.set(true),
                Progress::Connecting => return,
                Progress::Failed => return self.give_up(),
            }
        }
        self.send_rest(&mut self.outgoing.borrow_mut());
        if !self.is_broken.get() {
            self.receive(index, clock, buffers.first(), take);
        }
    }

    fn receive(
        &self,
        index: usize,
        clock: &Clock,
        buffer: &mut [u8],
        mut take: impl FnMut(&Arrival, &mut [u8]),
    ) {
        for _ in 0..MAX_READS {
            let size = match self.stream.read(buffer) {
                Ok(0) => return self.give_up(),
                Ok(size) => size,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.give_up(),
            };
            let arrival = Arrival {
                socket: index,
                from: self.peer,
                to: self.local,
                received_at: clock.now(),
                ecn: Ecn::NotEct,
                carrier: Carrier::Tcp,
            };
            let mut incoming = self.incoming.borrow_mut();
            let pushed = incoming.push(&mut buffer[..size], |datagram| take(&arrival, datagram));
            if pushed.is_err() {
                return self.give_up();
            }
            if size < buffer.len() {
                return;
            }
        }
    }

    /// Sends the datagrams for which the kernel has room, and drops the others.
    ///
    /// # Errors
    /// The number of dropped datagrams, and the reason.
    pub(crate) fn send(&self, batch: &Batch<'_>) -> Result<(), (usize, io::Error)> {
        let datagrams = batch.bytes.chunks(batch.datagram_bytes);
        let count = datagrams.len();
        if !self.is_open() {
            return Err((count, ErrorKind::NotConnected.into()));
        }
        let mut outgoing = self.outgoing.borrow_mut();
        if !self.send_rest(&mut outgoing) {
            return Err((count, queue_is_full()));
        }
        let mut bytes = Vec::with_capacity(batch.bytes.len() + 2 * count + 8);
        if !outgoing.has_begun {
            bytes.extend_from_slice(&STREAM_PREAMBLE);
        }
        let mut ends = Vec::with_capacity(count);
        for datagram in datagrams {
            append_framed(&mut bytes, datagram);
            ends.push(bytes.len());
        }
        let sent = self.write(&bytes);
        outgoing.has_begun |= sent > 0;
        // The datagrams before this one have left completely, or the rest follows later.
        let begun_count = match sent {
            0 => 0,
            _ => ends.partition_point(|end| *end < sent) + 1,
        };
        if let Some(end) = begun_count.checked_sub(1).and_then(|last| ends.get(last)) {
            outgoing.rest.extend_from_slice(&bytes[sent..*end]);
        }
        match ends.len() - begun_count.min(ends.len()) {
            0 => Ok(()),
            dropped_count => Err((dropped_count, queue_is_full())),
        }
    }

    /// Sends the rest of an earlier datagram. Returns whether all of it has left.
    fn send_rest(&self, outgoing: &mut Outgoing) -> bool {
        if !outgoing.rest.is_empty() {
            let sent = self.write(&outgoing.rest);
            outgoing.rest.drain(..sent);
        }
        outgoing.rest.is_empty()
    }

    /// Returns the number of bytes that the kernel has accepted.
    fn write(&self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(size) => sent += size,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.give_up();
                    break;
                }
            }
        }
        sent
    }
}

fn queue_is_full() -> io::Error {
    io::Error::new(ErrorKind::WouldBlock, "the TCP connection's queue is full")
}

#[cfg(test)]
mod tests;

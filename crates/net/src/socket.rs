//! A UDP socket with batches. Datagrams leave by segmentation offload, and several arrive per call,
//! with the kernel's timestamps and congestion marks.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use anabranch_units::{Ecn, Instant};
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit};

use crate::carrier::Carrier;
use crate::clock::Clock;
use crate::system::{self, AsFd, BorrowedFd, UdpState};

/// Buffer size requested of the operating system, so that a burst outlasts a moment without a
/// processor.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Size of a read: the maximum of coalesced datagrams.
const RECEIVE_BUFFER_BYTES: usize = 1 << 16;
/// Number of datagrams per system call.
const RECEIVE_BUFFER_COUNT: usize = BATCH_SIZE;
/// Number of system calls per socket before the others get their turn …
const MAX_RECEIVE_ROUNDS: usize = 8;
/// … and datagrams.
const MAX_RECEIVE_COUNT: usize = MAX_RECEIVE_ROUNDS * RECEIVE_BUFFER_COUNT;
/// Maximum number of bytes in a batch: an IP packet's limit with room for its headers.
pub(crate) const MAX_BATCH_BYTES: usize = 65_000;

#[derive(Debug)]
pub(crate) struct Socket {
    socket: UdpSocket,
    state: UdpState,
}

/// Source and time of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Index of the socket.
    pub(crate) socket: usize,
    pub(crate) from: SocketAddr,
    /// Destination address, if the operating system reports it.
    pub(crate) to: Option<IpAddr>,
    pub(crate) received_at: Instant,
    pub(crate) ecn: Ecn,
    pub(crate) carrier: Carrier,
}

/// Datagrams of the same size, except for the last, to one destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) to: SocketAddr,
    /// Source address; `None`: the socket's, or the routing table's choice.
    pub(crate) from: Option<IpAddr>,
    pub(crate) ecn: Ecn,
    pub(crate) bytes: &'a [u8],
    pub(crate) datagram_bytes: usize,
}

/// Memory for reads, one for all sockets of a thread.
pub(crate) struct ReceiveBuffers(Vec<Vec<u8>>);

impl ReceiveBuffers {
    pub(crate) fn new() -> Self {
        ReceiveBuffers(vec![vec![0; RECEIVE_BUFFER_BYTES]; RECEIVE_BUFFER_COUNT])
    }

    /// Creates memory for reads of byte streams alone.
    #[cfg(feature = "testing")]
    pub(crate) fn for_streams() -> Self {
        ReceiveBuffers(vec![vec![0; RECEIVE_BUFFER_BYTES]])
    }

    /// Returns one buffer of 64 KiB, for reads of a byte stream.
    pub(crate) fn first(&mut self) -> &mut [u8] {
        &mut self.0[0]
    }
}

impl Socket {
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpState::new(&socket)?;
        system::refuse_coalescing(&socket);
        // The system may grant less, which is no error.
        let _ = state.set_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES);
        let _ = state.set_send_buffer_size(&socket, SOCKET_BUFFER_BYTES);
        Ok(Socket { socket, state })
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Lets the kernel hand over consecutive datagrams together, which costs a fraction. Arrival
    /// times are then unavailable.
    pub(crate) fn coalesce(&mut self) {
        system::coalesce(&self.socket);
    }

    /// Returns the maximum number of datagrams in a batch.
    pub(crate) fn max_batch_count(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Hands every waiting datagram to `take`. Errors stem from ICMP messages, or from an interface
    /// that vanished: the transport notices the silence.
    pub(crate) fn receive(
        &self,
        index: usize,
        clock: &Clock,
        buffers: &mut ReceiveBuffers,
        mut take: impl FnMut(&Arrival, &mut [u8]),
    ) {
        let mut taken = 0;
        for _ in 0..MAX_RECEIVE_ROUNDS {
            let mut metas = [RecvMeta::default(); RECEIVE_BUFFER_COUNT];
            let count = match self.receive_batch(buffers, &mut metas) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => continue,
            };
            let reading = clock.reading();
            for (meta, buffer) in metas[..count].iter().zip(&mut buffers.0) {
                let arrival = Arrival {
                    socket: index,
                    from: meta.addr,
                    to: meta.dst_ip,
                    received_at: reading.recent_arrival(meta.timestamp),
                    ecn: meta
                        .ecn
                        .map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8)),
                    carrier: Carrier::Udp,
                };
                for datagram in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                    take(&arrival, datagram);
                    taken += 1;
                }
            }
            if count < RECEIVE_BUFFER_COUNT || taken >= MAX_RECEIVE_COUNT {
                return;
            }
        }
    }

    fn receive_batch(
        &self,
        buffers: &mut ReceiveBuffers,
        metas: &mut [RecvMeta; RECEIVE_BUFFER_COUNT],
    ) -> io::Result<usize> {
        let mut remaining = buffers.0.iter_mut();
        let mut slices: [IoSliceMut<'_>; RECEIVE_BUFFER_COUNT] = core::array::from_fn(|_| {
            IoSliceMut::new(remaining.next().expect("as many buffers as slices"))
        });
        self.state.recv(&self.socket, &mut slices, metas)
    }

    /// Sends a batch at once, or one by one if that fails.
    ///
    /// # Errors
    /// The operating system's error for the last datagram that it refused, and the number of
    /// refused datagrams.
    pub(crate) fn send(&self, batch: &Batch<'_>) -> Result<(), (usize, io::Error)> {
        if self.send_as(batch, batch.bytes).is_ok() {
            return Ok(());
        }
        let mut failed: Option<(usize, io::Error)> = None;
        for datagram in batch.bytes.chunks(batch.datagram_bytes) {
            if let Err(error) = self.send_as(batch, datagram) {
                failed = Some((failed.map_or(1, |(count, _)| count + 1), error));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn send_as(&self, batch: &Batch<'_>, contents: &[u8]) -> io::Result<()> {
        let is_several = contents.len() > batch.datagram_bytes;
        let transmit = Transmit {
            destination: batch.to,
            ecn: EcnCodepoint::from_bits(batch.ecn.to_bits()),
            contents,
            segment_size: is_several.then_some(batch.datagram_bytes),
            src_ip: batch.from,
        };
        self.state.try_send(&self.socket, &transmit)
    }

    /// Returns the socket to wait for.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::net::Ipv4Addr;

    pub(super) fn loopback() -> Socket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of loopback");
        Socket::new(socket).expect("a UDP socket")
    }

    /// Returns sizes and arrivals of `count` datagrams.
    pub(super) fn received(socket: &Socket, clock: &Clock, count: usize) -> Vec<(usize, Arrival)> {
        let mut buffers = ReceiveBuffers::new();
        let mut received = Vec::new();
        while received.len() < count {
            let timeout = Timespec {
                tv_sec: 2,
                tv_nsec: 0,
            };
            let mut awaited = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
            assert_eq!(
                poll(&mut awaited, Some(&timeout)),
                Ok(1),
                "datagrams arrive"
            );
            socket.receive(3, clock, &mut buffers, |arrival, datagram| {
                received.push((datagram.len(), *arrival));
            });
        }
        received
    }

    #[test]
    fn a_batch_arrives_as_the_datagrams_it_was_made_of() {
        let (from, to) = (loopback(), loopback());
        let clock = Clock::start();
        let destination = to.local_addr().unwrap();
        let bytes = vec![7; 3 * 1_200 + 100];
        let batch = Batch {
            to: destination,
            from: None,
            ecn: Ecn::Ect0,
            bytes: &bytes,
            datagram_bytes: 1_200,
        };
        from.send(&batch).expect("loopback takes it");
        let received = received(&to, &clock, 4);
        let sizes: Vec<_> = received.iter().map(|(bytes, _)| *bytes).collect();
        assert_eq!(sizes, [1_200, 1_200, 1_200, 100]);
        let (_, arrival) = received[0];
        assert_eq!(arrival.from, from.local_addr().unwrap());
        assert_eq!((arrival.socket, arrival.to), (3, Some(destination.ip())));
    }

    #[test]
    fn coalesced_datagrams_are_split_with_ecn() {
        let clock = Clock::start();
        for (bound, reached) in [
            ("127.0.0.1", "127.0.0.1"),
            ("0.0.0.0", "127.0.0.1"),
            ("::1", "::1"),
            ("::", "::1"),
            ("::", "::ffff:127.0.0.1"),
        ] {
            let [bound, reached] = [bound, reached].map(|at| at.parse::<IpAddr>().unwrap());
            // Some machines have no IPv6.
            let Ok(socket) = UdpSocket::bind((bound, 0)) else {
                continue;
            };
            let mut to = Socket::new(socket).expect("a UDP socket");
            to.coalesce();
            let from = UdpSocket::bind(if reached.is_ipv4() {
                "127.0.0.1:0"
            } else {
                "[::]:0"
            });
            let from = Socket::new(from.expect("a port")).expect("a UDP socket");
            for ecn in [Ecn::Ce, Ecn::Ect0] {
                let bytes: Vec<u8> = (0..4_100_u32).map(|at| (at / 500) as u8).collect();
                let batch = Batch {
                    to: SocketAddr::new(reached, to.local_addr().unwrap().port()),
                    from: None,
                    ecn,
                    bytes: &bytes,
                    datagram_bytes: 500,
                };
                from.send(&batch).expect("loopback takes it");
                let received = received(&to, &clock, 9);
                let sizes: Vec<_> = received.iter().map(|(bytes, _)| *bytes).collect();
                assert_eq!(sizes, [500, 500, 500, 500, 500, 500, 500, 500, 100]);
                for (_, arrival) in received {
                    assert_eq!(arrival.ecn, ecn, "{bound} reached as {reached}");
                    let local = arrival.to.map(|to| to.to_canonical());
                    assert_eq!(local, Some(reached.to_canonical()));
                }
            }
        }
    }

    #[test]
    fn every_datagram_of_a_batch_keeps_its_mark() {
        let (from, to) = (loopback(), loopback());
        let clock = Clock::start();
        let bytes = vec![7; 20 * 1_200];
        for ecn in [Ecn::Ect1, Ecn::Ect0, Ecn::Ce, Ecn::NotEct] {
            from.send(&single(&to, ecn)).expect("loopback takes it");
            assert_eq!(received(&to, &clock, 1)[0].1.ecn, ecn);
            let batch = Batch {
                to: to.local_addr().unwrap(),
                from: None,
                ecn,
                bytes: &bytes,
                datagram_bytes: 1_200,
            };
            from.send(&batch).expect("loopback takes it");
            let marks: Vec<_> = received(&to, &clock, 20)
                .iter()
                .map(|(_, arrival)| arrival.ecn)
                .collect();
            assert_eq!(marks, [ecn; 20]);
        }
    }

    #[test]
    fn oversized_datagram_error_is_distinct() {
        let (from, to) = (loopback(), loopback());
        // More than IPv4 has room for.
        let bytes = vec![7; 65_520];
        let batch = Batch {
            bytes: &bytes,
            datagram_bytes: bytes.len(),
            ..single(&to, Ecn::NotEct)
        };
        let (count, error) = from.send(&batch).expect_err("too long");
        assert_eq!(
            (count, system::is_message_too_long(&error)),
            (1, true),
            "{error}"
        );
        let other = io::Error::from(ErrorKind::AddrNotAvailable);
        assert!(!system::is_message_too_long(&other));
    }

    /// Sockets that are bound to no address receive the destination of each datagram, and those of
    /// IPv6 need more room for it.
    #[test]
    fn marks_arrive_at_sockets_of_every_kind() {
        let clock = Clock::start();
        let kinds = [
            ("127.0.0.1", "127.0.0.1"),
            ("0.0.0.0", "127.0.0.1"),
            ("::1", "::1"),
            ("::", "::1"),
            ("::", "::ffff:127.0.0.1"),
        ];
        for (bound, reached) in kinds.map(|(a, b)| (a.parse::<IpAddr>(), b.parse::<IpAddr>())) {
            let bound = bound.expect("an address");
            // Some machines have no IPv6.
            let Ok(socket) = UdpSocket::bind((bound, 0)) else {
                continue;
            };
            let to = Socket::new(socket).expect("a UDP socket");
            let reached = reached.expect("an address");
            let port = to.local_addr().unwrap().port();
            // A router that marks: a plain socket whose packets all have the codepoint.
            let router = UdpSocket::bind((bound, 0)).expect("a port");
            for ecn in [Ecn::Ect1, Ecn::Ce] {
                let _ = rustix::net::sockopt::set_ip_tos(&router, ecn.to_bits());
                let _ = rustix::net::sockopt::set_ipv6_tclass(&router, u32::from(ecn.to_bits()));
                router.send_to(&[1; 50], (reached, port)).expect("sent");
                let (_, arrival) = received(&to, &clock, 1)[0];
                assert_eq!(arrival.ecn, ecn, "{bound} reached as {reached}");
                assert_eq!(
                    arrival.to.map(|to| to.to_canonical()),
                    Some(reached.to_canonical())
                );
            }
        }
    }

    pub(super) fn single(to: &Socket, ecn: Ecn) -> Batch<'static> {
        let to = to.local_addr().unwrap();
        Batch {
            to,
            from: None,
            ecn,
            bytes: &[1; 50],
            datagram_bytes: 50,
        }
    }
}

// Needs a clock: stamps are of the time that passes before a read.
#[cfg(test)]
mod real_time_tests;

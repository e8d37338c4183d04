//! A UDP socket with batches: segmentation offload out, coalesced datagrams with the kernel's
//! timestamps in.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use anabranch_units::{Ecn, Instant};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use crate::clock::Clock;

/// What is asked of the operating system, so that a burst outlasts a moment without a processor.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// The most that the kernel coalesces into one read.
const RECEIVE_BUFFER_BYTES: usize = 1 << 16;
/// Reads per system call.
const RECEIVE_BUFFER_COUNT: usize = 8;
/// System calls per socket before the others have their turn.
const MAX_RECEIVE_ROUNDS: usize = 16;
/// The most bytes of one batch: an IP packet's limit with room for its headers.
pub(crate) const MAX_BATCH_BYTES: usize = 65_000;

#[derive(Debug)]
pub(crate) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
}

/// Where a datagram came from, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Index of the socket.
    pub(crate) socket: usize,
    pub(crate) from: SocketAddr,
    /// The address that it was sent to, where the operating system tells.
    pub(crate) to: Option<IpAddr>,
    pub(crate) received_at: Instant,
    /// Missing (`NotEct`) where the kernel coalesced datagrams: quinn-udp 0.6 leaves too little
    /// room for all that it asks the kernel to tell.
    pub(crate) ecn: Ecn,
}

/// Datagrams of the same size, but for the last, to one destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) to: SocketAddr,
    /// The address to send from; `None`: the socket's, or as the routing table says.
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
}

impl Socket {
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let reference = UdpSockRef::from(&socket);
        // The system grants what it allows; less is no error.
        let _ = state.set_recv_buffer_size(reference, SOCKET_BUFFER_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER_BYTES);
        Ok(Socket { socket, state })
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// How many datagrams one batch may hold.
    pub(crate) fn max_batch_count(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Hands every datagram that waits to `take`. Errors are those that ICMP messages left behind,
    /// or an interface that went away: the transport notices silence.
    pub(crate) fn receive(
        &self,
        index: usize,
        clock: &Clock,
        buffers: &mut ReceiveBuffers,
        mut take: impl FnMut(&Arrival, &mut [u8]),
    ) {
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
                    received_at: reading.arrival(meta.timestamp),
                    ecn: meta
                        .ecn
                        .map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8)),
                };
                let stride = meta.stride.max(1);
                for datagram in buffer[..meta.len].chunks_mut(stride) {
                    take(&arrival, datagram);
                }
            }
            if count < RECEIVE_BUFFER_COUNT {
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
        self.state
            .recv(UdpSockRef::from(&self.socket), &mut slices, metas)
    }

    /// Sends a batch at once, or one by one where that does not work.
    ///
    /// # Errors
    /// What the operating system said of the last datagram that it did not take, and how many those
    /// were.
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
        self.state
            .try_send(UdpSockRef::from(&self.socket), &transmit)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Duration;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::net::Ipv4Addr;

    fn loopback() -> Socket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port of loopback");
        Socket::new(socket).expect("a UDP socket")
    }

    /// Sizes and arrivals of `count` datagrams.
    fn received(socket: &Socket, clock: &Clock, count: usize) -> Vec<(usize, Arrival)> {
        let mut buffers = ReceiveBuffers::new();
        let mut received = Vec::new();
        while received.len() < count {
            let timeout = Timespec {
                tv_sec: 2,
                tv_nsec: 0,
            };
            let mut awaited = [PollFd::new(socket, PollFlags::IN)];
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

    fn single(to: &Socket, ecn: Ecn) -> Batch<'static> {
        let to = to.local_addr().unwrap();
        Batch {
            to,
            from: None,
            ecn,
            bytes: &[1; 50],
            datagram_bytes: 50,
        }
    }

    fn wait(millis: i64) {
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: millis * 1_000_000,
        };
        poll(&mut [], Some(&wait)).expect("a wait");
    }

    #[test]
    fn marks_of_congestion_pass() {
        let (from, to) = (loopback(), loopback());
        let clock = Clock::start();
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            from.send(&single(&to, ecn)).expect("loopback takes it");
            assert_eq!(received(&to, &clock, 1)[0].1.ecn, ecn);
        }
    }

    #[test]
    fn arrivals_are_stamped_when_they_arrive_not_when_they_are_read() {
        let (from, to) = (loopback(), loopback());
        let clock = Clock::start();
        // The kernel starts to stamp a moment after it was first asked to.
        wait(100);
        from.send(&single(&to, Ecn::NotEct))
            .expect("loopback takes it");
        let sent_at = clock.now();
        wait(50);
        let (_, arrival) = received(&to, &clock, 1)[0];
        assert!(arrival.received_at < sent_at + Duration::from_millis(25));
    }
}

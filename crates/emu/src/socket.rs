//! A UDP socket that reads and sets the ECN field, which makes a relay a router.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};

use anabranch_units::Ecn;
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::fd::{AsFd, BorrowedFd};

/// Buffer size requested of the operating system, so that nothing is lost before the link while the
/// relay's thread waits for a processor.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Size of a buffer that exceeds any UDP datagram.
pub(crate) const MAX_DATAGRAM_BYTES: usize = 1 << 16;

/// The socket never blocks.
#[derive(Debug)]
pub(crate) struct Socket {
    socket: UdpSocket,
    /// None if quinn-udp refuses the socket on Windows: Wine 8 does not answer an IPv4 socket's
    /// question about IPv6. Such a socket has no ECN field.
    state: Option<UdpSocketState>,
}

/// A datagram's length, and the fields of its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) len: usize,
    pub(crate) from: SocketAddr,
    pub(crate) ecn: Ecn,
}

impl Socket {
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let state = match UdpSocketState::new(UdpSockRef::from(&socket)) {
            Ok(state) => state,
            Err(_) if cfg!(windows) => {
                return Ok(Socket {
                    socket,
                    state: None,
                });
            }
            Err(error) => return Err(error),
        };
        refuse_coalescing(&socket);
        // The system may grant less, which is no error.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER_BYTES);
        Ok(Socket {
            socket,
            state: Some(state),
        })
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Takes a datagram that has arrived.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let Some(state) = &self.state else {
            let (len, from) = self.socket.recv_from(buffer)?;
            let ecn = Ecn::NotEct;
            return Ok(Arrival { len, from, ecn });
        };
        let mut metas = [RecvMeta::default()];
        let mut buffers = [IoSliceMut::new(buffer)];
        state.recv(UdpSockRef::from(&self.socket), &mut buffers, &mut metas)?;
        let [meta] = metas;
        Ok(Arrival {
            len: meta.len,
            from: meta.addr,
            ecn: meta
                .ecn
                .map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8)),
        })
    }

    pub(crate) fn send(&self, to: SocketAddr, payload: &[u8], ecn: Ecn) -> io::Result<()> {
        let Some(state) = &self.state else {
            self.socket.send_to(payload, to)?;
            return Ok(());
        };
        let transmit = Transmit {
            destination: to,
            ecn: EcnCodepoint::from_bits(ecn.to_bits()),
            contents: payload,
            segment_size: None,
            src_ip: None,
        };
        state.try_send(UdpSockRef::from(&self.socket), &transmit)
    }

    /// Returns the socket to wait for.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Links carry datagrams one by one, and quinn-udp 0.6 loses the ECN field of coalesced ones. A
/// kernel that does not know the option does not coalesce.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn refuse_coalescing(socket: &UdpSocket) {
    use nix::sys::socket::{setsockopt, sockopt::UdpGroSegment};
    let _ = setsockopt(socket, UdpGroSegment, &false);
}

/// Other systems do not coalesce.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn refuse_coalescing(_: &UdpSocket) {}

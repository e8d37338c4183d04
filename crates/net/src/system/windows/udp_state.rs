//! Datagrams by quinn-udp, and plainly where it refuses a socket: Wine 8 does not answer an IPv4
//! socket's question about IPv6.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::fd::AsSocket;
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};
use socket2::SockRef;

/// Reader and writer of a socket's datagrams. The socket does not block.
#[derive(Debug)]
pub struct UdpState(Option<UdpSocketState>);

impl UdpState {
    /// Prepares a socket.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new<S: AsSocket>(socket: &S) -> io::Result<Self> {
        SockRef::from(socket).set_nonblocking(true)?;
        Ok(UdpState(UdpSocketState::new(UdpSockRef::from(socket)).ok()))
    }

    /// Receives one datagram, and returns the number of them.
    ///
    /// # Errors
    /// As of the system, also if none is waiting.
    pub fn recv<S: AsSocket>(
        &self,
        socket: &S,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        if let Some(state) = &self.0 {
            return state.recv(UdpSockRef::from(socket), buffers, metas);
        }
        let flags = RecvFlags::empty();
        let (len, _, source) = recvfrom(socket.as_socket(), &mut buffers[0][..], flags)?;
        let from = SocketAddr::try_from(source.ok_or(io::ErrorKind::InvalidData)?)?;
        metas[0] = RecvMeta::default();
        (metas[0].len, metas[0].stride, metas[0].addr) = (len, len, from);
        Ok(1)
    }

    /// Sends datagrams.
    ///
    /// # Errors
    /// As of the system.
    pub fn try_send<S: AsSocket>(&self, socket: &S, transmit: &Transmit<'_>) -> io::Result<()> {
        match &self.0 {
            Some(state) => state.try_send(UdpSockRef::from(socket), transmit),
            None => {
                let (bytes, to) = (transmit.contents, transmit.destination);
                sendto(socket.as_socket(), bytes, SendFlags::empty(), &to)?;
                Ok(())
            }
        }
    }

    /// Returns the maximum number of datagrams in a batch.
    pub fn max_gso_segments(&self) -> usize {
        self.0.as_ref().map_or(1, UdpSocketState::max_gso_segments)
    }

    /// Requests a size of the receive buffer.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_recv_buffer_size<S: AsSocket>(&self, socket: &S, bytes: usize) -> io::Result<()> {
        SockRef::from(socket).set_recv_buffer_size(bytes)
    }

    /// Requests a size of the send buffer.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_send_buffer_size<S: AsSocket>(&self, socket: &S, bytes: usize) -> io::Result<()> {
        SockRef::from(socket).set_send_buffer_size(bytes)
    }
}

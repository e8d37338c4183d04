//! Datagrams by quinn-udp.

use std::io::{self, IoSliceMut};
use std::net::UdpSocket;

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};

/// Reader and writer of a socket's datagrams. The socket does not block.
#[derive(Debug)]
pub struct UdpState(UdpSocketState);

impl UdpState {
    /// Prepares a socket.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(socket: &UdpSocket) -> io::Result<Self> {
        UdpSocketState::new(UdpSockRef::from(socket)).map(UdpState)
    }

    /// Receives datagrams, and returns their number.
    ///
    /// # Errors
    /// As of the system, also if none is waiting.
    pub fn recv(
        &self,
        socket: &UdpSocket,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        self.0.recv(UdpSockRef::from(socket), buffers, metas)
    }

    /// Sends datagrams.
    ///
    /// # Errors
    /// As of the system.
    pub fn try_send(&self, socket: &UdpSocket, transmit: &Transmit<'_>) -> io::Result<()> {
        self.0.try_send(UdpSockRef::from(socket), transmit)
    }

    /// Returns the maximum number of datagrams in a batch.
    pub fn max_gso_segments(&self) -> usize {
        self.0.max_gso_segments()
    }

    /// Requests a size of the receive buffer.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_recv_buffer_size(&self, socket: &UdpSocket, bytes: usize) -> io::Result<()> {
        self.0.set_recv_buffer_size(UdpSockRef::from(socket), bytes)
    }

    /// Requests a size of the send buffer.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_send_buffer_size(&self, socket: &UdpSocket, bytes: usize) -> io::Result<()> {
        self.0.set_send_buffer_size(UdpSockRef::from(socket), bytes)
    }
}

//! Detection of the local address that a datagram was sent to, by quinn-udp.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use quinn_udp::{RecvMeta, Transmit};
use rustix::fd::AsSocket;

use super::udp_state::UdpState;

/// Reader and writer of datagrams with their local addresses, for one socket.
#[derive(Debug)]
pub struct LocalAddresses {
    state: UdpState,
    is_reported: bool,
}

impl LocalAddresses {
    /// Makes a socket report the local address of each datagram, if it is bound to the unspecified
    /// address. The socket does not block from now on.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn enable<S: AsSocket>(socket: &S, local: SocketAddr) -> io::Result<Self> {
        Ok(LocalAddresses {
            state: UdpState::new(socket)?,
            is_reported: local.ip().is_unspecified(),
        })
    }

    /// Returns whether local addresses are reported.
    pub fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Returns the next datagram's length, its source, and its local address if the socket reports
    /// it. Does not block.
    ///
    /// # Errors
    /// As of `WSARecvMsg`, also if no datagram is waiting.
    pub fn recv<S: AsSocket>(
        &self,
        socket: &S,
        buffer: &mut [u8],
    ) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
        let mut metas = [RecvMeta::default()];
        let mut slices = [IoSliceMut::new(buffer)];
        self.state.recv(socket, &mut slices, &mut metas)?;
        let [meta] = metas;
        let to = if self.is_reported {
            meta.dst_ip.filter(|address| !address.is_multicast())
        } else {
            None
        };
        Ok((meta.len, meta.addr, to))
    }

    /// Sends a datagram from the local address of an earlier one, or from any if it is unknown.
    /// Does not block.
    ///
    /// # Errors
    /// As of `WSASendMsg`, also if the buffer is full.
    pub fn send<S: AsSocket>(
        &self,
        socket: &S,
        bytes: &[u8],
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents: bytes,
            segment_size: None,
            src_ip: from,
        };
        self.state.try_send(socket, &transmit)
    }
}

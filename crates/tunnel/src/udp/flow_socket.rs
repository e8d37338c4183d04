//! The server's socket of a flow.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::UdpSocket;

use super::set_up;
use crate::connection::Dialer;
use crate::request::Answer;
#[cfg(test)]
use crate::world::datagrams::MemorySocket;

/// A socket that is connected to a flow's target.
#[derive(Debug)]
pub(super) enum FlowSocket {
    System(UdpSocket),
    #[cfg(test)]
    Memory(MemorySocket, SocketAddr),
}

impl FlowSocket {
    /// Returns a socket to the first of a target's addresses that has a route, and the address.
    pub(super) async fn connect(
        dialer: &Dialer,
        addresses: &[SocketAddr],
    ) -> Result<(FlowSocket, SocketAddr), Answer> {
        match dialer {
            Dialer::System => FlowSocket::open(addresses).await,
            #[cfg(test)]
            Dialer::Memory(targets) => {
                let socket = targets.datagrams.bind(([203, 0, 113, 1], 0).into());
                Ok((FlowSocket::Memory(socket, addresses[0]), addresses[0]))
            }
        }
    }

    async fn open(addresses: &[SocketAddr]) -> Result<(FlowSocket, SocketAddr), Answer> {
        for address in addresses {
            let any: SocketAddr = match address {
                SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
            };
            let bound = UdpSocket::bind(any).await;
            let socket = bound.map_err(|_| Answer::Unreachable)?;
            if socket.connect(address).await.is_ok() {
                set_up(&socket);
                return Ok((FlowSocket::System(socket), *address));
            }
        }
        Err(Answer::Unreachable)
    }

    pub(super) async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            FlowSocket::System(socket) => socket.send(bytes).await.map(drop),
            #[cfg(test)]
            FlowSocket::Memory(socket, target) => {
                socket.send_to(bytes, *target);
                Ok(())
            }
        }
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            FlowSocket::System(socket) => socket.readable().await,
            #[cfg(test)]
            FlowSocket::Memory(socket, _) => {
                socket.readable().await;
                Ok(())
            }
        }
    }

    pub(super) fn try_recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            FlowSocket::System(socket) => socket.try_recv(buffer),
            #[cfg(test)]
            FlowSocket::Memory(socket, target) => {
                let (length, from) = socket.try_recv_from(buffer)?;
                if from != *target {
                    // A connected socket takes its peer's datagrams alone.
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                Ok(length)
            }
        }
    }
}

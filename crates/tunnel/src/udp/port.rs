//! A port of the proxy: answers leave from the address that the application sent to.

use std::io;
use std::net::{IpAddr, SocketAddr};

use anabranch_net::system::LocalAddresses;
use tokio::io::Interest;
use tokio::net::UdpSocket;

#[cfg(test)]
use crate::world::datagrams::MemorySocket;

/// The socket of a port.
#[derive(Debug)]
pub(super) enum Port {
    System {
        socket: UdpSocket,
        addresses: LocalAddresses,
    },
    #[cfg(test)]
    Memory(MemorySocket),
}

impl Port {
    /// Wraps a bound socket.
    ///
    /// # Errors
    /// The socket is bound to the unspecified address, and the system does not report local
    /// addresses.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Port> {
        let addresses = LocalAddresses::enable(&socket, socket.local_addr()?)?;
        Ok(Port::System { socket, addresses })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Port::System { socket, .. } => socket.local_addr(),
            #[cfg(test)]
            Port::Memory(socket) => Ok(socket.local_addr()),
        }
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Port::System { socket, .. } => socket.readable().await,
            #[cfg(test)]
            Port::Memory(socket) => {
                socket.readable().await;
                Ok(())
            }
        }
    }

    /// Returns the next datagram's length, its source, and its local address unless the port has
    /// only one.
    pub(super) fn try_recv(
        &self,
        buffer: &mut [u8],
    ) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
        match self {
            Port::System { socket, addresses } if addresses.is_reported() => {
                socket.try_io(Interest::READABLE, || addresses.recv(socket, buffer))
            }
            Port::System { socket, .. } => {
                let (length, from) = socket.try_recv_from(buffer)?;
                Ok((length, from, None))
            }
            #[cfg(test)]
            Port::Memory(socket) => {
                let (length, from) = socket.try_recv_from(buffer)?;
                Ok((length, from, None))
            }
        }
    }

    /// Sends a datagram from the local address of an earlier one.
    pub(super) async fn send(
        &self,
        bytes: &[u8],
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<()> {
        match self {
            Port::System { socket, .. } if from.is_none() => {
                socket.send_to(bytes, to).await?;
                Ok(())
            }
            Port::System { socket, addresses } => {
                socket
                    .async_io(Interest::WRITABLE, || {
                        addresses.send(socket, bytes, to, from)
                    })
                    .await
            }
            #[cfg(test)]
            Port::Memory(socket) => {
                socket.send_to(bytes, to);
                Ok(())
            }
        }
    }
}

// Needs a clock: datagrams come by a real socket.
#[cfg(test)]
mod real_time_tests {
    use super::*;

    #[tokio::test]
    async fn answers_come_from_where_the_question_went() {
        for (bound, asked, own) in [
            ("0.0.0.0:0", "127.0.0.2", "127.0.0.1:0"),
            ("[::]:0", "127.0.0.3", "127.0.0.1:0"),
            ("[::]:0", "::1", "[::1]:0"),
            ("127.0.0.4:0", "127.0.0.4", "127.0.0.1:0"),
        ] {
            let socket = UdpSocket::bind(bound).await.unwrap();
            let port = Port::new(socket).unwrap();
            let asked: IpAddr = asked.parse().unwrap();
            let target = SocketAddr::new(asked, port.local_addr().unwrap().port());
            let application = UdpSocket::bind(own).await.unwrap();
            application.send_to(b"question", target).await.unwrap();
            let mut buffer = [0; 100];
            let (length, from, to) = loop {
                port.readable().await.unwrap();
                match port.try_recv(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    received => break received.unwrap(),
                }
            };
            assert_eq!(&buffer[..length], b"question");
            assert_eq!(from.port(), application.local_addr().unwrap().port());
            port.send(b"answer", from, to).await.unwrap();
            let (length, from) = application.recv_from(&mut buffer).await.unwrap();
            assert_eq!((&buffer[..length], from), (&b"answer"[..], target));
        }
    }
}

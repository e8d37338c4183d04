//! A port of the proxy: answers leave from the address that the application sent to.

use std::io;
use std::net::{IpAddr, SocketAddr};

use anabranch_net::local_address;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// The socket of a port.
#[derive(Debug)]
pub(super) struct Port {
    socket: UdpSocket,
    /// Whether the socket reports the local address of each datagram.
    is_reported: bool,
}

impl Port {
    /// Wraps a bound socket.
    ///
    /// # Errors
    /// The socket is bound to the unspecified address, and the system does not report local
    /// addresses.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Port> {
        let is_reported = local_address::enable(&socket, socket.local_addr()?)?;
        Ok(Port {
            socket,
            is_reported,
        })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Returns the next datagram's length, its source, and its local address unless the port has
    /// only one.
    pub(super) fn try_recv(
        &self,
        buffer: &mut [u8],
    ) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
        if !self.is_reported {
            let (length, from) = self.socket.try_recv_from(buffer)?;
            return Ok((length, from, None));
        }
        self.socket.try_io(Interest::READABLE, || {
            local_address::recv(&self.socket, buffer)
        })
    }

    /// Sends a datagram from the local address of an earlier one.
    pub(super) async fn send(
        &self,
        bytes: &[u8],
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<()> {
        if from.is_none() {
            self.socket.send_to(bytes, to).await?;
            return Ok(());
        }
        let send = || local_address::send(&self.socket, bytes, to, from);
        self.socket.async_io(Interest::WRITABLE, send).await
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

//! A port of the proxy: answers leave from the address that the application sent to.
//!
//! A socket that is bound to every address of the machine would let the routing table choose, and
//! an application that had sent to another address would take the answer for a stranger's.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// The socket of a port.
#[derive(Debug)]
pub(super) struct Port {
    socket: UdpSocket,
    /// Whether it is told to which address each datagram came.
    is_told: bool,
}

impl Port {
    /// Around a socket that is bound.
    ///
    /// # Errors
    /// It is bound to no address, and the system does not tell to which one datagrams come.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Port> {
        let local = socket.local_addr()?;
        let is_told = local.ip().is_unspecified();
        if is_told {
            match local {
                SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
                SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?,
            }
        }
        Ok(Port { socket, is_told })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// The next datagram's length, where it is from, and to which address it came unless the port
    /// has one only.
    pub(super) fn try_recv(
        &self,
        buffer: &mut [u8],
    ) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
        if !self.is_told {
            let (length, from) = self.socket.try_recv_from(buffer)?;
            return Ok((length, from, None));
        }
        self.socket.try_io(Interest::READABLE, || {
            let mut space = cmsg_space!(in6_pktinfo);
            let mut slices = [IoSliceMut::new(buffer)];
            let (socket, space) = (self.socket.as_raw_fd(), Some(&mut space[..]));
            let flags = MsgFlags::MSG_DONTWAIT;
            let message = recvmsg::<SockaddrStorage>(socket, &mut slices, space, flags)?;
            let from = message.address.as_ref().and_then(socket_addr);
            let from = from.ok_or(io::ErrorKind::InvalidData)?;
            let to = message.cmsgs()?.find_map(|message| reached(&message));
            Ok((message.bytes, from, to))
        })
    }

    /// Sends a datagram from the address to which an earlier one came.
    pub(super) async fn send(
        &self,
        bytes: &[u8],
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<()> {
        let Some(from) = from else {
            self.socket.send_to(bytes, to).await?;
            return Ok(());
        };
        let send = || {
            let (v4, v6);
            let message = match from {
                IpAddr::V4(from) => {
                    v4 = in_pktinfo {
                        ipi_ifindex: 0,
                        ipi_spec_dst: in_addr {
                            s_addr: u32::from_ne_bytes(from.octets()),
                        },
                        ipi_addr: in_addr { s_addr: 0 },
                    };
                    ControlMessage::Ipv4PacketInfo(&v4)
                }
                IpAddr::V6(from) => {
                    v6 = in6_pktinfo {
                        ipi6_addr: in6_addr {
                            s6_addr: from.octets(),
                        },
                        ipi6_ifindex: 0,
                    };
                    ControlMessage::Ipv6PacketInfo(&v6)
                }
            };
            let socket = self.socket.as_raw_fd();
            let (slices, flags) = ([IoSlice::new(bytes)], MsgFlags::MSG_DONTWAIT);
            let to = SockaddrStorage::from(to);
            sendmsg(socket, &slices, &[message], flags, Some(&to))?;
            Ok(())
        };
        self.socket.async_io(Interest::WRITABLE, send).await
    }
}

fn socket_addr(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().copied();
    let v6 = storage.as_sockaddr_in6().copied();
    let v4 = v4.map(|address| SocketAddr::V4(SocketAddrV4::from(address)));
    v4.or_else(|| v6.map(|address| SocketAddr::V6(SocketAddrV6::from(address))))
}

/// The machine's address to which a datagram came, if it is one to answer from.
fn reached(message: &ControlMessageOwned) -> Option<IpAddr> {
    match message {
        // Of a broadcast it is the interface's.
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            Some(info.ipi_spec_dst.s_addr.to_ne_bytes().into())
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => {
            let address = IpAddr::from(info.ipi6_addr.s6_addr);
            (!address.is_multicast()).then_some(address)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
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

//! Detection of the local address that a datagram was sent to, so that its answer leaves from
//! there.
//!
//! The routing table would choose the source address of a socket that is bound to every address. A
//! client that used another address would ignore such an answer.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};

use nix::cmsg_space;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt,
};

/// Reader and writer of datagrams with their local addresses, for one socket.
#[derive(Clone, Copy, Debug)]
pub struct LocalAddresses {
    is_reported: bool,
}

impl LocalAddresses {
    /// Makes a socket report the local address of each datagram, if it is bound to the unspecified
    /// address.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn enable(socket: &impl AsFd, local: SocketAddr) -> io::Result<Self> {
        let is_reported = local.ip().is_unspecified();
        if is_reported {
            match local {
                SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?,
                SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?,
            }
        }
        Ok(LocalAddresses { is_reported })
    }

    /// Returns whether local addresses are reported.
    pub fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Returns the next datagram's length, its source, and its local address if the socket reports
    /// it. Does not block.
    ///
    /// # Errors
    /// As of `recvmsg`, also if no datagram is waiting.
    pub fn recv(
        &self,
        socket: &impl AsRawFd,
        buffer: &mut [u8],
    ) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
        recv(socket, buffer)
    }

    /// Sends a datagram from the local address of an earlier one, or from any if it is unknown.
    /// Does not block.
    ///
    /// # Errors
    /// As of `sendmsg`, also if the buffer is full.
    pub fn send(
        &self,
        socket: &impl AsRawFd,
        bytes: &[u8],
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> io::Result<()> {
        send(socket, bytes, to, from)
    }
}

fn recv(
    socket: &impl AsRawFd,
    buffer: &mut [u8],
) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
    let mut space = cmsg_space!(in6_pktinfo);
    let mut slices = [IoSliceMut::new(buffer)];
    let space = Some(&mut space[..]);
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, space, flags)?;
    let from = message
        .address
        .as_ref()
        .and_then(socket_addr)
        .ok_or(io::ErrorKind::InvalidData)?;
    let to = message.cmsgs()?.find_map(|message| local_address(&message));
    Ok((message.bytes, from, to))
}

fn send(
    socket: &impl AsRawFd,
    bytes: &[u8],
    to: SocketAddr,
    from: Option<IpAddr>,
) -> io::Result<()> {
    let (v4, v6);
    let message = match from {
        None => None,
        Some(IpAddr::V4(from)) => {
            v4 = in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: in_addr {
                    s_addr: u32::from_ne_bytes(from.octets()),
                },
                ipi_addr: in_addr { s_addr: 0 },
            };
            Some(ControlMessage::Ipv4PacketInfo(&v4))
        }
        Some(IpAddr::V6(from)) => {
            v6 = in6_pktinfo {
                ipi6_addr: in6_addr {
                    s6_addr: from.octets(),
                },
                ipi6_ifindex: 0,
            };
            Some(ControlMessage::Ipv6PacketInfo(&v6))
        }
    };
    let (slices, flags) = ([IoSlice::new(bytes)], MsgFlags::MSG_DONTWAIT);
    let to = SockaddrStorage::from(to);
    sendmsg(
        socket.as_raw_fd(),
        &slices,
        message.as_slice(),
        flags,
        Some(&to),
    )?;
    Ok(())
}

fn socket_addr(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(address) = storage.as_sockaddr_in() {
        return Some(SocketAddr::V4(SocketAddrV4::from(*address)));
    }
    let address = storage.as_sockaddr_in6()?;
    Some(SocketAddr::V6(SocketAddrV6::from(*address)))
}

/// Returns the local address of a datagram, if answers can leave from it.
fn local_address(message: &ControlMessageOwned) -> Option<IpAddr> {
    match message {
        // For a broadcast it is the interface's address.
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

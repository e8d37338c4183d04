//! Listening sockets. At `[::]` they take IPv4 too, whatever the system's default is.
//!
//! `net.ipv6.bindv6only=1` of hardened machines, and FreeBSD's default, would leave IPv4 out.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Socket, Type};

/// Connections that wait to be accepted: the kernel's own maximum bounds it further.
const BACKLOG: i32 = 1_024;

/// Opens a UDP socket at an address of this machine.
///
/// # Errors
/// The address is taken, not this machine's, or needs a privilege.
pub fn udp(address: SocketAddr) -> io::Result<UdpSocket> {
    Ok(bound(address, Type::DGRAM)?.into())
}

/// Opens a socket at an address of this machine that accepts TCP connections. An address that
/// closed connections still use can be listened at again.
///
/// # Errors
/// As of [`udp`].
pub fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound(address, Type::STREAM)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn bound(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unspecified_address_takes_both_kinds() {
        let any = "[::]:0".parse().unwrap();
        let (Ok(udp), Ok(tcp)) = (udp(any), tcp(any)) else {
            // A machine without IPv6 has no such address.
            assert!(!std::path::Path::new("/proc/net/if_inet6").exists());
            return;
        };
        assert!(!socket2::SockRef::from(&udp).only_v6().unwrap());
        assert!(!socket2::SockRef::from(&tcp).only_v6().unwrap());
        let port = udp.local_addr().unwrap().port();
        let taken = super::udp(([0, 0, 0, 0], port).into());
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}

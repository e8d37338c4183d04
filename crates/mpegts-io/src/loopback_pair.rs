//! Two UDP sockets at loopback that take each other's datagrams alone. One of them is handed to a
//! helper program. Any local user may send to a loopback port, but not from the other socket's.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

/// Opens the two sockets.
///
/// # Errors
/// The system has no free port.
pub(super) fn loopback_pair() -> io::Result<[UdpSocket; 2]> {
    let any = (Ipv4Addr::LOCALHOST, 0);
    let pair = [UdpSocket::bind(any)?, UdpSocket::bind(any)?];
    pair[0].connect(pair[1].local_addr()?)?;
    pair[1].connect(pair[0].local_addr()?)?;
    for socket in &pair {
        discard_earlier(socket)?;
    }
    Ok(pair)
}

/// Discards the datagrams that came before the socket was connected.
fn discard_earlier(socket: &UdpSocket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    while socket.recv(&mut [0]).is_ok() {}
    socket.set_nonblocking(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_takes_no_other_datagrams() {
        let [ours, theirs] = loopback_pair().unwrap();
        let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for socket in [&ours, &theirs] {
            let _ = stranger.send_to(b"stranger", socket.local_addr().unwrap());
        }
        theirs.send(b"media").unwrap();
        ours.send(b"target").unwrap();
        let mut buffer = [0; 16];
        for (socket, expected) in [(&ours, &b"media"[..]), (&theirs, b"target")] {
            let len = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], expected);
            socket.set_nonblocking(true).unwrap();
            assert!(socket.recv(&mut buffer).is_err(), "another datagram came");
        }
    }
}

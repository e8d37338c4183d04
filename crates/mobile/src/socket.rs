//! Sockets that an app has made. The one place with unsafe code: a number becomes a socket.

use std::net::UdpSocket;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType, getsockname, sockopt};

use crate::error::AnabranchError;

/// Takes a file descriptor over, and returns it as a socket.
///
/// # Errors
/// The descriptor is not open, which leaves it alone, or is no UDP socket, which closes it.
#[allow(
    unsafe_code,
    reason = "other languages have file descriptors as numbers"
)]
pub(crate) fn of_descriptor(fd: i32) -> Result<UdpSocket, AnabranchError> {
    if fd < 0 {
        return Err(wrong(format!("{fd} is no file descriptor")));
    }
    // SAFETY: it is not -1, and is borrowed only for a question, which fails if it is closed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_getfd(borrowed)
        .map_err(|error| wrong(format!("file descriptor {fd}: {error}")))?;
    // SAFETY: it is open, and the app has given it up, as `Sender::add_socket` documents.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    let kind = sockopt::socket_type(&owned);
    let is_udp = kind == Ok(SocketType::DGRAM);
    let family = getsockname(&owned).map(|address| address.address_family());
    let is_ip = matches!(family, Ok(AddressFamily::INET | AddressFamily::INET6));
    if is_udp && is_ip {
        Ok(owned.into())
    } else {
        Err(wrong(format!("file descriptor {fd} is no UDP socket")))
    }
}

fn wrong(text: String) -> AnabranchError {
    AnabranchError::Argument { text }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::TcpListener;
    use std::os::fd::IntoRawFd;

    use super::*;

    #[test]
    fn a_socket_is_taken_over_and_others_are_refused() {
        let made = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = made.local_addr().unwrap();
        let taken = of_descriptor(made.into_raw_fd()).unwrap();
        assert_eq!(taken.local_addr().unwrap(), address);
        let stream = TcpListener::bind("127.0.0.1:0").unwrap().into_raw_fd();
        let file = File::open("/dev/null").unwrap().into_raw_fd();
        for (fd, part) in [
            (-1, "-1 is no"),
            (stream, "no UDP socket"),
            (file, "no UDP socket"),
        ] {
            let error = of_descriptor(fd).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        // A number that no file has is left alone.
        assert!(of_descriptor(1_000_000).is_err());
    }
}

//! A pair of streams, by which a thread that waits for sockets is woken.

use std::io;

/// One end of the pair.
#[cfg(unix)]
pub(crate) type Stream = std::os::unix::net::UnixStream;
/// One end of the pair. Windows waits for sockets of the internet alone.
#[cfg(windows)]
pub(crate) type Stream = std::net::TcpStream;

/// Makes a pair of connected streams, which do not block.
///
/// # Errors
/// The system has no descriptors left.
pub(crate) fn pair() -> io::Result<(Stream, Stream)> {
    let (one, other) = connected()?;
    one.set_nonblocking(true)?;
    other.set_nonblocking(true)?;
    Ok((one, other))
}

#[cfg(unix)]
fn connected() -> io::Result<(Stream, Stream)> {
    Stream::pair()
}

#[cfg(windows)]
fn connected() -> io::Result<(Stream, Stream)> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
    let one = Stream::connect(listener.local_addr()?)?;
    loop {
        // Another program may have found the port in the meantime.
        let (other, peer) = listener.accept()?;
        if peer == one.local_addr()? {
            return Ok((one, other));
        }
    }
}

//! Sockets with a path in the file system.

use core::time::Duration as StdDuration;
use std::io::{self, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;

/// Time after which a reader that takes nothing is disconnected.
const PATIENCE: StdDuration = StdDuration::from_millis(500);

/// A socket with a path in the file system.
#[derive(Debug)]
pub(super) enum UnixSocket {
    Stream(UnixStream),
    Datagram(UnixDatagram),
}

impl UnixSocket {
    /// Connects to a socket of either type.
    ///
    /// # Errors
    /// Nobody listens, or the system refuses.
    pub(super) fn connect(path: &Path) -> io::Result<UnixSocket> {
        match UnixStream::connect(path) {
            Ok(stream) => {
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(UnixSocket::Stream(stream))
            }
            Err(stream_error) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path).map_err(|_| stream_error)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Ok(UnixSocket::Datagram(socket))
            }
        }
    }

    /// Writes a line.
    ///
    /// # Errors
    /// The reader has gone, or takes nothing.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            UnixSocket::Stream(stream) => stream.write_all(line),
            UnixSocket::Datagram(socket) => socket.send(line).map(|_| ()),
        }
    }
}

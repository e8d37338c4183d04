//! The bytes below a TCP connection: of the operating system, or of a world in memory.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use socket2::SockAddr;

use super::progress::Progress;
use crate::listen;
use crate::system::{AsFd, BorrowedFd, is_connecting};
#[cfg(feature = "testing")]
use crate::testing::pipe::{VirtualAcceptor, VirtualStream};
use crate::via::{Via, ViaError};

/// Number of unsent bytes in the kernel from which on it accepts no more: 50 ms at 5 Mbit/s
/// (chosen).
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT_BYTES: u32 = 32 << 10;
/// Time without acknowledgement after which the kernel gives up the connection. Its own back-off
/// would take minutes; a new connection takes a round trip.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNACKNOWLEDGED: core::time::Duration = core::time::Duration::from_secs(5);

/// A connection's bytes in order. No call blocks.
#[derive(Debug)]
pub(crate) enum Stream {
    System(TcpStream),
    #[cfg(feature = "testing")]
    World(VirtualStream),
}

/// A listening socket for connections.
#[derive(Debug)]
pub(crate) enum Acceptor {
    System(TcpListener),
    #[cfg(feature = "testing")]
    World(VirtualAcceptor),
}

impl Stream {
    /// Begins to connect to `peer`.
    ///
    /// # Errors
    /// If the local side is missing, or the operating system has no route.
    pub(crate) fn dial(via: &Via, peer: SocketAddr) -> Result<Self, ViaError> {
        let socket = via.open_tcp(peer)?;
        socket
            .set_nonblocking(true)
            .map_err(|error| via.refused(error))?;
        match socket.connect(&SockAddr::from(peer)) {
            Err(error) if !is_connecting(&error) => {
                return Err(via.refused(error));
            }
            _ => {}
        }
        set_up(&socket);
        Ok(Stream::System(socket.into()))
    }

    /// Takes an accepted connection. Returns it with its local address.
    ///
    /// # Errors
    /// If the operating system cannot serve it without blocking.
    pub(crate) fn accepted(stream: TcpStream) -> io::Result<(Self, IpAddr)> {
        stream.set_nonblocking(true)?;
        let local = stream.local_addr()?.ip();
        let socket = socket2::Socket::from(stream);
        set_up(&socket);
        Ok((Stream::System(socket.into()), local))
    }

    /// Returns the state of a connection that was begun.
    pub(crate) fn progress(&self) -> Progress {
        match self {
            Stream::System(stream) => match stream.take_error() {
                Ok(None) if stream.peer_addr().is_ok() => Progress::Open,
                Ok(None) => Progress::Connecting,
                Ok(Some(_)) | Err(_) => Progress::Failed,
            },
            #[cfg(feature = "testing")]
            Stream::World(stream) => stream.progress(),
        }
    }

    /// Reads as [`Read::read`] does.
    ///
    /// # Errors
    /// As there; [`ErrorKind::WouldBlock`] if there is nothing to read yet.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::System(stream) => (&*stream).read(buffer),
            #[cfg(feature = "testing")]
            Stream::World(stream) => stream.read(buffer),
        }
    }

    /// Writes as [`Write::write`] does.
    ///
    /// # Errors
    /// As there; [`ErrorKind::WouldBlock`] if there is no room.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::System(stream) => (&*stream).write(bytes),
            #[cfg(feature = "testing")]
            Stream::World(stream) => stream.write(bytes),
        }
    }

    /// Returns the operating system's socket, to wait for.
    pub(crate) fn system(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Stream::System(stream) => Some(stream.as_fd()),
            #[cfg(feature = "testing")]
            Stream::World(_) => None,
        }
    }
}

impl Acceptor {
    /// Opens a listening socket of the operating system.
    ///
    /// # Errors
    /// The address is taken, not this machine's, or needs a privilege.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = listen::tcp(address)?;
        listener.set_nonblocking(true)?;
        Ok(Acceptor::System(listener))
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Acceptor::System(listener) => listener.local_addr(),
            #[cfg(feature = "testing")]
            Acceptor::World(acceptor) => Ok(acceptor.local_addr()),
        }
    }

    /// Takes a waiting connection: its bytes, its local address, and the peer's. A connection that
    /// cannot be served is closed.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if none waits, [`ErrorKind::ConnectionAborted`] if it is gone, and
    /// others if the process has no files left.
    pub(crate) fn accept(&self) -> io::Result<(Stream, IpAddr, SocketAddr)> {
        match self {
            Acceptor::System(listener) => {
                let (stream, peer) = listener.accept()?;
                let accepted = Stream::accepted(stream);
                let (stream, local) = accepted.map_err(|_| ErrorKind::ConnectionAborted)?;
                Ok((stream, local, peer))
            }
            #[cfg(feature = "testing")]
            Acceptor::World(acceptor) => {
                let (stream, local, peer) = acceptor.accept()?;
                Ok((Stream::World(stream), local, peer))
            }
        }
    }

    /// Returns the operating system's socket, to wait for.
    pub(crate) fn system(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Acceptor::System(listener) => Some(listener.as_fd()),
            #[cfg(feature = "testing")]
            Acceptor::World(_) => None,
        }
    }
}

/// Sets options for speed, without which the connection would still work.
fn set_up(socket: &socket2::Socket) {
    let _ = socket.set_tcp_nodelay(true);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let _ = socket.set_tcp_notsent_lowat(UNSENT_BYTES);
        let _ = socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    }
}

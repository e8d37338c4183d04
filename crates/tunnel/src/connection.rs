//! Connections of applications and targets: the operating system's, or those of a test in memory.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io::{self, IoSlice};
use std::net::SocketAddr;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp;

#[cfg(test)]
use super::world::memory::{Memory, Targets};

/// Idle time before keep-alive probes. A vanished application is noticed some minutes later.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);
/// Maximum bytes that a socket holds beyond those in flight. Otherwise the system fills its whole
/// send buffer, some 4 MB, for a peer that does not read. The limit costs no throughput, since it
/// does not cover bytes in flight. HTTP/2 servers use the same value (chosen).
#[cfg(any(target_os = "linux", target_os = "android"))]
const MAX_UNSENT_BYTES: u32 = 128 << 10;
/// Send and receive buffers of a narrow connection; Linux counts twice as much. At a round trip of
/// 20 ms they carry some 50 Mbit/s.
const NARROW_BUFFER_BYTES: usize = 128 << 10;

/// A connection.
#[derive(Debug)]
pub(super) enum Connection {
    System(TcpStream),
    #[cfg(test)]
    Memory(Memory),
}

/// The half of a connection that reads.
pub(super) enum ReadHalf<'a> {
    System(tcp::ReadHalf<'a>),
    #[cfg(test)]
    Memory(tokio::io::ReadHalf<&'a mut Memory>),
}

/// The half of a connection that writes.
pub(super) enum WriteHalf<'a> {
    System(tcp::WriteHalf<'a>),
    #[cfg(test)]
    Memory(tokio::io::WriteHalf<&'a mut Memory>),
}

/// The way from a server to targets.
#[derive(Clone, Debug)]
pub(crate) enum Dialer {
    System,
    #[cfg(test)]
    Memory(Targets),
}

impl Dialer {
    /// Connects to the first of these addresses that answers.
    pub(super) async fn dial(&self, addresses: &[SocketAddr]) -> io::Result<Connection> {
        match self {
            Dialer::System => TcpStream::connect(addresses).await.map(Connection::System),
            #[cfg(test)]
            Dialer::Memory(targets) => targets.dial(addresses).await.map(Connection::Memory),
        }
    }
}

impl Connection {
    /// Configures the connection: data is sent at once, and a dead peer is noticed.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(super) fn set_up(&self) -> io::Result<()> {
        match self {
            Connection::System(connection) => {
                connection.set_nodelay(true)?;
                let socket = SockRef::from(connection);
                limit_unsent(&socket)?;
                let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE_AFTER);
                socket.set_tcp_keepalive(&keep_alive)
            }
            #[cfg(test)]
            Connection::Memory(_) => Ok(()),
        }
    }

    /// Limits the system's memory for the connection, including bytes in flight and received ones.
    pub(super) fn make_narrow(&self) -> io::Result<()> {
        match self {
            Connection::System(connection) => {
                let socket = SockRef::from(connection);
                socket.set_send_buffer_size(NARROW_BUFFER_BYTES)?;
                socket.set_recv_buffer_size(NARROW_BUFFER_BYTES)
            }
            #[cfg(test)]
            Connection::Memory(_) => Ok(()),
        }
    }

    /// Makes the connection end with a reset when it is dropped, because its data is incomplete.
    pub(super) fn reset(&self) {
        match self {
            // A connection that is gone needs none.
            Connection::System(connection) => {
                let _ = SockRef::from(connection).set_linger(Some(Duration::ZERO));
            }
            #[cfg(test)]
            Connection::Memory(connection) => connection.reset(),
        }
    }

    /// Waits for bytes, and copies them without taking them.
    pub(super) async fn peek(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::System(connection) => connection.peek(bytes).await,
            #[cfg(test)]
            Connection::Memory(connection) => connection.peek(bytes).await,
        }
    }

    pub(super) fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Connection::System(connection) => connection.peer_addr(),
            #[cfg(test)]
            Connection::Memory(connection) => Ok(connection.peer_addr()),
        }
    }

    pub(super) fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        match self {
            Connection::System(connection) => {
                let (reader, writer) = connection.split();
                (ReadHalf::System(reader), WriteHalf::System(writer))
            }
            #[cfg(test)]
            Connection::Memory(connection) => {
                let (reader, writer) = tokio::io::split(connection);
                (ReadHalf::Memory(reader), WriteHalf::Memory(writer))
            }
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn limit_unsent(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES)
}

/// Does nothing: other systems have buffers of a fixed size.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn limit_unsent(_: &SockRef<'_>) -> io::Result<()> {
    Ok(())
}

/// Evaluates the same expression for an end of either kind.
macro_rules! with_inner {
    ($kind:ident, $end:expr, $inner:ident => $call:expr) => {
        match $end {
            $kind::System($inner) => $call,
            #[cfg(test)]
            $kind::Memory($inner) => $call,
        }
    };
}

macro_rules! reads {
    ($($kind:ident: $end:ty),*) => {$(
        impl AsyncRead for $end {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                with_inner!($kind, self.get_mut(), inner => {
                    Pin::new(inner).poll_read(context, buffer)
                })
            }
        }
    )*};
}

macro_rules! writes {
    ($($kind:ident: $end:ty),*) => {$(
        impl AsyncWrite for $end {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                with_inner!($kind, self.get_mut(), inner => {
                    Pin::new(inner).poll_write(context, bytes)
                })
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                pieces: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                with_inner!($kind, self.get_mut(), inner => {
                    Pin::new(inner).poll_write_vectored(context, pieces)
                })
            }

            fn is_write_vectored(&self) -> bool {
                with_inner!($kind, self, inner => inner.is_write_vectored())
            }

            fn poll_flush(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                with_inner!($kind, self.get_mut(), inner => Pin::new(inner).poll_flush(context))
            }

            fn poll_shutdown(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                with_inner!($kind, self.get_mut(), inner => {
                    Pin::new(inner).poll_shutdown(context)
                })
            }
        }
    )*};
}

reads!(Connection: Connection, ReadHalf: ReadHalf<'_>);
writes!(Connection: Connection, WriteHalf: WriteHalf<'_>);

// Needs a clock: connections are real ones.
#[cfg(test)]
mod real_time_tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Size of a write.
    const WRITE_BYTES: usize = 80 << 10;

    /// Returns both ends of a connection.
    async fn pair() -> (Connection, TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, server) = tokio::join!(client, listener.accept());
        (Connection::System(client.unwrap()), server.unwrap().0)
    }

    /// Writes until the connection takes nothing for a while. Returns the number of bytes that it
    /// took.
    async fn taken(connection: &mut (impl AsyncWrite + Unpin)) -> usize {
        let bytes = vec![7; WRITE_BYTES];
        let mut taken = 0;
        while let Ok(written) =
            tokio::time::timeout(Duration::from_millis(500), connection.write(&bytes)).await
        {
            taken += written.unwrap();
        }
        taken
    }

    /// An attack found by the audit: 4 MB of the system's memory for each target that does not
    /// read.
    #[tokio::test]
    async fn a_target_that_does_not_read_takes_less_than_half_a_megabyte() {
        let (mut connection, _target) = pair().await;
        connection.set_up().unwrap();
        let taken = taken(&mut connection).await;
        // Includes the window that the target's own system offers.
        assert!((1..512 << 10).contains(&taken), "{taken} bytes");
    }

    /// A target that reads fast at first makes the system enlarge the buffers, and then stops.
    #[tokio::test]
    async fn a_narrow_connection_takes_little_both_ways_after_it_was_fast() {
        const FAST_BYTES: usize = 16 << 20;
        let (mut connection, mut target) = pair().await;
        connection.set_up().unwrap();
        connection.make_narrow().unwrap();
        let bytes = vec![7; FAST_BYTES];
        let mut read = vec![0; FAST_BYTES];
        let both = tokio::join!(connection.write_all(&bytes), target.read_exact(&mut read));
        both.0.unwrap();
        both.1.unwrap();
        let both = tokio::join!(target.write_all(&bytes), connection.read_exact(&mut read));
        both.0.unwrap();
        both.1.unwrap();
        // Unread bytes of the target are in the buffers of both ends.
        taken(&mut target).await;
        let Connection::System(connection) = connection else {
            unreachable!("a real one");
        };
        let unread = rustix::io::ioctl_fionread(&connection).unwrap();
        let max = 2 * NARROW_BUFFER_BYTES;
        assert!((1..=max as u64).contains(&unread), "{unread} bytes");
        let socket = SockRef::from(&connection);
        assert!(socket.send_buffer_size().unwrap() <= max);
        assert!(socket.recv_buffer_size().unwrap() <= max);
    }
}

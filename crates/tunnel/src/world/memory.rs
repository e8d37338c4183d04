//! Connections in memory, and targets that accept them.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::datagrams::Datagrams;

/// Bytes that a connection holds, each way.
const BUFFER_BYTES: usize = 64 << 10;

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct Memory {
    stream: DuplexStream,
    /// Bytes that were looked at, and not taken.
    peeked: Vec<u8>,
    peer: SocketAddr,
    /// Whether this end breaks the connection, and whether the other does.
    resets: [Arc<AtomicBool>; 2],
}

/// Returns both ends of a connection to `target`.
pub(crate) fn pair(target: SocketAddr) -> (Memory, Memory) {
    let (near, far) = tokio::io::duplex(BUFFER_BYTES);
    let [first, second] = [(); 2].map(|()| Arc::<AtomicBool>::default());
    let resets = [Arc::clone(&second), Arc::clone(&first)];
    (
        Memory::new(near, target, [first, second]),
        Memory::new(far, target, resets),
    )
}

impl Memory {
    fn new(stream: DuplexStream, peer: SocketAddr, resets: [Arc<AtomicBool>; 2]) -> Self {
        Memory {
            stream,
            peeked: Vec::new(),
            peer,
            resets,
        }
    }

    pub(crate) fn reset(&self) {
        self.resets[0].store(true, Ordering::Relaxed);
    }

    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) async fn peek(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.peeked.is_empty() {
            let length = self.stream.read(bytes).await?;
            self.peeked.extend_from_slice(&bytes[..length]);
        }
        let length = self.peeked.len().min(bytes.len());
        bytes[..length].copy_from_slice(&self.peeked[..length]);
        Ok(length)
    }
}

impl AsyncRead for Memory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.peeked.is_empty() {
            let length = self.peeked.len().min(buffer.remaining());
            buffer.put_slice(&self.peeked[..length]);
            self.peeked.drain(..length);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let is_at_end = matches!(polled, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        if is_at_end && self.resets[1].load(Ordering::Relaxed) {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        polled
    }
}

impl AsyncWrite for Memory {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Targets beside the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets {
    /// Targets of connections by their addresses; `None` never answers. Elsewhere nobody listens.
    connections: Arc<Mutex<BTreeMap<SocketAddr, Option<UnboundedSender<Memory>>>>>,
    pub(crate) datagrams: Datagrams,
}

impl Targets {
    /// Adds a target. Returns its connections.
    pub(crate) fn listen(&self, address: SocketAddr) -> UnboundedReceiver<Memory> {
        let (sender, accepted) = unbounded_channel();
        self.connections
            .lock()
            .unwrap()
            .insert(address, Some(sender));
        accepted
    }

    /// Adds a target that never answers.
    pub(crate) fn be_silent_at(&self, address: SocketAddr) {
        self.connections.lock().unwrap().insert(address, None);
    }

    pub(crate) async fn dial(&self, addresses: &[SocketAddr]) -> io::Result<Memory> {
        for address in addresses {
            let target = self.connections.lock().unwrap().get(address).cloned();
            match target {
                Some(Some(target)) => {
                    let (ours, theirs) = pair(*address);
                    let sent = target.send(theirs);
                    return sent
                        .map(|()| ours)
                        .map_err(|_| ErrorKind::ConnectionRefused.into());
                }
                Some(None) => core::future::pending().await,
                None => {}
            }
        }
        Err(ErrorKind::ConnectionRefused.into())
    }
}

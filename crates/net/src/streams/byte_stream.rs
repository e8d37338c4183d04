//! One stream, as tasks read and write it.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;

use anabranch_mux::{StreamError, StreamId};
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Shared;

/// A reliable stream of bytes each way, carried by all paths of its session. Dropping it gives up
/// what was not [shut down](tokio::io::AsyncWriteExt::shutdown), as a TCP reset does.
///
/// # Errors
/// Reading and writing fail with [`io::ErrorKind::ConnectionReset`] if the peer has given the
/// stream up, with [`io::ErrorKind::ConnectionAborted`] if the session is over.
#[derive(Debug)]
pub struct ByteStream {
    shared: Arc<Shared>,
    id: StreamId,
    /// What was taken from the stream and did not fit the reader's buffer.
    rest: Bytes,
}

impl ByteStream {
    pub(super) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        ByteStream {
            shared,
            id,
            rest: Bytes::new(),
        }
    }
}

fn error(error: StreamError) -> io::Error {
    let kind = match error {
        StreamError::GivenUp => io::ErrorKind::ConnectionReset,
        StreamError::Ended => io::ErrorKind::BrokenPipe,
        StreamError::SessionOver => io::ErrorKind::ConnectionAborted,
    };
    io::Error::new(kind, error)
}

impl AsyncRead for ByteStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let id = self.id;
        let mut is_any = false;
        loop {
            let taken = self.rest.len().min(buffer.remaining());
            if taken > 0 {
                buffer.put_slice(&self.rest[..taken]);
                self.rest.advance(taken);
                is_any = true;
            }
            if buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let read = self.shared.act(|state| {
                let read = state.mux.read(id);
                if read.is_pending() && !is_any {
                    state.readers.insert(id, context.waker().clone());
                }
                read
            });
            match read {
                Poll::Ready(Ok(Some(bytes))) => self.rest = bytes,
                _ if is_any => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(cause)) => return Poll::Ready(Err(error(cause))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl AsyncWrite for ByteStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let id = self.id;
        let written = self.shared.act(|state| {
            let written = state.mux.write(id, bytes);
            if written.is_pending() {
                state.writers.insert(id, context.waker().clone());
            }
            written
        });
        written.map_err(error)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the writing half behind what was written. The peer's goes on.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let id = self.id;
        self.shared.act(|state| state.mux.finish(id));
        Poll::Ready(Ok(()))
    }
}

impl Drop for ByteStream {
    fn drop(&mut self) {
        let id = self.id;
        self.shared.act(|state| {
            state.mux.release(id);
            state.readers.remove(&id);
            state.writers.remove(&id);
        });
    }
}

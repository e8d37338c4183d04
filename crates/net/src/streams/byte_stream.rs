//! One stream, for tasks that read and write it.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use anabranch_mux::{StreamError, StreamId};
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Shared;

/// A reliable stream of bytes each way, carried by all paths of its session. Dropping it gives up a
/// half that was not [shut down](tokio::io::AsyncWrite::poll_shutdown), as a TCP reset does.
///
/// # Errors
/// Reading and writing fail with [`io::ErrorKind::ConnectionReset`] if the peer has given the
/// stream up, with [`io::ErrorKind::ConnectionAborted`] if the session is over.
#[derive(Debug)]
pub struct ByteStream {
    shared: Arc<Shared>,
    id: StreamId,
    /// Bytes taken from the stream that did not fit the reader's buffer.
    rest: Bytes,
}

/// The reading half of a [`ByteStream`].
#[derive(Debug)]
pub struct StreamReader<'a> {
    shared: &'a Shared,
    id: StreamId,
    rest: &'a mut Bytes,
}

/// The writing half of a [`ByteStream`].
#[derive(Debug)]
pub struct StreamWriter<'a> {
    shared: &'a Shared,
    id: StreamId,
}

impl ByteStream {
    pub(super) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        ByteStream {
            shared,
            id,
            rest: Bytes::new(),
        }
    }

    /// Returns both halves, so that one can be read from while the other is written to. They move
    /// bytes without copies.
    pub fn split(&mut self) -> (StreamReader<'_>, StreamWriter<'_>) {
        let (shared, id) = (&*self.shared, self.id);
        let rest = &mut self.rest;
        let reader = StreamReader { shared, id, rest };
        (reader, StreamWriter { shared, id })
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

impl StreamReader<'_> {
    /// Waits for bytes, and appends them to `out` until it holds `max_bytes` more or slightly
    /// beyond. Returns their number: zero at the end of the stream.
    ///
    /// # Errors
    /// See [`ByteStream`].
    pub async fn read_bytes(
        &mut self,
        out: &mut VecDeque<Bytes>,
        max_bytes: usize,
    ) -> io::Result<usize> {
        poll_fn(|context| self.poll_read_bytes(context, out, max_bytes)).await
    }

    fn poll_read_bytes(
        &mut self,
        context: &Context<'_>,
        out: &mut VecDeque<Bytes>,
        max_bytes: usize,
    ) -> Poll<io::Result<usize>> {
        let mut taken = self.rest.len();
        if taken > 0 {
            out.push_back(core::mem::take(self.rest));
        }
        self.shared.act(|state| {
            while taken < max_bytes {
                match state.mux.read(self.id) {
                    Poll::Ready(Ok(Some(bytes))) => {
                        taken += bytes.len();
                        out.push_back(bytes);
                    }
                    // Any further state is returned by the next call.
                    _ if taken > 0 => break,
                    Poll::Ready(Ok(None)) => break,
                    Poll::Ready(Err(cause)) => return Poll::Ready(Err(error(cause))),
                    Poll::Pending => {
                        state.readers.insert(self.id, context.waker().clone());
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(Ok(taken))
        })
    }
}

impl StreamWriter<'_> {
    /// Hands bytes over without a copy; waits for room for all of them.
    ///
    /// # Errors
    /// See [`ByteStream`]; some of the bytes may have been taken.
    pub async fn write_bytes(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            poll_fn(|context| self.poll_write_bytes(context, &mut bytes)).await?;
        }
        Ok(())
    }

    fn poll_write_bytes(
        &mut self,
        context: &Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        let written = self.shared.act(|state| {
            let written = state.mux.write_shared(self.id, bytes);
            if written.is_pending() {
                state.writers.insert(self.id, context.waker().clone());
            }
            written
        });
        written.map_err(error)
    }

    /// Ends the writing half behind the written bytes. The peer's half continues.
    pub fn finish(&mut self) {
        self.shared.act(|state| state.mux.finish(self.id));
    }
}

impl AsyncRead for StreamReader<'_> {
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
                Poll::Ready(Ok(Some(bytes))) => *self.rest = bytes,
                _ if is_any => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(cause)) => return Poll::Ready(Err(error(cause))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl AsyncRead for ByteStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (mut reader, _) = self.split();
        Pin::new(&mut reader).poll_read(context, buffer)
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

    /// Ends the writing half behind the written bytes. The peer's half continues.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.split().1.finish();
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

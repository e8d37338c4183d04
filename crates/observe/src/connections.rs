//! Limits of the connections to `--metrics`: their number, their age and their idle time.

use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;
use tokio::time::Sleep;

/// Maximum number of connections that are served at a time.
pub(super) const MAX_CONNECTIONS: usize = 64;

/// Time limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Longest time for a request, since the connection or the last answer, and for any part of an
    /// answer.
    pub(super) progress: Duration,
    /// Maximum age. Clients that need longer connect again.
    pub(super) age: Duration,
}

impl Default for Patience {
    /// Returns the limits. Chosen: some scrapes of Prometheus, and far more than an answer takes
    /// over a slow link.
    fn default() -> Self {
        Patience {
            progress: Duration::from_secs(10),
            age: Duration::from_secs(60),
        }
    }
}

/// Order in which connections made progress; the smallest was idle for longest.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    latest: Arc<AtomicU64>,
    own: Arc<AtomicU64>,
}

impl Progress {
    /// Returns the progress of another connection, which is the latest.
    fn beside(&self) -> Self {
        let progress = Progress {
            latest: Arc::clone(&self.latest),
            own: Arc::default(),
        };
        progress.note();
        progress
    }

    fn note(&self) {
        let order = self.latest.fetch_add(1, Ordering::Relaxed);
        self.own.store(order, Ordering::Relaxed);
    }
}

/// The open connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    latest: Progress,
    open: Vec<(AbortHandle, Progress)>,
}

impl Connections {
    /// Serves another connection. If all slots are taken, the connection that was idle for longest
    /// is closed.
    pub(super) fn add(&mut self, serve: impl FnOnce(Progress) -> AbortHandle) {
        self.open.retain(|(task, _)| !task.is_finished());
        while self.open.len() >= MAX_CONNECTIONS {
            let order = |at: &usize| self.open[*at].1.own.load(Ordering::Relaxed);
            let Some(oldest) = (0..self.open.len()).min_by_key(order) else {
                break;
            };
            self.open.swap_remove(oldest).0.abort();
        }
        let progress = self.latest.beside();
        let task = serve(progress.clone());
        self.open.push((task, progress));
    }
}

/// A connection that fails if no part of an answer can be written for a while.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    patience: Duration,
    progress: Progress,
    /// Timer of a write that waits.
    overdue: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> Watched<S> {
    pub(super) fn new(stream: S, patience: Duration, progress: Progress) -> Self {
        Watched {
            stream,
            patience,
            progress,
            overdue: None,
        }
    }

    /// Returns the result of a write, or an error if it waits for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.overdue = None;
            self.progress.note();
            return written;
        }
        let patience = self.patience;
        let sleep = || Box::pin(tokio::time::sleep(patience));
        let overdue = self.overdue.get_or_insert_with(sleep);
        ready!(overdue.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.progress.note();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

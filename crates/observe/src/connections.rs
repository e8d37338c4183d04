//! Limits of the connections to `--metrics`: their rate, number, age and idle time.

use core::net::IpAddr;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use anabranch_net::Clock;
use anabranch_units::{Limiter, Limits, Occupant, Rate, Right, evicted};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;
use tokio::time::Sleep;

/// Maximum number of connections that are served at a time.
pub(super) const MAX_CONNECTIONS: usize = 64;

/// Connections that are accepted (chosen): a page takes six at once, and all viewers behind a proxy
/// have its address.
const CONNECTIONS: Limits = Limits {
    total: Rate {
        burst: 1_024,
        interval: anabranch_units::Duration::from_millis(2),
    },
    host: Rate {
        burst: 256,
        interval: anabranch_units::Duration::from_millis(5),
    },
};

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
        progress.record();
        progress
    }

    fn record(&self) {
        let order = self.latest.fetch_add(1, Ordering::Relaxed);
        self.own.store(order, Ordering::Relaxed);
    }
}

/// The open connections.
#[derive(Debug)]
pub(super) struct Connections {
    clock: Clock,
    limiter: Limiter,
    latest: Progress,
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    client: IpAddr,
    task: AbortHandle,
    progress: Progress,
}

impl Connections {
    pub(super) fn new() -> Self {
        Connections {
            clock: Clock::start(),
            limiter: Limiter::new(CONNECTIONS),
            latest: Progress::default(),
            open: Vec::new(),
        }
    }

    /// Serves another connection, unless there were too many lately. If all places are taken, the
    /// most crowded network's connection that was idle for longest is closed.
    pub(super) fn add(&mut self, client: IpAddr, serve: impl FnOnce(Progress) -> AbortHandle) {
        if !self.limiter.admit(self.clock.now(), client) {
            return;
        }
        self.open.retain(|open| !open.task.is_finished());
        let progress = self.latest.beside();
        if self.open.len() >= MAX_CONNECTIONS {
            let open = self.open.iter().enumerate();
            let places: Vec<_> = open
                .map(|(at, open)| place(at, open.client, &open.progress))
                .collect();
            let newcomer = place(places.len(), client, &progress);
            if let Some(at) = evicted(&places, &newcomer, |_| true) {
                self.open.swap_remove(at).task.abort();
            }
        }
        self.open.push(Open {
            client,
            task: serve(progress.clone()),
            progress,
        });
    }
}

fn place(at: usize, client: IpAddr, progress: &Progress) -> Occupant<usize, u64> {
    Occupant {
        id: at,
        address: client,
        right: Right::Stranger,
        used_at: progress.own.load(Ordering::Relaxed),
    }
}

/// A connection that fails if no part of an answer can be written for a while.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    patience: Duration,
    progress: Progress,
    /// Timer of a write that waits.
    overdue: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> WriteTimeout<S> {
    pub(super) fn new(stream: S, patience: Duration, progress: Progress) -> Self {
        WriteTimeout {
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
            self.progress.record();
            return written;
        }
        let patience = self.patience;
        let overdue = self
            .overdue
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(overdue.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.progress.record();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds connections of these clients that ask nothing.
    fn add(connections: &mut Connections, clients: impl IntoIterator<Item = [u8; 4]>) {
        for client in clients {
            connections.add(client.into(), |_| {
                tokio::spawn(core::future::pending::<()>()).abort_handle()
            });
        }
    }

    fn count_of(connections: &Connections, client: [u8; 4]) -> usize {
        let open = connections.open.iter();
        open.filter(|open| open.client == IpAddr::from(client))
            .count()
    }

    #[test]
    fn a_crowd_takes_no_place_of_a_viewer_from_elsewhere_and_has_a_rate() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let _entered = runtime.as_ref().unwrap().enter();
        let mut connections = Connections::new();
        let viewer = [198, 51, 100, 1];
        add(&mut connections, [viewer]);
        add(&mut connections, (0..200).map(|host| [192, 0, 2, host]));
        assert_eq!(connections.open.len(), MAX_CONNECTIONS);
        assert_eq!(
            count_of(&connections, viewer),
            1,
            "it has been idle longest"
        );
        let newest = [192, 0, 2, 199];
        assert_eq!(count_of(&connections, newest), 1);
        // Of one host, only as many as its share are served.
        let mut served = 0;
        let began_at = connections.clock.now();
        for _ in 0..2_000 {
            let client = IpAddr::from([203, 0, 113, 1]);
            connections.add(client, |_| {
                served += 1;
                tokio::spawn(core::future::pending::<()>()).abort_handle()
            });
        }
        let lasted = connections.clock.now() - began_at;
        let most = 256 + lasted.as_millis() / 5 + 1;
        assert!((256..=most).contains(&served), "{served} of {most}");
    }
}

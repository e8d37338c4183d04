//! A small HTTP server, for `--metrics` and `emulate --control`.

use core::convert::Infallible;
use core::pin::Pin;
use core::str::FromStr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context as TaskContext, Poll};
use core::time::Duration as StdDuration;
use std::error::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use anabranch_net::listen;
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use super::connections::{Connections, Patience, Progress, WriteTimeout};
use super::hosts::{HostName, Hosts};

/// Pause after a connection could not be accepted. Chosen: short for a client, and long enough not
/// to load the processor.
const ACCEPT_PAUSE: StdDuration = StdDuration::from_millis(100);

const FOREIGN_HOST: &str = "\
the requested host is not this machine: --metrics-host NAME adds a name\n";

/// Time after which a connection ends whose bytes the client's machine does not acknowledge.
/// Chosen: twice the patience with a client that does not read.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MS: u32 = 20_000;

/// An answer with its body.
pub type Answer = Response<Body>;

/// Content of an answer.
#[derive(Debug)]
pub struct Body(Content);

#[derive(Debug)]
enum Content {
    Whole(Full<Bytes>),
    /// Messages without an end.
    Live(mpsc::Receiver<Bytes>),
    /// Parts of a file.
    Sized {
        parts: mpsc::Receiver<Bytes>,
        left: u64,
    },
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Content::Whole(whole) => Pin::new(whole).poll_frame(context),
            Content::Live(messages) => {
                let message = messages.poll_recv(context);
                message.map(|message| message.map(|bytes| Ok(Frame::data(bytes))))
            }
            Content::Sized { parts, left } => {
                let part = core::task::ready!(parts.poll_recv(context));
                if let Some(bytes) = &part {
                    *left = left.saturating_sub(bytes.len() as u64);
                }
                Poll::Ready(part.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole(whole) => whole.is_end_stream(),
            Content::Live(_) => false,
            Content::Sized { left, .. } => *left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(whole) => whole.size_hint(),
            Content::Live(_) => SizeHint::default(),
            Content::Sized { left, .. } => SizeHint::with_exact(*left),
        }
    }
}

/// Ends of a request's connection, among the request's extensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// This machine's address.
    pub(super) local: SocketAddr,
    /// The client's address.
    pub(super) client: IpAddr,
}

/// The source of answers.
pub trait Answerer: Send + Sync + 'static {
    /// Returns the answer to a request for this machine.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// Address to listen at. A port alone is a port of 127.0.0.1, which no other machine reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAddress {
    /// The address.
    pub address: SocketAddr,
}

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
        let address = match port {
            Ok(port) => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
            Err(_) => text.to_socket_addrs().ok().and_then(|mut all| all.next()),
        };
        let address =
            address.ok_or("expected a port, or an address and a port, as 0.0.0.0:9100")?;
        Ok(HttpAddress { address })
    }
}

/// Reasons for which a server did not get its address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The address cannot be listened at.
    #[error("{option}: cannot listen at {address}")]
    Listen {
        /// Option that names the address.
        option: String,
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The system refuses a setting of the socket.
    #[error(transparent)]
    Setting(io::Error),
}

/// A listening socket.
#[derive(Debug)]
pub struct Server {
    listener: StdListener,
    hosts: Hosts,
    pub(super) patience: Patience,
}

impl Server {
    /// Binds the address of an option. Requests may call this machine by `names`, too.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn bind(
        option: &str,
        wanted: &HttpAddress,
        names: &[HostName],
    ) -> Result<Server, BindError> {
        let address = wanted.address;
        let listener = listen::tcp(address).map_err(|source| BindError::Listen {
            option: option.to_owned(),
            address,
            source,
        })?;
        listener.set_nonblocking(true).map_err(BindError::Setting)?;
        Ok(Server {
            listener,
            hosts: Hosts::new(names.to_vec()),
            patience: Patience::default(),
        })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until the returned value is dropped.
    pub fn start<A: Answerer>(self, name: &str, answerer: A) -> io::Result<Serving> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let answering = Arc::new(Answering {
            answerer,
            hosts: self.hosts,
            patience: self.patience,
        });
        let listener = self.listener;
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let Ok(listener) = TcpListener::from_std(listener) else {
                        return;
                    };
                    tokio::select! {
                        () = accept_all(&listener, &answering) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Serving {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

/// A running server, until this is dropped.
#[derive(Debug)]
pub struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The source of answers, and the conditions for them.
struct Answering<A> {
    answerer: A,
    hosts: Hosts,
    patience: Patience,
}

async fn accept_all<A: Answerer>(listener: &TcpListener, answering: &Arc<Answering<A>>) {
    let mut connections = Connections::new();
    loop {
        match listener.accept().await {
            Ok((connection, client)) => connections.add(client.ip(), |progress| {
                let answering = Arc::clone(answering);
                let client = ClientAddress(client.ip());
                let serving = async move { serve(connection, client, progress, &answering).await };
                tokio::spawn(serving).abort_handle()
            }),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve<A: Answerer>(
    connection: TcpStream,
    client: ClientAddress,
    progress: Progress,
    answering: &Answering<A>,
) {
    let is_live = AtomicBool::new(false);
    let (local, remote) = (connection.local_addr(), connection.peer_addr());
    let ends = local.ok().zip(remote.ok()).map(|(local, remote)| Ends {
        local,
        client: remote.ip(),
    });
    let answer = async |mut request: Request<Incoming>| {
        request.extensions_mut().insert(client);
        if let Some(ends) = ends {
            request.extensions_mut().insert(ends);
        }
        let is_head = request.method() == Method::HEAD;
        let is_ours = answering.hosts.admit(request.uri(), request.headers());
        let answer = if is_ours {
            answering.answerer.answer(request).await
        } else {
            text(StatusCode::MISDIRECTED_REQUEST, FOREIGN_HOST)
        };
        // A download takes longer than a connection may last otherwise.
        if let Content::Live(_) | Content::Sized { .. } = answer.body().0
            && !is_head
        {
            is_live.store(true, Ordering::Relaxed);
        }
        Ok::<_, Infallible>(answer)
    };
    // A viewer on a lost network would keep its place until the operating system gives up.
    #[cfg(target_os = "linux")]
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&connection, UNACKNOWLEDGED_MS);
    let Patience {
        progress: pause,
        age,
    } = answering.patience;
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(pause);
    let connection = TokioIo::new(WriteTimeout::new(connection, pause, progress));
    let served = server.serve_connection(connection, service_fn(answer));
    let mut served = core::pin::pin!(served);
    // A client that leaves, or speaks no HTTP, needs no report.
    if tokio::time::timeout(age, served.as_mut()).await.is_err() {
        if is_live.load(Ordering::Relaxed) {
            let _ = served.await;
            return;
        }
        served.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(pause, served).await;
    }
}

/// Returns an answer of plain text.
pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    body(status, "text/plain; charset=utf-8", text)
}

pub(super) fn body(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Answer {
    let content = Content::Whole(Full::new(bytes.into()));
    answer_of(status, kind, Body(content))
}

/// Returns an answer that goes on while its client reads the messages.
pub(super) fn live(kind: &'static str, messages: mpsc::Receiver<Bytes>) -> Answer {
    answer_of(StatusCode::OK, kind, Body(Content::Live(messages)))
}

/// Returns an answer of `length` bytes that are read meanwhile.
pub(super) fn sized(kind: &'static str, length: u64, parts: mpsc::Receiver<Bytes>) -> Answer {
    let left = length;
    answer_of(StatusCode::OK, kind, Body(Content::Sized { parts, left }))
}

/// Returns a film that goes on while its client reads the pieces.
pub(super) fn film(kind: HeaderValue, pieces: mpsc::Receiver<Bytes>) -> Answer {
    typed(StatusCode::OK, kind, Body(Content::Live(pieces)))
}

fn answer_of(status: StatusCode, kind: &'static str, body: Body) -> Answer {
    typed(status, HeaderValue::from_static(kind), body)
}

fn typed(status: StatusCode, kind: HeaderValue, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Address of the client that makes a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientAddress(pub(super) IpAddr);

/// Body of a request: a connection's, or a test's.
pub(super) trait AnyBody:
    HttpBody<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send
{
}

impl<B> AnyBody for B
where
    B: HttpBody<Data = Bytes> + Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
}

//! `--metrics`: HTTP for whoever may reach the address. It only answers, and changes nothing.

use core::convert::Infallible;
use core::str::FromStr;
use core::time::Duration as StdDuration;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdListener, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::connections::{Connections, Patience, Progress, Watched};
use super::hosts::{HostName, Hosts};
use super::status::Status;
use super::thumbnail::NoPicture;
use super::{Shared, metrics, noalbs};
use crate::print;

/// After a connection could not be accepted.
const ACCEPT_PAUSE: StdDuration = StdDuration::from_millis(100);

const INDEX: &str = "\
/metrics      for Prometheus
/status.json  for NOALBS, scripts and `anabranch top`; ?stream=NAME chooses its `publisher`
/target       a sender's bitrate for its encoder and what that produces, in bit/s, as JSON
/history.json the status of each of the last 120 seconds
/thumbnail    a receiver's last H.264 key frame as PPM, 160 pixels wide; ?stream=NAME chooses
";

const NO_PICTURE_YET: &str = "\
no picture yet: key frames of received H.264 are kept from the first question on; ask again
";
const FOREIGN_HOST: &str = "\
the host that was asked for is not this machine: --metrics-host NAME adds a name\n";
const NO_DECODER: &str = "this program was built without the cargo feature `codec`\n";

/// Where to listen. A port alone is this machine's, which nobody else reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetricsAddress {
    pub(crate) address: SocketAddr,
}

impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
        let address = match port {
            Ok(port) => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
            Err(_) => text.to_socket_addrs().ok().and_then(|mut all| all.next()),
        };
        let address =
            address.ok_or("expected a port, or an address and a port, as 0.0.0.0:9100")?;
        Ok(MetricsAddress { address })
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Server {
    listener: StdListener,
    hosts: Hosts,
    patience: Patience,
}

impl Server {
    pub(super) fn bind(wanted: &MetricsAddress, names: &[HostName]) -> anyhow::Result<Server> {
        let address = wanted.address;
        let listener = StdListener::bind(address)
            .with_context(|| format!("--metrics: cannot listen at {address}"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        print::note(format_args!("metrics at http://{address}/metrics"));
        Ok(Server {
            listener,
            hosts: Hosts::new(names.to_vec()),
            patience: Patience::default(),
        })
    }

    /// Answers until what this returns is dropped.
    pub(super) fn start(self, shared: &Arc<Shared>) -> io::Result<Serving> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let answering = Arc::new(Answering {
            shared: Arc::clone(shared),
            hosts: self.hosts,
            patience: self.patience,
        });
        let listener = self.listener;
        let thread = thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || {
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

/// The server runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Serving {
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

/// What answers are made from, and under which conditions.
struct Answering {
    shared: Arc<Shared>,
    hosts: Hosts,
    patience: Patience,
}

async fn accept_all(listener: &TcpListener, answering: &Arc<Answering>) {
    let mut connections = Connections::default();
    loop {
        match listener.accept().await {
            Ok((connection, _)) => connections.add(|progress| {
                let answering = Arc::clone(answering);
                let serving = async move { serve(connection, progress, &answering).await };
                tokio::spawn(serving).abort_handle()
            }),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(connection: TcpStream, progress: Progress, answering: &Answering) {
    let answer = async |request: Request<Incoming>| {
        let is_ours = answering.hosts.admit(request.uri(), request.headers());
        Ok::<_, Infallible>(match is_ours {
            true => answer(&request, &answering.shared).await,
            false => text(StatusCode::MISDIRECTED_REQUEST, FOREIGN_HOST),
        })
    };
    let Patience {
        progress: pause,
        age,
    } = answering.patience;
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(pause);
    let connection = TokioIo::new(Watched::new(connection, pause, progress));
    let served = server.serve_connection(connection, service_fn(answer));
    let mut served = core::pin::pin!(served);
    // A client that goes away, or speaks no HTTP, is its own concern.
    if tokio::time::timeout(age, served.as_mut()).await.is_err() {
        served.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(pause, served).await;
    }
}

type Answer = Response<Full<Bytes>>;

async fn answer(request: &Request<Incoming>, shared: &Arc<Shared>) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        let allowed = hyper::header::HeaderValue::from_static("GET, HEAD");
        answer.headers_mut().insert(ALLOW, allowed);
        return answer;
    }
    let status = shared.status();
    match request.uri().path() {
        "/metrics" => body(
            StatusCode::OK,
            metrics::CONTENT_TYPE,
            metrics::text(&status),
        ),
        "/status.json" => {
            let wanted = request.uri().query().and_then(wanted_stream);
            let object = noalbs::with_publishers(&status, wanted.as_deref());
            body(StatusCode::OK, "application/json", object.to_string())
        }
        "/target" => {
            let wanted = request.uri().query().and_then(wanted_stream);
            match target(&status, wanted.as_deref()) {
                Some(target) => body(StatusCode::OK, "application/json", target.to_string()),
                None => text(StatusCode::NOT_FOUND, "no such stream\n"),
            }
        }
        "/history.json" => {
            let recent = shared.recent();
            let seconds: Vec<&Status> = recent.iter().map(|status| &**status).collect();
            let seconds = serde_json::to_string(&seconds).unwrap_or_default();
            body(StatusCode::OK, "application/json", seconds)
        }
        "/thumbnail" => thumbnail(request.uri().query(), shared).await,
        "/" => text(StatusCode::OK, INDEX),
        _ => text(StatusCode::NOT_FOUND, INDEX),
    }
}

/// The picture of a stream, which may take a while: nobody else waits for it.
async fn thumbnail(query: Option<&str>, shared: &Arc<Shared>) -> Answer {
    let status = shared.status();
    let one = status.streams.first().map(|stream| stream.name.clone());
    let stream = query.and_then(wanted_stream).or(one).unwrap_or_default();
    let shared = Arc::clone(shared);
    let picture = tokio::task::spawn_blocking(move || shared.key_frames.picture(&stream));
    match picture.await.unwrap_or(Err(NoPicture::NotYet)) {
        Ok(picture) => body(StatusCode::OK, "image/x-portable-pixmap", picture),
        Err(NoPicture::NotYet) => text(StatusCode::NOT_FOUND, NO_PICTURE_YET),
        Err(NoPicture::NoDecoder) => text(StatusCode::NOT_IMPLEMENTED, NO_DECODER),
    }
}

/// What the encoder of a stream is asked for, as `--target-to` says it.
fn target(status: &Status, wanted: Option<&str>) -> Option<serde_json::Value> {
    let mut streams = status.streams.iter();
    let stream = streams.find(|stream| wanted.is_none_or(|wanted| stream.name == wanted))?;
    let media = stream.media_rate_bps.avg as u64;
    Some(crate::target::line(
        status.uptime_s,
        stream.target_rate_bps,
        media,
    ))
}

/// The name in `stream=NAME`.
fn wanted_stream(query: &str) -> Option<String> {
    let mut parts = query.split('&');
    let name = parts.find_map(|part| part.strip_prefix("stream="))?;
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        let decoded = match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(core::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).ok()
}

fn text(status: StatusCode, text: &'static str) -> Answer {
    body(status, "text/plain; charset=utf-8", text)
}

fn body(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(bytes.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    let value = hyper::header::HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, value(kind));
    headers.insert(CACHE_CONTROL, value("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream as StdStream;
    use std::sync::Mutex;

    use anabranch_net::Clock;

    use super::super::connections::MAX_CONNECTIONS;
    use super::super::happening::Listeners;
    use super::super::thumbnail::KeyFrames;
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        let address = |text: &str| text.parse::<MetricsAddress>().map(|is| is.address);
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 9_100));
        assert_eq!(address("9100"), Ok(local));
        assert_eq!(address(":9100"), Ok(local));
        let all = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 9_100));
        assert_eq!(address("0.0.0.0:9100"), Ok(all));
        assert!(address("here").unwrap_err().contains("a port"));
        assert!(address("70000").unwrap_err().contains("a port"));
    }

    #[test]
    fn a_stream_is_asked_for_by_its_name_as_addresses_write_it() {
        let stream = |query| wanted_stream(query);
        assert_eq!(stream("a=b&stream=Big%20One+2"), Some("Big One 2".into()));
        assert_eq!(stream("streams=x"), None);
        assert_eq!(stream("stream=%f"), None);
    }

    /// A server of nothing with such patience, its thread, and its address.
    fn server(patience: Patience) -> (Serving, SocketAddr) {
        let wanted = "0".parse().unwrap();
        let mut server = Server::bind(&wanted, &[]).unwrap();
        server.patience = patience;
        let address = server.listener.local_addr().unwrap();
        let clock = Clock::start();
        let shared = Shared {
            tunnelled: Mutex::default(),
            listeners: Listeners::new(clock),
            key_frames: KeyFrames::new(clock),
            recent: Mutex::default(),
        };
        (server.start(&Arc::new(shared)).unwrap(), address)
    }

    fn patience(progress_ms: u64, age_ms: u64) -> Patience {
        Patience {
            progress: StdDuration::from_millis(progress_ms),
            age: StdDuration::from_millis(age_ms),
        }
    }

    fn connect(address: SocketAddr) -> StdStream {
        let connection = StdStream::connect(address).unwrap();
        connection.set_read_timeout(Some(LIMIT)).unwrap();
        connection.set_write_timeout(Some(LIMIT)).unwrap();
        connection
    }

    /// Returns the status of an answer to a request for this host; fails if it takes long.
    fn status(address: SocketAddr, host: &str) -> String {
        let mut connection = connect(address);
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    }

    /// Far more than the server's patience in these tests, and less than its usual one.
    const LIMIT: StdDuration = StdDuration::from_secs(5);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    #[test]
    fn a_request_for_another_host_gets_no_answer() {
        let (_serving, address) = server(Patience::default());
        assert_eq!(status(address, "evil.example"), "421");
        assert_eq!(status(address, "localhost:9797"), "200");
        assert_eq!(status(address, &address.to_string()), "200");
    }

    #[test]
    fn connections_that_say_nothing_make_room() {
        let (_serving, address) = server(patience(60_000, 60_000));
        let idle: Vec<StdStream> = (0..MAX_CONNECTIONS).map(|_| connect(address)).collect();
        let mut busy = connect(address);
        for _ in 0..2 * MAX_CONNECTIONS {
            assert_eq!(status(address, "localhost"), "200");
            busy.write_all(REQUEST).unwrap();
            assert!(busy.read(&mut [0; 4_096]).unwrap() > 0, "it is not idle");
        }
        // The first has made room, and nothing more than was needed.
        assert_eq!((&idle[0]).read(&mut [0]).unwrap(), 0);
        let last = &idle[MAX_CONNECTIONS - 1];
        last.set_nonblocking(true).unwrap();
        let error = (&*last).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_client_that_does_not_read_is_hung_up_on() {
        let (_serving, address) = server(patience(200, 60_000));
        let mut connection = connect(address);
        let requests = REQUEST.repeat(1_000);
        let error = loop {
            if let Err(error) = connection.write_all(&requests) {
                break error;
            }
        };
        assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
    }

    #[test]
    fn a_connection_does_not_last_however_often_it_asks() {
        let (_serving, address) = server(patience(200, 400));
        let mut connection = connect(address);
        let mut count = 0;
        while connection.write_all(REQUEST).is_ok()
            && connection.read(&mut [0; 4_096]).is_ok_and(|read| read > 0)
        {
            count += 1;
            assert!(count < 500, "it lasts");
            thread::park_timeout(StdDuration::from_millis(20));
        }
        assert!(count > 2, "{count}");
    }
}

//! `--metrics`: HTTP answers for all clients that reach the address. Requests change nothing.

use std::sync::Arc;

use anabranch_terminal::print;
use hyper::body::Incoming;
use hyper::header::ALLOW;
use hyper::{Method, Request, StatusCode};

use super::hosts::HostName;
use super::http::{Answer, Answerer, HttpAddress, Server, body, text};
use super::status::{Status, Stream};
use super::thumbnail::NoPicture;
use super::{Shared, metrics, noalbs};

const INDEX: &str = "\
/metrics      for Prometheus
/status.json  for NOALBS, scripts and `anabranch top`; ?stream=NAME chooses its `publisher`
/target       a sender's target for its encoder and the encoder's bitrate, in bit/s, as JSON
/history.json the status of each of the last 120 seconds
/thumbnail    a receiver's last H.264 key frame as PPM, 160 pixels wide; ?stream=NAME chooses
";

const NO_PICTURE_YET: &str = "\
no picture yet: key frames of received H.264 are kept from the first request on; ask again
";
const NO_DECODER: &str = "this program was built without the cargo feature `codec`\n";

/// Listens at the address of `--metrics`.
///
/// # Errors
/// The address cannot be used.
pub(super) fn listen(wanted: &HttpAddress, names: &[HostName]) -> anyhow::Result<Server> {
    let server = Server::bind("--metrics", wanted, names)?;
    let address = server.address()?;
    print::note(format_args!("metrics at http://{address}/metrics"));
    Ok(server)
}

/// The source of answers of `--metrics`.
pub(super) struct Metrics(pub(super) Arc<Shared>);

impl Answerer for Metrics {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        answer(&request, &self.0).await
    }
}

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

/// Returns the picture of a stream. It may take a while, and other requests do not wait for it.
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

/// Returns the target that an encoder gets, and its bitrate, in JSON. `seconds` count from the
/// program's start, and both rates are in bit/s.
pub fn target_line(seconds: f64, target_bps: u64, media_bps: u64) -> serde_json::Value {
    let t = (seconds * 1e3).round() / 1e3;
    serde_json::json!({"event": "target", "t": t, "target_bps": target_bps, "media_bps": media_bps})
}

/// Returns the encoder's target in the format of `--target-to`.
fn target(status: &Status, wanted: Option<&str>) -> Option<serde_json::Value> {
    let named = |stream: &&Stream| wanted.is_none_or(|wanted| stream.name == wanted);
    let mut streams = status.streams.iter().filter(named);
    // Of a tunnel's streams only the datagrams have a target.
    let with_target = streams.clone().find(|stream| stream.target_rate_bps > 0);
    let stream = with_target.or_else(|| streams.next())?;
    let media = stream.media_rate_bps.avg as u64;
    Some(target_line(status.uptime_s, stream.target_rate_bps, media))
}

/// Returns the name in `stream=NAME`.
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

#[cfg(test)]
mod tests {
    use core::time::Duration as StdDuration;
    use std::io::{self, Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpStream as StdStream};
    use std::sync::Mutex;
    use std::thread;

    use anabranch_net::Clock;

    use super::*;
    use crate::connections::{MAX_CONNECTIONS, Patience};
    use crate::http::Serving;
    use crate::stream_event::Listeners;
    use crate::thumbnail::KeyFrames;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        let address = |text: &str| text.parse::<HttpAddress>().map(|is| is.address);
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

    /// Returns a server without streams, with this patience, and its address.
    fn server(patience: Patience) -> (Serving, SocketAddr) {
        let wanted = "0".parse().unwrap();
        let mut server = Server::bind("--metrics", &wanted, &[]).unwrap();
        server.patience = patience;
        let address = server.address().unwrap();
        let clock = Clock::start();
        let shared = Shared {
            tunnelled: Mutex::default(),
            listeners: Listeners::new(clock),
            key_frames: KeyFrames::new(clock),
            recent: Mutex::default(),
        };
        let metrics = Metrics(Arc::new(shared));
        (server.start("metrics", metrics).unwrap(), address)
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

    /// Returns the status of the answer to a request for this host. Fails if it takes long.
    fn status(address: SocketAddr, host: &str) -> String {
        let mut connection = connect(address);
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    }

    /// Time limit of a read or write: far longer than the short patience of these tests, and
    /// shorter than the default.
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
        // The first connection has made room, and the last one has not.
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

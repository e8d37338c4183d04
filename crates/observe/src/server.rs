//! `--metrics` and `--dashboard`: HTTP answers for all clients that reach the address. Only
//! requests below `/control` change anything, with a token of their own.

mod downloads;

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, HeaderValue, LOCATION, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use tokio::sync::mpsc;

use super::access::{Access, Token};
use super::control::{self, Controls};
use super::http::{Answer, Answerer, AnyBody, HttpAddress, Server, body, live, text};
use super::metrics::Names;
use super::open_error::OpenError;
use super::status::Status;
use super::thumbnail::NoPicture;
use super::viewing::{self, Viewing};
use super::{Options, Shared, metrics, noalbs, pages, words};

const INDEX: &str = "\
/             the dashboard
/watch        a page with a received stream alone; ?stream=NAME chooses
/overlay      for OBS and other programs that show a web page over a picture
/metrics      for Prometheus
/status.json  for NOALBS, scripts and `anabranch top`; ?stream=NAME chooses its `publisher`
/target       a sender's target for its encoder and the encoder's bitrate, in bit/s, as JSON
/live         server-sent events: `status` once a second, and `happened`
/history.json the status of each of the last 120 seconds
/hour.json    means of ten seconds each, of the last hour
/events.json  the last 200 events
/recordings.json  files of the outputs; /recordings/NAME downloads one, with the token
/control      changes while the program runs, with the token of --control-token
/whep         offers of WebRTC viewers (WHEP); ?stream=NAME chooses
/live.mp4     a received stream as fragmented MP4; ?stream=NAME chooses
/picture.json codecs of a received stream, and whether browsers can show it
/thumbnail    a receiver's last H.264 key frame as PPM, 160 pixels wide; ?stream=NAME chooses
";

const INDEX_FOR_VIEWERS: &str = "\
/             a page with a received stream; ?stream=NAME chooses
/whep         offers of WebRTC viewers (WHEP); ?stream=NAME chooses
/live.mp4     a received stream as fragmented MP4; ?stream=NAME chooses
/picture.json codecs of a received stream, and whether browsers can show it
";

const NO_PICTURE_YET: &str = "\
no picture yet: key frames of received H.264 are kept from the first request on; ask again
";
const NO_DECODER: &str = "this program was built without the cargo feature `codec`\n";
const NO_TOKEN: &str = "\
this address needs the token of --dashboard-token-file: open /?token=TOKEN once, enter it as the
password of any user, or send `Authorization: Bearer TOKEN`
";
const NO_DASHBOARD: &str = "\
the dashboard is not at this address of --metrics, because other machines reach it: use
--dashboard ADDR:PORT with --dashboard-token-file FILE
";
const NO_PICTURES: &str = "pictures are those of receivers: `anabranch recv`\n";
const TOO_MANY_VIEWERS: &str = "16 viewers watch already; try again later\n";
const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

/// Rights of all requests to one address.
#[derive(Clone, Debug, Default)]
pub(super) struct AccessRights {
    /// Required token.
    token: Option<Token>,
    /// Whether the dashboard and the overlay are here.
    has_dashboard: bool,
    /// Whether live pictures are here.
    has_pictures: bool,
    /// Whether nothing but live pictures is here.
    is_for_viewers: bool,
    /// Whether pages of other sites may watch. They need the token.
    is_shared: bool,
    /// Port of the address.
    port: u16,
    /// Changes by those with a token for them.
    controls: Option<Arc<Controls>>,
}

/// Listens at the addresses of `--metrics` and `--dashboard`. If they are the same, one server
/// answers all requests.
///
/// # Errors
/// An address cannot be used, or other machines could open the dashboard without a token.
pub(super) fn listen(
    options: &Options,
    controls: Option<Controls>,
) -> Result<Vec<(Server, AccessRights)>, OpenError> {
    let Options {
        metrics, dashboard, ..
    } = options;
    if controls.is_some() && dashboard.is_none() {
        return Err(OpenError::NoDashboard);
    }
    let mut servers = Vec::new();
    if let Some(wanted) = metrics
        && metrics != dashboard
    {
        let (server, rights, address) = bind(options, "--metrics", wanted)?;
        log::info!("metrics at http://{address}/metrics");
        servers.push((server, rights));
    }
    if let Some(wanted) = dashboard {
        let token = &options.dashboard_token;
        check_token("--dashboard", wanted, token.as_ref())?;
        let (server, rights, address) = bind(options, "--dashboard", wanted)?;
        if metrics == dashboard {
            log::info!("metrics at http://{address}/metrics");
        }
        let link = token.as_ref().map_or("", |_| "?token=TOKEN");
        log::info!("dashboard at http://{address}/{link}");
        let has_whep = options.whep == options.dashboard;
        if has_whep {
            announce_whep(address, link);
        }
        servers.push((
            server,
            AccessRights {
                token: token.clone(),
                has_dashboard: true,
                has_pictures: options.has_pictures,
                is_shared: has_whep && token.is_some(),
                controls: controls.map(Arc::new),
                ..rights
            },
        ));
    }
    if let Some(wanted) = &options.whep
        && options.whep != *dashboard
    {
        let token = &options.dashboard_token;
        check_token("--whep", wanted, token.as_ref())?;
        let (server, rights, address) = bind(options, "--whep", wanted)?;
        announce_whep(address, token.as_ref().map_or("", |_| "?token=TOKEN"));
        servers.push((
            server,
            AccessRights {
                token: token.clone(),
                has_dashboard: false,
                has_pictures: true,
                is_for_viewers: true,
                is_shared: token.is_some(),
                ..rights
            },
        ));
    }
    Ok(servers)
}

fn check_token(
    option: &'static str,
    wanted: &HttpAddress,
    token: Option<&Token>,
) -> Result<(), OpenError> {
    let address = wanted.address;
    if token.is_some() || address.ip().is_loopback() {
        return Ok(());
    }
    Err(OpenError::NoToken { option, address })
}

/// Binds an address. Without a token, only this machine gets more than figures.
fn bind(
    options: &Options,
    option: &str,
    wanted: &HttpAddress,
) -> Result<(Server, AccessRights, SocketAddr), OpenError> {
    let server = Server::bind(option, wanted, &options.metrics_hosts)?;
    let address = server.address().map_err(OpenError::LocalAddress)?;
    let rights = AccessRights {
        token: None,
        has_dashboard: address.ip().is_loopback(),
        has_pictures: options.has_pictures && address.ip().is_loopback(),
        port: address.port(),
        ..AccessRights::default()
    };
    Ok((server, rights, address))
}

fn announce_whep(address: SocketAddr, link: &str) {
    log::info!("WHEP at http://{address}/whep{link}");
}

/// The source of answers of `--metrics` and `--dashboard`.
pub(super) struct Metrics {
    pub(super) shared: Arc<Shared>,
    pub(super) rights: AccessRights,
}

impl Answerer for Metrics {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        self.answer_any(request).await
    }
}

impl Metrics {
    /// Answers a request with a body of any kind.
    async fn answer_any<B: AnyBody>(&self, request: Request<B>) -> Answer {
        let path = request.uri().path();
        let is_of_pictures = self.rights.has_pictures && Viewing::is_its(path);
        let is_shared = is_of_pictures && self.rights.is_shared;
        let mut answer = if control::has(path) {
            let (controls, reading) = (self.rights.controls.as_deref(), self.rights.token.as_ref());
            control::answer(request, controls, reading).await
        } else if is_shared && request.method() == Method::OPTIONS {
            viewing::permissions()
        } else if let Some(refusal) = self.rights.refusal(&request) {
            refusal
        } else if is_of_pictures {
            self.pictures(request).await
        } else {
            answer(&request, &self.shared, &self.rights).await
        };
        pages::protect(answer.headers_mut());
        if is_shared {
            viewing::share(answer.headers_mut());
        }
        answer
    }

    /// Answers a request for live pictures.
    async fn pictures<B: AnyBody>(&self, request: Request<B>) -> Answer {
        let Some(viewing) = &self.shared.viewing else {
            return text(StatusCode::NOT_FOUND, NO_PICTURES);
        };
        let wanted = request.uri().query().and_then(wanted_stream);
        let stream = wanted
            .or_else(|| self.shared.first_stream())
            .unwrap_or_default();
        let latency = self.shared.latency_of(&stream);
        viewing.answer(request, stream, latency).await
    }
}

impl AccessRights {
    /// Returns whether live pictures are here.
    pub(super) fn has_pictures(&self) -> bool {
        self.has_pictures
    }

    /// Returns the answer to a request that may not have another one.
    fn refusal<B>(&self, request: &Request<B>) -> Option<Answer> {
        if self
            .controls
            .as_ref()
            .is_some_and(|controls| controls.has_token(request.headers()))
        {
            return None;
        }
        match self.token.as_ref()?.access(request, self.port) {
            Access::Granted => None,
            Access::Link { cookie, location } => {
                let mut answer = text(StatusCode::SEE_OTHER, Bytes::new());
                answer.headers_mut().insert(SET_COOKIE, cookie);
                answer.headers_mut().insert(LOCATION, location);
                Some(answer)
            }
            Access::Denied => {
                let mut answer = text(StatusCode::UNAUTHORIZED, NO_TOKEN);
                let challenge = HeaderValue::from_static("Basic realm=\"anabranch\"");
                answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
                Some(answer)
            }
        }
    }
}

async fn answer<B>(request: &Request<B>, shared: &Arc<Shared>, rights: &AccessRights) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        answer.headers_mut().insert(ALLOW, allowed);
        return answer;
    }
    if rights.is_for_viewers {
        let page = pages::page_for_viewers(request.uri().path());
        return page.unwrap_or_else(|| text(StatusCode::NOT_FOUND, INDEX_FOR_VIEWERS));
    }
    let status = shared.status();
    match request.uri().path() {
        "/metrics" => body(
            StatusCode::OK,
            metrics::CONTENT_TYPE,
            metrics::text(&status, Names::of_query(request.uri().query())),
        ),
        "/status.json" => {
            let wanted = request.uri().query().and_then(wanted_stream);
            let object = noalbs::with_publishers(&status, wanted.as_deref());
            body(StatusCode::OK, JSON, object.to_string())
        }
        "/target" => {
            let wanted = request.uri().query().and_then(wanted_stream);
            match target(&status, wanted.as_deref()) {
                Some(target) => body(StatusCode::OK, JSON, target.to_string()),
                None => text(StatusCode::NOT_FOUND, "no such stream\n"),
            }
        }
        "/history.json" => {
            let recent = shared.recent();
            let seconds: Vec<&Status> = recent.iter().map(|status| &**status).collect();
            let seconds = serde_json::to_string(&seconds).unwrap_or_default();
            body(StatusCode::OK, JSON, seconds)
        }
        "/hour.json" => body(StatusCode::OK, JSON, shared.hour_json()),
        "/events.json" => body(StatusCode::OK, JSON, shared.live.events_json()),
        "/words.json" => body(StatusCode::OK, JSON, words::json()),
        "/live" => watch(request.method(), shared),
        "/thumbnail" => thumbnail(request.uri().query(), shared).await,
        path if path == downloads::LIST || path.starts_with(downloads::FOLDER) => {
            downloads::answer(request, shared, rights.token.is_some()).await
        }
        path => match pages::page(path) {
            Some(page) if rights.has_dashboard => page,
            Some(_) => text(StatusCode::OK, format!("{NO_DASHBOARD}\n{INDEX}")),
            None => text(StatusCode::NOT_FOUND, INDEX),
        },
    }
}

/// Returns the news from now on.
fn watch(method: &Method, shared: &Shared) -> Answer {
    // Without a body there is nothing to wait for.
    if method == Method::HEAD {
        return live(EVENT_STREAM, mpsc::channel(1).1);
    }
    match shared.live.view() {
        Some(messages) => live(EVENT_STREAM, messages),
        None => {
            let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, TOO_MANY_VIEWERS);
            let pause = HeaderValue::from_static("10");
            answer.headers_mut().insert(RETRY_AFTER, pause);
            answer
        }
    }
}

/// Returns the picture of a stream. It may take a while, and other requests do not wait for it.
async fn thumbnail(query: Option<&str>, shared: &Arc<Shared>) -> Answer {
    let wanted = query.and_then(wanted_stream);
    let stream = wanted.or_else(|| shared.first_stream()).unwrap_or_default();
    let shared = Arc::clone(shared);
    let picture = tokio::task::spawn_blocking(move || shared.key_frames.picture(&stream));
    // Browsers report an error in their console for other answers than this.
    let is_quiet = query.is_some_and(|query| query.split('&').any(|part| part == "quiet"));
    match picture.await.unwrap_or(Err(NoPicture::NotYet)) {
        Err(_) if is_quiet => text(StatusCode::NO_CONTENT, Bytes::new()),
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
    let mut streams = status
        .streams
        .iter()
        .filter(|stream| wanted.is_none_or(|wanted| stream.name == wanted));
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
    decoded(&name.replace('+', " "))
}

/// Decodes `%2F` and the like.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = core::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

// Needs a clock: a browser's connections are real ones.
#[cfg(test)]
mod real_time_dashboard_tests;
#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        for (text, ip) in [
            ("9100", Ipv4Addr::LOCALHOST),
            (":9100", Ipv4Addr::LOCALHOST),
            ("0.0.0.0:9100", Ipv4Addr::UNSPECIFIED),
        ] {
            let parsed: HttpAddress = text.parse().unwrap();
            assert_eq!(parsed.address, SocketAddr::from((ip, 9_100)), "{text}");
        }
        for text in ["here", "70000"] {
            let error = text.parse::<HttpAddress>().unwrap_err();
            assert!(error.contains("a port"), "{error}");
        }
    }

    #[test]
    fn a_stream_is_asked_for_by_its_name_as_addresses_write_it() {
        let wanted = wanted_stream("a=b&stream=Big%20One+2");
        assert_eq!(wanted.as_deref(), Some("Big One 2"));
        assert_eq!(wanted_stream("streams=x"), None);
        assert_eq!(wanted_stream("stream=%f"), None);
    }
}

// Needs a clock: a browser's connections are real ones.
#[cfg(test)]
mod real_time_tests;

#[cfg(test)]
mod viewing_tests;

//! Live pictures for browsers and players: WHEP (draft-ietf-wish-whep) and fragmented MP4.
//!
//! A viewer changes nothing but its own place. Pages of other sites can neither offer, since an
//! offer's type needs a preflight, nor read an answer, unless they have the token.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use anabranch_net::Clock;
use anabranch_units::{Duration, Limiter, Limits, Rate};
use anabranch_video::mpeg_ts::{AudioCodec, VideoCodec};
use anabranch_viewers::{Film, Hub, Refusal, StreamInfo, Way, check_film, check_webrtc, fragments};
use http_body_util::{BodyExt, Limited};
use hyper::body::Bytes;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    LOCATION, RETRY_AFTER,
};
use hyper::http::uri::Authority;
use hyper::{Method, Request, StatusCode};
use serde_json::json;

use super::http::{self, Answer, AnyBody, Ends, body, text};

const SDP: &str = "application/sdp";
const JSON: &str = "application/json";
/// Longest offer in bytes. Browsers write 6 kB.
const MAX_OFFER_LEN: usize = 64 << 10;
/// Time in which a stream that nobody has watched shows its first key picture.
const FIRST_PICTURE_WITHIN: Duration = Duration::from_secs(5);
/// Pause between two looks for it.
const POLL_INTERVAL: core::time::Duration = core::time::Duration::from_millis(100);
/// Offers that are taken (chosen): each costs a handshake, and a page has some streams at once.
const OFFERS: Limits = Limits {
    total: Rate {
        burst: 128,
        interval: Duration::from_millis(50),
    },
    host: Rate {
        burst: 32,
        interval: Duration::from_millis(500),
    },
};
/// Prefix of the addresses of viewers by WebRTC.
const VIEWERS: &str = "/viewers/";

/// Viewers of a program's streams, and the limit of their offers.
pub(super) struct Viewing {
    hub: Hub,
    clock: Clock,
    offers: Mutex<Limiter>,
}

impl Viewing {
    pub(super) fn new(hub: Hub, clock: Clock) -> Self {
        Viewing {
            hub,
            clock,
            offers: Mutex::new(Limiter::new(OFFERS)),
        }
    }

    pub(super) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Returns whether a path is one of pictures.
    pub(super) fn is_its(path: &str) -> bool {
        ["/whep", "/live.mp4", "/picture.json"].contains(&path) || path.starts_with(VIEWERS)
    }

    /// Answers a request for one of its paths. `stream`: the name in the request, or the only
    /// stream's. `latency_s`: the stream's agreed latency in seconds.
    pub(super) async fn answer<B: AnyBody>(
        &self,
        request: Request<B>,
        stream: String,
        latency_s: Option<f64>,
    ) -> Answer {
        let path = request.uri().path();
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match (path, request.method()) {
            ("/whep", &Method::POST) => self.offer(request, stream).await,
            ("/whep", _) => not_allowed("OPTIONS, POST"),
            ("/live.mp4", _) if is_read => self.film(&request, stream).await,
            ("/picture.json", _) if is_read => self.describe(stream, latency_s).await,
            ("/live.mp4" | "/picture.json", _) => not_allowed("GET, HEAD"),
            (path, &Method::DELETE) => {
                let id = path.strip_prefix(VIEWERS).unwrap_or_default().to_owned();
                match self.hub.end(id).await {
                    Ok(()) => text(StatusCode::OK, Bytes::new()),
                    Err(_) => text(StatusCode::NOT_FOUND, "no such viewer\n"),
                }
            }
            // Candidates that come later are not needed: the viewer's checks reveal them.
            _ => not_allowed("DELETE, OPTIONS"),
        }
    }

    async fn offer<B: AnyBody>(&self, request: Request<B>, stream: String) -> Answer {
        let content_type = request.headers().get(CONTENT_TYPE);
        let kind = content_type
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        if !kind.eq_ignore_ascii_case(SDP) {
            let wanted = "an offer is application/sdp\n";
            return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, wanted);
        }
        let Some(ends) = request.extensions().get::<Ends>().copied() else {
            return refused(Refusal::NoAddress);
        };
        if !self.admits(ends.client) {
            let answer = text(
                StatusCode::TOO_MANY_REQUESTS,
                "too many offers; wait a second\n",
            );
            return later(answer);
        }
        let way = Way {
            local: ends.local,
            host: host_address(request.headers()),
        };
        let offer = Limited::new(request.into_body(), MAX_OFFER_LEN).collect();
        let Ok(offer) = offer.await else {
            return text(
                StatusCode::PAYLOAD_TOO_LARGE,
                "an offer has at most 64 KiB\n",
            );
        };
        let Ok(sdp) = String::from_utf8(offer.to_bytes().into()) else {
            return refused(Refusal::BadOffer);
        };
        self.await_picture(&stream).await;
        match self.hub.offer(stream, sdp, way).await {
            Ok(offered) => {
                let mut answer = body(StatusCode::CREATED, SDP, offered.answer);
                // Relative: behind a proxy, the server does not know the path before it.
                if let Ok(location) = format!("viewers/{}", offered.id).try_into() {
                    answer.headers_mut().insert(LOCATION, location);
                }
                answer
            }
            Err(refusal) => refused(refusal),
        }
    }

    async fn film<B>(&self, request: &Request<B>, stream: String) -> Answer {
        let query = request.uri().query().unwrap_or_default();
        let wants_sound = !query.split('&').any(|part| part == "silent");
        self.await_picture(&stream).await;
        if request.method() == Method::HEAD {
            return match self
                .hub
                .describe(stream)
                .await
                .map(|info| check_film(&info.format))
            {
                Ok(Ok(())) => body(StatusCode::OK, "video/mp4", Bytes::new()),
                Ok(Err(refusal)) | Err(refusal) => refused(refusal),
            };
        }
        match self.hub.film(stream, wants_sound).await {
            Ok(Film { media_type, pieces }) => match HeaderValue::try_from(media_type) {
                Ok(kind) => http::film(kind, pieces),
                Err(_) => refused(Refusal::NotYet),
            },
            Err(refusal) => refused(refusal),
        }
    }

    async fn describe(&self, stream: String, latency_s: Option<f64>) -> Answer {
        let info = self.hub.describe(stream.clone()).await;
        let mut object = described(&stream, info);
        object["latency_s"] = latency_s.into();
        body(StatusCode::OK, JSON, object.to_string())
    }

    /// Waits until a stream's first key picture has come, for a while.
    async fn await_picture(&self, stream: &str) {
        let until = self.clock.now() + FIRST_PICTURE_WITHIN;
        while self.clock.now() < until {
            match self.hub.describe(stream.to_owned()).await {
                Ok(info) if check_film(&info.format) != Err(Refusal::NotYet) => return,
                _ => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    fn admits(&self, client: IpAddr) -> bool {
        let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        offers.admit(self.clock.now(), client)
    }
}

/// Returns the description of a stream's picture: its codecs, and for each way to a viewer `null`
/// or the reason why it does not carry the picture.
fn described(stream: &str, info: Result<StreamInfo, Refusal>) -> serde_json::Value {
    let format = match info {
        Ok(info) => info.format,
        Err(refusal) => {
            let reason = refusal.to_string();
            return json!({"stream": stream, "webrtc": reason, "film": reason});
        }
    };
    let size = format.parameters.as_ref().map(|it| [it.width, it.height]);
    let webrtc = check_webrtc(&format);
    let film = check_film(&format);
    json!({
        "stream": stream,
        "video": format.video.map(video_name),
        "audio": format.audio.map(audio_name),
        "size": size,
        "webrtc": reason(&webrtc),
        "webrtc_sound": format.audio == Some(AudioCodec::Opus),
        "film": reason(&film),
        "film_type": fragments::media_type(&format),
        "silent_film_type": fragments::silent_media_type(&format),
        "may_come": matches!(film, Ok(()) | Err(Refusal::NotYet | Refusal::TooMany)),
    })
}

fn reason(outcome: &Result<(), Refusal>) -> Option<String> {
    outcome.as_ref().err().map(Refusal::to_string)
}

fn video_name(codec: VideoCodec) -> &'static str {
    match codec {
        VideoCodec::H264 => "H.264",
        VideoCodec::Hevc => "HEVC",
        VideoCodec::Mpeg2 => "MPEG-2",
        VideoCodec::Other => "another codec",
    }
}

fn audio_name(codec: AudioCodec) -> &'static str {
    match codec {
        AudioCodec::Aac => "AAC",
        AudioCodec::Opus => "Opus",
        AudioCodec::Other => "another codec",
    }
}

/// Returns the address that a request calls this machine, if it is no name.
fn host_address(headers: &HeaderMap) -> Option<IpAddr> {
    let host = headers
        .get(HOST)?
        .to_str()
        .ok()?
        .parse::<Authority>()
        .ok()?;
    let host = host.host();
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    bare.unwrap_or(host).parse().ok()
}

fn refused(refusal: Refusal) -> Answer {
    let reason = format!("{refusal}\n");
    match refusal {
        Refusal::NoStream => text(StatusCode::NOT_FOUND, reason),
        Refusal::NotYet | Refusal::TooMany => later(text(StatusCode::SERVICE_UNAVAILABLE, reason)),
        Refusal::Codec(_) | Refusal::Reorders => text(StatusCode::NOT_ACCEPTABLE, reason),
        Refusal::BadOffer => text(StatusCode::BAD_REQUEST, reason),
        Refusal::NoAddress | Refusal::NoWebRtc => text(StatusCode::NOT_IMPLEMENTED, reason),
    }
}

/// Asks the client to come again.
fn later(mut answer: Answer) -> Answer {
    let pause = HeaderValue::from_static("2");
    answer.headers_mut().insert(RETRY_AFTER, pause);
    answer
}

fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, format!("only {methods}\n"));
    let allowed = HeaderValue::from_static(methods);
    answer.headers_mut().insert(ALLOW, allowed);
    answer
}

/// Headers by which pages of other sites may watch: they have the token, which no browser adds by
/// itself.
const SHARED: [(HeaderName, &str); 4] = [
    (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
    (ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type"),
    (ACCESS_CONTROL_EXPOSE_HEADERS, "location, retry-after"),
];

/// Lets pages of other sites read an answer.
pub(super) fn share(headers: &mut HeaderMap) {
    for (name, value) in SHARED {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Returns the answer to a request for permissions. Browsers send it without the token.
pub(super) fn permissions() -> Answer {
    let mut answer = text(StatusCode::NO_CONTENT, Bytes::new());
    let allowed = HeaderValue::from_static("OPTIONS, GET, POST, DELETE");
    answer.headers_mut().insert(ALLOW, allowed);
    answer
}

#[cfg(test)]
mod tests {
    use anabranch_viewers::samples::Format;

    use super::*;

    fn describe(video: VideoCodec, audio: AudioCodec) -> Result<StreamInfo, Refusal> {
        let format = Format {
            video: Some(video),
            audio: Some(audio),
            ..Format::default()
        };
        Ok(StreamInfo { format })
    }

    #[test]
    fn a_picture_that_no_browser_decodes_is_named() {
        let object = described("van", describe(VideoCodec::Hevc, AudioCodec::Aac));
        assert_eq!(object["video"], "HEVC");
        assert_eq!(object["audio"], "AAC");
        assert!(object["film"].as_str().unwrap().contains("HEVC"));
        assert_eq!(object["webrtc"], object["film"]);
        assert_eq!(object["may_come"], false);
        let object = described("van", describe(VideoCodec::H264, AudioCodec::Opus));
        assert_eq!(object["may_come"], true);
        assert!(object["film"].as_str().unwrap().contains("no key frame"));
        let object = described("van", Err(Refusal::NoStream));
        assert!(object["film"].as_str().unwrap().contains("no such stream"));
    }

    #[test]
    fn host_addresses_differ_from_names() {
        fn address(host: &'static str) -> Option<IpAddr> {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            host_address(&headers)
        }
        assert_eq!(address("192.0.2.1:80"), "192.0.2.1".parse().ok());
        assert_eq!(address("[2001:db8::1]:80"), "2001:db8::1".parse().ok());
        assert_eq!(address("studio.example"), None);
        assert_eq!(address("::"), None);
    }

    #[test]
    fn each_refusal_has_its_status() {
        for (refusal, status) in [
            (Refusal::NoStream, 404),
            (Refusal::NotYet, 503),
            (Refusal::TooMany, 503),
            (Refusal::Reorders, 406),
            (Refusal::Codec(VideoCodec::Mpeg2), 406),
            (Refusal::BadOffer, 400),
            (Refusal::NoWebRtc, 501),
        ] {
            assert_eq!(refused(refusal).status(), status, "{refusal}");
        }
        assert!(refused(Refusal::NotYet).headers().contains_key(RETRY_AFTER));
    }
}

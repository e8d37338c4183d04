//! Conditions for requests that change something.
//!
//! A page of another site must not change anything, even in a browser that has the token. The token
//! is therefore taken from the header `Authorization` alone, which no form and no link can set, and
//! which a foreign page cannot set without a permission that this server never gives (CORS). The
//! body must be JSON, and a browser must not name another site.

use core::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use anabranch_net::Clock;
use anabranch_units::{Duration, Instant, Limiter, Limits, Rate};
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode};

use super::{Change, Desk, LINKS, ROOT};
use crate::access::Token;

/// Requests that are read (chosen): a page asks every two seconds, and no one guesses a token.
const REQUESTS: Limits = Limits {
    total: Rate {
        burst: 120,
        interval: Duration::from_millis(50),
    },
    host: Rate {
        burst: 60,
        interval: Duration::from_millis(200),
    },
};
/// Time between two lines about refused requests.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    State,
    Links,
    /// A change, by its path below `/control/`.
    Change(&'static str),
}

/// Reason for which a request is not passed to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The program was started without a control token, or this is another address.
    NotHere,
    NoPath,
    /// Another method; these are allowed.
    Method(&'static str),
    TooMany,
    ForeignPage,
    TokenInAddress,
    NoToken,
    WrongToken,
    /// The token of the dashboard.
    ReadingToken,
    NoJson,
    TooLong,
    Malformed(String),
    Busy,
    Ending,
    Silent,
}

impl Refusal {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Refusal::NotHere | Refusal::NoPath => StatusCode::NOT_FOUND,
            Refusal::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Refusal::NoToken | Refusal::WrongToken => StatusCode::UNAUTHORIZED,
            Refusal::ForeignPage | Refusal::ReadingToken => StatusCode::FORBIDDEN,
            Refusal::NoJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refusal::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::TokenInAddress | Refusal::Malformed(_) => StatusCode::BAD_REQUEST,
            Refusal::Busy | Refusal::Ending => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Silent => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Returns whether it may be an attempt of someone who has no right.
    fn is_attempt(&self) -> bool {
        matches!(
            self,
            Refusal::ForeignPage
                | Refusal::TokenInAddress
                | Refusal::WrongToken
                | Refusal::ReadingToken
                | Refusal::TooMany
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NotHere => {
                "changes are not taken here: start the program with --dashboard and \
                 --control-token FILE, and ask at the address of --dashboard"
            }
            Refusal::NoPath => {
                let paths = Change::PATHS.map(|(path, _)| path).join(", ");
                return write!(f, "no such path: below /control/ are {paths}");
            }
            Refusal::Method(allowed) => return write!(f, "expected {allowed}"),
            Refusal::TooMany => "too many requests: wait some seconds",
            Refusal::ForeignPage => "a page of another site must not change anything",
            Refusal::TokenInAddress => {
                "a token in an address gets into logs: send it as `Authorization: Bearer TOKEN`"
            }
            Refusal::NoToken => {
                "this needs the token in the file of --control-token: send `Authorization: Bearer \
                 TOKEN`"
            }
            Refusal::WrongToken => {
                "this is not the token in the file of --control-token: read the file again"
            }
            Refusal::ReadingToken => {
                "this token only reads: use the one in the file of --control-token"
            }
            Refusal::NoJson => "send `Content-Type: application/json`",
            Refusal::TooLong => "a request has 16 KiB at most",
            Refusal::Malformed(error) => error,
            Refusal::Busy => "16 requests wait already: try again",
            Refusal::Ending => "the program is ending",
            Refusal::Silent => "the program has not answered in 15 s",
        })
    }
}

/// The control of one address.
#[derive(Debug)]
pub(crate) struct Controls {
    token: Token,
    desk: Desk,
    clock: Clock,
    watch: Mutex<Watch>,
}

#[derive(Debug)]
struct Watch {
    limiter: Limiter,
    reported_at: Option<Instant>,
    left_out_count: u64,
}

impl Controls {
    pub(crate) fn new(token: Token, desk: Desk) -> Self {
        Controls {
            token,
            desk,
            clock: Clock::start(),
            watch: Mutex::new(Watch {
                limiter: Limiter::new(REQUESTS),
                reported_at: None,
                left_out_count: 0,
            }),
        }
    }

    pub(super) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Returns whether a request has the control token, which reads everything, too.
    pub(crate) fn has_token(&self, headers: &HeaderMap) -> bool {
        self.token.is_bearer(headers)
    }

    /// Checks a request. Returns its purpose.
    ///
    /// # Errors
    /// The first reason for which it is refused.
    pub(super) fn check(
        &self,
        head: &Parts,
        client: IpAddr,
        reading: Option<&Token>,
    ) -> Result<Wanted, Refusal> {
        self.check_at(self.clock.now(), head, client, reading)
    }

    fn check_at(
        &self,
        now: Instant,
        head: &Parts,
        client: IpAddr,
        reading: Option<&Token>,
    ) -> Result<Wanted, Refusal> {
        let wanted = wanted_of(head)?;
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if !watch.limiter.admit(now, client) {
            return Err(Refusal::TooMany);
        }
        if is_of_foreign_page(&head.headers) {
            return Err(Refusal::ForeignPage);
        }
        let query = head.uri.query().unwrap_or_default();
        if query.split('&').any(|part| part.starts_with("token=")) {
            return Err(Refusal::TokenInAddress);
        }
        if !self.has_token(&head.headers) {
            return Err(match reading {
                Some(reading) if reading.is_bearer(&head.headers) => Refusal::ReadingToken,
                _ if Token::is_none_in(&head.headers) => Refusal::NoToken,
                _ => Refusal::WrongToken,
            });
        }
        watch.limiter.trust(now, client);
        if matches!(wanted, Wanted::Change(_)) && !has_json(&head.headers) {
            return Err(Refusal::NoJson);
        }
        Ok(wanted)
    }

    /// Logs a refused request, unless there was one recently.
    pub(super) fn report(&self, client: IpAddr, refused: &Refusal) {
        if !refused.is_attempt() {
            return;
        }
        let now = self.clock.now();
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if watch
            .reported_at
            .is_some_and(|at| now.saturating_since(at) < REPORT_INTERVAL)
        {
            watch.left_out_count += 1;
            return;
        }
        watch.reported_at = Some(now);
        let others = match core::mem::take(&mut watch.left_out_count) {
            0 => String::new(),
            count => format!(" (and {count} others before)"),
        };
        let client = client.to_canonical();
        log::warn!("control by {client} refused{others}: {refused}");
    }
}

fn wanted_of(head: &Parts) -> Result<Wanted, Refusal> {
    let path = head.uri.path();
    let shown = [(ROOT, Wanted::State), (LINKS, Wanted::Links)];
    if let Some((_, wanted)) = shown.into_iter().find(|(its, _)| *its == path) {
        return match head.method {
            Method::GET => Ok(wanted),
            _ => Err(Refusal::Method("GET")),
        };
    }
    let rest = path.strip_prefix("/control/").unwrap_or_default();
    let known = Change::PATHS.iter().find(|(path, _)| *path == rest);
    let (path, _) = known.ok_or(Refusal::NoPath)?;
    match head.method {
        Method::POST => Ok(Wanted::Change(path)),
        _ => Err(Refusal::Method("POST")),
    }
}

/// Returns whether a browser names another site. A proxy may change the host, so the browser's own
/// judgement counts if there is one (Fetch Metadata).
fn is_of_foreign_page(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(FETCH_SITE) {
        return !["same-origin", "none"].iter().any(|own| site == own);
    }
    let Some(origin) = headers.get(ORIGIN) else {
        return false;
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let parts = origin.to_str().ok().and_then(|text| text.split_once("://"));
    parts.is_none_or(|(_, place)| host != Some(place))
}

fn has_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;
    use crate::control::desk;

    const CONTROL: &str = "0123456789abcdef0123456789abcdef";
    const READING: &str = "fedcba9876543210fedcba9876543210";
    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    fn controls() -> Controls {
        let (desk, _orders) = desk();
        Controls::new(CONTROL.parse().unwrap(), desk)
    }

    fn check_in(
        controls: &Controls,
        now: Instant,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Result<Wanted, Refusal> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let reading: Token = READING.parse().unwrap();
        controls.check_at(now, &head, CLIENT, Some(&reading))
    }

    fn check(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<Wanted, Refusal> {
        check_in(&controls(), Instant::ZERO, method, target, headers)
    }

    fn bearer(token: &str) -> String {
        format!("Bearer {token}")
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
    const OURS: (&str, &str) = ("host", "studio:8080");

    #[test]
    fn the_token_in_its_header_opens_the_door() {
        let token = bearer(CONTROL);
        let with = ("authorization", &*token);
        assert_eq!(check("GET", "/control", &[with]), Ok(Wanted::State));
        let links = check("GET", "/control/links", &[with]);
        assert_eq!(links, Ok(Wanted::Links));
        let change = check("POST", "/control/output/add", &[with, JSON]);
        assert_eq!(change, Ok(Wanted::Change("output/add")));
    }

    #[test]
    fn no_other_token_and_no_other_place_for_it_does() {
        let (right, reading) = (bearer(CONTROL), bearer(READING));
        let longer = format!("{right}0");
        assert_eq!(
            check("POST", "/control/path", &[JSON]),
            Err(Refusal::NoToken)
        );
        let with = ("authorization", &*reading);
        let links = check("GET", "/control/links", &[with]);
        assert_eq!(
            links,
            Err(Refusal::ReadingToken),
            "links have secrets in them"
        );
        assert_eq!(check("GET", "/control/links", &[]), Err(Refusal::NoToken));
        for (headers, refused) in [
            (("authorization", &*reading), Refusal::ReadingToken),
            (("authorization", &*longer), Refusal::WrongToken),
            (("authorization", CONTROL), Refusal::WrongToken),
            (("authorization", "Basic bWU6eA=="), Refusal::WrongToken),
            (
                ("cookie", &*format!("anabranch-8080={CONTROL}")),
                Refusal::NoToken,
            ),
        ] {
            let checked = check("POST", "/control/path", &[headers, JSON]);
            assert_eq!(checked, Err(refused), "{headers:?}");
        }
        // A browser sends a password to every request for the place, also to those of other pages.
        let basic = data_encoding::BASE64.encode(format!("me:{CONTROL}").as_bytes());
        let basic = format!("Basic {basic}");
        let with_basic = [("authorization", &*basic), JSON];
        let refused = check("POST", "/control/path", &with_basic);
        assert_eq!(refused, Err(Refusal::WrongToken));
        let target = format!("/control/path?token={CONTROL}");
        let in_address = check("POST", &target, &[("authorization", &right), JSON]);
        assert_eq!(in_address, Err(Refusal::TokenInAddress));
    }

    #[test]
    fn pages_of_other_sites_change_nothing_even_with_the_token() {
        let token = bearer(CONTROL);
        let with = ("authorization", &*token);
        for foreign in [
            &[("origin", "http://evil.example")][..],
            &[("origin", "null")],
            &[("origin", "http://studio:9090")],
            &[
                ("sec-fetch-site", "cross-site"),
                ("origin", "http://studio:8080"),
            ],
            &[("sec-fetch-site", "same-site")],
        ] {
            let headers = [&[with, JSON, OURS], foreign].concat();
            let checked = check("POST", "/control/path", &headers);
            assert_eq!(checked, Err(Refusal::ForeignPage), "{foreign:?}");
        }
        for own in [
            &[][..],
            &[("origin", "http://studio:8080")],
            &[("origin", "https://studio:8080")],
            // A proxy has changed the host.
            &[
                ("sec-fetch-site", "same-origin"),
                ("origin", "https://studio.example"),
            ],
        ] {
            let headers = [&[with, JSON, OURS], own].concat();
            let checked = check("POST", "/control/path", &headers);
            assert_eq!(checked, Ok(Wanted::Change("path")), "{own:?}");
        }
        // A form of another page can send these.
        let form = ("content-type", "application/x-www-form-urlencoded");
        let refused = check("POST", "/control/path", &[with, form]);
        assert_eq!(refused, Err(Refusal::NoJson));
        let refused = check(
            "POST",
            "/control/path",
            &[with, ("content-type", "text/plain")],
        );
        assert_eq!(refused, Err(Refusal::NoJson));
    }

    #[test]
    fn wrong_requests_get_the_right_method_or_path() {
        let token = bearer(CONTROL);
        let with = ("authorization", &*token);
        for (method, path, refused) in [
            ("POST", "/control", Refusal::Method("GET")),
            ("GET", "/control/path", Refusal::Method("POST")),
            ("OPTIONS", "/control/path", Refusal::Method("POST")),
            ("POST", "/control/links", Refusal::Method("GET")),
            ("POST", "/control/paths", Refusal::NoPath),
            ("POST", "/control/", Refusal::NoPath),
        ] {
            assert_eq!(check(method, path, &[with, JSON]), Err(refused), "{path}");
        }
        assert!(Refusal::NoPath.to_string().contains("session/end"));
    }

    #[test]
    fn tokens_cannot_be_tried_fast_and_the_owner_of_the_right_one_still_gets_in() {
        let controls = controls();
        let wrong = bearer(READING);
        let begin = Instant::from_secs(100);
        let tried = (0..10_000)
            .filter(|millis| {
                let headers = [("authorization", &*wrong)];
                let now = begin + Duration::from_millis(*millis);
                let refused = check_in(&controls, now, "GET", "/control", &headers);
                refused == Err(Refusal::ReadingToken)
            })
            .count();
        assert!((60..=60 + 50).contains(&tried), "{tried} in ten seconds");
        let token = bearer(CONTROL);
        let headers = [("authorization", &*token)];
        let later = begin + Duration::from_secs(11);
        assert_eq!(
            check_in(&controls, later, "GET", "/control", &headers),
            Ok(Wanted::State)
        );
    }
}

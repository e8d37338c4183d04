//! HTTP between applications and a proxy: CONNECT (RFC 9110 §9.3.6), and requests for `http:` that
//! name their host (RFC 9112 §3.2.2).
//!
//! The body of a request is relayed unchanged, so its framing must be unambiguous for the target
//! and for any proxy before it. `http/fields.rs` rejects ambiguous framing.

mod fields;

use core::time::Duration;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::destination::Target;
use super::request::{self, Answer};

/// Maximum length of a request's head, equal to squid's default (request_header_max_size).
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Maximum number of fields of a head.
const MAX_FIELDS: usize = 128;
/// Maximum number of lines that are parsed: fields, the request line and the empty one. A head is
/// parsed once per line, even if it arrives byte by byte.
const MAX_LINES: usize = MAX_FIELDS + 2;
const DEFAULT_PORT: u16 = 80;
const BAD_GATEWAY: &str = "502 Bad Gateway";
/// Methods of RFC 9110 §9.3 and RFC 5789.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

/// Request of an application to the proxy.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Host and port.
    pub target: String,
    /// First bytes for the target, if the request itself was for it.
    pub head: Vec<u8>,
    /// Whether the application waits for the answer about the connection.
    pub is_tunnel: bool,
}

/// Rejection of a request: status and text for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rejection(&'static str, &'static str);

const NO_REQUEST: Rejection = bad("expected CONNECT host:port or GET http://host/");
const TOO_LONG: Rejection = Rejection(
    "431 Request Header Fields Too Large",
    "the request's head is too long",
);
const TOO_LATE: Rejection = Rejection("408 Request Timeout", "the request's head took too long");

const fn bad(words: &'static str) -> Rejection {
    Rejection("400 Bad Request", words)
}

impl From<Rejection> for io::Error {
    fn from(Rejection(_, words): Rejection) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, words)
    }
}

/// Reads a request, which must be complete after [`request::TIMEOUT`]. An application that sends
/// anything else gets an answer, and this returns an error.
pub async fn wanted(application: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<Wanted> {
    wanted_within(request::TIMEOUT, application).await
}

async fn wanted_within(
    limit: Duration,
    application: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<Wanted> {
    let read = tokio::time::timeout(limit, read(application)).await;
    match read.unwrap_or(Ok(Err(TOO_LATE)))? {
        Ok(wanted) => Ok(wanted),
        Err(rejection @ Rejection(status, words)) => {
            respond(application, status, words).await?;
            Err(rejection.into())
        }
    }
}

async fn read(application: &mut (impl AsyncRead + Unpin)) -> io::Result<Result<Wanted, Rejection>> {
    let mut bytes = Vec::new();
    let mut examined_count = 0;
    while bytes.len() <= MAX_HEAD_BYTES && examined_count <= MAX_LINES {
        let before = bytes.len();
        if application.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Other protocols are recognized at once, and a head is complete at the end of a line.
        if before > 0 && !bytes[before..].contains(&b'\n') {
            continue;
        }
        examined_count += 1;
        if let Some(wanted) = parse(&bytes).transpose() {
            return Ok(wanted);
        }
    }
    Ok(Err(TOO_LONG))
}

/// Parses the request at the beginning of the bytes; `None` if it is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<Wanted>, Rejection> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = request.parse(bytes).map_err(|error| match error {
        httparse::Error::TooManyHeaders => TOO_LONG,
        _ => NO_REQUEST,
    })?;
    let (httparse::Status::Complete(length), Some(method), Some(uri)) =
        (parsed, request.method, request.path)
    else {
        return Ok(None);
    };
    if length > MAX_HEAD_BYTES {
        return Err(TOO_LONG);
    }
    if method == "CONNECT" {
        Target::of(uri).ok_or(NO_REQUEST)?;
        return Ok(Some(Wanted {
            target: uri.to_owned(),
            head: bytes[length..].to_vec(),
            is_tunnel: true,
        }));
    }
    let rest = uri.strip_prefix("http://").ok_or(NO_REQUEST)?;
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let (host, target) = host_and_target(authority).ok_or(NO_REQUEST)?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    // One request per connection, because the next may be for another host. The target takes Host
    // for the request's authority, so it is made from the authority that is connected to (RFC 9112
    // §3.2.2).
    let mut head =
        format!("{method} {slash}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n")
            .into_bytes();
    let is_http_1_0 = request.version == Some(0);
    for field in fields::forwarded(request.headers, is_http_1_0)? {
        head.extend_from_slice(field.name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(field.value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(&bytes[length..]);
    Ok(Some(Wanted {
        target,
        head,
        is_tunnel: false,
    }))
}

/// Returns the authority of a URI without user, and the same with a port; `None` if it names no
/// host.
fn host_and_target(authority: &str) -> Option<(String, String)> {
    let host_and_port = authority.rsplit('@').next().unwrap_or(authority);
    let host = host_and_port.strip_suffix(':').unwrap_or(host_and_port);
    let after_address = host.rsplit(']').next().unwrap_or(host);
    let target = if after_address.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:{DEFAULT_PORT}")
    };
    Target::of(&target)?;
    Some((host.to_owned(), target))
}

/// Reports the answer to the application, unless the target answers itself.
pub async fn answer(
    application: &mut (impl AsyncWrite + Unpin),
    wanted: &Wanted,
    answer: Answer,
) -> io::Result<()> {
    let status = match answer {
        Answer::Connected if !wanted.is_tunnel => return Ok(()),
        Answer::Connected => {
            let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
            return application.write_all(established).await;
        }
        Answer::NotAllowed => "403 Forbidden",
        Answer::Refused | Answer::Unreachable | Answer::UnknownHost => BAD_GATEWAY,
    };
    respond(application, status, &format!("{}: {answer}", wanted.target)).await
}

/// Returns whether an application's first bytes begin a request of HTTP/1 (RFC 9112 §3).
pub fn begins_request(first: &[u8]) -> bool {
    let method = first
        .iter()
        .position(|byte| *byte == b' ')
        .map_or(first, |end| &first[..end]);
    METHODS.iter().any(|known| known.as_bytes() == method)
}

/// Answers a request that no target has accepted.
pub async fn respond_unconnected(
    application: &mut (impl AsyncWrite + Unpin),
    answer: Answer,
) -> io::Result<()> {
    let words = format!("anabranch: the server's target cannot be used: {answer}");
    respond(application, BAD_GATEWAY, &words).await
}

/// Writes a response that ends the connection.
async fn respond(
    application: &mut (impl AsyncWrite + Unpin),
    status: &str,
    words: &str,
) -> io::Result<()> {
    let length = words.len() + 1;
    let head = "Connection: close\r\nContent-Type: text/plain; charset=utf-8";
    let response =
        format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {length}\r\n\r\n{words}\n");
    application.write_all(response.as_bytes()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Wanted {
        parse(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn connect_names_its_target_and_may_be_followed_at_once() {
        let expected = Wanted {
            target: "a.b:443".to_owned(),
            head: b"hello".to_vec(),
            is_tunnel: true,
        };
        let text = "CONNECT a.b:443 HTTP/1.1\r\nHost: a.b:443\r\n\r\nhello";
        assert_eq!(parsed(text), expected);
        for length in 0..text.len() - "\r\nhello".len() {
            assert_eq!(parse(&text.as_bytes()[..length]).unwrap(), None);
        }
    }

    #[test]
    fn a_request_goes_to_its_host_in_the_form_for_origins_and_alone() {
        let text = "GET http://u:p@a.b/film.ts?x=1 HTTP/1.1\r\nHost: a.b\r\nRange: bytes=5-\r\n\
            Proxy-Connection: keep-alive\r\nConnection: keep-alive\r\n\r\n";
        let wanted = parsed(text);
        let head = "GET /film.ts?x=1 HTTP/1.1\r\nHost: a.b\r\nConnection: close\r\n\
            Range: bytes=5-\r\n\r\n";
        assert_eq!(String::from_utf8(wanted.head).unwrap(), head);
        assert_eq!(
            (wanted.target.as_str(), wanted.is_tunnel),
            ("a.b:80", false)
        );
        for (uri, target, path) in [
            ("http://a.b", "a.b:80", "GET / "),
            ("http://a.b:", "a.b:80", "GET / "),
            ("http://a.b?x", "a.b:80", "GET /?x "),
            ("http://[2001:db8::1]/", "[2001:db8::1]:80", "GET / "),
            ("http://[2001:db8::1]:8080/", "[2001:db8::1]:8080", "GET / "),
        ] {
            let wanted = parsed(&format!("GET {uri} HTTP/1.1\r\n\r\n"));
            assert_eq!(wanted.target, target);
            assert!(wanted.head.starts_with(path.as_bytes()), "{uri}");
        }
    }

    /// An attacker's page names one host to the proxy and another to the target.
    #[test]
    fn host_is_that_of_the_request_target_whatever_the_field_says() {
        for (uri, host) in [
            ("http://a.b/", "a.b"),
            ("http://u@a.b:8080/", "a.b:8080"),
            ("http://[2001:db8::1]/", "[2001:db8::1]"),
        ] {
            let fields = "Host: intranet.example\r\nhost: other.example\r\nAccept: */*\r\n";
            let wanted = parsed(&format!("GET {uri} HTTP/1.1\r\n{fields}\r\n"));
            let head = format!(
                "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: */*\r\n\r\n"
            );
            assert_eq!(String::from_utf8(wanted.head).unwrap(), head);
        }
    }

    /// Returns the request of an application that sends `said`, and the answer that it gets.
    async fn heard(limit: Duration, said: &[u8], closes: bool) -> (io::Result<Wanted>, String) {
        let (mut client, mut server) = tokio::io::duplex(1 << 20);
        server.write_all(said).await.unwrap();
        if closes {
            server.shutdown().await.unwrap();
        }
        let wanted = wanted_within(limit, &mut client).await;
        drop(client);
        let mut heard = String::new();
        server.read_to_string(&mut heard).await.unwrap();
        (wanted, heard)
    }

    #[tokio::test(start_paused = true)]
    async fn other_requests_are_refused() {
        for text in [
            "GET /film.ts HTTP/1.1\r\n\r\n",
            "\x16\x03\x01",
            "GET ftp://a/ HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
            "GET http://a b/ HTTP/1.1\r\n\r\n",
            "GET http://a:x/ HTTP/1.1\r\n\r\n",
            "CONNECT a.b HTTP/1.1\r\n\r\n",
            "POST http://a/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            let (wanted, heard) = heard(request::TIMEOUT, text.as_bytes(), false).await;
            assert!(wanted.is_err(), "{text}");
            assert!(heard.starts_with("HTTP/1.1 400 "), "{heard}");
            let (head, body) = heard.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&format!("Content-Length: {}", body.len())));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn heads_are_bounded_in_bytes_and_fields() {
        let long = format!("GET http://a/{} HTTP/1.1\r\n", "x".repeat(MAX_HEAD_BYTES));
        let many = "A: b\r\n".repeat(MAX_FIELDS + 1);
        let many = format!("GET http://a/ HTTP/1.1\r\n{many}");
        let empty = "\r\n".repeat(MAX_HEAD_BYTES);
        for text in [
            long.clone(),
            long.trim_end().to_owned(),
            format!("{long}\r\n"),
            many,
            empty,
        ] {
            let (wanted, heard) = heard(request::TIMEOUT, text.as_bytes(), false).await;
            assert!(wanted.is_err());
            assert!(heard.starts_with("HTTP/1.1 431 "), "{heard}");
        }
        // The maximum number of fields.
        let most = "A: b\r\n".repeat(MAX_FIELDS);
        let most = format!("GET http://a/ HTTP/1.1\r\n{most}\r\n");
        assert!(
            heard(request::TIMEOUT, most.as_bytes(), false)
                .await
                .0
                .is_ok()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_is_not_complete_in_time_is_refused_although_it_grows() {
        let limit = Duration::from_millis(300);
        let (wanted, said) = heard(limit, b"GET http://a/ HTTP/1.1\r\nA: ", false).await;
        assert!(wanted.is_err());
        assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
        let (mut client, mut server) = tokio::io::duplex(1_000);
        let dripping = tokio::spawn(async move {
            server.write_all(b"GET http://a/ HTTP/1.1\r\nA: ").await?;
            loop {
                server.write_all(b"x").await?;
                tokio::time::sleep(limit / 10).await;
            }
            #[allow(unreachable_code, reason = "it names the block's type")]
            Ok::<_, io::Error>(())
        });
        let began_at = tokio::time::Instant::now();
        assert!(wanted_within(limit, &mut client).await.is_err());
        assert!(began_at.elapsed() >= limit);
        drop(client);
        assert!(dripping.await.unwrap().is_err());
        let (cut, said) = heard(request::TIMEOUT, b"GET http://a/ HT", true).await;
        assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(said, "");
    }
}

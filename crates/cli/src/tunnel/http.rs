//! HTTP as applications speak it to a proxy: CONNECT (RFC 9110 §9.3.6), and requests for `http:`
//! that name their host (RFC 9112 §3.2.2).

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::request::Answer;

/// Heads of requests are no longer, nor have more fields.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_FIELDS: usize = 128;

/// What an application has asked the proxy for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Host and port.
    pub(crate) target: String,
    /// What goes to the target first, if the request itself was for it.
    pub(crate) head: Vec<u8>,
    /// Whether the application waits to hear that there is a connection.
    pub(crate) is_tunnel: bool,
}

/// Reads a request. Whoever sends something else is told, which is an error.
pub(crate) async fn wanted(
    application: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<Wanted> {
    let mut bytes = Vec::new();
    loop {
        if let Some(wanted) = parse(&bytes).transpose() {
            if wanted.is_err() {
                application.write_all(BAD_REQUEST).await?;
            }
            return wanted;
        }
        if bytes.len() > MAX_HEAD_BYTES {
            application.write_all(BAD_REQUEST).await?;
            return Err(invalid("a request whose head is too long"));
        }
        if application.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\
    Content-Length: 48\r\n\r\nexpected CONNECT host:port or GET http://host/.\n";

/// The request at the beginning of the bytes; `None` if there is more to come.
fn parse(bytes: &[u8]) -> io::Result<Option<Wanted>> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = request
        .parse(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let (httparse::Status::Complete(length), Some(method), Some(uri)) =
        (parsed, request.method, request.path)
    else {
        return Ok(None);
    };
    if method == "CONNECT" {
        return Ok(Some(Wanted {
            target: uri.to_owned(),
            head: bytes[length..].to_vec(),
            is_tunnel: true,
        }));
    }
    let rest = uri
        .strip_prefix("http://")
        .ok_or_else(|| invalid("a request that names no host"))?;
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let slash = if path.starts_with('/') { "" } else { "/" };
    // One request a connection: the next may be for another host.
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\nConnection: close\r\n").into_bytes();
    for field in request.headers.iter() {
        let is_hop = [
            "connection",
            "proxy-connection",
            "keep-alive",
            "proxy-authorization",
        ]
        .iter()
        .any(|name| field.name.eq_ignore_ascii_case(name));
        if !is_hop {
            head.extend_from_slice(field.name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(field.value);
            head.extend_from_slice(b"\r\n");
        }
    }
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(&bytes[length..]);
    Ok(Some(Wanted {
        target: with_port(authority),
        head,
        is_tunnel: false,
    }))
}

/// The authority of a URI without user, and with a port.
fn with_port(authority: &str) -> String {
    let host = authority.rsplit('@').next().unwrap_or(authority);
    let after_address = host.rsplit(']').next().unwrap_or(host);
    match after_address.contains(':') {
        true => host.to_owned(),
        false => format!("{host}:80"),
    }
}

/// Tells the application how its request was answered, if that is not the target's to say.
pub(crate) async fn answer(
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
        Answer::Refused | Answer::Unreachable => "502 Bad Gateway",
    };
    let reason = format!("{}: {answer}\n", wanted.target);
    let length = reason.len();
    let head = "Connection: close\r\nContent-Type: text/plain; charset=utf-8";
    let response =
        format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {length}\r\n\r\n{reason}");
    application.write_all(response.as_bytes()).await
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
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
        let head = "GET /film.ts?x=1 HTTP/1.1\r\nConnection: close\r\nHost: a.b\r\n\
            Range: bytes=5-\r\n\r\n";
        assert_eq!(String::from_utf8(wanted.head).unwrap(), head);
        assert_eq!(
            (wanted.target.as_str(), wanted.is_tunnel),
            ("a.b:80", false)
        );
        for (uri, target, path) in [
            ("http://a.b", "a.b:80", "GET / "),
            ("http://a.b?x", "a.b:80", "GET /?x "),
            ("http://[2001:db8::1]/", "[2001:db8::1]:80", "GET / "),
            ("http://[2001:db8::1]:8080/", "[2001:db8::1]:8080", "GET / "),
        ] {
            let wanted = parsed(&format!("GET {uri} HTTP/1.1\r\n\r\n"));
            assert_eq!(wanted.target, target);
            assert!(wanted.head.starts_with(path.as_bytes()), "{uri}");
        }
    }

    #[tokio::test]
    async fn what_is_no_request_for_a_proxy_is_refused() {
        for text in [
            "GET /film.ts HTTP/1.1\r\n\r\n",
            "\x16\x03\x01",
            "GET ftp://a/ HTTP/1.1\r\n\r\n",
        ] {
            let (mut near, mut far) = tokio::io::duplex(1_000);
            far.write_all(text.as_bytes()).await.unwrap();
            assert!(wanted(&mut near).await.is_err(), "{text}");
            drop(near);
            let mut heard = String::new();
            far.read_to_string(&mut heard).await.unwrap();
            assert!(heard.starts_with("HTTP/1.1 400 "), "{heard}");
            let (_, body) = heard.split_once("\r\n\r\n").unwrap();
            assert_eq!(body.len(), 48);
        }
    }
}

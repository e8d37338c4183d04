//! Entry points of the fuzz targets. Each reads bytes of a peer, an application or a file as the
//! program does, and checks the result. They are always compiled, so that all tools see them.

use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::LazyLock;

use anabranch_mpegts_io::rtp;
use anabranch_mpegts_io::rtp_order::RtpOrder;
use anabranch_observe::control::Change;
use anabranch_secure::{PublicKey, SecretKey};
use anabranch_terminal::print;
use anabranch_tunnel::tun::message::{Message as TunMessage, Verdict};
use anabranch_tunnel::tun::packet;
use anabranch_tunnel::tun::routes::{Admission, Routes};
use anabranch_tunnel::udp::message::{self as udp, Message as UdpMessage};
use anabranch_tunnel::{Target, http, request, socks5};
use anabranch_units::{Duration, Instant};
use anabranch_video::mpeg_ts::{PACKET_LEN, SYNC_BYTE};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

use crate::allowed::{self, ListenCommand};
use crate::config;
use crate::remote_control::{self, Answer, Request};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
});

/// Creates the parts that all inputs share, so that no input is charged for their memory.
pub fn prepare() {
    LazyLock::force(&RUNTIME);
    LazyLock::force(&KEYS);
}

/// A connection that delivers bytes in pieces and then ends, and keeps the bytes written to it.
struct Connection<'a> {
    unread: &'a [u8],
    piece_bytes: usize,
    written: Vec<u8>,
}

impl<'a> Connection<'a> {
    fn new(bytes: &'a [u8], piece_bytes: usize) -> Self {
        let written = Vec::new();
        Connection {
            unread: bytes,
            piece_bytes,
            written,
        }
    }
}

impl AsyncRead for Connection<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self
            .piece_bytes
            .max(1)
            .min(buffer.remaining())
            .min(self.unread.len());
        let (piece, rest) = self.unread.split_at(length);
        buffer.put_slice(piece);
        self.unread = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Reads a stream's request to a server. Writing it must give the same bytes.
pub fn request(bytes: &[u8]) {
    let mut connection = Connection::new(bytes, usize::MAX);
    let Ok(target) = RUNTIME.block_on(request::read(&mut connection)) else {
        return;
    };
    let written = request::bytes(&target).expect("a target that was read");
    assert!(bytes.starts_with(&written));
    if let Some(target) = Target::of(&target) {
        assert_eq!(Target::of(target.as_str()), Some(target));
    }
}

/// Reads a datagram of a UDP flow. Writing it must give the same bytes.
pub fn udp_message(bytes: &[u8]) {
    let Some((flow, message)) = UdpMessage::read(Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let written = match message {
        UdpMessage::Datagram(datagram) => udp::datagram(flow, None, &datagram),
        UdpMessage::Opening {
            target,
            options,
            bytes,
        } => udp::datagram(flow, Some((&target, options)), &bytes),
        UdpMessage::Known => udp::known(flow),
        UdpMessage::Unknown => udp::unknown(flow),
        UdpMessage::Refused(answer) => udp::refused(flow, answer),
    };
    assert!(bytes.starts_with(&written));
}

/// Keys of the peers that have sessions at the server.
static KEYS: LazyLock<[PublicKey; 3]> =
    LazyLock::new(|| core::array::from_fn(|_| SecretKey::generate().public_key()));

/// The addresses of a server's TUN network. Sessions of three keys claim some of them.
pub struct TunServer {
    routes: Routes<u64>,
    /// Index of the key of each session, by the session's number.
    sessions: BTreeMap<u64, usize>,
}

impl Default for TunServer {
    fn default() -> Self {
        let own = ["10.99.0.1/24", "fd00::1/64"].map(|own| own.parse().expect("an address"));
        TunServer {
            routes: Routes::new(own.into(), &*KEYS),
            sessions: BTreeMap::new(),
        }
    }
}

impl TunServer {
    /// Begins a session of a key. Returns its number.
    pub fn open(&mut self, key: usize) -> u64 {
        let session = self.routes.open();
        self.sessions.insert(session, key % KEYS.len());
        session
    }

    /// Ends a session.
    pub fn close(&mut self, session: u64) {
        self.routes.close(session);
        self.sessions.remove(&session);
    }

    /// Lets in only the keys of these numbers.
    pub fn set_keys(&mut self, is_in: [bool; 3]) {
        let keys = KEYS.iter().zip(is_in).filter(|(_, is_in)| *is_in);
        self.routes
            .set_keys(&keys.map(|(key, _)| *key).collect::<Vec<_>>());
    }

    /// Takes a datagram of a session, whose packets may come only from its own addresses.
    pub fn take(&mut self, session: u64, datagram: &[u8]) {
        let Some(key) = self.sessions.get(&session).map(|key| KEYS[*key]) else {
            return;
        };
        match TunMessage::read(Bytes::copy_from_slice(datagram)) {
            Some(TunMessage::Claim(wanted)) => {
                let verdicts = self.routes.claim((key, session), &session, wanted);
                for (wanted, verdict) in wanted.into_iter().zip(verdicts) {
                    let is_its = wanted.is_some_and(|it| self.routes.route(it) == Some(&session));
                    assert_eq!(is_its, verdict == Verdict::Granted);
                }
            }
            Some(TunMessage::Packet(packet)) => {
                if let Some(ends) = packet::ends(&packet) {
                    self.check(session, ends.from);
                    self.routes.route(ends.to);
                }
            }
            Some(TunMessage::Verdict(_) | TunMessage::Unknown) | None => {}
        }
    }

    fn check(&self, session: u64, from: IpAddr) {
        let is_admitted = self.routes.admit(session, from) == Admission::Admitted;
        assert_eq!(is_admitted, self.routes.route(from) == Some(&session));
        let own: [IpAddr; 2] = ["10.99.0.1", "fd00::1"].map(|own| own.parse().expect("an address"));
        assert!(
            !is_admitted || !own.contains(&from),
            "a packet from the server itself"
        );
    }
}

/// Reads an application's SOCKS5 request, whose target must be valid in a request to a server.
pub fn socks5(bytes: &[u8], piece_bytes: usize) {
    let mut connection = Connection::new(bytes, piece_bytes);
    let wanted = RUNTIME.block_on(socks5::target(&mut connection));
    assert!(connection.written.len() <= 12, "a method and an answer");
    if let Ok(target) = wanted {
        let asked = request::bytes(&target).expect("a target that can be asked for");
        let mut asked = Connection::new(&asked, usize::MAX);
        let read = RUNTIME
            .block_on(request::read(&mut asked))
            .expect("a request");
        assert_eq!(read, target);
    }
}

/// Reads an application's HTTP request. Its head is forwarded with one meaning, however it was
/// cut.
pub fn http_head(bytes: &[u8], piece_bytes: usize) {
    let whole = http_wanted(bytes, usize::MAX);
    let cut = http_wanted(bytes, piece_bytes);
    if let (Some(whole), Some(cut)) = (whole, cut) {
        assert_eq!(
            (&whole.target, whole.is_tunnel),
            (&cut.target, cut.is_tunnel)
        );
        assert!(whole.head.starts_with(&cut.head));
    }
}

fn http_wanted(bytes: &[u8], piece_bytes: usize) -> Option<http::Wanted> {
    let mut connection = Connection::new(bytes, piece_bytes);
    let Ok(wanted) = RUNTIME.block_on(http::wanted(&mut connection)) else {
        let said = connection.written;
        assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 4"));
        return None;
    };
    assert!(connection.written.is_empty());
    let target = Target::of(&wanted.target).expect("a target that can be asked for");
    if !wanted.is_tunnel {
        check_head(&wanted.head, &target);
    }
    Some(wanted)
}

/// Checks a forwarded head, as a target reads it.
fn check_head(head: &[u8], target: &Target) {
    let mut fields = [httparse::EMPTY_HEADER; 160];
    let mut request = httparse::Request::new(&mut fields);
    let parsed = request.parse(head).expect("a request");
    assert!(parsed.is_complete());
    assert!(
        request.path.is_some_and(|path| path.starts_with('/')),
        "{:?}",
        request.path
    );
    assert_eq!(values(&request, "connection"), [b"close"]);
    let hosts = values(&request, "host");
    let [host] = hosts[..] else {
        panic!("{hosts:?}")
    };
    let host = str::from_utf8(host).expect("a host");
    assert!([host.to_owned(), format!("{host}:80")].contains(&target.as_str().to_owned()));
    let lengths = values(&request, "content-length");
    let codings = values(&request, "transfer-encoding");
    assert!(lengths.len() <= 1 && (lengths.is_empty() || codings.is_empty()));
    for of_this_hop in ["te", "upgrade", "keep-alive", "proxy-authorization"] {
        assert!(values(&request, of_this_hop).is_empty(), "{of_this_hop}");
    }
}

/// Returns the values of a field of a request.
fn values<'a>(request: &httparse::Request<'_, 'a>, name: &str) -> Vec<&'a [u8]> {
    let fields = request.headers.iter();
    let its = fields.filter(|field| field.name.eq_ignore_ascii_case(name));
    its.map(|field| field.value).collect()
}

/// An encoder's datagrams of RTP.
#[derive(Default)]
pub struct RtpInput {
    order: RtpOrder,
    now: Instant,
    taken_bytes: usize,
    given_bytes: usize,
}

impl RtpInput {
    /// Takes a datagram that arrives `wait` after the previous one.
    pub fn take(&mut self, wait: Duration, datagram: &[u8]) {
        self.now += wait;
        let taken_bytes = &mut self.taken_bytes;
        self.order.release(self.now, &mut |payload: &[u8]| {
            *taken_bytes += checked_len(payload);
        });
        assert!(self.order.releases_at().is_none_or(|at| at > self.now));
        if let Some((number, payload)) = rtp::unpack(datagram) {
            self.given_bytes += payload.len();
            let taken_bytes = &mut self.taken_bytes;
            self.order
                .push(self.now, number, payload, &mut |payload: &[u8]| {
                    *taken_bytes += checked_len(payload);
                });
        }
        assert!(self.taken_bytes <= self.given_bytes);
    }
}

/// Returns the length of a payload, which has whole packets of MPEG-TS.
fn checked_len(payload: &[u8]) -> usize {
    let (packets, rest) = payload.as_chunks::<PACKET_LEN>();
    assert!(rest.is_empty());
    assert!(packets.iter().all(|packet| packet[0] == SYNC_BYTE));
    payload.len()
}

/// Reads a file of `--allow-from`, for `serve` or `recv`. It must let each key in once, and errors
/// must repeat no secret.
pub fn allow_file(text: &str, is_for_serve: bool) {
    let command = if is_for_serve {
        ListenCommand::Serve
    } else {
        ListenCommand::Recv
    };
    let read = allowed::of_file("file", text).and_then(|all| {
        allowed::check(command, &all)?;
        Ok(all)
    });
    match read {
        Ok(all) => {
            let keys: BTreeSet<PublicKey> = all.iter().map(|allowed| allowed.key).collect();
            assert_eq!(keys.len(), all.len());
        }
        Err(error) => check_secrets(text, &format!("{error:#}")),
    }
}

/// Reads a file of `--config`. Errors must repeat no secret.
pub fn config_file(text: &str) {
    if let Err(error) = config::read(text) {
        check_secrets(text, &format!("{error:#}"));
    }
}

/// Reads a frame of the other end of a session, and the body of a request for each change. The
/// result must survive another encoding.
pub fn control_request(bytes: &[u8]) {
    if let Some(request) = remote_control::read::<Request>(bytes) {
        if let Some(frame) = remote_control::frame(&request, Instant::ZERO) {
            assert_eq!(remote_control::read(&frame.bytes), Some(request));
        }
    } else if let Some(answer) = remote_control::read::<Answer>(bytes) {
        let shown = match answer.outcome() {
            Ok(text) => text,
            Err(refused) => refused.to_string(),
        };
        assert!(!shown.contains(char::is_control), "{shown:?}");
    }
    for (path, name) in Change::PATHS {
        if let Ok(change) = Change::read(path, bytes) {
            assert_eq!(change.name(), name);
            let named = serde_json::to_value(&change).expect("it is JSON");
            let again = serde_json::from_value(named);
            assert_eq!(again.ok(), Some(change));
        }
    }
}

/// Checks that a message repeats no secret key of a text.
fn check_secrets(text: &str, printed: &str) {
    let shown = print::without_secrets(printed);
    for (at, _) in text.match_indices("absec_") {
        let Some(word) = text.get(at..at + "absec_".len() + 43) else {
            continue;
        };
        let is_secret = SecretKey::from_text(word).is_ok();
        assert!(
            !is_secret || !shown.contains(word),
            "a secret key is repeated"
        );
    }
}

//! The dashboard's answers, as clients of all kinds get them.

use core::time::Duration;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use anabranch_net::Clock;

use super::*;
use crate::connections::Patience;
use crate::http::Serving;
use crate::live::MAX_VIEWERS;
use crate::status::Stream;
use crate::stream_event::StreamEvent;

const TOKEN: &str = "0123456789abcdef0123";
/// Time limit of a read or write, far longer than any answer takes.
const LIMIT: Duration = Duration::from_secs(20);
/// All paths that are answered.
const PATHS: [&str; 14] = [
    "/",
    "/overlay",
    "/dashboard.js",
    "/uplot.js",
    "/style.css",
    "/icon.svg",
    "/metrics",
    "/status.json",
    "/history.json",
    "/hour.json",
    "/events.json",
    "/words.json",
    "/thumbnail?quiet",
    "/live",
];

/// A server of a program without streams.
struct Bed {
    shared: Arc<Shared>,
    address: SocketAddr,
    _serving: Serving,
}

impl Bed {
    fn new(rights: AccessRights) -> Bed {
        Bed::with_patience(rights, Patience::default())
    }

    fn with_patience(rights: AccessRights, patience: Patience) -> Bed {
        let mut server = Server::bind("--dashboard", &"0".parse().unwrap(), &[]).unwrap();
        server.patience = patience;
        let address = server.address().unwrap();
        let shared = Arc::new(Shared::new(Clock::start()));
        let metrics = Metrics {
            shared: Arc::clone(&shared),
            rights,
        };
        Bed {
            shared,
            address,
            _serving: server.start("dashboard", metrics).unwrap(),
        }
    }

    fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect(self.address).unwrap();
        connection.set_read_timeout(Some(LIMIT)).unwrap();
        connection.set_write_timeout(Some(LIMIT)).unwrap();
        connection
    }

    /// Sends bytes and returns the head of the answer.
    fn head_of(&self, request: &str) -> (String, BufReader<TcpStream>) {
        let mut connection = self.connect();
        connection.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(connection);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        (head, reader)
    }

    /// Requests a path with these headers, lines with their ends.
    fn get(&self, path: &str, headers: &str) -> (String, BufReader<TcpStream>) {
        self.head_of(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
        ))
    }

    fn code(&self, path: &str, headers: &str) -> String {
        code(&self.get(path, headers).0).to_owned()
    }
}

fn code(head: &str) -> &str {
    head.split(' ').nth(1).unwrap()
}

fn with_dashboard() -> AccessRights {
    AccessRights {
        has_dashboard: true,
        ..AccessRights::default()
    }
}

fn with_token() -> AccessRights {
    AccessRights {
        token: Some(TOKEN.parse().unwrap()),
        port: 9_797,
        ..with_dashboard()
    }
}

/// Reads lines of a stream of events until one begins with this text.
fn wait_for_line(reader: &mut impl BufRead, start: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "no {start:?}");
        if line.starts_with(start) {
            return line;
        }
    }
}

/// Returns a status that is about this long as text.
fn long_status(bytes: usize) -> Arc<Status> {
    let stream = Stream {
        name: "x".repeat(bytes),
        ..Stream::default()
    };
    Arc::new(Status {
        streams: vec![stream],
        ..Status::default()
    })
}

/// Options of the addresses of metrics and dashboard, and the dashboard's token.
fn options(metrics: Option<&str>, dashboard: Option<&str>, token: Option<&str>) -> Options {
    Options {
        metrics: metrics.map(|text| text.parse().unwrap()),
        dashboard: dashboard.map(|text| text.parse().unwrap()),
        dashboard_token: token.map(|token| token.parse().unwrap()),
        ..Options::default()
    }
}

/// Opens the addresses. Returns for each whether it has the dashboard, and whether it needs a
/// token.
fn opened(
    metrics: Option<&str>,
    dashboard: Option<&str>,
    token: Option<&str>,
) -> Vec<(bool, bool)> {
    let servers = listen(&options(metrics, dashboard, token), None).unwrap();
    let rights = servers.iter().map(|(_, rights)| rights);
    rights
        .map(|rights| (rights.has_dashboard, rights.token.is_some()))
        .collect()
}

#[test]
fn an_address_for_other_machines_needs_a_token() {
    let refused = listen(&options(None, Some("0.0.0.0:0"), None), None).unwrap_err();
    let error = refused.to_string();
    assert!(error.contains("--dashboard-token-file FILE"), "{error}");
    assert_eq!(opened(None, Some("0.0.0.0:0"), Some(TOKEN)), [(true, true)]);
    assert_eq!(opened(None, Some("0"), None), [(true, false)]);
    assert_eq!(opened(Some("0"), None, None), [(true, false)]);
    assert_eq!(opened(Some("0.0.0.0:0"), None, None), [(false, false)]);
    // One address has one server; the token guards its metrics, too.
    assert_eq!(opened(Some("0"), Some("0"), Some(TOKEN)), [(true, true)]);
    let two = opened(Some("0"), Some("0.0.0.0:0"), Some(TOKEN));
    assert_eq!(two, [(true, false), (true, true)]);
}

#[test]
fn metrics_for_other_machines_have_no_dashboard() {
    let bed = Bed::new(AccessRights::default());
    let (_, mut reader) = bed.get("/", "Connection: close\r\n");
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(text.contains("--dashboard-token-file") && !text.contains("<html"));
    assert_eq!(bed.code("/metrics", ""), "200");
}

#[test]
fn without_the_token_no_path_answers() {
    let bed = Bed::new(with_token());
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let wrong = "Authorization: Bearer 0123456789abcdef0124\r\n";
    for path in PATHS {
        for headers in ["", wrong, "Cookie: anabranch-9797=\r\n"] {
            let (head, _) = bed.get(path, headers);
            assert_eq!(code(&head), "401", "{path} {headers}");
            assert!(!head.contains(TOKEN), "{head}");
        }
        let code = bed.code(path, &bearer);
        assert!(["200", "204"].contains(&&*code), "{path}: {code}");
    }
    assert_eq!(bed.code("/nothing", ""), "401");
    let (head, _) = bed.get(&format!("/?token={TOKEN}"), "");
    assert_eq!(code(&head), "303");
    assert!(head.contains("location: ./\r\n"), "{head}");
    let cookie = head
        .split("set-cookie: ")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    assert_eq!(bed.code("/live", &format!("Cookie: {cookie}\r\n")), "200");
}

#[test]
fn every_answer_forbids_frames_and_foreign_scripts() {
    let bed = Bed::new(with_dashboard());
    let locked = Bed::new(with_token());
    let answers = PATHS.map(|path| bed.get(path, "").0).into_iter();
    let others = [bed.get("/nothing", "").0, locked.get("/", "").0];
    for head in answers.chain(others) {
        for part in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "frame-ancestors 'none'",
            "x-frame-options: DENY",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(head.contains(part), "{part}: {head}");
        }
        assert!(!head.contains("access-control"), "{head}");
    }
}

#[test]
fn news_are_server_sent_events() {
    let bed = Bed::new(with_dashboard());
    let (head, mut reader) = bed.get("/live", "");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    wait_for_line(&mut reader, "retry: 1000");
    wait_for_line(&mut reader, "event: status");
    let data = wait_for_line(&mut reader, "data: ");
    let status: serde_json::Value = serde_json::from_str(&data["data: ".len()..]).unwrap();
    assert!(status["streams"].is_array(), "{status}");
    bed.shared.live.on_event(&crate::stream_event::TimedEvent {
        stream_event: StreamEvent::AllLinksDown,
        unix_time_s: 1e9,
        uptime_s: 1.0,
        stream: "camera".to_owned(),
    });
    bed.shared.live.publish(Arc::default());
    wait_for_line(&mut reader, "event: happened");
    let data = wait_for_line(&mut reader, "data: ");
    assert!(
        data.contains("\"number\":1,\"event\":\"all-links-down\""),
        "{data}"
    );
    wait_for_line(&mut reader, "event: status");
}

#[test]
fn viewers_have_a_limit_and_make_room_when_they_leave() {
    let bed = Bed::new(with_dashboard());
    let viewers: Vec<_> = (0..MAX_VIEWERS).map(|_| bed.get("/live", "")).collect();
    let (head, _) = bed.get("/live", "");
    assert_eq!(code(&head), "503");
    assert!(head.contains("retry-after"), "{head}");
    // Other requests are answered.
    assert_eq!(bed.code("/metrics", ""), "200");
    drop(viewers);
    while bed.shared.live.viewer_count() > 0 {
        bed.shared.live.publish(Arc::default());
        thread::park_timeout(Duration::from_millis(10));
    }
    assert_eq!(bed.code("/live", ""), "200");
}

#[test]
fn a_viewer_that_reads_stays_and_one_that_does_not_is_hung_up_on() {
    let patience = Patience {
        progress: Duration::from_millis(200),
        age: Duration::from_millis(300),
    };
    let bed = Bed::with_patience(with_dashboard(), patience);
    let (_, mut reads) = bed.get("/live", "");
    for _ in 0..20 {
        bed.shared.live.publish(Arc::default());
        wait_for_line(&mut reads, "event: status");
        thread::park_timeout(Duration::from_millis(40));
    }
    // The buffers of the operating system fill up first.
    let (_, sleeps) = bed.get("/live", "");
    drop(reads);
    let status = long_status(4 << 20);
    while bed.shared.live.viewer_count() > 0 {
        bed.shared.live.publish(Arc::clone(&status));
        thread::park_timeout(Duration::from_millis(20));
    }
    drop(sleeps);
}

#[test]
fn heads_have_no_bodies() {
    let bed = Bed::new(with_dashboard());
    for path in PATHS {
        let request = format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").repeat(2);
        let (head, mut reader) = bed.head_of(&request);
        assert!(["200", "204"].contains(&code(&head)), "{path}: {head}");
        let mut next = String::new();
        reader.read_line(&mut next).unwrap();
        assert!(next.starts_with("HTTP/1.1 20"), "{path}: {next}");
    }
    assert_eq!(bed.shared.live.viewer_count(), 0);
}

#[test]
fn odd_requests_get_answers_and_harm_nobody() {
    let bed = Bed::new(with_token());
    let long = format!("/{}", "x".repeat(4_000));
    let many = format!("/?{}", "token=x&".repeat(400));
    let targets = [
        "//",
        "/../../etc/passwd",
        "/%2e%2e/%00",
        "/live/",
        "/thumbnail?stream=%ff%",
        "/?token",
        "http://localhost/?token=",
        "*",
        &long,
        &many,
    ];
    let mut codes = BTreeSet::new();
    for target in targets {
        for method in ["GET", "POST", "OPTIONS", "x"] {
            let request = format!(
                "{method} {target} HTTP/1.1\r\nHost: localhost\r\nCookie: ;;=;{}\r\n\r\n",
                "a=b;".repeat(500)
            );
            let (head, _) = bed.head_of(&request);
            codes.insert(code(&head).to_owned());
        }
    }
    assert!(
        codes.iter().all(|code| ["400", "401"].contains(&&**code)),
        "{codes:?}"
    );
    let (head, _) = bed.head_of(&format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    ));
    assert_eq!(code(&head), "405");
    let (head, _) = bed.head_of(&format!(
        "GET /live HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    ));
    assert_eq!(code(&head), "200");
}

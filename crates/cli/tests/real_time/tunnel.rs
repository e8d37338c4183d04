//! Tests of TCP connections through `proxy` and `serve`, the real programs, over loopback. Waits
//! are generous: the machine may be busy.
//!
//! Needs a clock: real programs exchange packets over sockets.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use anabranch_core::PathOptions;
use anabranch_net::{
    ByteStream, ClientConfig, ClientPath, Event, StreamClient, Via, stream_transport,
};
use anabranch_secure::SecretKey;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::bed::{Bed, PATIENCE, Running, free_port};

const LOOPBACK: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// Starts a server, and returns its address too.
fn serve(bed: &Bed, listen: &str, options: &[&str]) -> (Running, String) {
    let key = bed.text("receiver.key");
    let allow = &bed.sender_public;
    let fixed = ["serve", "--listen", listen, "--key", &key, "--allow", allow];
    let mut running = Running::start(&[&fixed[..], options].concat());
    let line = running.wait_for("listening at ");
    let address = line.split_whitespace().nth(2).unwrap().to_owned();
    (running, address)
}

/// Starts a proxy over two paths, and returns its address for each of `options`.
fn proxy(bed: &Bed, to: &str, options: &[&str]) -> (Running, Vec<SocketAddr>) {
    let key = bed.text("sender.key");
    let peer = &bed.receiver_public;
    let mut arguments = vec!["proxy", "--to", to, "--key", &key, "--peer", peer];
    arguments.extend(["--via", "127.0.0.1", "--via", "127.0.0.2"]);
    for option in options {
        arguments.extend([option, "127.0.0.1:0"]);
    }
    let mut running = Running::start(&arguments);
    let mut taken = |_: &&str| {
        let line = running.wait_for("taking connections at ");
        line.split_whitespace().nth(3).unwrap().parse().unwrap()
    };
    let addresses = options.iter().map(&mut taken).collect();
    running.wait_for("connected to ");
    (running, addresses)
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.expect("it is done in time")
}

/// Starts an origin that reads to the end and then answers with the same bytes backwards.
async fn backwards() -> SocketAddr {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut said = Vec::new();
                connection.read_to_end(&mut said).await.unwrap();
                said.reverse();
                connection.write_all(&said).await.unwrap();
            });
        }
    });
    address
}

/// Sends everything, and reads the answer to its end.
async fn say(connection: &mut TcpStream, said: &[u8]) -> Vec<u8> {
    let mut heard = Vec::new();
    connection.write_all(said).await.unwrap();
    connection.shutdown().await.unwrap();
    in_time(connection.read_to_end(&mut heard)).await.unwrap();
    heard
}

#[tokio::test]
async fn connections_are_forwarded_and_each_half_ends_for_itself() {
    let bed = Bed::new();
    let origin = backwards().await.to_string();
    let (serve, address) = serve(&bed, "127.0.0.1:0", &["--forward", &origin]);
    let (proxy, listening) = proxy(&bed, &address, &["--listen"]);
    let mut connection = TcpStream::connect(listening[0]).await.unwrap();
    let said: Vec<u8> = (0..3_000_000_u32)
        .map(|at| ((at * 31) >> 4) as u8)
        .collect();
    let mut expected = said.clone();
    expected.reverse();
    assert!(say(&mut connection, &said).await == expected);
    proxy.interrupt();
    let (code, summary) = proxy.finish();
    assert_eq!(code, 0, "{summary}");
    assert!(summary.contains("path 1 (127.0.0.2): "), "{summary}");
    serve.interrupt();
    let said = serve.finish_well();
    assert!(
        said.contains("a session is over: closed by the peer"),
        "{said}"
    );
}

#[tokio::test]
async fn a_target_where_nobody_listens_is_named_once_and_http_is_answered() {
    let bed = Bed::new();
    let closed = format!("127.0.0.1:{}", free_port());
    let (mut serve, address) = serve(&bed, "127.0.0.1:0", &["--forward", &closed]);
    serve.wait_for("nothing listens there; it may come later");
    let (_proxy, listening) = proxy(&bed, &address, &["--listen"]);
    for _ in 0..3 {
        let mut browser = TcpStream::connect(listening[0]).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let heard = String::from_utf8(say(&mut browser, request).await).unwrap();
        assert!(heard.starts_with("HTTP/1.1 502 Bad Gateway"), "{heard}");
        assert!(heard.contains("nothing listens there"), "{heard}");
    }
    let mut other = TcpStream::connect(listening[0]).await.unwrap();
    other.write_all(b"SSH-2.0-x\r\n").await.unwrap();
    let ended = in_time(other.read_to_end(&mut Vec::new())).await;
    assert!(ended.is_err(), "{ended:?}");
    serve.interrupt();
    let (_, said) = serve.finish();
    let line = format!("no connection to {closed}: nothing listens there");
    assert_eq!(said.matches(&line).count(), 1, "{said}");
}

#[tokio::test]
async fn applications_say_where_to_by_socks5_and_http() {
    let bed = Bed::new();
    let origin = backwards().await;
    let closed = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let (origin_text, closed_text) = (origin.to_string(), closed.to_string());
    let options = ["--connect", &origin_text, "--connect", &closed_text];
    let (_serve, address) = serve(&bed, "127.0.0.1:0", &options);
    let (_proxy, listening) = proxy(&bed, &address, &["--socks5", "--http-proxy"]);

    let socks = |port: u16| {
        let [high, low] = port.to_be_bytes();
        [5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, high, low]
    };
    for (port, expected) in [(origin.port(), 0), (closed.port(), 5), (9, 2)] {
        let mut connection = TcpStream::connect(listening[0]).await.unwrap();
        connection.write_all(&socks(port)).await.unwrap();
        let mut answer = [0; 12];
        in_time(connection.read_exact(&mut answer)).await.unwrap();
        assert_eq!((answer[1], answer[3]), (0, expected), "{port}");
        if expected == 0 {
            assert_eq!(say(&mut connection, b"by socks").await, b"skcos yb");
        }
    }
    for (port, expected) in [
        (origin.port(), "200 "),
        (closed.port(), "502 "),
        (9, "403 "),
    ] {
        let mut connection = TcpStream::connect(listening[1]).await.unwrap();
        let request = format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let heard = say(&mut connection, b"by http").await;
        let heard = String::from_utf8(heard).unwrap();
        assert!(
            heard.starts_with(&format!("HTTP/1.1 {expected}")),
            "{heard}"
        );
        assert_eq!(heard.ends_with("ptth yb"), expected == "200 ", "{heard}");
    }
    let mut connection = TcpStream::connect(listening[1]).await.unwrap();
    let request = format!("GET http://127.0.0.1:{}/x HTTP/1.1\r\n\r\n", origin.port());
    let heard = say(&mut connection, request.as_bytes()).await;
    let head = format!("GET /x HTTP/1.1\r\nHost: {origin}\r\nConnection: close\r\n\r\n");
    let expected: Vec<u8> = head.bytes().rev().collect();
    assert_eq!(heard, expected);
}

/// Returns the answer of SOCKS5 to a request for 127.0.0.1.
async fn socks_answer(proxy: SocketAddr, port: u16) -> (TcpStream, u8) {
    let [high, low] = port.to_be_bytes();
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    let request = [5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, high, low];
    connection.write_all(&request).await.unwrap();
    let mut answer = [0; 12];
    in_time(connection.read_exact(&mut answer)).await.unwrap();
    (connection, answer[3])
}

/// An attack found by the audit: a rule for a port reached the server's own services.
#[tokio::test]
async fn a_rule_for_a_port_does_not_reach_this_machine_and_the_refusal_is_recorded() {
    let bed = Bed::new();
    let origin = backwards().await.port();
    let (rule, stats) = (format!("*:{origin}"), bed.text("stats.json"));
    let options = ["--connect", &rule, "--connect", "any", "--stats", &stats];
    let (mut serve, address) = serve(&bed, "127.0.0.1:0", &options);
    let (_proxy, listening) = proxy(&bed, &address, &["--socks5", "--http-proxy"]);
    assert_eq!(socks_answer(listening[0], origin).await.1, 2);
    let line = serve.wait_for("is refused");
    let part = format!("127.0.0.1:{origin} (tcp): its address is special");
    assert!(line.contains(&part), "{line}");
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "127.1",
    ] {
        for form in [
            format!("CONNECT {host}:{origin} HTTP/1.1\r\n\r\n"),
            format!("GET http://{host}:{origin}/ HTTP/1.1\r\n\r\n"),
        ] {
            let mut connection = TcpStream::connect(listening[1]).await.unwrap();
            let heard = say(&mut connection, form.as_bytes()).await;
            let heard = String::from_utf8(heard).unwrap();
            assert!(heard.starts_with("HTTP/1.1 403 "), "{form}{heard}");
        }
    }
    serve.interrupt();
    serve.finish();
    let events = std::fs::read_to_string(&stats).unwrap();
    let count = events.matches("\"event\":\"connection-refused\"").count();
    assert_eq!(count, 11, "{events}");
}

#[tokio::test]
async fn keys_have_rules_of_their_own_and_lose_their_connections_when_they_are_taken_out() {
    let bed = Bed::new();
    let (origin, other) = (backwards().await.port(), backwards().await.port());
    let (proxies, stats) = (bed.path("proxies"), bed.text("stats.json"));
    let write = |text: String, age: u64| {
        let next = bed.path("next");
        std::fs::write(&next, text).unwrap();
        let at = SystemTime::UNIX_EPOCH + core::time::Duration::from_secs(age);
        let file = std::fs::File::options().append(true).open(&next);
        file.unwrap().set_modified(at).unwrap();
        std::fs::rename(next, &proxies).unwrap();
    };
    let peer = &bed.sender_public;
    write(format!("{peer} van connect=127.0.0.1:{origin}\n"), 1);
    let (key, from) = (bed.text("receiver.key"), bed.text("proxies"));
    let fixed = ["serve", "--listen", "127.0.0.1:0", "--key", &key];
    let options = [
        "--allow-from",
        &from,
        "--connect",
        "127.0.0.0/8:*",
        "--stats",
        &stats,
    ];
    let mut serve = Running::start(&[&fixed[..], &options].concat());
    let line = serve.wait_for("listening at ");
    let address = line.split_whitespace().nth(2).unwrap().to_owned();
    let (_proxy, listening) = proxy(&bed, &address, &["--socks5"]);
    let (mut open, answer) = socks_answer(listening[0], origin).await;
    assert_eq!(answer, 0);
    // The rule of the key counts, not that of --connect.
    assert_eq!(socks_answer(listening[0], other).await.1, 2);
    serve.wait_for("van is refused");
    write(format!("{peer} van connect=127.0.0.1:{other}\n"), 2);
    serve.wait_for("1 proxies are let in");
    assert_eq!(socks_answer(listening[0], other).await.1, 0);
    assert_eq!(socks_answer(listening[0], origin).await.1, 2);
    write("# nobody\n".to_owned(), 3);
    serve.wait_for("0 proxies are let in");
    assert!(in_time(open.read(&mut [0; 10])).await.is_err());
    serve.interrupt();
    serve.finish();
    let events = std::fs::read_to_string(&stats).unwrap();
    let connected = format!("\"target\":\"127.0.0.1:{other}\"");
    assert!(events.contains("\"event\":\"connection\"") && events.contains(&connected));
}

/// Reads to the end of a connection to which a byte is written each second.
async fn heard_while_dripping(mut connection: TcpStream) -> Vec<u8> {
    let (mut reader, mut writer) = connection.split();
    let mut heard = Vec::new();
    let dripping = async {
        loop {
            tokio::time::sleep(core::time::Duration::from_secs(1)).await;
            // The other end may have closed.
            let _ = writer.write_all(b"x").await;
        }
    };
    tokio::select! {
        _ = in_time(reader.read_to_end(&mut heard)) => heard,
        () = dripping => unreachable!(),
    }
}

/// Applications and proxies that begin a request and do not complete it.
#[tokio::test]
async fn requests_that_are_not_complete_after_ten_seconds_end_although_they_grow() {
    let bed = Bed::new();
    let origin = backwards().await.to_string();
    let (_serve, address) = serve(&bed, "127.0.0.1:0", &["--forward", &origin]);
    let (proxy, listening) = proxy(&bed, &address, &["--socks5", "--http-proxy"]);
    let mut socks = TcpStream::connect(listening[0]).await.unwrap();
    let mut http = TcpStream::connect(listening[1]).await.unwrap();
    // A name of 255 bytes, and a field that does not end.
    let name = b"\x05\x01\x00\x05\x01\x00\x03\xffa";
    socks.write_all(name).await.unwrap();
    let head = b"GET http://a.b/ HTTP/1.1\r\nA: ";
    http.write_all(head).await.unwrap();
    let (of_socks, of_http) = tokio::join!(heard_while_dripping(socks), heard_while_dripping(http));
    assert_eq!(of_socks, b"\x05\x00");
    let of_http = String::from_utf8(of_http).unwrap();
    assert!(of_http.starts_with("HTTP/1.1 408 "), "{of_http}");
    drop(proxy);

    let client = client(&bed, &address);
    let mut streams: Vec<ByteStream> = (0..200).map(|_| client.open().unwrap()).collect();
    for stream in &mut streams {
        // The first byte of 257.
        stream.write_all(b"\x01\x01a").await.unwrap();
    }
    for mut stream in streams {
        assert!(in_time(stream.read_u8()).await.is_err());
    }
    let mut stream = client.open().unwrap();
    stream.write_all(b"\0\0").await.unwrap();
    assert_eq!(
        in_time(stream.read_u8()).await.unwrap(),
        0,
        "it is connected"
    );
}

/// Returns a client with the sender's key, for streams of arbitrary bytes to `serve`.
fn client(bed: &Bed, address: &str) -> StreamClient {
    let key = std::fs::read_to_string(bed.path("sender.key")).unwrap();
    let path = ClientPath {
        via: Via::DefaultRoute,
        remote: address.parse().unwrap(),
        options: PathOptions::default(),
    };
    let key = SecretKey::from_text(key.trim()).unwrap();
    let peer = bed.receiver_public.parse().unwrap();
    let config = ClientConfig {
        transport: stream_transport(
            anabranch_controllers::default_controller(),
            anabranch_schedulers::default_scheduler(),
        ),
        ..ClientConfig::new(key, peer, vec![path])
    };
    let (client, events) = StreamClient::start(config).unwrap();
    while !matches!(events.recv_timeout(PATIENCE), Ok(Event::Connected { .. })) {}
    client
}

/// Raises the limit of open files: this program has both ends of a thousand connections.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
}

#[tokio::test]
async fn a_thousand_connections_at_once_are_carried() {
    allow_many_files();
    let bed = Bed::new();
    let origin = backwards().await.to_string();
    let (_serve, address) = serve(&bed, "127.0.0.1:0", &["--forward", &origin]);
    let (_proxy, listening) = proxy(&bed, &address, &["--listen"]);
    let mut connections = Vec::new();
    for number in 0..1_000 {
        let mut connection = in_time(TcpStream::connect(listening[0])).await.unwrap();
        // All of them are open before any is answered.
        connection.write_all(&[number as u8; 100]).await.unwrap();
        connections.push(connection);
    }
    let said = connections
        .into_iter()
        .enumerate()
        .map(|(number, mut connection)| {
            tokio::spawn(async move {
                let own = number.to_string();
                let heard = say(&mut connection, own.as_bytes()).await;
                let mut expected: Vec<u8> = own.bytes().rev().collect();
                expected.extend([number as u8; 100]);
                assert_eq!(heard, expected);
            })
        });
    let said: Vec<_> = said.collect();
    for said in said {
        said.await.unwrap();
    }
}

#[tokio::test]
async fn an_application_that_does_not_read_holds_the_origin_up_and_one_that_leaves_ends_it() {
    let bed = Bed::new();
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let origin = listener.local_addr().unwrap().to_string();
    let written = Arc::new(AtomicU64::new(0));
    let ended = tokio::spawn({
        let written = Arc::clone(&written);
        async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            loop {
                match connection.write(&[7; 10_000]).await {
                    Ok(count) => written.fetch_add(count as u64, Ordering::Relaxed),
                    Err(error) => return error.kind(),
                };
            }
        }
    });
    let (_serve, address) = serve(&bed, "127.0.0.1:0", &["--forward", &origin]);
    let (_proxy, listening) = proxy(&bed, &address, &["--listen"]);
    let connection = TcpStream::connect(listening[0]).await.unwrap();
    let mut before = 0;
    // The stream stalls for a second, not just for a moment.
    in_time(async {
        loop {
            tokio::time::sleep(core::time::Duration::from_secs(1)).await;
            let now = written.load(Ordering::Relaxed);
            if now > 0 && now == before {
                return;
            }
            before = now;
        }
    })
    .await;
    assert!(before < 24 << 20, "{before} bytes are kept on the way");
    drop(connection);
    let ended = in_time(ended).await.unwrap();
    let reset = [
        std::io::ErrorKind::ConnectionReset,
        std::io::ErrorKind::BrokenPipe,
    ];
    assert!(reset.contains(&ended), "{ended}");
}

#[tokio::test]
async fn a_server_that_is_started_again_is_found_again() {
    let bed = Bed::new();
    let origin = backwards().await.to_string();
    // Nothing takes the port while no server has it.
    let listen = format!("127.0.0.1:{}", free_port());
    let (first, address) = serve(&bed, &listen, &["--forward", &origin]);
    let (mut proxy, listening) = proxy(&bed, &address, &["--listen"]);
    let mut broken = TcpStream::connect(listening[0]).await.unwrap();
    broken.write_all(b"half").await.unwrap();
    // The server crashes.
    drop(first);
    let (_second, _) = serve(&bed, &address, &["--forward", &origin]);
    proxy.wait_for("connected again");
    assert!(in_time(broken.read(&mut [0; 10])).await.is_err());
    let mut connection = TcpStream::connect(listening[0]).await.unwrap();
    assert_eq!(say(&mut connection, b"again").await, b"niaga");
}

#[test]
fn mistakes_say_what_to_do() {
    let bed = Bed::new();
    let key = bed.text("sender.key");
    let peer = &bed.receiver_public;
    let cases: [(&[&str], &str); 4] = [
        (
            &[
                "proxy",
                "--to",
                "127.0.0.1:9",
                "--key",
                &key,
                "--peer",
                peer,
            ],
            "--socks5 <ADDR>",
        ),
        (
            &[
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--key",
                &key,
                "--allow",
                peer,
            ],
            "--forward HOST:PORT",
        ),
        (
            &[
                "proxy",
                "--to",
                "127.0.0.1:9",
                "--key",
                &key,
                "--peer",
                peer,
                "--listen",
                "8080x",
            ],
            "--listen 8080x: expected an address and a port",
        ),
        (
            &[
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--key",
                &key,
                "--allow",
                peer,
                "--connect",
                "example.org",
            ],
            "expected any, HOST:PORT",
        ),
    ];
    for (arguments, expected) in cases {
        let (code, said) = Running::start(arguments).finish();
        assert!(code != 0 && said.contains(expected), "{said}");
    }
}

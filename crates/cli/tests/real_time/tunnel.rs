//! Tests of TCP connections through `proxy` and `serve`, the real programs, over loopback. Waits
//! are generous: the machine may be busy. More tests run in a world: `tunnel/src/world`.
//!
//! Needs a clock: real programs exchange packets over sockets.

use std::net::{Ipv4Addr, SocketAddr};

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
    let mut addresses = Vec::new();
    for _ in options {
        let line = running.wait_for("taking connections at ");
        addresses.push(line.split_whitespace().nth(3).unwrap().parse().unwrap());
    }
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
    let (proxies, stats) = ("proxies", bed.text("stats.json"));
    let peer = &bed.sender_public;
    let rule = format!("{peer} van connect=127.0.0.1:{origin}\n");
    bed.replace(proxies, &rule, 1);
    let (key, from) = (bed.text("receiver.key"), bed.text(proxies));
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
    let rule = format!("{peer} van connect=127.0.0.1:{other}\n");
    bed.replace(proxies, &rule, 2);
    serve.wait_for("1 proxies are let in");
    assert_eq!(socks_answer(listening[0], other).await.1, 0);
    assert_eq!(socks_answer(listening[0], origin).await.1, 2);
    bed.replace(proxies, "# nobody\n", 3);
    serve.wait_for("0 proxies are let in");
    assert!(in_time(open.read(&mut [0; 10])).await.is_err());
    serve.interrupt();
    serve.finish();
    let events = std::fs::read_to_string(&stats).unwrap();
    let connected = format!("\"target\":\"127.0.0.1:{other}\"");
    assert!(events.contains("\"event\":\"connection\"") && events.contains(&connected));
}

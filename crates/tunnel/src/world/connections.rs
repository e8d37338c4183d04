//! TCP connections through proxy and server.

use core::time::Duration;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_net::{ByteStream, Event, Events};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use super::memory::Memory;
use super::{Bed, line, run};
use crate::proxy::Protocol;

/// An address of a target (RFC 5737).
fn target(port: u16) -> SocketAddr {
    ([203, 0, 113, 5], port).into()
}

/// Returns a bed over two lines that lose 1 %.
fn bed(seed: u64) -> Bed {
    Bed::new(
        seed,
        &[line(40, 5).with_loss(0.01), line(40, 20).with_loss(0.01)],
    )
}

/// Adds a target that reads to the end, and then answers with the same bytes backwards.
fn answer_backwards(bed: &Bed, at: SocketAddr) {
    let mut accepted = bed.targets.listen(at);
    tokio::spawn(async move {
        while let Some(mut connection) = accepted.recv().await {
            tokio::spawn(async move {
                let mut said = Vec::new();
                connection.read_to_end(&mut said).await?;
                said.reverse();
                connection.write_all(&said).await
            });
        }
    });
}

/// Sends everything, and reads the answer to its end.
async fn say(connection: &mut Memory, said: &[u8]) -> Vec<u8> {
    let mut heard = Vec::new();
    connection.write_all(said).await.expect("it is read");
    connection.shutdown().await.expect("it is open");
    connection.read_to_end(&mut heard).await.expect("an answer");
    heard
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("a text")
}

async fn wait_for(events: &Events, is_it: impl Fn(&Event) -> bool) {
    while !is_it(&events.recv_async().await.expect("the session goes on")) {}
}

#[test]
fn each_half_of_a_connection_ends_for_itself_while_a_path_dies() {
    let bed = bed(1);
    let said: Vec<u8> = (0..3_000_000_u32)
        .map(|at| ((at * 31) >> 4) as u8)
        .collect();
    let mut expected = said.clone();
    expected.reverse();
    run(&bed.world, async {
        answer_backwards(&bed, target(80));
        let _server = bed.serve(bed.policy(Some(target(80)), &[]));
        let (client, _events) = bed.connect().await;
        let mut connection = bed.application(&client, Protocol::Nothing);
        let dying = async {
            sleep(Duration::from_millis(300)).await;
            bed.lines[0].block_udp(true);
        };
        let (heard, ()) = tokio::join!(say(&mut connection, &said), dying);
        assert!(heard == expected, "{} bytes", heard.len());
    });
}

#[test]
fn applications_name_targets_by_socks5_and_http() {
    let bed = bed(2);
    run(&bed.world, async {
        answer_backwards(&bed, target(80));
        let rules = ["203.0.113.5:80", "203.0.113.5:81"];
        let _server = bed.serve(bed.policy(None, &rules));
        let (client, _events) = bed.connect().await;
        for (port, expected) in [(80, 0), (81, 5), (9, 2)] {
            let mut connection = bed.application(&client, Protocol::Socks5);
            let request = [5, 1, 0, 5, 1, 0, 1, 203, 0, 113, 5, 0, port];
            connection.write_all(&request).await.expect("it is read");
            let mut answer = [0; 12];
            connection.read_exact(&mut answer).await.expect("an answer");
            assert_eq!((answer[1], answer[3]), (0, expected), "{port}");
            if expected == 0 {
                assert_eq!(say(&mut connection, b"by socks").await, b"skcos yb");
            }
        }
        for (port, expected) in [(80, "200 "), (81, "502 "), (9, "403 ")] {
            let mut connection = bed.application(&client, Protocol::Http);
            let request = format!("CONNECT {} HTTP/1.1\r\n\r\n", target(port));
            connection
                .write_all(request.as_bytes())
                .await
                .expect("it is read");
            let heard = text(say(&mut connection, b"by http").await);
            assert!(
                heard.starts_with(&format!("HTTP/1.1 {expected}")),
                "{heard}"
            );
            assert_eq!(heard.ends_with("ptth yb"), expected == "200 ", "{heard}");
        }
        let mut connection = bed.application(&client, Protocol::Http);
        let request = "GET http://203.0.113.5:80/x HTTP/1.1\r\n\r\n";
        let heard = say(&mut connection, request.as_bytes()).await;
        let head = "GET /x HTTP/1.1\r\nHost: 203.0.113.5:80\r\nConnection: close\r\n\r\n";
        assert_eq!(heard, head.bytes().rev().collect::<Vec<u8>>());
    });
}

#[test]
fn a_target_that_never_answers_is_given_up_after_ten_seconds() {
    let bed = bed(3);
    bed.targets.be_silent_at(target(80));
    run(&bed.world, async {
        let _server = bed.serve(bed.policy(Some(target(80)), &["203.0.113.5:80"]));
        let (client, _events) = bed.connect().await;
        let mut browser = bed.application(&client, Protocol::Http);
        let began_at = Instant::now();
        let request = format!("CONNECT {} HTTP/1.1\r\n\r\n", target(80));
        let heard = text(say(&mut browser, request.as_bytes()).await);
        assert!(heard.starts_with("HTTP/1.1 502 "), "{heard}");
        let took = began_at.elapsed().as_secs_f64();
        assert!((10.0..10.5).contains(&took), "{took} s");
    });
}

#[test]
fn the_servers_own_target_is_refused_as_the_application_speaks() {
    let bed = bed(4);
    run(&bed.world, async {
        let _server = bed.serve(bed.policy(Some(target(80)), &[]));
        let (client, _events) = bed.connect().await;
        let mut browser = bed.application(&client, Protocol::Nothing);
        let heard = text(say(&mut browser, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await);
        assert!(heard.starts_with("HTTP/1.1 502 Bad Gateway"), "{heard}");
        let mut other = bed.application(&client, Protocol::Nothing);
        other.write_all(b"SSH-2.0-x\r\n").await.expect("it is read");
        let ended = other.read_to_end(&mut Vec::new()).await;
        assert_eq!(
            ended.map_err(|error| error.kind()),
            Err(ErrorKind::ConnectionReset)
        );
    });
}

/// Reads to the end of a connection to which a byte is written each second.
async fn heard_while_dripping(connection: Memory) -> Vec<u8> {
    let (mut reader, mut writer) = tokio::io::split(connection);
    let mut heard = Vec::new();
    let dripping = async {
        loop {
            sleep(Duration::from_secs(1)).await;
            // The other end may have closed.
            let _ = writer.write_all(b"x").await;
        }
    };
    tokio::select! {
        _ = reader.read_to_end(&mut heard) => heard,
        () = dripping => unreachable!(),
    }
}

/// Applications and proxies that begin a request and do not complete it.
#[test]
fn requests_that_are_not_complete_after_ten_seconds_end_although_they_grow() {
    let bed = bed(5);
    run(&bed.world, async {
        answer_backwards(&bed, target(80));
        let _server = bed.serve(bed.policy(Some(target(80)), &[]));
        let (client, _events) = bed.connect().await;
        let mut socks = bed.application(&client, Protocol::Socks5);
        let mut http = bed.application(&client, Protocol::Http);
        // A name of 255 bytes, and a field that does not end.
        let name = b"\x05\x01\x00\x05\x01\x00\x03\xffa";
        socks.write_all(name).await.expect("it is read");
        let head = b"GET http://a.b/ HTTP/1.1\r\nA: ";
        http.write_all(head).await.expect("it is read");
        let began_at = Instant::now();
        let both = tokio::join!(heard_while_dripping(socks), heard_while_dripping(http));
        assert_eq!(both.0, b"\x05\x00");
        let of_http = text(both.1);
        assert!(of_http.starts_with("HTTP/1.1 408 "), "{of_http}");
        let mut streams: Vec<ByteStream> = Vec::new();
        for _ in 0..200 {
            let mut stream = client.open().expect("a session");
            // The first byte of 257.
            stream.write_all(b"\x01\x01a").await.expect("it is read");
            streams.push(stream);
        }
        for mut stream in streams {
            assert!(stream.read_u8().await.is_err());
        }
        let took = began_at.elapsed().as_secs_f64();
        // Ten seconds each, and two until the applications are closed.
        assert!((20.0..25.0).contains(&took), "{took} s");
        let mut stream = client.open().expect("a session");
        stream.write_all(b"\0\0").await.expect("it is read");
        assert_eq!(stream.read_u8().await.expect("an answer"), 0, "connected");
    });
}

#[test]
fn a_thousand_connections_at_once_are_carried() {
    let bed = bed(6);
    run(&bed.world, async {
        answer_backwards(&bed, target(80));
        let _server = bed.serve(bed.policy(Some(target(80)), &[]));
        let (client, _events) = bed.connect().await;
        let mut connections = Vec::new();
        for number in 0..1_000 {
            let mut connection = bed.application(&client, Protocol::Nothing);
            // All of them are open before any is answered.
            connection
                .write_all(&[number as u8; 100])
                .await
                .expect("it is read");
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
        for said in said.collect::<Vec<_>>() {
            said.await.expect("no panic");
        }
    });
}

#[test]
fn an_application_that_does_not_read_holds_the_target_up_and_one_that_leaves_ends_it() {
    let bed = bed(7);
    let mut accepted = bed.targets.listen(target(80));
    let written = Arc::new(AtomicU64::new(0));
    run(&bed.world, async {
        let counted = Arc::clone(&written);
        let ended = tokio::spawn(async move {
            let mut connection = accepted.recv().await.expect("a connection");
            loop {
                match connection.write(&[7; 10_000]).await {
                    Ok(count) => counted.fetch_add(count as u64, Ordering::Relaxed),
                    Err(error) => return error.kind(),
                };
            }
        });
        let _server = bed.serve(bed.policy(Some(target(80)), &[]));
        let (client, _events) = bed.connect().await;
        let connection = bed.application(&client, Protocol::Nothing);
        sleep(Duration::from_secs(20)).await;
        let before = written.load(Ordering::Relaxed);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(written.load(Ordering::Relaxed), before, "it stands still");
        assert!((1..24 << 20).contains(&before), "{before} bytes on the way");
        drop(connection);
        assert_eq!(ended.await.expect("no panic"), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_server_that_is_started_again_is_found_again() {
    let bed = bed(8);
    run(&bed.world, async {
        answer_backwards(&bed, target(80));
        let first = bed.serve(bed.policy(Some(target(80)), &[]));
        let (client, events) = bed.connect().await;
        let mut broken = bed.application(&client, Protocol::Nothing);
        broken.write_all(b"half").await.expect("it is read");
        sleep(Duration::from_millis(500)).await;
        bed.server.kill();
        drop(first);
        let _second = bed.serve(bed.policy(Some(target(80)), &[]));
        // The old stream ends by data that nobody knows.
        wait_for(&events, |event| matches!(event, Event::Reconnected { .. })).await;
        assert!(broken.read(&mut [0; 10]).await.is_err());
        let mut connection = bed.application(&client, Protocol::Nothing);
        assert_eq!(say(&mut connection, b"again").await, b"niaga");
    });
}

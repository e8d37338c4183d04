use core::time::Duration as StdDuration;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream as StdStream};
use std::thread;

use anabranch_net::Clock;

use super::*;
use crate::connections::{MAX_CONNECTIONS, Patience};
use crate::http::Serving;

/// Returns a server without streams, with this patience, and its address.
fn server(patience: Patience) -> (Serving, SocketAddr) {
    let wanted = "0".parse().unwrap();
    let mut server = Server::bind("--metrics", &wanted, &[]).unwrap();
    server.patience = patience;
    let address = server.address().unwrap();
    let shared = Arc::new(Shared::new(Clock::start()));
    let rights = AccessRights::default();
    (
        server.start("metrics", Metrics { shared, rights }).unwrap(),
        address,
    )
}

fn patience(progress_ms: u64, age_ms: u64) -> Patience {
    Patience {
        progress: StdDuration::from_millis(progress_ms),
        age: StdDuration::from_millis(age_ms),
    }
}

fn connect(address: SocketAddr) -> StdStream {
    let connection = StdStream::connect(address).unwrap();
    connection.set_read_timeout(Some(LIMIT)).unwrap();
    connection.set_write_timeout(Some(LIMIT)).unwrap();
    connection
}

/// Returns the status of the answer to a request for this host. Fails if it takes long.
fn status(address: SocketAddr, host: &str) -> String {
    let mut connection = connect(address);
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

/// Time limit of a read or write: far longer than the short patience of these tests, and
/// shorter than the default.
const LIMIT: StdDuration = StdDuration::from_secs(5);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn a_request_for_another_host_gets_no_answer() {
    let (_serving, address) = server(Patience::default());
    assert_eq!(status(address, "evil.example"), "421");
    assert_eq!(status(address, "localhost:9797"), "200");
    assert_eq!(status(address, &address.to_string()), "200");
}

#[test]
fn connections_that_say_nothing_make_room() {
    let (_serving, address) = server(patience(60_000, 60_000));
    let idle: Vec<StdStream> = (0..MAX_CONNECTIONS).map(|_| connect(address)).collect();
    let mut busy = connect(address);
    for _ in 0..2 * MAX_CONNECTIONS {
        assert_eq!(status(address, "localhost"), "200");
        busy.write_all(REQUEST).unwrap();
        assert!(busy.read(&mut [0; 4_096]).unwrap() > 0, "it is not idle");
    }
    // The first connection has made room, and the last one has not.
    assert_eq!((&idle[0]).read(&mut [0]).unwrap(), 0);
    let last = &idle[MAX_CONNECTIONS - 1];
    last.set_nonblocking(true).unwrap();
    let error = (&*last).read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_client_that_does_not_read_is_hung_up_on() {
    let (_serving, address) = server(patience(200, 60_000));
    let mut connection = connect(address);
    let requests = REQUEST.repeat(1_000);
    let error = loop {
        if let Err(error) = connection.write_all(&requests) {
            break error;
        }
    };
    assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
}

#[test]
fn a_connection_does_not_last_however_often_it_asks() {
    let (_serving, address) = server(patience(1_000, 2_000));
    let mut connection = connect(address);
    let mut count = 0;
    while connection.write_all(REQUEST).is_ok()
        && connection.read(&mut [0; 4_096]).is_ok_and(|read| read > 0)
    {
        count += 1;
        assert!(count < 500, "it lasts");
        thread::park_timeout(StdDuration::from_millis(20));
    }
    assert!(count > 2, "{count}");
}

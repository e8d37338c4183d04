//! Tests of `anabranch emulate` with plain UDP sockets.
//!
//! Needs a clock: the emulator delays datagrams of real sockets.

#![allow(
    clippy::disallowed_methods,
    reason = "these are users, who wait by the clock on the wall"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::bed::{self, Bed, PATIENCE, Running, TWO_ROUTES, free_port};

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Returns the address at which the route listens.
fn listening(program: &mut Running, route: &str) -> SocketAddr {
    let line = program.wait_for(&format!("{route}: "));
    let address = line.split_once(": ").unwrap().1.split(' ').next();
    address.unwrap().parse().unwrap()
}

#[test]
fn packets_and_their_answers_pass_the_links_of_a_scenario() {
    let bed = Bed::new();
    let file = bed.text("network.toml");
    std::fs::write(&file, TWO_ROUTES).unwrap();
    let server = socket();
    let to = server.local_addr().unwrap().to_string();
    let options = ["emulate", &file, "--to", &to, "--listen", "127.0.0.1:0"];
    let mut program = Running::start(&options);
    let one = listening(&mut program, "one");
    let two = listening(&mut program, "two");
    let client = socket();
    let mut buffer = [0; 100];
    client.send_to(b"lost", two).unwrap();
    for _ in 0..3 {
        let sent_at = Instant::now();
        client.send_to(b"asked", one).unwrap();
        let (len, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"asked");
        assert!(sent_at.elapsed() >= Duration::from_millis(40));
        server.send_to(b"answered", from).unwrap();
        let (len, from) = client.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from), (&b"answered"[..], one));
        assert!(sent_at.elapsed() >= Duration::from_millis(50));
    }
    program.interrupt();
    let said = program.finish_well();
    let expected = [
        "one, there: 3 packets in, 3 out, 0 lost",
        "one, back:  3 packets in, 3 out, 0 lost",
        "two, there: 1 packets in, 0 out, 1 lost",
    ];
    for part in expected {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn the_end_of_standard_input_ends_it_if_asked_for() {
    let bed = Bed::new();
    let file = bed.text("network.toml");
    std::fs::write(&file, TWO_ROUTES).unwrap();
    let options = [
        "emulate",
        &file,
        "--to",
        "127.0.0.1:9",
        "--listen",
        "127.0.0.1:0",
    ];
    let options = [&options[..], &["--until-input-ends"]].concat();
    let mut program = Running::start_with(&options, Stdio::piped());
    listening(&mut program, "two");
    let mut input = program.child.stdin.take().unwrap();
    input.write_all(b"one rate 1Mbit/s\n").unwrap();
    program.wait_for("one, there: rate 1 Mbit/s");
    drop(input);
    let said = program.finish_well();
    assert!(said.contains("two, back:  0 packets in"), "{said}");
}

/// Posts lines, and returns the status and text of the answer.
fn post(address: &str, lines: &str, header: &str) -> (String, String) {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{header}\
         Content-Length: {}\r\n\r\n\
         {lines}",
        lines.len()
    );
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (status.to_owned(), body.to_owned())
}

#[test]
fn ports_follow_the_order_of_the_file_and_links_change_while_they_run() {
    let bed = Bed::new();
    let file = bed.path("network.toml");
    let swapped = TWO_ROUTES
        .replace("routes.one", "routes.wifi")
        .replace("routes.two", "routes.lte")
        .replace("paths = [\"one\"]", "paths = [\"wifi\"]");
    std::fs::write(&file, swapped).unwrap();
    let server = socket();
    let to = server.local_addr().unwrap().to_string();
    let own = format!("127.0.0.1:{}", free_port());
    let listen = format!("lte={own}");
    let fixed = ["emulate", file.to_str().unwrap(), "--to", &to];
    let listening_at = ["--listen", "127.0.0.1:0", "--listen", &listen];
    let options = [&listening_at[..], &["--control", "0"]].concat();
    let mut program = Running::start_with(&[&fixed[..], &options[..]].concat(), Stdio::piped());
    let wifi = listening(&mut program, "wifi");
    let lte = listening(&mut program, "lte");
    assert_eq!(lte.to_string(), own);
    let control = program
        .wait_for("changes at http://")
        .split("http://")
        .nth(1)
        .unwrap()
        .trim_end_matches('/')
        .to_owned();
    let mut input = program.child.stdin.take().unwrap();
    let client = socket();
    let mut buffer = [0; 100];

    // The link loses every packet until a line changes that.
    let (status, reply) = post(&control, "lte loss 0\nlte delay 80ms\n", "");
    assert_eq!(
        (status.as_str(), reply.as_str()),
        ("200", "lte, there: loss 0 %\nlte, there: delay 80 ms\n")
    );
    program.wait_for("lte, there: delay 80 ms");
    let sent_at = Instant::now();
    client.send_to(b"late", lte).unwrap();
    server.recv_from(&mut buffer).unwrap();
    assert!(sent_at.elapsed() >= Duration::from_millis(80));

    input.write_all(b"wifi down\n").unwrap();
    program.wait_for("wifi: down");
    client.send_to(b"lost", wifi).unwrap();
    // The emulator reads all its sockets before another packet leaves, 80 ms later.
    client.send_to(b"after", lte).unwrap();
    let (length, _) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"after");
    input.write_all(b"wifi up\nwifi rate 8kbit/s\n").unwrap();
    program.wait_for("wifi, there: rate 8 kbit/s");
    let sent_at = Instant::now();
    client.send_to(&[7; 72], wifi).unwrap();
    let (len, _) = server.recv_from(&mut buffer).unwrap();
    // 100 bytes with headers take 100 ms at 8 kbit/s; the delay is 40 ms.
    assert!(len == 72 && sent_at.elapsed() >= Duration::from_millis(140));

    input.write_all(b"wfi rate 1\n").unwrap();
    let said = program.wait_for("no route is called");
    assert!(said.contains("write `wifi rate 2Mbit/s`"), "{said}");
    let (status, reply) = post(&control, "wifi up\nwifi rate 1\n", "");
    assert!(
        status == "400" && reply.contains("write a number"),
        "{reply}"
    );
    let page = "Origin: http://evil.example\r\n";
    assert_eq!(post(&control, "wifi down\n", page).0, "403");
    let (status, _, help) = bed::get(&control, "/");
    assert!(status == 200 && help.starts_with("wifi\nlte\n"), "{help}");
    program.interrupt();
    let said = program.finish_well();
    assert!(
        said.contains("wifi, there: 2 packets in, 1 out, 1 lost"),
        "{said}"
    );
}

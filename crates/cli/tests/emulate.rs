//! `anabranch emulate`, as any program that speaks UDP sees it.

#![allow(
    clippy::disallowed_methods,
    reason = "these are users, who wait by the clock on the wall"
)]

mod bed;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bed::{Bed, PATIENCE, Running, run};

/// Two routes of 40 ms there and 10 ms back, of which the second loses everything.
const NETWORK: &str = r#"
title = "Two ways"
duration = "10 s"
[links.there]
rate = "2 Mbit/s"
delay = "40 ms"
[links.void]
rate = "2 Mbit/s"
loss = 1.0
[links.back]
delay = "10 ms"
[routes.one]
forward = ["there"]
reverse = ["back"]
[routes.two]
forward = ["void"]
reverse = ["back"]
[[flows]]
name = "camera"
paths = ["one"]
source = { kind = "cbr", rate = "1 Mbit/s" }
"#;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The address at which the route listens.
fn listening(program: &mut Running, route: &str) -> SocketAddr {
    let line = program.wait_for(&format!("{route}: "));
    let address = line.split_once(": ").unwrap().1.split(' ').next();
    address.unwrap().parse().unwrap()
}

#[test]
fn packets_and_their_answers_pass_the_links_of_a_scenario() {
    let bed = Bed::new();
    let file = bed.path("network.toml");
    std::fs::write(&file, NETWORK).unwrap();
    let server = socket();
    let to = server.local_addr().unwrap().to_string();
    let file = file.to_str().unwrap();
    let options = ["emulate", file, "--to", &to, "--listen", "127.0.0.1:0"];
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
    let (code, said) = program.finish();
    assert_eq!(code, 0, "{said}");
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
fn what_the_emulator_cannot_be_is_refused() {
    let bed = Bed::new();
    let shared = NETWORK.replace("forward = [\"void\"]", "forward = [\"there\"]");
    let long = NETWORK.replace("forward = [\"there\"]", "forward = [\"there\", \"void\"]");
    for (text, reason) in [
        (shared, "two routes share the link \"there\""),
        (long, "route \"one\" has 2 links one way"),
    ] {
        let file = bed.path("network.toml");
        std::fs::write(&file, text).unwrap();
        let output = run(&["emulate", file.to_str().unwrap(), "--to", "127.0.0.1:9"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}

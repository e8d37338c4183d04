//! Tests of pictures whose bytes leave as they come, through the real programs over loopback. Waits
//! are generous: the machine may be busy.
//!
//! Needs a clock: real programs exchange packets over sockets.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests act as users, who wait in real time"
)]

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::bed::{Bed, PATIENCE, Running, transport_stream_of};

const PACKET_LEN: usize = 188;
/// Pause between packets, after which no picture counts as over.
const PAUSE: Duration = Duration::from_millis(4);

fn loopback() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

/// Returns a free port, which is used a moment later.
fn free_port() -> u16 {
    loopback().local_addr().unwrap().port()
}

/// Returns a picture whose length, 60 kB, is in the stream, with its tables.
fn slow_picture() -> Vec<u8> {
    transport_stream_of(1, |_| 60_000)
}

/// A socket that receives the output.
struct Player {
    socket: UdpSocket,
    bytes: Vec<u8>,
}

impl Player {
    fn new() -> Self {
        let socket = loopback();
        socket.set_nonblocking(true).unwrap();
        Player {
            socket,
            bytes: Vec::new(),
        }
    }

    fn url(&self) -> String {
        format!("udp://{}", self.socket.local_addr().unwrap())
    }

    /// Takes the datagrams that have come.
    fn take_all(&mut self) {
        let mut buffer = [0; 1 << 16];
        loop {
            match self.socket.recv(&mut buffer) {
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    return;
                }
            }
        }
    }

    fn wait_for(&mut self, byte_count: usize) {
        let began_at = Instant::now();
        while self.bytes.len() < byte_count {
            assert!(began_at.elapsed() < PATIENCE, "{} B", self.bytes.len());
            sleep(PAUSE);
            self.take_all();
        }
    }
}

/// Writes a slow picture, packet by packet, until its beginning has come out. Checks that this is
/// before its end, and that the rest follows.
fn assert_that_its_beginning_arrives_first(player: &mut Player, mut write: impl FnMut(&[u8])) {
    let picture = slow_picture();
    let mut written = 0;
    for packet in picture.chunks(PACKET_LEN) {
        if player.bytes.len() >= 10 * PACKET_LEN {
            break;
        }
        write(packet);
        written += packet.len();
        sleep(PAUSE);
        player.take_all();
    }
    assert!(
        player.bytes.len() >= 10 * PACKET_LEN && written < picture.len(),
        "{} B of {written} B",
        player.bytes.len()
    );
    picture[written..].chunks(PACKET_LEN).for_each(write);
    player.wait_for(picture.len());
    assert!(player.bytes == picture);
}

#[test]
fn the_beginning_of_a_slow_picture_arrives_before_its_end_is_written() {
    let bed = Bed::new();
    let mut player = Player::new();
    let min = ["--latency", "min"];
    let (_recv, address) = bed.recv(&bed.sender_public, &player.url(), &min);
    let port = free_port();
    let mut send = bed.send(&address, &format!("udp://127.0.0.1:{port}"), &min);
    send.wait_for("connected");
    let camera = loopback();
    camera.connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    assert_that_its_beginning_arrives_first(&mut player, |packet| {
        camera.send(packet).unwrap();
    });
    send.interrupt();
    let (code, said) = send.finish();
    assert_eq!(code, 0, "{said}");
}

#[test]
fn the_beginning_of_a_slow_picture_leaves_a_pipe_before_its_end() {
    let bed = Bed::new();
    let mut player = Player::new();
    let min = ["--latency", "min"];
    let (_recv, address) = bed.recv(&bed.sender_public, &player.url(), &min);
    let key = bed.text("sender.key");
    let to = ["send", "--to", &address, "--key", &key, "--peer"];
    let peer = [&bed.receiver_public, "--latency", "min", "-"];
    let mut send = Running::start_with(&[&to[..], &peer].concat(), Stdio::piped());
    let mut stdin = send.child.stdin.take().unwrap();
    assert_that_its_beginning_arrives_first(&mut player, |packet| {
        stdin.write_all(packet).unwrap();
        stdin.flush().unwrap();
    });
    drop(stdin);
    let (code, said) = send.finish();
    assert_eq!(code, 0, "{said}");
}

/// Returns pictures of unknown length among which are null packets, as an encoder of a constant
/// bitrate makes them.
fn constant_rate(picture_count: u64) -> Vec<u8> {
    let mut stream = transport_stream_of(picture_count, |number| 6_000 + number * 531 % 3_000);
    for packet in stream.chunks_mut(PACKET_LEN) {
        let start = match packet[3] & 0x20 {
            0 => 4,
            _ => 5 + usize::from(packet[4]),
        };
        if packet[1] & 0x40 != 0 && packet.get(start..start + 3) == Some(&[0, 0, 1]) {
            packet[start + 4..start + 6].fill(0);
        }
    }
    let null = [&[0x47, 0x1f, 0xff, 0x10][..], &[0xff; 184]].concat();
    let pieces = stream.chunks(5 * PACKET_LEN);
    pieces
        .flat_map(|piece| [piece, &null.repeat(2)].concat())
        .collect()
}

#[test]
fn a_live_stream_comes_out_as_it_was_with_its_null_packets() {
    let bed = Bed::new();
    let output = bed.path("out.ts");
    let (recv, address) = bed.recv(&bed.sender_public, output.to_str().unwrap(), &[]);
    let port = free_port();
    let mut send = bed.send(&address, &format!("udp://127.0.0.1:{port}"), &[]);
    send.wait_for("connected");
    let camera = loopback();
    camera.connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let input = constant_rate(50);
    for datagram in input.chunks(7 * PACKET_LEN) {
        camera.send(datagram).unwrap();
        sleep(PAUSE);
    }
    let began_at = Instant::now();
    while output.metadata().map_or(0, |file| file.len()) < input.len() as u64 {
        assert!(began_at.elapsed() < PATIENCE);
        sleep(PAUSE);
    }
    send.interrupt();
    let (code, said) = send.finish();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("% of the input) were not sent"), "{said}");
    let (code, said) = recv.finish();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("null packets inserted again"), "{said}");
    assert!(std::fs::read(&output).unwrap() == input);
}

#[test]
fn messages_arrive_while_pictures_grow() {
    let bed = Bed::new();
    let player = Player::new();
    let lines: Vec<String> = (0..20).map(|number| format!("take {number}")).collect();
    let messages = bed.text("messages");
    std::fs::write(&messages, lines.join("\n")).unwrap();
    let (mut recv, address) = bed.recv(&bed.sender_public, &player.url(), &[]);
    let port = free_port();
    let input = format!("udp://127.0.0.1:{port}");
    let mut send = bed.send(&address, &input, &["--messages", &messages]);
    let camera = loopback();
    camera.connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let (stop, is_over) = std::sync::mpsc::channel::<()>();
    let feeder = std::thread::spawn(move || {
        let stream = constant_rate(100);
        for datagram in stream.chunks(7 * PACKET_LEN).cycle() {
            // Nobody listens before the session.
            let _ = camera.send(datagram);
            if is_over.recv_timeout(PAUSE) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    for line in &lines {
        recv.wait_for(&format!("message: {line}"));
    }
    drop(stop);
    feeder.join().unwrap();
    send.wait_for("connected");
    send.interrupt();
    let (code, said) = send.finish();
    assert_eq!(code, 0, "{said}");
}

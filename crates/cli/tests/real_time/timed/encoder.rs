//! Tests of encoders that follow the target bitrate, and of one that does not, over emulated links.
//!
//! Needs a clock: a real encoder follows emulated links for seconds.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests act as users, who wait in real time"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anabranch_emu::Relay;
use anabranch_link::LinkConfig;
use anabranch_units::DataRate;
use anabranch_video::mpeg_ts::TransportStreamWriter;
use serde_json::Value;

use crate::bed::{self, Bed, Running, anabranch, free_port, transport_stream_of};
use crate::punctual::Watch;

/// Starts a relay whose link has this rate and 20 ms of delay in each direction.
fn relay(target: &str, rate: DataRate) -> Relay {
    bed::relay(target, |link| LinkConfig {
        rate: Some(rate),
        ..link
    })
}

/// Returns the numbers before " Mbit/s" in a line.
fn rates(line: &str) -> Vec<f64> {
    let parts: Vec<&str> = line.split(" Mbit/s").collect();
    let (_, before) = parts.split_last().unwrap();
    before
        .iter()
        .map(|part| part.rsplit(' ').next().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn both_ends_report_an_overloading_encoder() {
    let bed = Bed::new();
    // 25 pictures a second of 30 kB are 6 Mbit/s.
    let film = transport_stream_of(12 * 25, |_| 29_000);
    std::fs::write(bed.path("in.ts"), film).unwrap();
    let stats = ["--stats", &bed.text("recv.json")];
    let (mut recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &stats);
    let relay = relay(&address, DataRate::from_megabits_per_second(4));
    let to = relay.listen_addr(0).to_string();
    let stats = ["--stats", &bed.text("send.json")];
    let (watch, began) = (Watch::start(), Instant::now());
    let mut send = bed.send(&to, &bed.text("in.ts"), &stats);
    let reported_line = send.wait_for("your encoder sends");
    let is_soon = began.elapsed() < Duration::from_secs(8);
    let what = "the report of an overload";
    assert!(watch.allows(is_soon, what, &[]), "{reported_line}");
    let [encoder, links] = rates(&reported_line)[..] else {
        panic!("{reported_line}")
    };
    let is_right = (5.4..6.6).contains(&encoder) && (3.0..4.4).contains(&links);
    assert!(watch.allows(is_right, what, &[]), "{reported_line}");
    let reported_line = recv.wait_for("the links carry");
    let [encoder, links] = rates(&reported_line)[..] else {
        panic!("{reported_line}")
    };
    let is_right = (4.5..8.5).contains(&encoder) && (2.8..4.2).contains(&links);
    assert!(watch.allows(is_right, what, &[]), "{reported_line}");
    send.finish();
    recv.finish();
    for file in ["send.json", "recv.json"] {
        let text = std::fs::read_to_string(bed.path(file)).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let reported_line = lines
            .iter()
            .find(|line| line["event"] == "overload")
            .unwrap_or_else(|| panic!("{file}: {text}"));
        assert!(
            reported_line["encoder_bps"].as_f64() > reported_line["links_bps"].as_f64(),
            "{reported_line}"
        );
        assert!(
            reported_line["frames_given_up"].as_u64() > Some(2),
            "{reported_line}"
        );
    }
}

/// A writer that sends a transport stream as datagrams.
struct Datagrams {
    socket: UdpSocket,
    to: SocketAddr,
}

impl Write for Datagrams {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // Sends fail until the sender listens.
        let _ = self.socket.send_to(bytes, self.to);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Encodes for `span`, with pictures of 90 % of the bitrate in `bitrate`.
fn encode(to: SocketAddr, bitrate: &AtomicU64, span: Duration) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut writer = TransportStreamWriter::new(Datagrams { socket, to });
    let began = Instant::now();
    for number in 0.. {
        let at = Duration::from_millis(40) * number;
        if at > span {
            break;
        }
        std::thread::sleep(at.saturating_sub(began.elapsed()));
        let is_key = number % 50 == 0;
        let bytes = bitrate.load(Ordering::Relaxed) * 9 / 10 / 8 / 25;
        let mut picture = vec![0, 0, 0, 1, if is_key { 0x65 } else { 0x41 }];
        picture.resize(bytes as usize, 0x55);
        let at = anabranch_units::Duration::from_millis(40 * u64::from(number));
        writer.write(&picture, at, is_key).unwrap();
    }
}

fn get(address: &str, path: &str) -> Value {
    let mut connection = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

#[test]
fn an_encoder_that_reads_the_lines_follows_the_link() {
    let bed = Bed::new();
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
    let relay = relay(&address, DataRate::from_megabits_per_second(2));
    let to = relay.listen_addr(0).to_string();
    let input = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let (name, key) = (format!("udp://{input}"), bed.text("sender.key"));
    let mut command = anabranch();
    command.args(["send", "--to", &to, "--key", &key, "--metrics", "0"]);
    command.args(["--encoder-range", "300kbit/s..6Mbit/s", "--target-to", "-"]);
    command.args(["--peer", &bed.receiver_public, &name]);
    let mut send = Running::of(command.stdout(Stdio::piped()));
    let metrics = send
        .wait_for("metrics at http://")
        .split_once("http://")
        .unwrap()
        .1
        .to_owned();
    let metrics = metrics.trim_end_matches("/metrics").to_owned();

    let bitrate = Arc::new(AtomicU64::new(300_000));
    let lines = BufReader::new(send.child.stdout.take().unwrap()).lines();
    let shared_bitrate = Arc::clone(&bitrate);
    let reader = std::thread::spawn(move || {
        let mut read = Vec::new();
        for line in lines {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            shared_bitrate.store(line["target_bps"].as_u64().unwrap(), Ordering::Relaxed);
            read.push(line);
        }
        read
    });
    let watch = Watch::start();
    encode(input, &bitrate, Duration::from_secs(15));
    let target = get(&metrics, "/target");
    send.interrupt();
    let (code, sent) = send.finish();
    let (_, received) = recv.finish();
    let lines = reader.join().unwrap();
    assert_eq!(code, 0, "{sent}\n{received}");

    let what = "an encoder that follows";
    let said: [&str; 2] = [&sent, &received];
    // The target begins with the minimum and reaches the link's rate.
    assert_eq!(lines[0]["event"], "target");
    assert_eq!(lines[0]["target_bps"], 300_000);
    let last = lines.last().unwrap();
    let range = 1.0e6..2.0e6;
    let is_reached = range.contains(&last["target_bps"].as_f64().unwrap());
    assert!(watch.allows(is_reached, what, &said), "{lines:#?}");
    let is_reached = range.contains(&target["target_bps"].as_f64().unwrap());
    assert!(watch.allows(is_reached, what, &said), "{target}");
    let media = last["media_bps"].as_f64().unwrap();
    let is_used = (0.7e6..2.2e6).contains(&media);
    assert!(watch.allows(is_used, what, &said), "{lines:#?}");
    for pair in lines.windows(2) {
        let [before, after] = [&pair[0], &pair[1]].map(|line| line["target_bps"].as_f64().unwrap());
        let [since, at] = [&pair[0], &pair[1]].map(|line| line["t"].as_f64().unwrap());
        assert!((after - before).abs() >= 0.029 * before, "{pair:#?}");
        assert!(after < before || at - since > 0.49, "{pair:#?}");
    }
    // Nearly all frames arrive: none is given up.
    let has_followed = !sent.contains("your encoder sends");
    assert!(watch.allows(has_followed, what, &said), "{sent}");
    let (_, frames) = received.split_once(" pictures ").unwrap();
    let (complete, dropped) = (count(frames, " in time"), count(frames, " late or lost"));
    assert!(watch.allows(complete > 350.0, what, &said), "{received}");
    let is_well = dropped <= complete * 0.01;
    assert!(watch.allows(is_well, what, &said), "{sent}\n{received}");
}

/// Returns the number before a unit.
fn count(text: &str, unit: &str) -> f64 {
    let before = text.split(unit).next().unwrap();
    before
        .rsplit([' ', ','])
        .find(|part| !part.is_empty())
        .unwrap()
        .parse()
        .unwrap()
}

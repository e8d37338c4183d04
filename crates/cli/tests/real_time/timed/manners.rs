//! Tests of the program's messages, refusals and side effects, over loopback. Waits are generous:
//! the machine may be busy.
//!
//! Needs a clock: real programs exchange packets over sockets.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests act as users, who wait in real time"
)]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anabranch_emu::{Relay, RelayConfig, RelayLink};
use anabranch_link::{LinkConfig, QueueLimit};
use anabranch_units::{DataRate, Seed};
use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{self, Bed, UNHURRIED, free_port, run, transport_stream, wait_for_bytes};
use crate::punctual::Watch;

/// Returns the number after `before` in the output.
fn number_after(said: &str, before: &str) -> f64 {
    let (_, after) = said
        .split_once(before)
        .unwrap_or_else(|| panic!("{before}: {said}"));
    let number = after.split_whitespace().next().unwrap();
    number
        .parse()
        .unwrap_or_else(|_| panic!("{number}: {said}"))
}

#[test]
fn the_summary_at_a_takeover_is_of_the_session_that_is_over() {
    let bed = Bed::new();
    let options = ["--report", "200 ms"];
    let (mut recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &options);
    let first = bed.send(&address, "test:", &[]);
    loop {
        let line = recv.wait_for(" s: pictures ");
        let elapsed: f64 = line.split(" s:").next().unwrap().parse().unwrap();
        if elapsed >= 1.5 && number_after(&line, " s: pictures ") >= 10.0 {
            break;
        }
    }
    let second = bed.send(&address, "test:", &["--duration", "1 s"]);
    let summary = recv.wait_for("session of");
    assert!(number_after(&summary, "session of ") >= 1.4, "{summary}");
    let frames = recv.wait_for(" pictures ");
    assert!(number_after(&frames, " pictures ") >= 10.0, "{frames}");
    second.finish();
    first.interrupt();
    recv.finish();
}

#[test]
fn the_first_line_of_statistics_is_of_a_whole_interval() {
    let bed = Bed::new();
    let options = ["--report", "700 ms"];
    let (mut recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &options);
    let mut send = bed.send(&address, "test:", &options);
    for line in [send.wait_for("target"), recv.wait_for("in time")] {
        let elapsed: f64 = line.split(" s:").next().unwrap().parse().unwrap();
        assert!(elapsed >= 0.7, "{line}");
    }
    send.interrupt();
    send.finish_well();
    recv.finish_well();
}

#[test]
fn a_session_that_brings_less_than_half_fails_at_both_ends() {
    let bed = Bed::new();
    std::fs::write(bed.path("in.ts"), transport_stream(200)).unwrap();
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
    let reverse = LinkConfig {
        delay: anabranch_units::Duration::from_millis(5),
        ..LinkConfig::default()
    };
    let link = RelayLink {
        name: "narrow".to_owned(),
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        target: address.parse().unwrap(),
        forward: LinkConfig {
            rate: Some(DataRate::from_kilobits_per_second(40)),
            queue: QueueLimit::Bytes(6_000),
            ..reverse.clone()
        },
        reverse,
        seed: Seed(1),
    };
    let relay = Relay::start(RelayConfig {
        links: vec![link],
        origin: None,
    })
    .unwrap();
    let to = relay.listen_addr(0).to_string();
    let (send_code, sent) = bed.send(&to, &bed.text("in.ts"), &[]).finish();
    let (recv_code, received) = recv.finish();
    assert_eq!((send_code, recv_code), (5, 5), "{sent}\n{received}");
    assert!(sent.contains("% arrived in time at most"), "{sent}");
    assert!(received.contains("% in time"), "{received}");
}

#[test]
fn a_recording_is_overwritten_by_video_alone() {
    let bed = Bed::new();
    std::fs::write(bed.path("out.ts"), "yesterday").unwrap();
    let output = bed.text("out.ts");
    let (recv, _) = bed.recv(&bed.sender_public, &output, &[]);
    recv.interrupt();
    recv.finish_well();
    let key = bed.text("receiver.key");
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let start = ["recv", "--listen", &listen, "--key", &key];
    let failed = run(&[&start[..], &["--allow", &bed.sender_public, &output]].concat());
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert_eq!(std::fs::read(bed.path("out.ts")).unwrap(), b"yesterday");
    let (recv, address) = bed.recv(&bed.sender_public, &output, &UNHURRIED);
    let stream = transport_stream(10);
    std::fs::write(bed.path("in.ts"), &stream).unwrap();
    bed.send(&address, &bed.text("in.ts"), &[]).finish();
    let said = recv.finish_well();
    assert!(
        std::fs::read(bed.path("out.ts")).unwrap() == stream,
        "{said}"
    );
}

#[test]
fn rtp_is_taken_in_at_an_address_that_vlc_writes() {
    let bed = Bed::new();
    let output = bed.text("out.ts");
    let (recv, address) = bed.recv(&bed.sender_public, &output, &UNHURRIED);
    let port = free_port();
    let mut send = bed.send(&address, &format!("udp://@:{port}"), &[]);
    send.wait_for("connected");
    let stream = transport_stream(30);
    let camera = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
    for (number, packets) in stream.chunks(7 * 188).enumerate() {
        let number = number as u8;
        let header = [0x80, 33, 0, number, 0, 0, 0, number, 1, 2, 3, 4];
        camera
            .send_to(&[&header[..], packets].concat(), to)
            .unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    // The last bytes leave after a pause of the input.
    wait_for_bytes(&bed.path("out.ts"), stream.len());
    send.interrupt();
    let said = send.finish_well();
    recv.finish_well();
    assert!(
        std::fs::read(bed.path("out.ts")).unwrap() == stream,
        "{said}"
    );
}

#[test]
fn bad_input_is_reported_within_two_seconds() {
    let bed = Bed::new();
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
    let port = free_port();
    let mut send = bed.send(&address, &format!("udp://127.0.0.1:{port}"), &[]);
    send.wait_for("connected");
    let (watch, connected_at) = (Watch::start(), Instant::now());
    send.wait_for("nothing has come yet");
    let is_in_time = connected_at.elapsed() < Duration::from_secs(2);
    assert!(watch.allows(is_in_time, "a silent input", &[&send.said]));
    let camera = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let began_at = Instant::now();
    let teller = std::thread::spawn(move || {
        for _ in 0..40 {
            let rtp = [&[0x80, 96][..], &[7; 300]].concat();
            let _ = camera.send_to(&rtp, (Ipv4Addr::LOCALHOST, port));
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    send.wait_for("RTP of payload type 96");
    let is_in_time = began_at.elapsed() < Duration::from_secs(2);
    assert!(watch.allows(is_in_time, "an input without video", &[&send.said]));
    teller.join().unwrap();
    send.interrupt();
    send.finish_well();
    // Nothing arrived, so the session failed.
    let (code, said) = recv.finish();
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("no video"), "{said}");
}

#[test]
fn silent_standard_input_is_reported() {
    let bed = Bed::new();
    let key = bed.text("sender.key");
    let arguments = ["send", "--to", "127.0.0.1:9", "--key", &key, "--peer"];
    let arguments = [&arguments[..], &[&bed.receiver_public, "-"]].concat();
    let mut send = bed::Running::start_with(&arguments, Stdio::piped());
    let stdin = send.child.stdin.take();
    let (watch, started_at) = (Watch::start(), Instant::now());
    send.wait_for("standard input: nothing has come yet");
    // The start of the program takes some time, too.
    let is_in_time = started_at.elapsed() < Duration::from_millis(3_500);
    assert!(watch.allows(is_in_time, "a silent input", &[&send.said]));
    drop(stdin);
}

#[test]
fn a_session_without_media_has_its_length() {
    let bed = Bed::new();
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
    let input = format!("udp://127.0.0.1:{}", free_port());
    let mut send = bed.send(&address, &input, &[]);
    send.wait_for("connected");
    std::thread::sleep(Duration::from_millis(2_000));
    send.interrupt();
    for said in [send.finish().1, recv.finish().1] {
        assert!(number_after(&said, "session of ") >= 1.5, "{said}");
    }
}

#[test]
fn slow_machine_is_reported() {
    let bed = Bed::new();
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
    let mut send = bed.send(&address, "test:", &[]);
    send.wait_for("connected");
    std::thread::sleep(Duration::from_millis(300));
    // Simulates a busy processor: other programs have three quarters of its time.
    let pid = Pid::from_child(&send.child);
    let began_at = Instant::now();
    while began_at.elapsed() < Duration::from_millis(1_500) {
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_millis(150));
        kill_process(pid, Signal::CONT).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    send.wait_for("too slow to keep time");
    send.interrupt();
    send.finish();
    recv.interrupt();
    recv.finish();
}

//! Tests of the program's messages, refusals and side effects, over loopback. Waits are generous:
//! the machine may be busy.
//!
//! Needs a clock: real programs exchange packets over sockets.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests act as users, who wait in real time"
)]

use std::fs::{File, Permissions};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anabranch_emu::{Relay, RelayConfig, RelayLink};
use anabranch_link::{LinkConfig, QueueLimit};
use anabranch_units::{DataRate, Seed};
use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{
    self, Bed, UNHURRIED, anabranch, free_port, run, transport_stream, wait_for_bytes,
};
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
        let line = recv.wait_for(" s: frames ");
        let elapsed: f64 = line.split(" s:").next().unwrap().parse().unwrap();
        if elapsed >= 1.5 && number_after(&line, " s: frames ") >= 10.0 {
            break;
        }
    }
    let second = bed.send(&address, "test:", &["--duration", "1 s"]);
    let summary = recv.wait_for("session of");
    assert!(number_after(&summary, "session of ") >= 1.4, "{summary}");
    let frames = recv.wait_for("frames: ");
    assert!(number_after(&frames, "frames: ") >= 10.0, "{frames}");
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
    for line in [send.wait_for("target"), recv.wait_for("complete")] {
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
    });
    let relay = relay.unwrap();
    let to = relay.listen_addr(0).to_string();
    let (send_code, sent) = bed.send(&to, &bed.text("in.ts"), &[]).finish();
    let (recv_code, received) = recv.finish();
    assert_eq!((send_code, recv_code), (5, 5), "{sent}\n{received}");
    assert!(sent.contains("% arrived in time at most"), "{sent}");
    assert!(received.contains("% arrived"), "{received}");
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
fn no_key_is_said_that_is_given_in_the_wrong_place() {
    let bed = Bed::new();
    let key = bed.text("sender.key");
    let secret = std::fs::read_to_string(bed.path("receiver.key")).unwrap();
    let secret = secret.trim();
    let bare = &secret["absec_".len()..];
    let to = ["send", "--to", "127.0.0.1:9"];
    let public: &str = &bed.receiver_public;
    // A key may begin like an option.
    let peer_bare = format!("--peer={bare}");
    let cases: [(&[&str], i32, &str); 6] = [
        (
            &["--key", &key, "--peer", secret, "test:"],
            2,
            "--peer <PUBKEY>: this is a secret key",
        ),
        (
            &["--key", &key, &peer_bare, "test:"],
            2,
            "followed by 43 characters",
        ),
        (
            &["--key", secret, "--peer", public, "test:"],
            1,
            "cannot read key file",
        ),
        (
            &["--key", &key, "--peer", public, secret],
            1,
            "cannot open input",
        ),
        (
            &["--key", &key, "--peer", public, "--via", secret, "test:"],
            1,
            "interface",
        ),
        (
            &[secret, &key, "--peer", public, "test:"],
            2,
            "unexpected argument",
        ),
    ];
    for (arguments, code, part) in cases {
        let output = run(&[&to[..], arguments].concat());
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(part), "{part}: {said}");
        assert!(!said.contains(bare), "{said}");
    }
}

#[test]
fn outputs_and_paths_that_cannot_be_meant_are_refused() {
    let bed = Bed::new();
    let key = bed.text("receiver.key");
    for (output, part) in [("film.mp4", "film.ts"), ("udp://@:6000", "where to?")] {
        let start = ["recv", "--listen", "127.0.0.1:0", "--key", &key];
        let refused = run(&[&start[..], &["--allow", &bed.sender_public, output]].concat());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(part), "{part}: {said}");
    }
    let twice = ["--via", "lo", "--via", "127.0.0.1", "--via", "lo,weight=2"];
    let (code, said) = bed.send("127.0.0.1:9", "test:", &twice).finish();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("two paths to 127.0.0.1:9 by lo"), "{said}");
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
fn an_input_that_is_silent_or_no_video_is_told_within_two_seconds() {
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
fn standard_input_that_is_silent_is_told() {
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
fn a_machine_that_is_too_slow_is_told() {
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

/// Returns the public key that `keygen --show` prints for a key file with this mode.
fn shown_key(
    bed: &Bed,
    mode: u32,
    file: &str,
    change: impl FnOnce(&mut Command),
) -> Result<String, String> {
    let path = bed.path("sender.key");
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    let mut command = anabranch();
    command
        .args(["keygen", "--show", file])
        .stdin(File::open(path).unwrap());
    change(&mut command);
    let output = command.output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

#[test]
fn a_secret_that_a_container_mounts_comes_by_standard_input_or_as_a_credential() {
    let bed = Bed::new();
    let (path, folder) = (bed.text("sender.key"), bed.folder.path().to_owned());
    let error = shown_key(&bed, 0o444, &path, |_| {}).unwrap_err();
    assert!(error.contains("--key /dev/stdin <"), "{error}");
    let key = bed.sender_public.clone();
    assert_eq!(
        shown_key(&bed, 0o444, "/dev/stdin", |_| {}),
        Ok(key.clone())
    );
    let as_credential = |command: &mut Command| {
        command.env("CREDENTIALS_DIRECTORY", &folder);
    };
    assert_eq!(shown_key(&bed, 0o440, &path, as_credential), Ok(key));
    assert!(shown_key(&bed, 0o440, &path, |_| {}).is_err());
}

#[test]
fn no_password_of_obs_is_said_that_is_given_in_the_wrong_place() {
    for wrong in [
        "obs://:hunter2@127.0.0.1:4455",
        "obs://hunter2@127.0.0.1:4455",
        "obs://127.0.0.1:4455?password=hunter2",
        "obs://127.0.0.1:4455?hunter2",
        "obs:://hunter2@127.0.0.1",
        "obs:hunter2@127.0.0.1:4455",
    ] {
        let arguments = [
            "send",
            "--to",
            "127.0.0.1:9",
            "film.ts",
            "--target-to",
            wrong,
        ];
        let ran = run(&[&arguments[..], &["--encoder-range", "1Mbit/s..2Mbit/s"]].concat());
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(
            said.contains("--target-to") && !said.contains("hunter2"),
            "{said}"
        );
    }
}

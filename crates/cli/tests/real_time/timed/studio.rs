//! Tests of one receiver and many senders: names, outputs, access, and the latency that both ends
//! agree on. Real time; waits are generous, since the machine may be busy.
//!
//! Needs a clock: real programs exchange packets over sockets.

use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};

use anabranch_emu::{Relay, RelayConfig, RelayLink};
use anabranch_link::{JitterAmount, JitterModel, JitterOrder, LinkConfig};
use anabranch_units::{Duration, Seed};

use crate::bed::{Bed, PATIENCE, Running, UNHURRIED, keygen, transport_stream};
use crate::punctual::Watch;

/// Starts a receiver of several streams.
fn studio(bed: &Bed, arguments: &[&str]) -> (Running, String) {
    let key = bed.text("receiver.key");
    let fixed = ["recv", "--listen", "127.0.0.1:0", "--key", &key];
    let mut running = Running::start(&[&fixed[..], arguments].concat());
    let line = running.wait_for("listening at ");
    let address = line.split_whitespace().nth(2).unwrap().to_owned();
    (running, address)
}

fn files(folder: PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn senders_at_once_go_to_the_outputs_of_their_names() {
    let bed = Bed::new();
    let other = keygen(&bed.path("other.key"));
    let films = [transport_stream(60), transport_stream(85)];
    for (name, film) in ["front", "roof"].into_iter().zip(&films) {
        std::fs::write(bed.path(&format!("{name}-in.ts")), film).unwrap();
    }
    let (front, roof) = (
        format!("{}=front", bed.sender_public),
        format!("{other}=roof"),
    );
    let only_roof = format!("roof={}", bed.text("only-roof.ts"));
    let (output, allow) = (bed.text("{name}.ts"), ["--allow", &front, "--allow", &roof]);
    let outputs = [&*output, &only_roof];
    let (recv, address) = studio(&bed, &[&allow[..], &UNHURRIED, &outputs].concat());
    let sends = [("sender.key", "front-in.ts"), ("other.key", "roof-in.ts")]
        .map(|(key, input)| bed.send_with(key, &address, &bed.text(input), &[]));
    for send in sends {
        send.finish_well();
    }
    // The receiver ends with the last session.
    let said = recv.finish_well();
    for (name, film) in [("front", 0), ("roof", 1), ("only-roof", 1)] {
        let written = std::fs::read(bed.path(&format!("{name}.ts"))).unwrap();
        assert!(written == films[film], "{name}: {said}");
    }
    for line in [
        "front: connected to",
        "roof: connected to",
        "front: session of",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn removed_sender_is_cut_off_and_others_go_on() {
    let bed = Bed::new();
    let other = keygen(&bed.path("other.key"));
    bed.replace("senders", &format!("{} front\n", bed.sender_public), 1);
    std::fs::write(bed.path("in.ts"), transport_stream(250)).unwrap();
    let (mut recv, address) = studio(
        &bed,
        &[
            "--allow-from",
            &bed.text("senders"),
            "--keep-listening",
            &bed.text("{name}.ts"),
        ],
    );
    let mut first = bed.send(&address, &bed.text("in.ts"), &["--give-up-after", "1 s"]);
    first.wait_for("connected");
    let mut second = bed.send_with("other.key", &address, &bed.text("in.ts"), &[]);
    bed.replace("senders", &format!("{other} roof\n"), 2);
    recv.wait_for("1 senders are let in");
    second.wait_for("connected");
    let (code, said) = first.finish();
    assert_eq!(code, 3, "{said}");
    recv.interrupt();
    let (_, said) = recv.finish();
    assert!(said.contains("front: session of"), "{said}");
    assert!(said.contains("roof: session of"), "{said}");
}

#[test]
fn recordings_follow_one_another_at_key_frames() {
    let bed = Bed::new();
    let stream = transport_stream(110);
    std::fs::write(bed.path("in.ts"), &stream).unwrap();
    let player = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    player.set_read_timeout(Some(PATIENCE)).unwrap();
    let allowed = format!("{}=camera", bed.sender_public);
    let udp = format!("udp://{}", player.local_addr().unwrap());
    let recordings = bed.text("recordings/{name}-{time}.ts");
    let arguments = ["--allow", &allowed, "--rotate", "2 s", &recordings, &udp];
    let (recv, address) = studio(&bed, &[&UNHURRIED, &arguments[..]].concat());
    bed.send(&address, &bed.text("in.ts"), &[]).finish_well();
    let said = recv.finish_well();
    let parts = files(bed.path("recordings"));
    assert!(parts.len() >= 2, "{parts:?}: {said}");
    let whole: Vec<u8> = parts
        .iter()
        .flat_map(|path| std::fs::read(path).unwrap())
        .collect();
    assert!(whole == stream, "nothing is lost between files: {said}");
    let mut buffer = [0; 2_000];
    assert!(player.recv(&mut buffer).is_ok(), "the player has it, too");
}

#[test]
fn the_larger_latency_counts_and_is_kept() {
    let bed = Bed::new();
    std::fs::write(bed.path("in.ts"), transport_stream(25)).unwrap();
    let cases: [(&[&str], &[&str], Option<&str>); 4] = [
        (
            &["--latency", "300 ms"],
            &["--latency", "800 ms"],
            Some("800 ms"),
        ),
        (
            &["--latency", "700 ms"],
            &["--latency", "200 ms"],
            Some("700 ms"),
        ),
        (&[], &[], Some("500 ms")),
        (&["--latency", "min"], &["--latency", "min"], None),
    ];
    for (at_send, at_recv, expected) in cases {
        let (mut recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), at_recv);
        let mut send = bed.send(&address, &bed.text("in.ts"), at_send);
        for end in [&mut send, &mut recv] {
            let line = end.wait_for("connected to");
            let agreed = line.split_once(", latency ").map(|(_, latency)| latency);
            assert_eq!(agreed, expected, "{line}");
        }
        send.finish_well();
        recv.finish_well();
    }
}

fn make_pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// A film goes in each direction, and both ends send a message.
#[test]
fn the_studio_answers_with_a_stream_and_messages() {
    let bed = Bed::new();
    let watch = Watch::start();
    // Longer than the messages need on a busy machine.
    std::fs::write(bed.path("in.ts"), transport_stream(250)).unwrap();
    let feed = transport_stream(50);
    std::fs::write(bed.path("feed.ts"), &feed).unwrap();
    let [pipe, messages] = ["feed-pipe", "to-camera-pipe"].map(|name| bed.path(name));
    make_pipe(&pipe);
    make_pipe(&messages);
    std::fs::write(bed.path("to-studio"), "battery low\n").unwrap();
    let allowed = format!("{}=camera", bed.sender_public);
    let other = format!("{}=other", keygen(&bed.path("other.key")));
    let key = bed.text("receiver.key");
    let (output, to_camera) = (bed.text("{name}.ts"), bed.text("to-camera-pipe"));
    let return_input = bed.text("feed-pipe");
    let mut recv = Running::start(&[
        "recv",
        "--listen",
        "127.0.0.1:0",
        "--key",
        &key,
        "--allow",
        &allowed,
        "--allow",
        &other,
        "--return-input",
        &return_input,
        "--messages",
        &to_camera,
        &output,
    ]);
    // The receiver waits for the return feed's first bytes.
    let mut writer = std::fs::File::options().write(true).open(&pipe).unwrap();
    writer.write_all(&feed[..1_880]).unwrap();
    let line = recv.wait_for("listening at ");
    let address = line.split_whitespace().nth(2).unwrap().to_owned();
    let (back, to_studio) = (bed.text("back.ts"), bed.text("to-studio"));
    let options = ["--return-to", &back, "--messages", &to_studio];
    let mut send = bed.send(&address, &bed.text("in.ts"), &options);
    send.wait_for("connected");
    recv.wait_for("connected");
    recv.wait_for("message: battery low");
    writer.write_all(&feed[1_880..]).unwrap();
    drop(writer);
    let mut pipe = std::fs::File::options()
        .write(true)
        .open(&messages)
        .unwrap();
    pipe.write_all(b"camera you are on air\nother hello\n* to all\n")
        .unwrap();
    drop(pipe);
    send.wait_for("message: you are on air");
    send.wait_for("message: to all");
    send.finish_well();
    let said = recv.finish_well();
    assert!(said.contains("message not sent (other)"), "{said}");
    let came = std::fs::read(bed.path("back.ts")).unwrap();
    // Bytes before the sender's start are lost to it.
    let is_most = came.len() > feed.len() / 2 && feed.ends_with(&came[..]);
    let is_right = watch.allows(is_most, "a return feed", &[&said]);
    assert!(is_right, "{}", came.len());
}

/// A link delays each datagram by up to 80 ms more than another. Pictures arrive unevenly, and
/// leave at their capture intervals.
#[test]
fn a_constant_latency_evens_out_jitter() {
    let bed = Bed::new();
    std::fs::write(bed.path("in.ts"), transport_stream(120)).unwrap();
    let player = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    player.set_read_timeout(Some(PATIENCE)).unwrap();
    let output = format!("udp://{}", player.local_addr().unwrap());
    let (recv, address) = bed.recv(&bed.sender_public, &output, &["--latency", "300 ms"]);
    let link = LinkConfig {
        delay: Duration::from_millis(10),
        jitter: Some(JitterModel {
            amount: JitterAmount::Uniform(Duration::from_millis(80)),
            order: JitterOrder::Bunched,
        }),
        ..LinkConfig::default()
    };
    let relay = Relay::start(RelayConfig {
        links: vec![RelayLink {
            name: "link".to_owned(),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            target: address.parse().unwrap(),
            forward: link.clone(),
            reverse: link,
            seed: Seed(1),
        }],
        origin: None,
    })
    .unwrap();
    let (watch, clock) = (Watch::start(), anabranch_net::Clock::start());
    let send = bed.send(&relay.listen_addr(0).to_string(), &bed.text("in.ts"), &[]);
    let mut buffer = [0; 2_000];
    let mut came_at = Vec::new();
    // Each picture is a datagram. The first second shows the minimum delay of frames.
    while came_at.len() < 115 && player.recv(&mut buffer).is_ok() {
        came_at.push(clock.now());
    }
    let (send_code, sent) = send.finish();
    let (recv_code, received) = recv.finish();
    assert_eq!((send_code, recv_code), (0, 0), "{sent}\n{received}");
    let have_come = came_at.len() == 115;
    let is_right = watch.allows(have_come, "pictures that come", &[&sent, &received]);
    assert!(is_right, "{} pictures", came_at.len());
    if !have_come {
        return;
    }
    let gaps = came_at[25..].windows(2).map(|two| two[1] - two[0]);
    let interval = Duration::from_millis(40);
    let mut off: Vec<Duration> = gaps.map(|gap| gap.abs_diff(interval)).collect();
    off.sort();
    // The machine may be late for some of them. Without the buffer, a tenth would be off by 40 ms.
    let nine_tenths = off[off.len() * 9 / 10];
    let is_even = nine_tenths < Duration::from_millis(20);
    let is_right = watch.allows(is_even, "evenness of pictures", &[&sent, &received]);
    assert!(is_right, "{nine_tenths}");
}

/// Frames beyond a name's limit are dropped, and both ends report it; other names are unaffected.
#[test]
fn a_name_brings_no_more_than_it_may() {
    let bed = Bed::new();
    let other = keygen(&bed.path("other.key"));
    // About 200 kbit/s.
    let film = transport_stream(150);
    std::fs::write(bed.path("in.ts"), &film).unwrap();
    let camera = format!("{}=camera,max=50kbit/s", bed.sender_public);
    let roof = format!("{other}=roof");
    let output = bed.text("{name}.ts");
    let allow = ["--allow", &camera, "--allow", &roof, &output];
    let watch = Watch::start();
    let (mut recv, address) = studio(&bed, &[&UNHURRIED, &allow[..]].concat());
    let mut limited = bed.send(&address, &bed.text("in.ts"), &[]);
    let free = bed.send_with("other.key", &address, &bed.text("in.ts"), &[]);
    let reported_line = "camera may bring 50 kbit/s on average";
    limited.wait_for(&format!("message: {reported_line}"));
    recv.wait_for(reported_line);
    limited.finish_well();
    free.finish_well();
    let said = recv.finish_well();
    let [roof, camera] = ["roof.ts", "camera.ts"]
        .map(|name| std::fs::metadata(bed.path(name)).unwrap().len() as usize);
    let what = "what two names bring";
    assert!(watch.allows(roof == film.len(), what, &[&said]), "{said}");
    // A burst of five seconds and the six of the film: 70 kB of 170.
    let is_limited = (10_000..75_000).contains(&camera);
    assert!(watch.allows(is_limited, what, &[&said]), "{camera}: {said}");
}

#[test]
fn keys_of_one_name_take_turns_or_have_a_stream_each() {
    let bed = Bed::new();
    let other = keygen(&bed.path("other.key"));
    let (watch, films) = (Watch::start(), [transport_stream(75), transport_stream(50)]);
    for (name, film) in ["first.ts", "second.ts"].iter().zip(&films) {
        std::fs::write(bed.path(name), film).unwrap();
    }
    for (streams, outputs) in [(1, vec!["crew.ts"]), (2, vec!["crew.ts", "crew-2.ts"])] {
        let ours = format!("{}=crew,streams={streams}", bed.sender_public);
        let theirs = format!("{other}=crew");
        let output = bed.text("{name}.ts");
        let latency = ["--latency", "2 s"];
        let options = ["--allow", &ours, "--allow", &theirs, "--keep-listening"];
        let options = [&latency, &options[..]].concat();
        let (mut recv, address) = studio(&bed, &[&options[..], &[&output]].concat());
        let mut first = bed.send(&address, &bed.text("first.ts"), &[]);
        first.wait_for("connected");
        let second = bed.send_with("other.key", &address, &bed.text("second.ts"), &[]);
        if streams == 1 {
            recv.wait_for("is not let in: crew has its 1 streams already");
        } else {
            recv.wait_for("crew-2: connected to");
        }
        first.finish_well();
        second.finish_well();
        recv.wait_for("session of");
        recv.wait_for("session of");
        recv.interrupt();
        let said = recv.finish_well();
        let written: Vec<u8> = outputs
            .iter()
            .flat_map(|name| std::fs::read(bed.path(name)).unwrap())
            .collect();
        let is_whole = watch.allows(written == films.concat(), "whole films", &[&said]);
        assert!(is_whole, "{streams}: {said}");
    }
}

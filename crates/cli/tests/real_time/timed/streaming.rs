//! Tests of the real program over loopback: files, UDP, keys, signals. Waits are generous: the
//! machine may be busy.
//!
//! Needs a clock: real programs exchange packets over sockets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use anabranch_link::{DropCause, LinkConfig, LossModel};

use crate::bed::{Bed, PATIENCE, UNHURRIED, free_port, keygen, relay, transport_stream};
use crate::punctual::Watch;

#[test]
fn a_file_arrives_byte_for_byte_over_two_paths() {
    let bed = Bed::new();
    let stream = transport_stream(75);
    std::fs::write(bed.path("in.ts"), &stream).unwrap();
    let options = [&["--report", "1 s"], &UNHURRIED[..]].concat();
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &options);
    let options = [
        "--via",
        "127.0.0.1",
        "--via",
        "127.0.0.2",
        "--scheduler",
        "wrr",
    ];
    let send = bed.send(&address, &bed.text("in.ts"), &options);
    let (send_code, sent) = send.finish();
    let (recv_code, received) = recv.finish();
    assert_eq!((send_code, recv_code), (0, 0), "{sent}\n{received}");
    assert!(
        std::fs::read(bed.path("out.ts")).unwrap() == stream,
        "{sent}\n{received}"
    );
    for line in [
        "of 75 pictures 75 in time, 0 late",
        "path 0 (127.0.0.1)",
        "path 1 (127.0.0.2)",
    ] {
        assert!(sent.contains(line), "{line}: {sent}");
    }
    assert!(
        received.contains("of 75 pictures 75 in time, 0 late or lost"),
        "{received}"
    );
    // The receiver knows the path's name from the sender's reports.
    assert!(received.contains("path 1 (127.0.0.2)"), "{received}");
    assert!(!sent.contains("absec_") && !received.contains("absec_"));
}

#[test]
fn both_ends_report_a_forbidden_sender() {
    let bed = Bed::new();
    std::fs::write(bed.path("in.ts"), transport_stream(25)).unwrap();
    let other = keygen(&bed.path("other.key"));
    let (mut recv, address) = bed.recv(&other, &bed.text("out.ts"), &[]);
    let send = bed.send(&address, &bed.text("in.ts"), &["--timeout", "1 s"]);
    let reported_line = recv.wait_for("is not let in: no `--allow` has its key");
    assert!(
        reported_line.contains(&bed.sender_public),
        "{reported_line}"
    );
    let (code, said) = send.finish();
    assert_eq!(code, 3, "{said}");
    for part in ["no answer from", &address, &bed.sender_public] {
        assert!(said.contains(part), "{part}: {said}");
    }
    recv.interrupt();
    recv.finish_well();
    assert!(!bed.path("out.ts").exists());
}

#[test]
fn both_ends_report_that_no_place_is_free() {
    let bed = Bed::new();
    std::fs::write(bed.path("in.ts"), transport_stream(25)).unwrap();
    // Ten seconds, longer than the other sender tries.
    std::fs::write(bed.path("first.ts"), transport_stream(250)).unwrap();
    let other = keygen(&bed.path("other.key"));
    let options = ["--allow", &bed.sender_public, "--keep-listening"];
    let (mut recv, address) = bed.recv(&other, &bed.text("out.ts"), &options);
    let first = bed.send_with("other.key", &address, &bed.text("first.ts"), &[]);
    recv.wait_for("connected to");
    let mut second = bed.send(&address, &bed.text("in.ts"), &["--timeout", "2 s"]);
    second.wait_for("asking again: the receiver lets this sender in, but other senders have");
    let reported_line = recv.wait_for("is not let in: another sender has the output until it ends");
    assert!(
        reported_line.contains(&bed.sender_public),
        "{reported_line}"
    );
    let (code, said) = second.finish();
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("(tried for 2 s)"), "{said}");
    assert!(
        !said.contains("UDP") && !said.contains("no answer"),
        "{said}"
    );
    first.interrupt();
    first.finish();
    recv.interrupt();
    recv.finish_well();
}

#[test]
fn udp_in_and_out_is_verbatim() {
    udp_is_verbatim(1_316);
}

/// Datagrams end within packets of MPEG-TS, and each is longer than one of the session's.
#[test]
fn input_may_come_in_datagrams_of_1500_bytes() {
    udp_is_verbatim(1_500);
}

/// Sends a stream in datagrams of this size through both ends.
fn udp_is_verbatim(datagram_bytes: usize) {
    let bed = Bed::new();
    let player = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    player.set_read_timeout(Some(PATIENCE)).unwrap();
    let output = format!("udp://{}", player.local_addr().unwrap());
    let (recv, address) = bed.recv(&bed.sender_public, &output, &UNHURRIED);
    let input = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut send = bed.send(&address, &format!("udp://{input}"), &[]);
    send.wait_for("connected");
    let stream = transport_stream(40);
    let camera = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut arrived = Vec::new();
    let mut buffer = [0; 2_000];
    for datagram in stream.chunks(datagram_bytes) {
        camera.send_to(datagram, input).unwrap();
        player
            .set_read_timeout(Some(Duration::from_millis(40)))
            .unwrap();
        if let Ok(length) = player.recv(&mut buffer) {
            arrived.extend_from_slice(&buffer[..length]);
        }
    }
    player.set_read_timeout(Some(PATIENCE)).unwrap();
    while arrived.len() < stream.len() {
        let length = player.recv(&mut buffer).expect("the rest arrives");
        assert!(length <= 1_316 && length.is_multiple_of(188), "{length}");
        arrived.extend_from_slice(&buffer[..length]);
    }
    assert!(arrived == stream);
    send.interrupt();
    send.finish_well();
    recv.finish_well();
}

/// Without the next picture, only a pause of 100 ms would show that one is over.
#[test]
fn a_picture_of_unknown_length_does_not_wait_for_the_next() {
    let bed = Bed::new();
    let player = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    player.set_read_timeout(Some(PATIENCE)).unwrap();
    let output = format!("udp://{}", player.local_addr().unwrap());
    let (_recv, address) = bed.recv(&bed.sender_public, &output, &["--latency", "min"]);
    let input = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut send = bed.send(&address, &format!("udp://{input}"), &[]);
    send.wait_for("connected");
    let mut stream = transport_stream(25);
    let mut starts = Vec::new();
    for (index, packet) in stream.chunks_mut(188).enumerate() {
        let header = 5 + usize::from(packet[4]);
        if packet[1..3] == [0x41, 0] {
            // The PES header leaves the length open, as ffmpeg does.
            packet[header + 4..header + 6].fill(0);
            starts.push(index * 188);
        }
    }
    let ends = starts[1..].iter().copied().chain([stream.len()]);
    let watch = Watch::start();
    let camera = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let clock = anabranch_net::Clock::start();
    let (mut sent, mut arrived, mut took) = (0, Vec::new(), Vec::new());
    for end in ends {
        for datagram in stream[sent..end].chunks(1_316) {
            camera.send_to(datagram, input).unwrap();
        }
        sent = end;
        let sent_at = clock.now();
        let mut buffer = [0; 2_000];
        while arrived.len() < sent {
            let length = player.recv(&mut buffer).expect("the picture arrives");
            arrived.extend_from_slice(&buffer[..length]);
        }
        took.push(clock.now() - sent_at);
    }
    assert!(arrived == stream);
    took.sort();
    let median = took[took.len() / 2];
    let limit = anabranch_units::Duration::from_millis(50);
    assert!(
        watch.allows(median < limit, "time of a picture", &[]),
        "{median}"
    );
}

/// Returns the number before `unit` in the output.
fn number_before(said: &str, unit: &str) -> f64 {
    let before = said.split(unit).next().unwrap();
    let number = before.split_whitespace().next_back().unwrap();
    number.parse().unwrap_or_else(|_| panic!("{unit}: {said}"))
}

#[test]
fn repairs_restore_lost_packets() {
    let bed = Bed::new();
    let stream = transport_stream(150);
    std::fs::write(bed.path("in.ts"), &stream).unwrap();
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &UNHURRIED);
    // The link loses a packet in twenty.
    let relay = relay(&address, |link| LinkConfig {
        loss: LossModel::Bernoulli { probability: 0.05 },
        ..link
    });
    let options = ["--fec", "fixed:overhead=0.5"];
    let to = relay.listen_addr(0).to_string();
    let (send_code, sent) = bed.send(&to, &bed.text("in.ts"), &options).finish();
    let (recv_code, received) = recv.finish();
    assert_eq!((send_code, recv_code), (0, 0), "{sent}\n{received}");
    let lost_count = relay.statistics(0).forward.link.dropped.total();
    let recovered_count = number_before(&received, " lost packets recovered");
    assert!(recovered_count > 0.0, "{lost_count} lost: {received}");
    // Half a repair per symbol, minus a few without spare room.
    let overhead = number_before(&sent, " % of the rest");
    assert!((20.0..60.0).contains(&overhead), "{overhead}: {sent}");
    let all = "of 150 pictures 150 in time, 0 late or lost";
    assert!(received.contains(all), "{sent}\n{received}");
    let written = std::fs::read(bed.path("out.ts")).unwrap();
    assert!(written == stream, "{sent}\n{received}");
}

#[test]
fn small_link_mtu_is_reported_and_harmless() {
    let bed = Bed::new();
    let stream = transport_stream(150);
    std::fs::write(bed.path("in.ts"), &stream).unwrap();
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &UNHURRIED);
    let relay = relay(&address, |link| LinkConfig {
        mtu: Some(1_280),
        ..link
    });
    let to = relay.listen_addr(0).to_string();
    let (send_code, sent) = bed.send(&to, &bed.text("in.ts"), &[]).finish();
    let (recv_code, received) = recv.finish();
    assert_eq!((send_code, recv_code), (0, 0), "{sent}\n{received}");
    let dropped = relay.statistics(0).forward.link.dropped;
    assert!((3..20).contains(&dropped.of(DropCause::TooLarge)), "{sent}");
    assert!(sent.contains("; MTU 1280"), "{sent}");
    let all = "of 150 pictures 150 in time, 0 late or lost";
    assert!(received.contains(all), "{sent}\n{received}");
    assert!(std::fs::read(bed.path("out.ts")).unwrap() == stream);
}

#[test]
fn a_metered_path_stands_by() {
    let bed = Bed::new();
    let stream = transport_stream(75);
    std::fs::write(bed.path("in.ts"), &stream).unwrap();
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &UNHURRIED);
    let ways = ["--via", "127.0.0.1,weight=2", "--via", "127.0.0.2,metered"];
    let options = [&ways[..], &["--scheduler", "anabranch"]].concat();
    let watch = Watch::start();
    let (send_code, sent) = bed.send(&address, &bed.text("in.ts"), &options).finish();
    let (recv_code, received) = recv.finish();
    assert_eq!((send_code, recv_code), (0, 0), "{sent}\n{received}");
    assert!(std::fs::read(bed.path("out.ts")).unwrap() == stream);
    let counts = ["path 0 (127.0.0.1)", "path 1 (127.0.0.2)"].map(|path| {
        let mut lines = sent.lines();
        let summary = lines.find(|line| line.starts_with(path) && line.contains(" packets"));
        number_before(summary.unwrap(), " packets")
    });
    // A path that a busy machine makes late is helped out by the other.
    let stands_by = counts[1] < counts[0] / 2.0;
    let is_right = watch.allows(stands_by, "a metered path", &[&sent, &received]);
    assert!(is_right, "{counts:?}: {sent}");
}

#[test]
fn an_interrupt_of_the_sender_ends_both_and_of_the_receiver_itself_with_a_summary() {
    let bed = Bed::new();
    for is_sender_interrupted in [true, false] {
        let (mut recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
        let options = ["--report", "200 ms", "--ecn", "--controller"];
        let options = [&options[..], &["cubic:hystart=classic"]].concat();
        let mut send = bed.send(&address, "test:", &options);
        recv.wait_for("connected");
        for _ in 0..4 {
            send.wait_for("target");
        }
        if is_sender_interrupted {
            send.interrupt();
        } else {
            recv.interrupt();
            send.wait_for("the receiver has gone away");
            send.interrupt();
        }
        for (code, said) in [send.finish(), recv.finish()] {
            assert_eq!(code, 0, "{said}");
            assert!(
                said.contains("session of") && said.contains("path 0 ("),
                "{said}"
            );
        }
    }
    let written = std::fs::metadata(bed.path("out.ts")).unwrap().len();
    assert!(written > 0 && written.is_multiple_of(188), "{written}");
}

//! Tests of streams by other protocols, without other programs. `make test-real` tests more with
//! them.
//!
//! Needs a clock: real programs exchange packets over sockets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use anabranch_net::Clock;
use anabranch_srt::{Caller, Entropy, Settings};
use anabranch_units::Duration;
use serde_json::Value;

use crate::bed::{Bed, Running, UNHURRIED, anabranch, free_port, get, run, transport_stream};

/// Sends a film to `port`, slowly enough for the socket's buffer.
fn send_film(port: u16, film: &[u8]) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for datagrams in film.chunks(20 * 1_316) {
        for datagram in datagrams.chunks(1_316) {
            socket
                .send_to(datagram, (Ipv4Addr::LOCALHOST, port))
                .unwrap();
        }
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    }
}

#[test]
fn streams_of_other_protocols_need_no_key_and_go_to_the_outputs_of_their_names() {
    let bed = Bed::new();
    let ports = [free_port(), free_port()];
    let sources = [
        format!("front=udp://127.0.0.1:{}", ports[0]),
        format!("roof=udp://127.0.0.1:{}", ports[1]),
    ];
    let outputs = bed.text("{name}.ts");
    let arguments = [
        "recv",
        "--listen",
        &sources[0],
        "--listen",
        &sources[1],
        &outputs,
    ];
    let mut recv = Running::start(&arguments);
    recv.wait_for("roof: listening at ");
    let films = [transport_stream(60), transport_stream(85)];
    for (port, film) in ports.into_iter().zip(&films) {
        send_film(port, film);
    }
    // The last picture leaves when no more of it arrives.
    recv.wait_for("nothing has come for");
    recv.wait_for("nothing has come for");
    recv.interrupt();
    recv.finish_well();
    for (name, film) in ["front.ts", "roof.ts"].into_iter().zip(&films) {
        assert!(std::fs::read(bed.path(name)).unwrap() == *film, "{name}");
    }
}

#[test]
fn a_stream_of_another_protocol_beside_a_sender_of_ours() {
    let bed = Bed::new();
    let port = free_port();
    let source = format!("van=udp://127.0.0.1:{port}");
    let outputs = bed.text("{name}.ts");
    let camera = format!("{}=camera", bed.sender_public);
    let options = [&["--listen", &source], &UNHURRIED[..]].concat();
    let (mut recv, address) = bed.recv(&camera, &outputs, &options);
    let films = [transport_stream(30), transport_stream(40)];
    std::fs::write(bed.path("camera-in.ts"), &films[0]).unwrap();
    let send = bed.send(&address, &bed.text("camera-in.ts"), &[]);
    send.finish_well();
    recv.wait_for("camera: session of");
    // The other stream continues without it.
    send_film(port, &films[1]);
    recv.wait_for("nothing has come for");
    recv.interrupt();
    recv.finish_well();
    for (name, film) in ["camera.ts", "van.ts"].into_iter().zip(&films) {
        assert!(std::fs::read(bed.path(name)).unwrap() == *film, "{name}");
    }
}

/// Waits until a program's status is as wanted.
fn wait_for_status(metrics: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let mut tries = 0;
    loop {
        let status: Value = serde_json::from_str(&get(metrics, "/status.json").2).unwrap();
        if is_wanted(&status) {
            return status;
        }
        tries += 1;
        assert!(tries < 200, "{status:#}");
        std::thread::park_timeout(std::time::Duration::from_millis(100));
    }
}

#[test]
fn streams_of_other_protocols_are_seen_by_their_names() {
    let bed = Bed::new();
    let port = free_port();
    let source = format!("van=udp://127.0.0.1:{port}");
    let (stats, output) = (bed.text("stats.json"), bed.text("{name}.ts"));
    let options = ["--metrics", "0", "--stats", &stats];
    let mut recv =
        Running::start(&[&["recv", "--listen", &source][..], &options, &[&output]].concat());
    let line = recv.wait_for("metrics at http://");
    let metrics = line
        .split_once("http://")
        .unwrap()
        .1
        .strip_suffix("/metrics")
        .unwrap()
        .to_owned();
    recv.wait_for("van: listening at ");
    let film = transport_stream(60);
    send_film(port, &film);
    let status = wait_for_status(&metrics, |status| {
        let bytes = &status["streams"][0]["counters"]["delivered_bytes"];
        bytes.as_u64() == Some(film.len() as u64)
    });
    let stream = &status["streams"][0];
    for (field, value) in [("name", "van"), ("protocol", "udp"), ("carries", "video")] {
        assert_eq!(stream[field], value, "{status:#}");
    }
    assert!(
        stream["connected"] == true && stream["session"] == 1,
        "{status:#}"
    );
    assert!(status["publishers"]["van"].is_object(), "{status:#}");
    let (_, _, text) = get(&metrics, "/metrics");
    let of_van = "{stream=\"van\",carries=\"video\"}";
    let total = format!(
        "anabranch_stream_delivered_bytes_total{of_van} {}\n",
        film.len()
    );
    assert!(text.contains(&total), "{text}");
    assert!(
        text.contains(&format!("anabranch_stream_silent_seconds{of_van} ")),
        "{text}"
    );
    if cfg!(feature = "top") {
        let shown = run(&["top", &metrics, "--once"]);
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("van by udp, carries video"), "{shown}");
        assert!(shown.contains("heard last "), "{shown}");
    }
    // After ten seconds the session is over, but still in the status.
    let status = wait_for_status(&metrics, |status| {
        status["streams"][0]["connected"] == false
    });
    assert!(
        status["streams"][0]["silent_s"].as_f64() > Some(9.0),
        "{status:#}"
    );
    recv.interrupt();
    recv.finish_well();
    let lines = std::fs::read_to_string(bed.path("stats.json")).unwrap();
    let events = ["session-began", "session-ended"].map(|event| {
        lines
            .lines()
            .filter(|line| line.contains(event) && line.contains("\"stream\":\"van\""))
            .count()
    });
    assert_eq!(events, [1, 1], "{lines}");
}

/// Two streams go from one program to a port of another.
#[test]
fn srt_callers_are_routed_by_stream_id() {
    let bed = Bed::new();
    let (srt, front, roof) = (free_port(), free_port(), free_port());
    let secret = bed.text("secret");
    std::fs::write(&secret, "correct horse\n").unwrap();
    let sources = [
        format!("front=srt://127.0.0.1:{srt}?mode=listener&streamid=a&passphrase_file={secret}"),
        format!("roof=srt://127.0.0.1:{srt}?mode=listener&streamid=b"),
        format!("cellar=srt://127.0.0.1:{srt}?mode=listener&streamid=c&passphrase_file={secret}"),
    ];
    let outputs = bed.text("{name}.ts");
    let mut arguments = vec!["recv"];
    for source in &sources {
        arguments.extend(["--listen", source]);
    }
    arguments.push(&outputs);
    let mut recv = Running::start(&arguments);
    recv.wait_for("cellar: listening at ");
    let feeds = [
        format!("front=udp://127.0.0.1:{front}"),
        format!("roof=udp://127.0.0.1:{roof}"),
    ];
    let calls = [
        format!("front=srt://127.0.0.1:{srt}?streamid=a&passphrase_env=SRT_SECRET"),
        format!("roof=srt://127.0.0.1:{srt}?streamid=b"),
        format!("roof=srt://127.0.0.1:{srt}?streamid=c&passphrase=wrong%20horses"),
        format!("roof=srt://127.0.0.1:{srt}?streamid=d"),
    ];
    let mut arguments = vec!["recv"];
    feeds
        .iter()
        .for_each(|feed| arguments.extend(["--listen", feed]));
    arguments.extend(calls.iter().map(String::as_str));
    let mut command = anabranch();
    let mut send = Running::of(command.args(arguments).env("SRT_SECRET", "correct horse"));
    for _ in 0..2 {
        send.wait_for(": connected");
    }
    recv.wait_for("was refused: ");
    let films = [transport_stream(60), transport_stream(85)];
    send_film(front, &films[0]);
    send_film(roof, &films[1]);
    for (name, film) in ["front", "roof"].into_iter().zip(&films) {
        let path = bed.path(&format!("{name}.ts"));
        let mut tries = 0;
        while !std::fs::read(&path).is_ok_and(|bytes| bytes == *film) {
            tries += 1;
            assert!(tries < 400, "{name} is incomplete");
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
    }
    send.interrupt();
    send.finish_well();
    recv.wait_for("has gone (the peer has ended the connection)");
    recv.interrupt();
    let said = recv.finish_well();
    assert!(!said.contains("horse"), "{said}");
    for reason in ["wrong passphrase", "no stream of this ID"] {
        assert!(said.contains(reason), "{said}");
    }
}

/// Receives as libsrt does: payloads that are not due when the connection ends are lost. Returns
/// the others.
fn call_until_the_end(to: SocketAddr) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let step = std::time::Duration::from_millis(1);
        socket.set_read_timeout(Some(step)).unwrap();
        let (clock, mut buffer, mut received) = (Clock::start(), [0; 1_500], Vec::new());
        let settings = Settings {
            receive_latency: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(60),
            ..Settings::default()
        };
        let entropy = Entropy::new(&[3; 32]);
        let mut caller = Caller::new(clock.now(), to, Some("van"), settings, entropy);
        while caller.closed().is_none() {
            if let Ok((length, _)) = socket.recv_from(&mut buffer) {
                caller.handle_datagram(clock.now(), &buffer[..length]);
            }
            let now = clock.now();
            caller.handle_timeout(now);
            if let Some(connection) = caller.connection() {
                let due = core::iter::from_fn(|| connection.poll_payload(now));
                received.extend(due.flat_map(|delivered| delivered.payload));
            }
            while let Some(datagram) = caller.poll_transmit(now) {
                socket.send_to(&datagram, to).unwrap();
            }
        }
        received
    })
}

/// Returns the address that a line names, without the path.
fn metrics_address(line: &str) -> String {
    let (_, url) = line.split_once("http://").unwrap();
    url.strip_suffix("/metrics").unwrap().to_owned()
}

/// An output by SRT has statistics, which are no stream's, and its receiver gets the last packets.
#[test]
fn receivers_by_srt_are_seen_and_get_all_before_the_end() {
    let bed = Bed::new();
    let (feed, port) = (free_port(), free_port());
    let source = format!("van=udp://127.0.0.1:{feed}");
    let output = format!("srt://127.0.0.1:{port}?mode=listener&streamid=van");
    let stats = bed.text("stats.json");
    let options = ["--metrics", "0", "--stats", &stats];
    let recv = [&["recv", "--listen", &source][..], &options, &[&output]].concat();
    let mut recv = Running::start(&recv);
    let metrics = metrics_address(&recv.wait_for("metrics at http://"));
    recv.wait_for("van: listening at ");
    let receiving = call_until_the_end((Ipv4Addr::LOCALHOST, port).into());
    recv.wait_for("is connected");
    let film = transport_stream(85);
    send_film(feed, &film);
    let bytes = film.len() as u64;
    let status = wait_for_status(&metrics, |status| {
        let sent = &status["outputs"][0]["connections"][0]["counters"]["sent_bytes"];
        sent.as_u64() == Some(bytes)
    });
    let output = &status["outputs"][0];
    let connection = &output["connections"][0];
    for (value, expected) in [
        (&output["stream"], Value::from("van")),
        (&output["mode"], "listener".into()),
        (&output["name"], format!("srt://127.0.0.1:{port}").into()),
        (&connection["stream_id"], "van".into()),
        (&connection["state"], "active".into()),
        (&connection["latency_s"], 5.0.into()),
        (
            &status["streams"].as_array().unwrap().len().into(),
            1.into(),
        ),
        (&status["total"]["sent_bytes"], 0.into()),
        (&status["total"]["delivered_bytes"], bytes.into()),
    ] {
        assert_eq!(*value, expected, "{status:#}");
    }
    assert!(
        connection["rtt_s"]["avg"].as_f64() > Some(0.0),
        "{status:#}"
    );
    let (_, _, text) = get(&metrics, "/metrics");
    let sent = text
        .lines()
        .find(|line| line.starts_with("anabranch_output_sent_bytes_total{"));
    assert!(
        sent.is_some_and(|line| line.ends_with(&format!(" {bytes}"))),
        "{text}"
    );
    if cfg!(feature = "top") {
        let shown = run(&["top", &metrics, "--once"]);
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("receivers by SRT"), "{shown}");
    }
    // More comes, and the end with it.
    send_film(feed, &film);
    wait_for_status(&metrics, |status| {
        status["total"]["delivered_bytes"].as_u64() == Some(2 * bytes)
    });
    recv.interrupt();
    let (code, said) = recv.finish();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(" reported missing, "), "{said}");
    assert!(
        receiving.join().unwrap() == film.repeat(2),
        "the end is missing"
    );
    let lines = std::fs::read_to_string(bed.path("stats.json")).unwrap();
    assert!(lines.contains("\"state\":\"ending\""), "{lines}");
}

//! Streams that come by other protocols than ours, without other people's programs; with them,
//! `make test-real` tries more.

mod bed;

use std::net::{Ipv4Addr, UdpSocket};

use serde_json::Value;

use bed::{Bed, Running, anabranch, get, run, transport_stream};

fn free_port() -> u16 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.local_addr().unwrap().port()
}

/// Sends a film to where `url` says, not faster than a socket holds it.
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
    // The last picture leaves when no more of it comes.
    recv.wait_for("nothing has come for");
    recv.wait_for("nothing has come for");
    recv.interrupt();
    let (code, said) = recv.finish();
    assert_eq!(code, 0, "{said}");
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
    let (mut recv, address) = bed.recv(&camera, &outputs, &["--listen", &source]);
    let films = [transport_stream(30), transport_stream(40)];
    std::fs::write(bed.path("camera-in.ts"), &films[0]).unwrap();
    let send = bed.send(&address, &bed.text("camera-in.ts"), &[]);
    let (code, said) = send.finish();
    assert_eq!(code, 0, "{said}");
    recv.wait_for("camera: session of");
    // The other stream goes on without it.
    send_film(port, &films[1]);
    recv.wait_for("nothing has come for");
    recv.interrupt();
    let (code, said) = recv.finish();
    assert_eq!(code, 0, "{said}");
    for (name, film) in ["camera.ts", "van.ts"].into_iter().zip(&films) {
        assert!(std::fs::read(bed.path(name)).unwrap() == *film, "{name}");
    }
}

#[test]
fn a_program_that_is_missing_is_named_with_its_package() {
    for (arguments, part) in [
        (
            ["recv", "--listen", "srtla://127.0.0.1:5000", "out.ts"],
            "srt-live-transmit, which is not installed (Debian: srt-tools)",
        ),
        (
            [
                "recv",
                "--listen",
                "udp://127.0.0.1:0",
                "rist://127.0.0.1:5000",
            ],
            "ristsender, which is not installed (Debian: rist-tools)",
        ),
        (
            [
                "recv",
                "--listen",
                "rtmp://127.0.0.1:5000/live/hidden",
                "out.ts",
            ],
            "ffmpeg, which is not installed (Debian: ffmpeg)",
        ),
    ] {
        let output = anabranch()
            .args(arguments)
            .env("PATH", "")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(part) && !said.contains("hidden"), "{said}");
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let srtla = ["recv", "--listen", "srtla://127.0.0.1:5000"];
    let srt = ["--listen", "srt://127.0.0.1:5001?mode=listener"];
    let key = [
        "--allow",
        "abpub_4vqLSH8Ftgk_M9WZENfb0gNJoy1kvprL7Jw1_0Vx-Ao",
    ];
    let ours = ["--listen", "127.0.0.1:0"];
    let twice = ["--listen", "srtla://127.0.0.1:5002"];
    let unknown = ["--listen", "webrtc://127.0.0.1:5002"];
    for (options, output, part) in [
        (&srt[..], "out.ts", "say whose it is"),
        (&key, "out.ts", "--listen ADDR:PORT"),
        (&ours, "{name}.ts", "--allow KEY"),
        (&[ours, key].concat(), "{name}.ts", "--key FILE"),
        (&twice, "{name}.ts", "srtla2="),
        (&unknown, "out.ts", "srtla, srt, rist"),
    ] {
        let output = run(&[&srtla[..], options, &[output]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        let is_refused = !output.status.success() && said.contains(part);
        assert!(is_refused, "{part}: {said}");
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
    let metrics = line.split_once("http://").unwrap().1;
    let metrics = metrics.strip_suffix("/metrics").unwrap().to_owned();
    recv.wait_for("van: listening at ");
    let film = transport_stream(60);
    send_film(port, &film);
    let wait_for = |is_wanted: &dyn Fn(&Value) -> bool| {
        let mut tries = 0;
        loop {
            let status: Value = serde_json::from_str(&get(&metrics, "/status.json").2).unwrap();
            if is_wanted(&status["streams"][0]) {
                return status;
            }
            tries += 1;
            assert!(tries < 200, "{status:#}");
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
    };
    let bytes = |stream: &Value| stream["counters"]["delivered_bytes"].as_u64();
    let status = wait_for(&|stream| bytes(stream) == Some(film.len() as u64));
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
    // After ten seconds it is over, and still to be seen.
    let status = wait_for(&|stream| stream["connected"] == false);
    assert!(
        status["streams"][0]["silent_s"].as_f64() > Some(9.0),
        "{status:#}"
    );
    recv.interrupt();
    assert_eq!(recv.finish().0, 0);
    let lines = std::fs::read_to_string(bed.path("stats.json")).unwrap();
    let events = ["session-began", "session-ended"].map(|event| {
        let is_it = |line: &&str| line.contains(event) && line.contains("\"stream\":\"van\"");
        lines.lines().filter(is_it).count()
    });
    assert_eq!(events, [1, 1], "{lines}");
}

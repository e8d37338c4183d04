//! Tests of the real programs' statistics, over loopback. Waits are generous: the machine may be
//! busy.
//!
//! Needs a clock: real programs exchange packets over sockets.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests act as users, who wait in real time"
)]

use std::collections::BTreeMap;
use std::io::Read;

use crate::bed;

#[cfg(feature = "codec")]
use std::io::Write;
#[cfg(feature = "codec")]
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bed::{Bed, PATIENCE, Running, free_port, get, run, transport_stream_of, wait_until};

/// Size and rate of the test's stream: 25 pictures a second of 10 kB are 2 Mbit/s.
const PICTURE_BYTES: u64 = 10_000;
const RATE_BPS: f64 = 2e6;
const TWO_PATHS: [&str; 4] = ["--via", "127.0.0.1", "--via", "127.0.0.2"];

/// Writes a film of this length into the folder.
fn film(bed: &Bed, seconds: u64) -> String {
    let film = transport_stream_of(seconds * 25, |_| PICTURE_BYTES);
    std::fs::write(bed.path("film.ts"), film).unwrap();
    bed.text("film.ts")
}

/// Returns all lines of a file of statistics, each of which must be an object.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines
        .inspect(|line: &Value| assert!(line.is_object()))
        .collect()
}

fn of_event<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// Returns the address of the metrics that a program prints.
fn metrics_address(running: &mut Running) -> String {
    let line = running.wait_for("metrics at http://");
    let (_, address) = line.split_once("http://").unwrap();
    address.strip_suffix("/metrics").unwrap().to_owned()
}

fn status(address: &str, path: &str) -> Value {
    let (code, head, body) = get(address, path);
    assert_eq!(code, 200, "{head}");
    assert!(head.contains("application/json"), "{head}");
    serde_json::from_str(&body).unwrap()
}

/// Polls the status until it is as wanted.
fn wait_for_status(address: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let status = status(address, "/status.json");
        if is_wanted(&status) {
            return status;
        }
        assert!(began.elapsed() < PATIENCE, "{status:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

/// Checks that `min`, `avg` and `max` are in order.
fn assert_spread(spread: &Value) {
    let [min, avg, max] = ["min", "avg", "max"].map(|field| number(&spread[field]));
    assert!(min <= avg * 1.001 && avg <= max * 1.001, "{spread}");
}

/// Returns the lines of a session's whole seconds, without its first and its last ones.
fn in_full_flow(lines: &[Value]) -> Vec<&Value> {
    let mut flow = of_event(lines, "stats");
    flow.retain(|line| {
        let session_s = line["streams"][0]["session_s"].as_f64();
        session_s.is_some_and(|span| (2.5..7.0).contains(&span))
    });
    assert!(!flow.is_empty(), "{lines:#?}");
    flow
}

/// Returns a stream's mean rate over some lines: a machine that is late in one is not in the next.
fn mean_rate(lines: &[&Value], rate: &str) -> f64 {
    let (mut bits, mut span) = (0.0, 0.0);
    for line in lines {
        let interval = number(&line["interval_s"]);
        bits += number(&line["streams"][0][rate]["avg"]) * interval;
        span += interval;
    }
    bits / span
}

/// Checks that there is a line a second, and that a session has begun.
fn assert_lines(lines: &[Value], role: &str) {
    let stats = of_event(lines, "stats");
    assert!(stats.len() >= 8, "{lines:#?}");
    for pair in stats.windows(2) {
        assert_eq!(pair[1]["role"], role);
        let [before, after] = [pair[0], pair[1]].map(|line| number(&line["uptime_s"]));
        let interval = number(&pair[1]["interval_s"]);
        assert!((after - before - interval).abs() < 1e-6, "{pair:#?}");
    }
    // One that comes late does not delay the next ones.
    let inner = &stats[1..stats.len() - 1];
    let sum: f64 = inner.iter().map(|line| number(&line["interval_s"])).sum();
    assert!(sum > 0.9 * inner.len() as f64, "{lines:#?}");
    assert_eq!(of_event(lines, "session-began")[0]["session"], 1);
    let states = of_event(lines, "path-state");
    assert!(states.iter().any(|line| line["state"] == "active"));
}

#[test]
fn statistics_have_a_line_per_second() {
    let bed = Bed::new();
    let film = film(&bed, 8);
    let stats = ["--stats", &bed.text("recv.json")];
    let camera = format!("{}=camera", bed.sender_public);
    let (recv, address) = bed.recv(&camera, &bed.text("out.ts"), &stats);
    let file = bed.text("send.json");
    let options = [&["--stats", &file], &TWO_PATHS[..]].concat();
    bed.send(&address, &film, &options).finish_well();
    recv.finish_well();

    let sent = lines(&bed.path("send.json"));
    let received = lines(&bed.path("recv.json"));
    assert_lines(&sent, "send");
    assert_lines(&received, "recv");

    let flow = in_full_flow(&sent);
    let line = flow[0];
    let stream = &line["streams"][0];
    assert_eq!(stream["peer"], *bed.receiver_public);
    assert_eq!(stream["carries"], "video");
    assert_eq!(stream["paths"].as_array().unwrap().len(), 2);
    let mean = mean_rate(&flow, "sent_rate_bps");
    assert!(
        (RATE_BPS * 0.9..RATE_BPS * 1.5).contains(&mean),
        "{flow:#?}"
    );
    let rate = number(&stream["sent_rate_bps"]["avg"]);
    assert_spread(&stream["sent_rate_bps"]);
    let shares = stream["sent_shares"].as_object().unwrap();
    let sum: f64 = shares.values().map(number).sum();
    assert!(
        (sum - 1.0).abs() < 1e-6 && number(&shares["new"]) > 0.5,
        "{line:#}"
    );
    let of_paths = stream["paths"].as_array().unwrap().iter();
    let rates: f64 = of_paths
        .map(|path| number(&path["sent_rate_bps"]["avg"]))
        .sum();
    assert!((rates / rate - 1.0).abs() < 0.05, "{line:#}");
    let busy = stream["paths"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|path| path["counters"]["sent_packets"].as_u64() > Some(100));
    for path in busy.clone() {
        assert_spread(&path["rtt_s"]);
        let rtt = number(&path["rtt_s"]["avg"]);
        assert!((0.0..0.5).contains(&rtt), "{path:#}");
        let reasons = path["sent_reasons"].as_object().unwrap();
        let packets: u64 = reasons
            .values()
            .map(|of| of["packets"].as_u64().unwrap())
            .sum();
        assert_eq!(path["counters"]["sent_packets"].as_u64(), Some(packets));
    }
    assert!(busy.count() >= 1, "{line:#}");

    let flow = in_full_flow(&received);
    let line = flow[0];
    let stream = &line["streams"][0];
    assert_eq!(stream["name"], "camera");
    assert_eq!(stream["peer"], *bed.sender_public);
    let mean = mean_rate(&flow, "delivered_rate_bps");
    assert!(
        (RATE_BPS * 0.9..RATE_BPS * 1.2).contains(&mean),
        "{flow:#?}"
    );
    let rate = number(&stream["delivered_rate_bps"]["avg"]);
    let total = number(&line["total"]["delivered_rate_bps"]["avg"]);
    assert!((total / rate - 1.0).abs() < 0.01, "{line:#}");
}

/// Returns the sessions of events.
fn session_numbers(lines: &[Value], event: &str) -> Vec<u64> {
    let events = of_event(lines, event).into_iter();
    events
        .map(|line| line["session"].as_u64().unwrap())
        .collect()
}

#[test]
fn a_new_session_is_marked_at_both_ends() {
    let bed = Bed::new();
    let film = film(&bed, 3);
    let stats = ["--keep-listening", "--stats", &bed.text("recv.json")];
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &stats);
    for _ in 0..2 {
        bed.send(&address, &film, &[]).finish_well();
    }
    recv.interrupt();
    recv.finish_well();
    let lines = lines(&bed.path("recv.json"));
    for event in ["session-began", "session-ended"] {
        assert_eq!(session_numbers(&lines, event), [1, 2], "{event}");
    }
    let streams = of_event(&lines, "stats")
        .into_iter()
        .filter_map(|line| line["streams"].get(0));
    let samples: Vec<(u64, bool, u64)> = streams
        .map(|stream| {
            let bytes = stream["counters"]["delivered_bytes"].as_u64().unwrap();
            let session = stream["session"].as_u64().unwrap();
            (session, stream["reset"].as_bool().unwrap(), bytes)
        })
        .collect();
    let resets: Vec<u64> = samples
        .iter()
        .filter(|samples| samples.1)
        .map(|samples| samples.0)
        .collect();
    assert_eq!(resets, [1, 2], "{samples:?}");
    // Counters only grow between resets, and each decrease is reported as a reset.
    for pair in samples.windows(2) {
        assert!(pair[1].1 || pair[1].2 >= pair[0].2, "{samples:?}");
    }
    let second = samples
        .iter()
        .find(|(session, _, _)| *session == 2)
        .unwrap();
    assert!(second.2 < 25 * 2 * PICTURE_BYTES, "{samples:?}");
}

#[test]
fn a_receiver_that_comes_back_is_another_session_of_its_sender() {
    let bed = Bed::new();
    let film = film(&bed, 12);
    let address = format!("127.0.0.1:{}", free_port());
    let key = bed.text("receiver.key");
    let arguments = ["recv", "--listen", &address, "--key", &key, "--allow"];
    let out = bed.text("out.ts");
    let arguments = [&arguments[..], &[&bed.sender_public, &out]].concat();
    let mut first = Running::start(&arguments);
    first.wait_for("listening at ");
    let options = ["--metrics", "0", "--stats", &bed.text("send.json")];
    let mut send = bed.send(&address, &film, &options);
    let metrics = metrics_address(&mut send);
    wait_for_status(&metrics, |status| status["streams"][0]["connected"] == true);
    first.interrupt();
    first.finish_well();
    wait_for_status(&metrics, |status| {
        status["streams"][0]["connected"] == false
    });
    let second = Running::start(&arguments);
    let status = wait_for_status(&metrics, |status| status["streams"][0]["session"] == 2);
    assert_eq!(status["streams"][0]["connected"], true);
    send.interrupt();
    send.finish();
    second.finish();
    let lines = lines(&bed.path("send.json"));
    for event in ["peer-left", "reconnected"] {
        assert_eq!(of_event(&lines, event).len(), 1, "{event}");
    }
    // The counters of a sender continue.
    let stats = of_event(&lines, "stats").into_iter();
    let resets = stats.filter(|line| line["streams"][0]["reset"] == true);
    assert_eq!(resets.count(), 1);
}

/// Parses the text format: comments first, then lines of that metric alone. Returns the samples by
/// metric.
fn parsed(text: &str) -> BTreeMap<String, Vec<(String, f64)>> {
    let mut metrics = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let rest = line
            .strip_prefix("# HELP ")
            .unwrap_or_else(|| panic!("{line}"));
        let (name, help) = rest.split_once(' ').unwrap();
        assert!(help.len() > 10, "{line}");
        let line = lines.next().unwrap();
        let kind = line.strip_prefix(&format!("# TYPE {name} ")).unwrap();
        assert!(["counter", "gauge"].contains(&kind), "{line}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        let mut samples = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (labelled, value) = line.rsplit_once(' ').unwrap();
            let (of, labels) = labelled.split_once('{').unwrap_or((labelled, "}"));
            assert_eq!(of, name, "{line}");
            samples.push((labels.to_owned(), value.parse().unwrap()));
        }
        assert!(
            metrics.insert(name.to_owned(), samples).is_none(),
            "{name} twice"
        );
    }
    metrics
}

#[test]
fn metrics_are_as_prometheus_reads_them_and_the_status_as_noalbs_does() {
    let bed = Bed::new();
    let film = film(&bed, 8);
    let metrics = ["--metrics", "0"];
    let camera = format!("{}=camera", bed.sender_public);
    let (mut recv, address) = bed.recv(&camera, &bed.text("out.ts"), &metrics);
    // The address is printed before the receiver listens.
    let (_, said) = recv.said.split_once("http://").unwrap();
    let at_recv = said.split_once("/metrics").unwrap().0.to_owned();
    assert!(at_recv.starts_with("127.0.0.1:"), "{at_recv}");
    let offline = status(&at_recv, "/status.json");
    assert!(offline.get("publisher").is_none(), "{offline}");
    assert_eq!(offline["status"], "ok");

    let mut send = bed.send(&address, &film, &[&metrics, &TWO_PATHS[..]].concat());
    let at_send = metrics_address(&mut send);
    wait_for_status(&at_recv, |status| {
        let stream = &status["streams"][0];
        stream["session_s"].as_f64() > Some(2.5)
    });
    // The rate is that of the last second, in which a busy machine may have had no time.
    let status_of_recv = wait_for_status(&at_recv, |status| {
        let kilobits = status["publisher"]["bitrate"].as_u64();
        kilobits.is_some_and(|kilobits| (1_800..2_400).contains(&kilobits))
    });
    wait_for_status(&at_send, |status| {
        let paths = status["streams"][0]["paths"].as_array().unwrap();
        paths.iter().all(|path| path["state"] == "active")
    });
    let (code, head, text) = get(&at_send, "/metrics");
    assert_eq!(code, 200);
    assert!(head.contains("version=0.0.4"), "{head}");
    let metrics = parsed(&text);
    assert_eq!(metrics["anabranch_build_info"][0].1, 1.0);
    assert_eq!(metrics["anabranch_path_rtt_seconds"].len(), 2, "{text}");
    for (labels, rtt) in &metrics["anabranch_path_rtt_seconds"] {
        // The round-trip time excludes the receiver's reported waits, so that it may be zero.
        assert!((0.0..0.5).contains(rtt), "{labels} {rtt}");
    }
    let sent: f64 = metrics["anabranch_path_sent_bytes_total"]
        .iter()
        .filter(|sample| sample.0.contains("reason=\"new\""))
        .map(|(_, bytes)| bytes)
        .sum();
    assert!(sent > 25.0 * PICTURE_BYTES as f64, "{text}");
    let active = metrics["anabranch_path_state"]
        .iter()
        .filter(|(labels, _)| labels.contains("\"active\""));
    assert_eq!(active.map(|(_, value)| value).sum::<f64>(), 2.0, "{text}");

    let publisher = &status_of_recv["publisher"];
    assert!(publisher["uptime"].is_u64() && publisher["dropped_pkts"].is_u64());
    let named = &status_of_recv["publishers"]["camera"];
    assert_eq!(named["bitrate"], publisher["bitrate"]);
    assert!(named["rtt"].is_f64(), "{named}");
    let of_nobody = status(&at_recv, "/status.json?stream=nobody");
    assert!(of_nobody.get("publisher").is_none(), "{of_nobody}");

    assert_eq!(get(&at_send, "/").0, 200);
    assert_eq!(get(&at_send, "/secrets").0, 404);
    send.interrupt();
    send.finish();
    recv.wait_for("session of");
    recv.finish();
}

/// A proxy has a session for connections and one for UDP. Its server sees those in use.
#[test]
fn tunnels_are_seen_at_both_ends_and_standard_output_takes_statistics() {
    let bed = Bed::new();
    let key = bed.text("receiver.key");
    let fixed = ["serve", "--listen", "127.0.0.1:0", "--key", &key, "--allow"];
    let options = [&bed.sender_public, "--connect", "any", "--metrics", "0"];
    let mut serve = Running::start(&[&fixed[..], &options].concat());
    let at_serve = metrics_address(&mut serve);
    let line = serve.wait_for("listening at ");
    let to = line.split_whitespace().nth(2).unwrap().to_owned();
    let key = bed.text("sender.key");
    let fixed = [
        "proxy",
        "--to",
        &to,
        "--key",
        &key,
        "--peer",
        &bed.receiver_public,
    ];
    let options = [
        "--socks5",
        "127.0.0.1:0",
        "--udp",
        "127.0.0.1:0=127.0.0.1:9",
    ];
    let mut command = bed::anabranch();
    command.args(fixed).args(options).args(["--stats", "-"]);
    let mut proxy = Running::of(command.stdin(Stdio::null()).stdout(Stdio::piped()));
    let status = wait_for_status(&at_serve, |status| status["streams"].get(0).is_some());
    assert_eq!(status["role"], "serve");
    let names = ["connections", "datagrams"].map(|name| format!("{name} of {}", bed.sender_public));
    for stream in status["streams"].as_array().unwrap() {
        let name = stream["name"].as_str().unwrap();
        assert!(names.iter().any(|known| known == name), "{status:#}");
    }
    // A line of statistics is due after a second.
    std::thread::sleep(Duration::from_millis(1_200));
    proxy.interrupt();
    let mut said = String::new();
    proxy
        .child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = of_event(&lines, "stats").pop().unwrap();
    assert_eq!(last["streams"].as_array().unwrap().len(), 2, "{said}");
    assert_eq!(last["streams"][0]["paths"].as_array().unwrap().len(), 1);
    serve.interrupt();
}

#[cfg(feature = "top")]
#[test]
fn top_shows_both_paths_of_a_running_program() {
    let bed = Bed::new();
    let film = film(&bed, 6);
    let (_recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &[]);
    let options = [&["--metrics", "0"], &TWO_PATHS[..]].concat();
    let mut send = bed.send(&address, &film, &options);
    let metrics = metrics_address(&mut send);
    wait_for_status(&metrics, |status| {
        status["streams"][0]["session_s"].as_f64() > Some(2.0)
    });
    wait_until("no history of three seconds", || {
        let (_, _, history) = get(&metrics, "/history.json");
        let history: Vec<Value> = serde_json::from_str(&history).unwrap();
        (history.len() >= 3).then_some(())
    });
    let shown = run(&["top", &metrics, "--once"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success(), "{text}");
    for part in [
        "anabranch send",
        "0 127.0.0.1",
        "1 127.0.0.2",
        "active",
        "Mbit/s",
        "RTT",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    send.interrupt();
    send.finish();
    // Without a program there is nothing to show.
    let shown = run(&["top", &metrics, "--once"]);
    let error = String::from_utf8_lossy(&shown.stderr);
    assert_eq!(shown.status.code(), Some(1), "{error}");
    assert!(error.contains("run with --metrics?"), "{error}");
}

#[cfg(feature = "codec")]
#[test]
fn receiver_serves_the_last_key_frame() {
    let bed = Bed::new();
    let metrics = ["--metrics", "0"];
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &metrics);
    let (_, said) = recv.said.split_once("http://").unwrap();
    let metrics = said.split_once("/metrics").unwrap().0.to_owned();
    let send = bed.send(&address, "test:", &["--duration", "12 s"]);
    let began = Instant::now();
    let picture = loop {
        let mut connection = TcpStream::connect(&metrics).unwrap();
        let request = "GET /thumbnail HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        if answer.starts_with(b"HTTP/1.1 200 ") {
            break answer.split_off(end + 4);
        }
        assert!(answer.starts_with(b"HTTP/1.1 404 "));
        assert!(began.elapsed() < PATIENCE, "no key frame");
        std::thread::sleep(Duration::from_millis(200));
    };
    let (head, rgb) = picture.split_at(b"P6\n160 90\n255\n".len());
    let head = core::str::from_utf8(head).unwrap();
    assert!(head.starts_with("P6\n160 "), "{head}");
    let height: usize = head.split([' ', '\n']).nth(2).unwrap().parse().unwrap();
    assert_eq!(rgb.len(), 3 * 160 * height);
    // The camera's picture has more than one colour.
    let [least, most] = [rgb.iter().min().unwrap(), rgb.iter().max().unwrap()];
    assert!(most - least > 100, "{least} {most}");
    // Untrusted pictures are decoded in another process: the field is cminflt, page faults of
    // children.
    if cfg!(target_os = "linux") {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", recv.id())).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let faults = fields.split(' ').nth(8).unwrap().parse::<u64>();
        assert!(faults.unwrap() > 0, "it has decoded by itself: {stat}");
    }
    send.interrupt();
    send.finish();
    recv.finish();
}

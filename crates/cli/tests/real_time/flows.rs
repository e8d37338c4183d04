//! Tests of UDP flows through `proxy` and `serve`, the real programs, over loopback: options,
//! statistics and the encoder's target. Waits are generous: the machine may be busy.
//!
//! Needs a clock: real programs exchange packets over sockets.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests act as users, who wait in real time"
)]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bed::{Bed, PATIENCE, Running, get};

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn address_after(running: &mut Running, words: &str) -> SocketAddr {
    let line = running.wait_for(words);
    let (_, rest) = line.split_once(words).unwrap();
    let address = rest.split([' ', '/']).find(|word| !word.is_empty());
    address.unwrap().parse().unwrap()
}

/// Starts a server that reaches `target`, and a proxy with these options.
fn tunnel(bed: &Bed, target: &str, options: &[&str]) -> (Running, Running) {
    let (server_key, proxy_key) = (bed.text("receiver.key"), bed.text("sender.key"));
    let listen = ["serve", "--listen", "127.0.0.1:0", "--connect", target];
    let keys = ["--key", &server_key, "--allow", &bed.sender_public];
    let mut serve = Running::start(&[&listen[..], &keys].concat());
    let server = address_after(&mut serve, "listening at ").to_string();
    let to = ["proxy", "--to", &server];
    let keys = ["--key", &proxy_key, "--peer", &bed.receiver_public];
    let proxy = Running::start(&[&to[..], &keys, options].concat());
    (serve, proxy)
}

/// Returns the datagrams of the second flow that passed, and those above its limit.
fn limited_counts(flows: &Value) -> [u64; 2] {
    let counts = ["sent_datagrams", "above_max_datagrams"];
    counts.map(|count| flows[1][count].as_u64().unwrap())
}

#[test]
fn each_flow_has_its_options_and_its_counts_and_the_encoder_its_target() {
    let bed = Bed::new();
    let (target, encoder) = (socket(), socket());
    let at = target.local_addr().unwrap().to_string();
    let (_serve, mut proxy) = tunnel(
        &bed,
        &at,
        &[
            "--udp",
            &format!("0={at},unordered,deadline=2s,name=cam"),
            "--udp",
            &format!("0={at},max=8kbit/s"),
            "--metrics",
            "127.0.0.1:0",
            "--encoder-range",
            "500kbit/s..6Mbit/s",
            "--target-to",
            &format!("udp://{}", encoder.local_addr().unwrap()),
        ],
    );
    let metrics = address_after(&mut proxy, "metrics at http://").to_string();
    let free = address_after(&mut proxy, "taking datagrams at ");
    let limited = address_after(&mut proxy, "taking datagrams at ");
    proxy.wait_for("connected to ");
    let mut line = [0; 500];
    let length = encoder.recv(&mut line).unwrap();
    let line: Value = serde_json::from_slice(&line[..length]).unwrap();
    let rate = line["target_bps"].as_u64().unwrap();
    assert!((500_000..=6_000_000).contains(&rate), "{line}");
    let application = socket();
    for _ in 0..20 {
        application.send_to(&[7; 1_000], free).unwrap();
        let (length, from) = target.recv_from(&mut [0; 2_000]).unwrap();
        assert_eq!(length, 1_000);
        target.send_to(&[8; 100], from).unwrap();
        assert_eq!(application.recv(&mut [0; 2_000]).unwrap(), 100);
    }
    // 64 KiB may come at once, and then a kilobyte a second. The proxy's socket holds 25 of them,
    // even if it gets no processor.
    for number in 1..=4 {
        for _ in 0..25 {
            application.send_to(&[7; 1_000], limited).unwrap();
        }
        await_flows(&metrics, |flows| {
            limited_counts(flows).iter().sum::<u64>() == 25 * number
        });
    }
    let warning = proxy.wait_for("above its max= were dropped");
    assert!(warning.contains(&format!("--udp {at}: ")), "{warning}");
    let flows = await_flows(&metrics, |flows| flows[0]["received_bytes"] == 2_000);
    assert_eq!(flows[0]["name"], "cam");
    assert_eq!(flows[0]["sent_bytes"], 20_000);
    assert_eq!(flows[0]["received_bytes"], 2_000);
    // The four parts take a second or two, as the status is of each second.
    let [passed, _] = limited_counts(&flows);
    assert!((60..85).contains(&passed), "{flows}");
    let (_, _, text) = get(&metrics, "/metrics");
    let count = "anabranch_flow_datagrams_total{flow=\"cam\",direction=\"sent\"} 20";
    assert!(text.contains(count), "{text}");
    let (_, _, target) = get(&metrics, "/target");
    assert!(target.contains("\"target_bps\":"), "{target}");
    proxy.interrupt();
    let said = proxy.finish_well();
    assert!(
        said.contains("flow cam: 20 datagrams, 20 kB sent; 20, 2000 B received"),
        "{said}"
    );
    assert!(said.contains("overhead: "), "{said}");
}

/// Returns the flows of the status that fulfils the condition.
fn await_flows(metrics: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let began_at = Instant::now();
    loop {
        let (_, _, status) = get(metrics, "/status.json");
        let status: Value = serde_json::from_str(&status).unwrap();
        let flows = status["streams"][0]["flows"].clone();
        if flows.is_array() && is_it(&flows) {
            return flows;
        }
        assert!(began_at.elapsed() < PATIENCE, "{status}");
        sleep(Duration::from_millis(100));
    }
}

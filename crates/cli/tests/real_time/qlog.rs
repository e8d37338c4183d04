//! Tests of the real programs' logs of packets (qlog), over loopback.
//!
//! Needs a clock: real programs write their logs as they run.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::bed::{Bed, transport_stream_of};

/// Parses a JSON text sequence. Returns the head and the events.
fn qlog(path: &Path) -> (Value, Vec<Value>) {
    let bytes = std::fs::read(path).unwrap();
    let mut records = bytes
        .split(|byte| *byte == 0x1e)
        .skip(1)
        .map(|record| serde_json::from_slice::<Value>(record).unwrap());
    let head = records.next().unwrap();
    (head, records.collect())
}

/// Returns path and number of all packets in events of this name.
fn packets(events: &[Value], name: &str) -> Vec<(String, u64)> {
    let events = events.iter().filter(|event| event["name"] == name);
    events
        .map(|event| {
            let number = event["data"]["header"]["packet_number"].as_u64().unwrap();
            assert!(event["data"]["raw"]["length"].as_u64() > Some(0), "{event}");
            (event["path"].as_str().unwrap().to_owned(), number)
        })
        .collect()
}

fn group(event: &Value) -> &str {
    event["group_id"].as_str().unwrap()
}

#[test]
fn logs_of_both_ends_have_the_same_packets() {
    let bed = Bed::new();
    // Two seconds of 2 Mbit/s.
    let film = bed.text("film.ts");
    std::fs::write(&film, transport_stream_of(50, |_| 10_000)).unwrap();
    let [at_send, at_recv] = ["send.sqlog", "recv.sqlog"].map(|name| bed.text(name));
    let options = ["--qlog", &at_recv];
    let (recv, address) = bed.recv(&bed.sender_public, &bed.text("out.ts"), &options);
    let options = [
        &["--qlog", &at_send],
        &["--via", "127.0.0.1", "--via", "127.0.0.2"][..],
    ]
    .concat();
    bed.send(&address, &film, &options).finish_well();
    recv.finish_well();
    let (head, sent) = qlog(Path::new(&at_send));
    assert_eq!(head["qlog_version"], "0.3");
    assert_eq!(head["trace"]["vantage_point"]["type"], "client");
    let (head, received) = qlog(Path::new(&at_recv));
    assert_eq!(head["trace"]["vantage_point"]["type"], "server");
    for events in [&sent, &received] {
        let times = events.iter().map(|event| event["time"].as_f64().unwrap());
        assert!(times.is_sorted());
        let names = events.iter().map(|event| event["name"].as_str().unwrap());
        let known = ["transport:", "recovery:", "anabranch:"];
        for name in names {
            assert!(known.iter().any(|known| name.starts_with(known)), "{name}");
        }
        // Tools show each group as a connection, and identify its packets by their numbers.
        let groups: BTreeMap<_, _> = events.iter().map(|event| (group(event), ())).collect();
        assert_eq!(groups.len(), 3, "two paths and the stream: {groups:?}");
        let of_a_path = events.iter().filter(|event| event["path"].is_string());
        assert!(of_a_path.clone().count() > 300);
        for event in of_a_path {
            let path = format!(" path {}", event["path"].as_str().unwrap());
            assert!(group(event).ends_with(&path), "{event}");
        }
    }
    let numbers = packets(&sent, "transport:packet_sent");
    assert!(numbers.len() > 300, "{}", numbers.len());
    let arrived: BTreeMap<_, ()> = packets(&received, "transport:packet_received")
        .into_iter()
        .map(|packet| (packet, ()))
        .collect();
    // Loopback loses nothing, but the last packets may arrive after the end.
    let missing = numbers
        .iter()
        .filter(|packet| !arrived.contains_key(packet));
    assert!(
        missing.clone().count() <= 5,
        "{:?}",
        missing.collect::<Vec<_>>()
    );
    let metrics = sent
        .iter()
        .filter(|event| event["name"] == "recovery:metrics_updated");
    let rtts: Vec<f64> = metrics
        .filter_map(|event| event["data"]["smoothed_rtt"].as_f64())
        .collect();
    assert!(rtts.len() > 5 && rtts.iter().all(|rtt| *rtt > 0.0));
    // In milliseconds. A busy machine is late for some of the packets.
    let quick_count = rtts.iter().filter(|rtt| **rtt < 500.0).count();
    assert!(quick_count > rtts.len() / 2, "{rtts:?}");
    assert_eq!(
        sent.iter()
            .filter(|event| event["name"] == "anabranch:session_began")
            .count(),
        1
    );
}

//! A Wi-Fi link whose air both directions share: acknowledgements cost data their time.

use anabranch_lab::{RunOptions, Scenario, run};

/// Goodput of a TCP flow of 1,428 B segments, by the links of its route, in Mbit/s.
fn goodput(forward: &str, reverse: &str) -> f64 {
    let text = format!(
        r#"
duration = "60 s"
[statistics]
from = "10 s"
[links.air]
rate = "6 Mbit/s"
frame-time = "350 us"
queue = "100 packets"
discipline = "half-duplex"
[links.wire]
delay = "10 ms"
[routes.path]
forward = [{forward}]
reverse = [{reverse}]
[[flows]]
kind = "bulk"
controller = "cubic"
paths = ["path"]
loss-detection = "tcp-sack"
packet = "1428 B"
overhead = "62 B"
delayed-ack = "40 ms"
"#
    );
    let scenario =
        Scenario::parse("air.toml", &text, &[]).unwrap_or_else(|error| panic!("{error}"));
    let mut report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    let flow = report.runs.remove(0).statistics.flows.remove(0);
    flow.goodput_bits_per_second * 1e-6
}

/// A segment takes 2 ms for its 1,500 B, and 0.35 ms. Every second one is acknowledged, by 0.46 ms.
#[test]
fn acknowledgements_take_their_share_of_the_air() {
    let shared = goodput(r#""wire", "air""#, r#""air", "wire""#);
    let alone = goodput(r#""wire", "air""#, r#""wire""#);
    let segment = 1_428.0 * 8e-6;
    let expected_alone = segment / 2.35e-3;
    let expected_shared = 2.0 * segment / (2.0 * 2.35e-3 + 0.46e-3);
    assert!((alone / expected_alone - 1.0).abs() < 0.01, "{alone}");
    assert!((shared / expected_shared - 1.0).abs() < 0.02, "{shared}");
}

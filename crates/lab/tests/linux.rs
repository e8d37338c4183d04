//! Beside Linux 6.18: one and three flows in real time over an emulated link of 10 Mbit/s and 25 ms
//! each way, with a queue of 42 packets.

use anabranch_lab::metrics::Statistics;
use anabranch_lab::{RunOptions, Scenario, run};

/// Runs `count` flows of BBR, from 20 to 120 s.
fn flows(count: u32) -> Statistics {
    let text = format!(
        r#"
duration = "120 s"
[statistics]
from = "20 s"
[links.bottleneck]
rate = "10 Mbit/s"
delay = "25 ms"
queue = "42 packets"
[links.return]
delay = "25 ms"
[routes.path]
forward = ["bottleneck"]
reverse = ["return"]
[[flows]]
kind = "bulk"
count = {count}
stagger = "1 s"
controller = "bbr-linux"
paths = ["path"]
loss-detection = "tcp-sack"
packet = "1448 B"
overhead = "66 B"
delayed-ack = "40 ms"
min-rto = "200 ms"
"#
    );
    let scenario = Scenario::parse("linux.toml", &text, &[]);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let mut report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    report.runs.remove(0).statistics
}

/// The kernel: 46 to 47 ms. An emulated link bunches acknowledgements, and 1 ms of this adds 5 ms.
#[test]
fn the_queue_of_a_bbr_flow_is_near_the_kernel_s() {
    let statistics = flows(1);
    let delay = statistics.flows[0].traffic.delay_ms.as_ref();
    let delay = delay.expect("packets arrived").mean;
    assert!((38.0..=48.0).contains(&delay), "{delay} ms");
}

/// The kernel: 10.5 to 11 %, partly due to the emulated link.
#[test]
fn three_bbr_flows_lose_as_offloaded_segments_make_them() {
    let flows = flows(3).flows;
    let losses = flows.iter().filter_map(|flow| flow.traffic.loss_ratio);
    let loss = losses.sum::<f64>() / 3.0;
    assert!((0.078..=0.11).contains(&loss), "{loss}");
}

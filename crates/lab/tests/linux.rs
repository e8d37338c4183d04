//! Beside Linux 6.18: one and three flows in real time over an emulated link of 10 Mbit/s, with a
//! queue of 42 packets.

use anabranch_lab::metrics::Statistics;
use anabranch_lab::{RunOptions, Scenario, run};

/// Runs `count` flows of a form of BBR over `delay_ms` each way, and measures from 20 to 120 s.
fn flows(count: u32, controller: &str, delay_ms: u32) -> Statistics {
    let text = format!(
        r#"
duration = "120 s"
[statistics]
from = "20 s"
[links.bottleneck]
rate = "10 Mbit/s"
delay = "{delay_ms} ms"
queue = "42 packets"
[links.return]
delay = "{delay_ms} ms"
[routes.path]
forward = ["bottleneck"]
reverse = ["return"]
[[flows]]
kind = "bulk"
count = {count}
stagger = "1 s"
controller = "{controller}"
paths = ["path"]
loss-detection = "tcp-sack"
packet = "1448 B"
overhead = "66 B"
delayed-ack = "40 ms"
min-rto = "200 ms"
"#
    );
    let scenario =
        Scenario::parse("linux.toml", &text, &[]).unwrap_or_else(|error| panic!("{error}"));
    let mut report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    report.runs.remove(0).statistics
}

fn mean_delay(controller: &str, delay_ms: u32) -> f64 {
    let statistics = flows(1, controller, delay_ms);
    let delay = statistics.flows[0].traffic.delay_ms.as_ref();
    delay.expect("packets arrived").mean
}

/// The kernel on a quiet machine: 36 to 39 ms, and 16 ms.
#[test]
fn the_queue_of_a_bbr_flow_is_near_the_kernel_s() {
    let (far, near) = (mean_delay("bbr-linux", 25), mean_delay("bbr-linux", 5));
    assert!((34.0..=39.0).contains(&far), "{far} ms");
    assert!((15.0..=17.0).contains(&near), "{near} ms");
}

/// They are in the kernel's source, and make our queue longer than the kernel's.
#[test]
fn departure_times_make_the_queue_longer_than_the_kernel_s() {
    let with = "bbr-linux:departure-times=on";
    let (far, near) = (mean_delay(with, 25), mean_delay(with, 5));
    assert!(far > 39.0 && near > 19.0, "{far} ms, {near} ms");
}

/// The kernel: 10.5 to 11 %, partly due to the emulated link.
#[test]
fn three_bbr_flows_lose_as_offloaded_segments_make_them() {
    let flows = flows(3, "bbr-linux", 25).flows;
    let losses = flows.iter().filter_map(|flow| flow.traffic.loss_ratio);
    let loss = losses.sum::<f64>() / 3.0;
    assert!((0.078..=0.11).contains(&loss), "{loss}");
}

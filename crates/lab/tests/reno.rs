//! `reno` on streams with cumulative acknowledgements, against ns-2.35's Reno and the formulas for
//! TCP's goodput.

use std::fmt::Write;

use anabranch_lab::metrics::{METRICS, Subject};
use anabranch_lab::{Report, RunOptions, Scenario, run};
use anabranch_units::Seed;

fn run_seeds(text: &str, overrides: &[&str], seeds: Vec<u64>) -> Report {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::parse("test.toml", text, &overrides);
    let options = RunOptions {
        seeds,
        ..RunOptions::default()
    };
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    run(&scenario, &options, &|_| ()).unwrap()
}

/// The mean goodput of the first flow, in bit/s.
fn goodput(report: &Report) -> f64 {
    let metric = METRICS.iter().find(|known| known.name == "goodput");
    let metric = metric.unwrap();
    let flow = Subject::Flow(0);
    let values = report.runs.iter();
    let values = values.map(|run| metric.of(&run.statistics, flow).unwrap());
    values.sum::<f64>() / report.runs.len() as f64
}

/// Bits of payload in a segment of 1500 B.
const SEGMENT_BITS: f64 = 1_460.0 * 8.0;

/// T3: 10 Mbit/s, 50 ms, a queue of one bandwidth-delay product, 1 % random loss.
const LOSSY: &str = r#"
duration = "200 s"
statistics = { from = "20 s" }
[links.there]
rate = "10 Mbit/s"
delay = "25 ms"
queue = "62500 B"
loss = "1 %"
[links.back]
rate = "10 Mbit/s"
delay = "25 ms"
[routes.only]
forward = ["there"]
reverse = ["back"]
[[flows]]
kind = "bulk"
controller = "reno"
packet = "1460 B"
overhead = "30 B"
paths = ["only"]
"#;

#[test]
fn mathis_1997_goodput_under_random_loss_with_delayed_acknowledgements() {
    for rule in ["tcp-sack", "per-packet"] {
        let rule = format!("flows.0.loss-detection={rule}");
        let ratio = goodput(&run_seeds(LOSSY, &[&rule], vec![1, 2, 3]))
            / (0.87 * SEGMENT_BITS / (0.05 * 0.1));
        assert!((ratio - 1.0).abs() < 0.15, "{rule}: {ratio}");
    }
}

#[test]
fn padhye_1998_goodput_under_random_loss_with_timeouts() {
    // Without SACK two losses in a window often cost a timeout, which Mathis leaves out.
    let (rtt, loss, segments_per_ack, timeout) = (0.052, 0.01_f64, 2.0, 0.2);
    let avoidance = rtt * (2.0 * segments_per_ack * loss / 3.0).sqrt();
    let chance = (3.0 * (3.0 * segments_per_ack * loss / 8.0).sqrt()).min(1.0);
    let timeouts = timeout * chance * loss * (1.0 + 32.0 * loss * loss);
    let expected = SEGMENT_BITS / (avoidance + timeouts);
    let rule = "flows.0.loss-detection=tcp-cumulative";
    let ratio = goodput(&run_seeds(LOSSY, &[rule], vec![1, 2, 3])) / expected;
    assert!((ratio - 1.0).abs() < 0.15, "{ratio}");
}

fn link(name: &str, rate: u64, delay_ms: f64, queue: &str) -> String {
    format!(
        "[links.{name}]\nrate = \"{rate} Mbit/s\"\ndelay = \"{delay_ms} ms\"\nqueue = {queue:?}\n"
    )
}

/// Grieco & Mascolo §4.2, scenario 1: C1 with a round-trip time of 250 ms over so many hops of
/// 1 Mbit/s and 10 ms, on each of which one flow with 50 ms crosses it each way.
fn multihop(hops: usize, seed: u64) -> String {
    let mut rng = Seed(seed).derive("starts").rng();
    let mut text = "duration = \"110 s\"\nstatistics = { from = \"10 s\" }\n".to_owned();
    for hop in 0..hops {
        text += &link(&format!("f{hop}"), 1, 10.0, "21 packets");
        text += &link(&format!("b{hop}"), 1, 10.0, "21 packets");
    }
    let access_ms = (125.0 - 10.0 * hops as f64) / 2.0;
    let forward: Vec<String> = (0..hops).map(|hop| format!("\"f{hop}\"")).collect();
    let reverse: Vec<String> = (0..hops).rev().map(|hop| format!("\"b{hop}\"")).collect();
    let (forward, reverse) = (forward.join(","), reverse.join(","));
    // Every route has entry and exit links of its own, each way.
    let mut route = |name: &str, forward: &str, reverse: &str, access_ms: f64| {
        let [entry, exit, back, home] = ["e", "x", "r", "h"].map(|part| format!("{name}-{part}"));
        for part in [&entry, &exit, &back, &home] {
            text += &link(part, 100, access_ms, "unlimited");
        }
        let there = format!("[\"{entry}\",{forward},\"{exit}\"]");
        let back = format!("[\"{back}\",{reverse},\"{home}\"]");
        write!(
            text,
            "[routes.{name}]\nforward = {there}\nreverse = {back}\n"
        )
        .unwrap();
    };
    route("c1", &forward, &reverse, access_ms);
    for hop in 0..hops {
        let (there, back) = (format!("\"f{hop}\""), format!("\"b{hop}\""));
        route(&format!("there{hop}"), &there, &back, 7.5);
        route(&format!("back{hop}"), &back, &there, 7.5);
    }
    text += r#"
[flow-defaults]
kind = "bulk"
controller = "reno"
loss-detection = "tcp-cumulative"
packet = "1460 B"
overhead = "30 B"
initial-window = 2
delayed-ack = "100 ms"
initial-rto = "3 s"
"#;
    let mut flow = |route: &str, start: f64| {
        let start = start + rng.next_f64();
        let keys = format!("paths = [\"{route}\"]\nstart = \"{start:.6} s\"");
        write!(text, "[[flows]]\nname = \"{route}\"\n{keys}\n").unwrap();
    };
    flow("c1", 10.0);
    for hop in 0..hops {
        flow(&format!("there{hop}"), 0.0);
        flow(&format!("back{hop}"), 0.0);
    }
    text
}

#[test]
fn grieco_mascolo_multihop_renos_goodput_is_that_of_ns_2() {
    // ns-2.35, mean over ten seeds with starts jittered by up to 1 s, in kbit/s of 1500 B packets.
    for (hops, expected) in [(1, 308.1), (3, 120.2), (5, 53.0), (10, 12.6)] {
        let of_seed = |seed| goodput(&run_seeds(&multihop(hops, seed), &[], vec![seed]));
        let mean = (1..=10).map(of_seed).sum::<f64>() / 10.0;
        // ns-2's are over 100 s, of which C1 runs 99.5 in the mean.
        let kilobits = mean * 0.995 * 1_500.0 / 1_460.0 / 1_000.0;
        let ratio = kilobits / expected;
        assert!(
            (ratio - 1.0).abs() < 0.2,
            "{hops} hops: {kilobits}, {ratio}"
        );
    }
}

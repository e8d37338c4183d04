//! `reno` on streams with cumulative acknowledgements, against the formulas for TCP's goodput.

use anabranch_lab::metrics::{METRICS, Subject};
use anabranch_lab::{Report, RunOptions, Scenario, run};

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

//! Flows of streams as scenarios describe them, against what theory says of TCP.

use anabranch_lab::metrics::{METRICS, Subject};
use anabranch_lab::{Report, RunOptions, Scenario, run};

fn scenario(text: &str, overrides: &[&str]) -> Scenario {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Scenario::parse("test.toml", text, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

fn run_seeds(scenario: &Scenario, seed_count: u64) -> Report {
    run(scenario, &RunOptions::seeds(seed_count), &|_| ()).unwrap()
}

/// The mean of a metric over all seeds.
fn mean(report: &Report, metric: &str, subject: Subject) -> f64 {
    let metric = METRICS.iter().find(|known| known.name == metric).unwrap();
    let values = report.runs.iter();
    let values = values.map(|run| {
        metric
            .of(&run.statistics, subject)
            .expect("it was measured")
    });
    values.sum::<f64>() / report.runs.len() as f64
}

/// Test bed T1: 10 Mbit/s, 50 ms, a queue of one bandwidth-delay product. A full packet has 1500 B
/// on the wire, an acknowledgement without packet ranges 40 B.
const BED: &str = r#"
duration = "60 s"
statistics = { from = "20 s" }
[links.there]
rate = "10 Mbit/s"
delay = "25 ms"
queue = "62500 B"
[links.back]
rate = "10 Mbit/s"
delay = "25 ms"
[routes.only]
forward = ["there"]
reverse = ["back"]
[[flows]]
name = "bulk"
kind = "bulk"
controller = "new-reno"
packet = "1460 B"
overhead = "30 B"
paths = ["only"]
"#;

const LOSS_DETECTIONS: [&str; 4] = ["tcp-sack", "tcp-cumulative", "per-packet", "gap-immediate"];

#[test]
fn property_new_reno_keeps_a_queue_of_one_bdp_busy_with_each_loss_detection() {
    for rule in LOSS_DETECTIONS {
        let rule = format!("flow-defaults.loss-detection={rule}");
        let report = run_seeds(&scenario(BED, &[&rule]), 1);
        let utilisation = mean(&report, "utilisation", Subject::Link(1));
        assert!(utilisation >= 0.98, "{rule}: {utilisation}");
        let timeouts = mean(&report, "timeouts", Subject::Flow(0));
        assert_eq!(timeouts, 0.0, "{rule}");
    }
}

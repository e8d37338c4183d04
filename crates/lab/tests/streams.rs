//! Flows of streams as scenarios describe them, against the theory of TCP.

use anabranch_lab::metrics::{METRICS, Subject};
use anabranch_lab::{Report, RunOptions, Scenario, run};

fn scenario(text: &str, overrides: &[&str]) -> Scenario {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Scenario::parse("test.toml", text, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

fn run_seeds(scenario: &Scenario, seed_count: u64) -> Report {
    run(scenario, &RunOptions::seeds(seed_count), &|_| ()).unwrap()
}

/// Returns the mean of a metric over all seeds.
fn mean(report: &Report, metric: &str, subject: Subject) -> f64 {
    let metric = METRICS.iter().find(|known| known.name == metric).unwrap();
    let values = report.runs.iter().map(|run| {
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

#[test]
fn stream_of_given_size_arrives_and_ends() {
    for rule in LOSS_DETECTIONS {
        let rule = format!("flow-defaults.loss-detection={rule}");
        let overrides = [
            &rule,
            "flows.0.bytes=5 MB",
            "links.there.loss=1 %",
            "statistics={}",
        ];
        let report = run_seeds(&scenario(BED, &overrides), 2);
        assert_eq!(mean(&report, "transfers", Subject::Flow(0)), 1.0, "{rule}");
        let goodput = mean(&report, "goodput", Subject::Flow(0));
        assert_eq!(goodput, 5e6 * 8.0 / 60.0, "{rule}");
        // At 10 Mbit/s it takes 4.1 s; loss makes it about four times that.
        let milliseconds = mean(&report, "transfer-time-mean", Subject::Flow(0));
        assert!(
            (8e3..40e3).contains(&milliseconds),
            "{rule}: {milliseconds}"
        );
        assert!(mean(&report, "retransmissions", Subject::Flow(0)) > 0.005);
    }
}

#[test]
fn a_controller_without_window_is_paced() {
    let overrides = ["flows.0.controller=fixed", "flows.0.fixed-rate=9.5 Mbit/s"];
    let report = run_seeds(&scenario(BED, &overrides), 1);
    let throughput = mean(&report, "throughput", Subject::Flow(0));
    assert!((throughput / 9.5e6 - 1.0).abs() < 0.001, "{throughput}");
    assert_eq!(mean(&report, "retransmissions", Subject::Flow(0)), 0.0);
    // Nothing queues: 25 ms, and 1.2 ms of serialization.
    assert!(mean(&report, "delay-p99", Subject::Flow(0)) < 26.4);
}

#[test]
fn acknowledgements_cross_a_reverse_link_that_another_flow_fills() {
    let both_ways = r#"
[routes.reversed]
forward = ["back"]
reverse = ["there"]
[[flows]]
name = "against"
kind = "bulk"
controller = "new-reno"
packet = "1460 B"
overhead = "30 B"
paths = ["reversed"]
"#;
    let text = format!("{BED}{both_ways}");
    for rule in LOSS_DETECTIONS {
        let rule = format!("flow-defaults.loss-detection={rule}");
        let report = run_seeds(&scenario(&text, &[&rule, "links.back.queue=62500 B"]), 1);
        // Acknowledgements wait in the other flow's queue and leave it in clusters, so that both
        // links idle in turn. Zhang, Shenker & Clark (1991) found about 70 % for two-way traffic.
        // Without SACK several losses in a window end in a timeout, which idles more. With it
        // windows fall over a round trip (RFC 9937), which idles less.
        for link in 0..2 {
            let utilisation = mean(&report, "utilisation", Subject::Link(link));
            assert!((0.6..0.85).contains(&utilisation), "{rule}: {utilisation}");
        }
        for flow in 0..2 {
            let goodput = mean(&report, "goodput", Subject::Flow(flow));
            assert!((6e6..8e6).contains(&goodput), "{rule}: {goodput}");
        }
    }
}

#[test]
fn short_flows_fetch_objects_of_30_to_50_kb_every_ten_seconds() {
    let overrides = ["flows.0.kind=short", "duration=2000 s", "statistics={}"];
    let report = run_seeds(&scenario(BED, &overrides), 2);
    // Idle for 10 s on average, and some 0.3 s for the object.
    let transfers = mean(&report, "transfers", Subject::Flow(0));
    assert!((165.0..225.0).contains(&transfers), "{transfers}");
    let object_bytes = mean(&report, "goodput", Subject::Flow(0)) * 2_000.0 / 8.0 / transfers;
    assert!((38e3..42e3).contains(&object_bytes), "{object_bytes}");
    // 28 segments from a window of ten, doubling: two to three round trips after the first half.
    let milliseconds = mean(&report, "transfer-time-mean", Subject::Flow(0));
    assert!((100.0..250.0).contains(&milliseconds), "{milliseconds}");
}

/// Bits of payload in a segment of 1500 B.
const SEGMENT_BITS: f64 = 1_460.0 * 8.0;

/// Returns T3: Reno's goodput in bit/s on T1 with 1 % random loss.
fn goodput_at_one_percent(rule: &str) -> f64 {
    let rule = format!("flow-defaults.loss-detection={rule}");
    let lossy = [
        rule.as_str(),
        "duration=200 s",
        "links.there.loss=1 %",
        "flows.0.controller=reno",
    ];
    let report = run_seeds(&scenario(BED, &lossy), 3);
    mean(&report, "goodput", Subject::Flow(0))
}

#[test]
fn mathis_1997_goodput_under_random_loss_with_delayed_acknowledgements() {
    for rule in ["tcp-sack", "per-packet"] {
        let ratio = goodput_at_one_percent(rule) / (0.87 * SEGMENT_BITS / (0.05 * 0.1));
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
    let ratio = goodput_at_one_percent("tcp-cumulative") / expected;
    assert!((ratio - 1.0).abs() < 0.15, "{ratio}");
}

/// Returns three flows over a path, staggered, with delayed acknowledgements: packets of `scale`
/// times the size over a link of `scale` times the rate.
fn scaled(scale: u32) -> Scenario {
    let text = format!(
        r#"
duration = "60 s"
statistics = {{ from = "30 s" }}
[links.there]
rate = "{} Mbit/s"
delay = "50 ms"
queue = "75 packets"
[links.back]
delay = "50 ms"
[routes.only]
forward = ["there"]
reverse = ["back"]
[[flows]]
kind = "bulk"
count = 3
stagger = "8 s"
controller = "vegas"
loss-detection = "tcp-sack"
packet = "{} B"
overhead = "{} B"
paths = ["only"]
"#,
        3 * scale,
        1_448 * scale,
        // With the 10 B of a packet's own header: 54 B, the same share of any packet.
        54 * scale - 10,
    );
    scenario(&text, &[])
}

/// Vegas counts in packets, so it cannot distinguish the two networks. It could, if a greedy source
/// were cut into short segments where a limit in bytes ends.
#[test]
fn property_doubling_rate_and_packet_size_changes_nothing_for_vegas() {
    let [one, two] = [1, 2].map(|scale| run_seeds(&scaled(scale), 1));
    for flow in 0..3 {
        let [one, two] = [(&one, 1.0), (&two, 2.0)]
            .map(|(report, scale)| mean(report, "throughput", Subject::Flow(flow)) / scale);
        assert!((one / two - 1.0).abs() < 0.005, "{flow}: {one} and {two}");
    }
}

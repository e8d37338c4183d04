//! Coupled controllers through whole simulated streams over two paths.

use anabranch_lab::metrics::FlowStatistics;
use anabranch_lab::{RunOptions, Scenario, run};

/// Two links of 10 Mbit/s, round trips of 20 and 100 ms and queues of one bandwidth-delay product:
/// test bed M1. Routes `left` and `right` lead over the second link alone: test bed M2.
const BED: &str = r#"
duration = "100 s"
statistics = { from = "20 s" }
[links.near]
rate = "10 Mbit/s"
delay = "10 ms"
queue = "20 ms"
[links.far]
rate = "10 Mbit/s"
delay = "50 ms"
queue = "100 ms"
[links.near-back]
delay = "10 ms"
[links.far-back]
delay = "50 ms"
[routes.near]
forward = ["near"]
reverse = ["near-back"]
[routes.far]
forward = ["far"]
reverse = ["far-back"]
[routes.left]
forward = ["far"]
reverse = ["far-back"]
[routes.right]
forward = ["far"]
reverse = ["far-back"]
[flow-defaults]
kind = "bulk"
packet = "1460 B"
overhead = "30 B"
"#;

/// What flows of these controllers over these paths measure.
fn flows(flows: &[(&str, &[&str])], settings: &[&str]) -> Vec<FlowStatistics> {
    let mut text = BED.to_owned();
    for (controller, paths) in flows {
        text += &format!("[[flows]]\ncontroller = \"{controller}\"\npaths = {paths:?}\n");
    }
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::parse("coupled.toml", &text, &settings);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let mut report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    report.runs.remove(0).statistics.flows
}

/// Mbit/s in order.
fn goodput(flow: &FlowStatistics) -> f64 {
    flow.goodput_bits_per_second / 1e6
}

fn path_rates(flow: &FlowStatistics) -> Vec<f64> {
    flow.paths.iter().map(|path| path.traffic.throughput_bits_per_second / 1e6).collect()
}

#[test]
fn explore() {
    for scheduler in ["min-cost", "round-robin"] {
        let scheduler = format!("flow-defaults.scheduler={scheduler}");
        for name in ["new-reno", "lia", "olia", "balia"] {
            let m2 = flows(&[(name, &["left", "right"]), ("new-reno", &["far"])], &[&scheduler]);
            eprintln!("{scheduler} {name} M2: {:?} {:?} {}", goodput(&m2[0])/goodput(&m2[1]), path_rates(&m2[0]), goodput(&m2[1]));
            let m1 = flows(&[(name, &["near", "far"])], &[&scheduler]);
            eprintln!("{scheduler} {name} M1: {:?} {:?}", goodput(&m1[0]), path_rates(&m1[0]));
            let lossy = flows(&[(name, &["near", "far"])], &[&scheduler, "links.near.loss=0.1 %", "links.far.loss=1 %", "links.near.delay=50 ms", "links.near-back.delay=50 ms", "links.near.queue=100 ms"]);
            eprintln!("{scheduler} {name} loss: {:?} {:?}", goodput(&lossy[0]), path_rates(&lossy[0]));
            let one = flows(&[(name, &["near"])], &[&scheduler, "links.near.loss=0.1 %"]);
            eprintln!("{scheduler} {name} one: {:?} {:?}", goodput(&one[0]), path_rates(&one[0]));
        }
    }
}

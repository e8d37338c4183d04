//! XLINK's reinjection before a viewer, in the simulator.

use anabranch_lab::metrics::Statistics;
use anabranch_lab::{RunOptions, Scenario, run};

const NETWORK: &str = r#"
duration = "60 s"
[links.near]
rate = "6 Mbit/s"
delay = "10 ms"
queue = "100 ms"
[links.far]
rate = "2 Mbit/s"
delay = "250 ms"
queue = "300 ms"
[links.back]
delay = "10 ms"
[links.far-back]
delay = "250 ms"
[routes.near]
forward = ["near"]
reverse = ["back"]
[routes.far]
forward = ["far"]
reverse = ["far-back"]
[[flows]]
kind = "adaptive-viewer"
controller = "cubic"
scheduler = "spd"
paths = ["near", "far"]
length = "50 s"
buffer = "6 s"
"#;

fn watched(overrides: &[&str]) -> Statistics {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::parse("xlink.toml", NETWORK, &overrides);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    report.runs[0].statistics.clone()
}

#[test]
fn explore() {
    for buffer in ["4 s", "6 s", "12 s", "30 s"] {
        for scheduler in ["spd", "round-robin", "ecf"] {
            for name in ["off", "linux", "xlink"] {
                let set = [
                    format!("flows.0.reinjection={name}"),
                    format!("flows.0.buffer={buffer}"),
                    format!("flows.0.scheduler={scheduler}"),
                ];
                let set: Vec<&str> = set.iter().map(String::as_str).collect();
                let statistics = watched(&set);
                let flow = &statistics.flows[0];
                let a = flow.adaptive.unwrap();
                let reinjected: u64 = flow
                    .paths
                    .iter()
                    .flat_map(|p| p.traffic.reasons.iter())
                    .filter(|r| r.reason == "reinjection")
                    .map(|r| r.packets)
                    .sum();
                let sent: u64 = flow
                    .paths
                    .iter()
                    .flat_map(|p| p.traffic.reasons.iter())
                    .map(|r| r.packets)
                    .sum();
                println!(
                    "{buffer} {scheduler} {name}: start {:?} under {} stall {} rate {:?} copies {reinjected}/{sent}",
                    a.start_up_ms, a.underflows, a.stall_time_ms, a.mean_rate_bits_per_second
                );
            }
        }
    }
}

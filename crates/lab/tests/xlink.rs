//! XLINK's reinjection before a viewer, in the simulator.

use anabranch_lab::metrics::{AdaptiveStatistics, PathStatistics};
use anabranch_lab::{RunOptions, Scenario, run};

const NETWORK: &str = r#"
duration = "60 s"
[links.near]
rate = "6 Mbit/s"
delay = "10 ms"
queue = "100 ms"
[links.far]
rate = "2 Mbit/s"
delay = "400 ms"
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
controller = "bbr3"
scheduler = "spd"
paths = ["near", "far"]
length = "50 s"
buffer = "4 s"
"#;

/// Returns the viewer's experience, and the counts of reinjected and of sent packets.
fn watched(overrides: &[&str]) -> (AdaptiveStatistics, u64, u64) {
    fn sent(is_counted: fn(&str) -> bool, paths: &[PathStatistics]) -> u64 {
        let reasons = paths.iter().flat_map(|path| &path.traffic.reasons);
        let counted = reasons.filter(|sent| is_counted(&sent.reason));
        counted.map(|sent| sent.packets).sum()
    }

    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::parse("xlink.toml", NETWORK, &overrides)
        .unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    let flow = &report.runs[0].statistics.flows[0];
    let copies = sent(|reason| reason == "reinjection", &flow.paths);
    (flow.adaptive.unwrap(), copies, sent(|_| true, &flow.paths))
}

/// A buffer of two segments is often short: a segment's end on the far path is worth copying.
#[test]
fn a_viewer_about_to_stop_stands_still_for_less_long() {
    let (off, none, _) = watched(&["flows.0.reinjection=off"]);
    let (linux, ..) = watched(&["flows.0.reinjection=linux"]);
    let (xlink, copies, sent) = watched(&["flows.0.reinjection=xlink"]);
    assert_eq!((none, linux.stall_time_ms), (0, off.stall_time_ms));
    assert!(off.stall_time_ms > 300.0, "{}", off.stall_time_ms);
    let saved = off.stall_time_ms - xlink.stall_time_ms;
    assert!(saved > 150.0, "{saved}");
    assert_eq!(xlink.segments, off.segments);
    assert!(copies > 0 && copies * 20 < sent, "{copies} of {sent}");
}

#[test]
fn a_viewer_with_enough_to_play_costs_nothing() {
    let long = ["flows.0.reinjection=xlink", "flows.0.buffer=12 s"];
    let (viewer, copies, _) = watched(&long);
    assert_eq!((viewer.underflows, copies), (0, 0));
}

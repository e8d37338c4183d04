//! Viewers of adaptive bitrates, over networks where the answer is known.

use anabranch_lab::metrics::{AdaptiveStatistics, METRICS, Subject};
use anabranch_lab::{RunOptions, Scenario, run};

/// Two paths of 4 Mbit/s.
const NETWORK: &str = r#"
duration = "200 s"
[links.one]
rate = "4 Mbit/s"
delay = "20 ms"
queue = "100 ms"
[links.two]
rate = "4 Mbit/s"
delay = "20 ms"
queue = "100 ms"
[links.back]
delay = "30 ms"
[routes.one]
forward = ["one"]
reverse = ["back"]
[routes.two]
forward = ["two"]
reverse = ["back"]
[[flows]]
kind = "adaptive-viewer"
controller = "cubic"
scheduler = "spd"
paths = ["one"]
length = "181 s"
"#;

fn watched(overrides: &[&str]) -> (AdaptiveStatistics, Vec<(&'static str, Option<f64>)>, u64) {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let scenario = Scenario::parse("viewer.toml", NETWORK, &overrides)
        .unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    let statistics = &report.runs[0].statistics;
    let values = METRICS
        .iter()
        .map(|metric| (metric.name, metric.of(statistics, Subject::Flow(0))));
    let flow = &statistics.flows[0];
    (flow.adaptive.unwrap(), values.collect(), flow.transfers)
}

#[test]
fn viewer_uses_both_paths() {
    fn value(name: &str, values: &[(&str, Option<f64>)]) -> Option<f64> {
        values.iter().find(|(other, _)| *other == name).unwrap().1
    }

    let (one, values, transfers) = watched(&[]);
    // Whole segments of 181 s, then the stream ends.
    assert_eq!((one.segments, one.underflows, transfers), (90, 0, 1));
    assert_eq!((one.stall_time_ms, one.stall_ratio), (0.0, Some(0.0)));
    // A request and the first byte take 50 ms, and a segment of 2 Mbit half a second, less what
    // slow start does not fill.
    let start_up = one.start_up_ms.unwrap();
    assert!((550.0..750.0).contains(&start_up), "{start_up}");
    let rate = one.mean_rate_bits_per_second.unwrap();
    assert!((2.3e6..3.9e6).contains(&rate), "{rate}");
    assert!(one.switches > 0);
    assert_eq!(value("segment-rate", &values), Some(rate));
    assert_eq!(value("rate-switches", &values), Some(one.switches as f64));
    assert_eq!(value("underflows", &values), Some(0.0));
    assert_eq!(value("start-up-delay", &values), Some(start_up));
    assert_eq!(value("stall-ratio", &values), Some(0.0));
    let (two, ..) = watched(&["flows.0.paths=[\"one\", \"two\"]"]);
    assert_eq!((two.segments, two.underflows), (90, 0));
    let more = two.mean_rate_bits_per_second.unwrap();
    assert!(more > rate + 1e6, "{more}, {rate}");
}

#[test]
fn slow_path_stalls_by_the_missing_rate() {
    // 300 s of 1 Mbit/s take 375 s at 0.8 Mbit/s of wire bytes, of which headers take a share.
    let slow = [
        "links.one.rate=800 kbit/s",
        "flows.0.length=300 s",
        "duration=500 s",
    ];
    let (slow, values, _) = watched(&slow);
    assert_eq!((slow.segments, slow.switches), (150, 0));
    assert_eq!(slow.mean_rate_bits_per_second, Some(1e6));
    assert!(slow.underflows > 50, "{slow:?}");
    let stalled = slow.stall_time_ms + slow.start_up_ms.unwrap();
    assert!((75_000.0..105_000.0).contains(&stalled), "{slow:?}");
    let ratio = values.iter().find(|(name, _)| *name == "stall-ratio");
    assert_eq!(ratio.unwrap().1, Some(slow.stall_time_ms / 500e3));
}

#[test]
fn the_buffer_bounds_requested_segments() {
    let wide = [
        "links.one.rate=100 Mbit/s",
        "duration=60 s",
        "flows.0.buffer=20 s",
    ];
    let (wide, ..) = watched(&wide);
    // 60 s seen or being seen, and 20 s buffered.
    assert!((38..=40).contains(&wide.segments), "{wide:?}");
}

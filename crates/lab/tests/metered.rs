//! Metered paths in scenarios: in reserve while the others suffice, in use at once when they do
//! not.

use anabranch_lab::{ORACLE, RunOptions, Scenario, run};
use anabranch_schedulers::SCHEDULERS;

/// Wi-Fi of 3 Mbit/s with an outage from 15 s to 20 s, and LTE that is paid for by volume.
const BED: &str = r#"
duration = "40 s"
[links.wifi]
rate = "3 Mbit/s"
delay = "20 ms"
queue = "200 ms"
outages = [{ at = "15 s", for = "5 s" }]
[links.wifi-return]
delay = "20 ms"
outages = [{ at = "15 s", for = "5 s" }]
[links.lte]
rate = "3 Mbit/s"
delay = "50 ms"
queue = "300 ms"
[links.lte-return]
delay = "50 ms"
[routes.wifi]
forward = ["wifi"]
reverse = ["wifi-return"]
[routes.lte]
forward = ["lte"]
reverse = ["lte-return"]
[[flows]]
name = "camera"
paths = ["wifi", { route = "lte", metered = true }]
source = { kind = "ideal", fps = 25, min = "500 kbit/s", max = "2 Mbit/s" }
"#;

const SOURCES: [&str; 3] = [
    "flows.0.source={kind=\"ideal\",min=\"500 kbit/s\",max=\"2 Mbit/s\"}",
    "flows.0.source={kind=\"gop\",min=\"300 kbit/s\",max=\"4 Mbit/s\"}",
    "flows.0.source={kind=\"cbr\",rate=\"1 Mbit/s\"}",
];

/// Returns the rates of Wi-Fi and LTE in that time, in bit/s.
fn carried(overrides: &[&str], from: &str, to: &str) -> (f64, f64) {
    let window = format!("statistics={{from=\"{from}\",to=\"{to}\"}}");
    let overrides: Vec<String> = overrides
        .iter()
        .copied()
        .chain([&*window])
        .map(str::to_owned)
        .collect();
    let scenario = Scenario::parse("test.toml", BED, &overrides).unwrap();
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    let links = &report.runs[0].statistics.links;
    let [wifi, lte] = ["wifi", "lte"].map(|name| {
        let link = links.iter().find(|link| link.name == name).unwrap();
        link.throughput_bits_per_second
    });
    (wifi, lte)
}

/// Returns LTE's share of the bytes in that time.
fn lte_share(overrides: &[&str], from: &str, to: &str) -> f64 {
    let (wifi, lte) = carried(overrides, from, to);
    lte / (wifi + lte)
}

#[test]
fn a_metered_path_carries_little_while_the_other_suffices_and_goes_back() {
    for source in SOURCES {
        let before = lte_share(&[source], "0 s", "15 s");
        assert!(before < 0.05, "{source}: {before} before the outage");
        let after = lte_share(&[source], "25 s", "40 s");
        assert!(after < 0.05, "{source}: {after} after the outage");
    }
}

#[test]
fn every_scheduler_leaves_a_metered_path_in_reserve_the_oracle_too() {
    let names = SCHEDULERS.iter().map(|entry| entry.name);
    for name in names.chain([ORACLE]) {
        let scheduler = format!("flows.0.scheduler=\"{name}\"");
        let share = lte_share(&[SOURCES[0], &scheduler], "5 s", "15 s");
        assert!(share < 0.05, "{name}: {share}");
    }
}

#[test]
fn a_metered_path_takes_over_within_300_ms_of_silence() {
    for source in SOURCES {
        let (_, lte) = carried(&[source], "15.3 s", "15.5 s");
        assert!(lte > 250e3, "{source}: {lte} bit/s right away");
        let (_, lte) = carried(&[source], "16 s", "20 s");
        assert!(lte > 250e3, "{source}: {lte} bit/s later");
    }
}

#[test]
fn without_a_meter_both_paths_carry() {
    let paths = "flows.0.paths=[\"wifi\",\"lte\"]";
    let share = lte_share(&[paths, SOURCES[1]], "5 s", "15 s");
    assert!(share > 0.2, "{share}");
}

#[test]
fn a_metered_path_helps_where_the_other_is_too_slow() {
    // 600 kbit/s is less than twice the least of 500 kbit/s.
    let overrides = [
        SOURCES[0],
        "links.wifi.rate=600 kbit/s",
        "links.wifi.outages=[]",
    ];
    let share = lte_share(&overrides, "5 s", "40 s");
    assert!(share > 0.2, "{share}");
}

#[test]
fn a_path_in_reserve_is_probed_with_a_few_bytes() {
    let (_, lte) = carried(&[SOURCES[2], "links.wifi.outages=[]"], "10 s", "15 s");
    // A packet every two seconds.
    assert!(lte > 0.0 && lte < 1e3, "{lte} bit/s");
}

/// At a tenth of its rate, Wi-Fi's own queue delays the packets that are sent before its controller
/// knows.
#[test]
fn where_wifi_holds_packets_up_lte_carries_until_wifi_has_recovered() {
    let slow = [
        SOURCES[1],
        "links.wifi.rate=5 Mbit/s",
        "links.wifi.outages=[]",
        "links.wifi.rate-schedule=[{at=\"10 s\",rate=\"500 kbit/s\"},\
         {at=\"15 s\",rate=\"5 Mbit/s\"}]",
    ];
    let (_, lte) = carried(&slow, "10.5 s", "15 s");
    assert!(lte > 600e3, "{lte} bit/s");
    let share = lte_share(&slow, "25 s", "40 s");
    assert!(share < 0.05, "{share} after");
}

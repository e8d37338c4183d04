//! Packets that overtake when the delay falls, as through netem without a rate: with cycles of 10 s
//! and 60 ms one way, MPTCP's BBR takes them for losses of the Wi-Fi, and the film stands still.

use std::path::Path;

use anabranch_lab::{RunOptions, Scenario, run};

/// Underflows and discards of the film of `scenarios/kondo-mptcp/study.toml`.
fn seen(controller: &str, overtaking: bool) -> (u64, u64) {
    let file = "../../scenarios/kondo-mptcp/study.toml";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let settings = [
        format!("flows.0.controller={controller}"),
        format!("links.wifi-air.overtaking={overtaking}"),
    ];
    let scenario = Scenario::load(&path, &settings).unwrap_or_else(|error| panic!("{error}"));
    let mut report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    let flow = report.runs.remove(0).statistics.flows.remove(0);
    let download = flow.download.expect("it is a download");
    (download.underflows, download.discarded)
}

#[test]
fn bbr_starves_where_packets_overtake_and_cubic_does_not() {
    let (underflows, discards) = seen("bbr-linux-4.9", true);
    assert!(underflows >= 5 && discards >= 24, "{underflows} {discards}");
    assert_eq!(seen("bbr-linux-4.9", false), (1, 0));
    assert_eq!(seen("cubic", true), (1, 0));
}

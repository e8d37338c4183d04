//! Every scheduler through whole simulated sessions over two paths.

use anabranch_lab::metrics::{Distribution, FlowStatistics};
use anabranch_lab::{ORACLE, RunOptions, Scenario, run};
use anabranch_schedulers::SCHEDULERS;

/// Wi-Fi and LTE, both without loss, and a camera of 25 frames per second, each of 10 fragments.
const BED: &str = r#"
duration = "13 s"
[links.wifi]
rate = "4 Mbit/s"
delay = "20 ms"
queue = "300 ms"
[links.lte]
rate = "3 Mbit/s"
delay = "50 ms"
queue = "300 ms"
[links.wifi-return]
delay = "20 ms"
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
start = "1 s"
pauses = [{ at = "11 s", for = "5 s" }]
controller = "fixed"
fixed-rate = "2800 kbit/s"
paths = ["wifi", "lte"]
source = { kind = "cbr", rate = "2600 kbit/s", fps = 25 }
"#;
const FRAMES: u64 = 250;
/// Largest number of probes: an idle path is probed every two seconds.
const MAX_PROBES: u64 = 2 * 12 / 2;
/// 13,000 bytes in fragments of 1316.
const FRAGMENTS: u64 = 10;

/// Returns the measurements of the camera of [`BED`] with these settings, by the first seed.
fn camera(scheduler: &str, settings: &[&str]) -> FlowStatistics {
    let scheduler = format!("flows.0.scheduler={scheduler}");
    let settings: Vec<String> = settings
        .iter()
        .map(|text| (*text).to_owned())
        .chain([scheduler])
        .collect();
    let scenario =
        Scenario::parse("test.toml", BED, &settings).unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    report.runs[0].statistics.flows[0].clone()
}

fn delay(flow: &FlowStatistics) -> Distribution {
    flow.frames.delay_ms.expect("frames have arrived")
}

fn all() -> impl Iterator<Item = &'static str> {
    SCHEDULERS.iter().map(|entry| entry.name).chain([ORACLE])
}

#[test]
fn every_frame_of_a_clean_network_arrives_once_and_nothing_is_sent_twice_unasked() {
    for name in all() {
        let flow = camera(name, &[]);
        assert_eq!(flow.frames.captured, FRAMES, "{name}");
        assert_eq!(flow.frames.complete, FRAMES, "{name}");
        assert_eq!(flow.frames.abandoned + flow.frames.dropped, 0, "{name}");
        // `dems` repeats fewer than one packet in ten: of ten, none.
        let copies = match name {
            "redundant" => 2,
            _ => 1,
        };
        let expected = FRAMES * FRAGMENTS * copies;
        let beyond = flow.traffic.packets_sent.checked_sub(expected);
        assert!(beyond.is_some_and(|probes| probes <= MAX_PROBES), "{name}");
        assert_eq!(flow.traffic.packets_retransmitted, 0, "{name}");
    }
}

#[test]
fn dems_repeats_less_than_a_tenth() {
    // 25,000 bytes in 19 fragments, over paths whose live-bbr makes round-trip times vary.
    let settings = [TWICE_THE_FRAMES, "flows.0.controller=live-bbr"];
    let flow = camera("dems", &settings);
    let copies = flow.traffic.packets_sent - flow.traffic.packets_retransmitted - FRAMES * 19;
    assert!(copies > 0 && copies * 10 < FRAMES * 19, "{copies}");
    assert_eq!(flow.frames.complete, FRAMES);
}

#[test]
fn redundant_is_no_later_than_the_better_path_alone() {
    let redundant = delay(&camera("redundant", &[]));
    for path in ["wifi", "lte"] {
        let alone = format!("flows.0.paths=[\"{path}\"]");
        let alone = delay(&camera("min-cost", &[&alone]));
        assert!(redundant.mean <= alone.mean, "{path}");
        assert!(redundant.max <= alone.max, "{path}");
    }
}

#[test]
fn redundant_loses_no_frame_when_a_path_dies() {
    for path in ["wifi", "lte"] {
        let dies = format!("links.{path}.outages=[{{ at = \"3 s\", for = \"20 s\" }}]");
        let flow = camera("redundant", &[&dies]);
        assert_eq!(flow.frames.complete, FRAMES, "{path}");
        // 50 ms and 10 packets at 2.8 Mbit/s: the other path alone.
        assert!(delay(&flow).max < 90.0, "{path}: {:?}", delay(&flow));
    }
}

#[test]
fn redundant_equals_the_better_path_alone() {
    let greedy = "flows.0.source={ kind = \"ideal\", min = \"300 kbit/s\", max = \"20 Mbit/s\" }";
    let settings = [
        "flows.0.controller=live-bbr",
        greedy,
        "statistics={ from = \"3 s\" }",
    ];
    let redundant = camera("redundant", &settings).goodput_bits_per_second;
    let alone = ["flows.0.paths=[\"wifi\"]"].into_iter().chain(settings);
    let alone = camera("min-cost", &alone.collect::<Vec<_>>()).goodput_bits_per_second;
    assert!(
        (redundant / alone - 1.0).abs() <= 0.05,
        "{redundant} {alone}"
    );
}

#[test]
fn what_orders_by_arrival_is_earlier_than_turns() {
    let turns = delay(&camera("round-robin", &[])).mean;
    for name in ["daps", "dems", "stms"] {
        let mean = delay(&camera(name, &[])).mean;
        assert!(mean < turns, "{name}: {mean} {turns}");
    }
}

const TWICE_THE_FRAMES: &str = "flows.0.source={ kind = \"cbr\", rate = \"5 Mbit/s\" }";

// With a controller that adapts, the choice of paths changes the controllers' estimates and so
// their pacing, which the oracle does not know. It bounds the result for a given network.
#[test]
fn the_oracle_bounds_what_schedulers_can_do() {
    let slow = "links.wifi.rate-schedule=[{ at = \"3 s\", rate = \"1500 kbit/s\" }, \
                { at = \"6 s\", rate = \"4 Mbit/s\" }]";
    let out = "links.wifi.outages=[{ at = \"3 s\", for = \"2 s\" }]";
    let beds: [(&str, &[&str]); 4] = [
        ("clean", &[]),
        ("loaded", &[TWICE_THE_FRAMES, "flows.0.fixed-rate=3 Mbit/s"]),
        ("slowing", &[slow]),
        ("out", &[out]),
    ];
    for (bed, settings) in beds {
        let bound = delay(&camera(ORACLE, settings));
        for name in all() {
            let flow = delay(&camera(name, settings));
            println!(
                "{bed}: {name:<12} mean {:.2} p95 {:.2}",
                flow.mean, flow.p95
            );
            for (bound, measured) in [(bound.mean, flow.mean), (bound.p95, flow.p95)] {
                assert!(
                    bound <= measured * TOLERANCE,
                    "{bed} {name}: {bound} {measured}"
                );
            }
        }
    }
}

/// Tolerance: each packet takes the best path by itself, which is not always the best for the next
/// frame.
const TOLERANCE: f64 = 1.01;

#[test]
fn the_oracle_is_for_simulations_and_no_registered_scheduler() {
    assert!(SCHEDULERS.iter().all(|entry| entry.name != ORACLE));
    assert!(anabranch_schedulers::by_name(ORACLE).is_err());
}

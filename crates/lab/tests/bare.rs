//! A bare endpoint is a sender as papers describe it, without the decisions that come between a
//! controller and its effect.

use std::path::Path;

use anabranch_lab::metrics::Statistics;
use anabranch_lab::{RunOptions, Scenario, run};

fn statistics(file: &str, endpoint: &str, settings: &[&str]) -> Statistics {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut all = vec![format!("flow-defaults.endpoint={endpoint}")];
    all.extend(settings.iter().map(|setting| (*setting).to_owned()));
    let scenario =
        Scenario::load(&folder.join(file), &all).unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    report.runs[0].statistics.clone()
}

fn both<T>(of: impl Fn(&str) -> T) -> [T; 2] {
    ["bare", "anabranch"].map(of)
}

/// Zhang & Lei's Fig. 10: WebRTC's BBR holds one flow at a minimal rate. An endpoint that goes by
/// the delivery rate of a congested path gives that flow its share.
#[test]
fn a_flow_that_its_controller_starves_is_starved() {
    let [bare, ours] = both(|endpoint| {
        let settings = [
            "flow-defaults.controller=bbr-webrtc:enforce-cwnd=on",
            "flow-defaults.padding=while-probing",
            "flow-defaults.target-fraction=100 %",
        ];
        let run = statistics("zhang-delay-bbr/case-1.toml", endpoint, &settings);
        let rates = [0, 1, 2].map(|flow| run.flows[flow].traffic.throughput_bits_per_second);
        rates.into_iter().fold(f64::INFINITY, f64::min) / (rates.iter().sum::<f64>() / 3.0)
    });
    assert!(bare < 0.5 && ours > 2.0 * bare, "{bare} {ours}");
}

/// Without admission frames are partly sent up to their deadline, the oldest first.
#[test]
fn too_much_media_is_sent_up_to_its_deadline() {
    let [bare, ours] = both(|endpoint| {
        let run = statistics("weather/overload-fixed.toml", endpoint, &[]);
        run.total.frames.decodable_on_time_ratio.unwrap()
    });
    assert!(bare < 0.5 * ours, "{bare} {ours}");
}

/// A lost packet is retransmitted once: no copy is sent before the loss is known.
#[test]
fn bare_endpoint_copies_only_lost_packets() {
    let [bare, ours] = both(|endpoint| {
        let run = statistics("contest/row-2-one-path-5-percent.toml", endpoint, &[]);
        let traffic = &run.total.traffic;
        let copies = traffic.copy_ratio.unwrap() / traffic.loss_ratio.unwrap();
        (copies, run.total.frames.complete_on_time_ratio.unwrap())
    });
    assert!((0.8..1.1).contains(&bare.0), "{bare:?}");
    assert!(ours.0 > bare.0 && bare.1 > 0.9, "{ours:?} {bare:?}");
}

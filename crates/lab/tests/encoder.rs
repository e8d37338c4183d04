//! Live encoders that follow the target, over links that stand still.

use std::path::Path;

use anabranch_lab::{RunOptions, Scenario, run};

/// A link stands still for 0.6 of every 20 s, and CoDel then drops from the queue that has stood.
/// By an outflow averaged over the pause, what it drops would be given up as late, and what waits
/// in the queue be sent twice: 99.49 %.
#[test]
fn frames_caught_in_a_gap_of_a_cellular_link_are_in_time() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let scenario = Scenario::load(&folder.join("encoder/cellular.toml"), &[]);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::seeds(100), &|_| ()).unwrap();
    let shares = report.runs.iter().map(|run| {
        let frames = &run.statistics.total.frames;
        frames.on_time_ratio.unwrap()
    });
    let mean = shares.sum::<f64>() / report.runs.len() as f64;
    assert!(mean >= 0.995, "{mean}");
}

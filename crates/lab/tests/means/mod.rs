//! Means of a scenario of the repository over several seeds.

use std::path::Path;

use anabranch_lab::{RunOptions, Scenario, run};

/// Returns means over the first seeds of a scenario below `scenarios/`: the share of all captured
/// frames that are in time, and the bytes on the wire beyond the media, as a share of it.
pub fn means(scenario: &str, seeds: u64) -> (f64, f64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let scenario =
        Scenario::load(&folder.join(scenario), &[]).unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::seeds(seeds), &|_| ()).unwrap();
    let totals = report.runs.iter().map(|run| &run.statistics.total);
    let sums = totals.fold((0.0, 0.0), |(in_time, overhead), total| {
        (
            in_time + total.frames.complete_on_time_ratio.unwrap(),
            overhead + total.overhead_ratio.unwrap(),
        )
    });
    let runs = report.runs.len() as f64;
    (sums.0 / runs, sums.1 / runs)
}

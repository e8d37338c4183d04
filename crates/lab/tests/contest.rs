//! The contest with other transports: each row's bars, seed by seed, except for rows that the
//! report of the contest shows as not met.

use std::path::{Path, PathBuf};

use anabranch_lab::frame_bound::carried_share;
use anabranch_lab::{RunOptions, Scenario, run};

/// Rows whose bars do not hold: row 4 for its overhead.
const UNMET: [&str; 2] = ["row-3-bursts", "row-4-two-paths"];

const ROW_6B: &str = "row-6b-capacity-drop-fixed.toml";

fn rows() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/contest");
    let files = std::fs::read_dir(folder).unwrap();
    let mut rows: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    rows.sort();
    assert_eq!(rows.len(), 9, "{rows:?}");
    rows
}

/// Returns the promises of a row that three seeds do not keep.
fn broken(path: &Path) -> Vec<String> {
    let scenario = Scenario::load(path, &[]).unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::seeds(3), &|_| ()).unwrap();
    assert!(!report.expectations.is_empty());
    let broken = report.expectations.iter().filter(|one| !one.is_met);
    broken
        .map(|one| format!("{} {:?}", one.metric, one.values))
        .collect()
}

#[test]
fn rows_keep_their_bars() {
    for path in rows() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let broken = broken(&path);
        let is_met = broken.is_empty();
        // A row that now holds must be removed from the list.
        assert_eq!(is_met, !UNMET.contains(&name), "{name}: {broken:?}");
    }
}

/// Row 3's bar is not met; the limit is two thirds of SRT's losses, 1.1 % of the pictures. If the
/// controller found 4.3 of 6 Mbit/s, pictures would be sent so slowly that retransmission could
/// reach at most 99.2 %.
#[test]
fn row_3_loses_less_than_two_thirds_of_the_pictures_that_srt_loses() {
    const LEAST: f64 = 0.993;
    let is_row_3 = |path: &PathBuf| path.ends_with("row-3-bursts.toml");
    let path = rows().into_iter().find(is_row_3).unwrap();
    let scenario = Scenario::load(&path, &[]).unwrap();
    let report = run(&scenario, &RunOptions::seeds(10), &|_| ()).unwrap();
    let mut expected = report.expectations.iter();
    let on_time = expected
        .find(|one| one.metric == "frames-complete-on-time")
        .unwrap();
    let shares: Vec<f64> = on_time.values.iter().flatten().copied().collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean >= LEAST, "{mean} {shares:?}");
}

/// Row 6b asks for a share of the media that the two capacities carry in time, as a fluid.
#[test]
fn bar_of_row_6b_is_93_percent_of_the_capacity() {
    let path = rows()
        .into_iter()
        .find(|path| path.ends_with(ROW_6B))
        .unwrap();
    let scenario = Scenario::load(&path, &[]).unwrap();
    let bound = carried_share(&scenario, 0, 1).unwrap();
    let mut expected = scenario.expectations.iter();
    let bar = expected
        .find(|one| one.metric.name == "frames-decodable-on-time")
        .and_then(|one| one.min)
        .unwrap();
    assert!((bar - 0.93 * bound).abs() < 0.001, "{bar} {bound}");
}

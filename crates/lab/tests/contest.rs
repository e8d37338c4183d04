//! The contest with other transports: each row's bars, seed by seed, but for those that the report
//! of the contest shows as not met.

use std::path::{Path, PathBuf};

use anabranch_lab::{RunOptions, Scenario, run};

/// Rows whose bars do not hold.
const UNMET: [&str; 1] = ["row-6b-capacity-drop-fixed"];

fn rows() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/contest");
    let files = std::fs::read_dir(folder).unwrap();
    let mut rows: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    rows.sort();
    assert_eq!(rows.len(), 8, "{rows:?}");
    rows
}

/// What of a row's promises three seeds do not keep.
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
        // A row that has come to hold is to be taken off the list.
        assert_eq!(is_met, !UNMET.contains(&name), "{name}: {broken:?}");
    }
}

/// What of row 6b's packets the two paths carry in time if each takes the oldest that it can bring
/// in time, with every capacity known and no moment unused.
#[test]
fn the_bar_of_row_6b_is_what_the_capacities_allow() {
    const BUDGET: f64 = 1.03;
    let packet_bits = (1_316.0 + 66.0) * 8.0;
    let captured: Vec<f64> = (0..22_796)
        .map(|index| f64::from(index) * 1_316.0 * 8.0 / 4e6)
        .collect();
    let fast = |at: f64| if (20.0..35.0).contains(&at) { 1e6 } else { 4e6 };
    let slow = |_: f64| 2e6;
    let paths: [(f64, &dyn Fn(f64) -> f64); 2] = [(0.03, &fast), (0.07, &slow)];
    let mut slots: Vec<(f64, f64)> = Vec::new();
    for (delay, rate) in paths {
        let mut at = 0.0;
        while at < 60.0 {
            let leaves_at = at + packet_bits / rate(at);
            slots.push((at, leaves_at + delay));
            at = leaves_at;
        }
    }
    slots.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut waiting: Vec<f64> = Vec::new();
    let (mut next, mut in_time) = (0, 0);
    for (begins_at, arrives_at) in slots {
        while captured.get(next).is_some_and(|at| *at <= begins_at) {
            waiting.push(captured[next]);
            next += 1;
        }
        waiting.retain(|at| at + BUDGET >= begins_at);
        if let Some(oldest) = waiting.iter().position(|at| at + BUDGET >= arrives_at) {
            waiting.remove(oldest);
            in_time += 1;
        }
    }
    let share = f64::from(in_time) / captured.len() as f64;
    assert!((0.944..0.946).contains(&share), "{share}");
}

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

/// One of row 6b's paths.
struct Way {
    one_way_delay: f64,
    rate: fn(f64) -> f64,
    /// When the sender may use it next.
    ready_at: f64,
    /// When the link has sent what it has been given.
    free_at: f64,
}

/// What of row 6b's packets two paths carry in time if each takes the oldest that it can bring in
/// time by what is known of it, without a moment unused: each change of its capacity, so many of
/// its round trips after it. What has been sent in excess meanwhile drains first.
fn share_in_time(told_after_round_trips: f64) -> f64 {
    const BUDGET: f64 = 1.03;
    let packet_bits = (1_316.0 + 66.0) * 8.0;
    let captured: Vec<f64> = (0..22_796)
        .map(|index| f64::from(index) * 1_316.0 * 8.0 / 4e6)
        .collect();
    let way = |one_way_delay, rate| Way {
        one_way_delay,
        rate,
        ready_at: 0.0,
        free_at: 0.0,
    };
    let fast = |at: f64| if (20.0..35.0).contains(&at) { 1e6 } else { 4e6 };
    let mut ways = [way(0.03, fast), way(0.07, |_| 2e6)];
    let mut waiting: Vec<f64> = Vec::new();
    let (mut next, mut in_time) = (0, 0);
    loop {
        let by_readiness =
            |one: &&mut Way, other: &&mut Way| one.ready_at.total_cmp(&other.ready_at);
        let way = ways.iter_mut().min_by(by_readiness).unwrap();
        let at = way.ready_at;
        if at >= 60.0 {
            return f64::from(in_time) / captured.len() as f64;
        }
        let known = (way.rate)(at - told_after_round_trips * 2.0 * way.one_way_delay);
        if known == (way.rate)(at) && way.free_at > at {
            way.ready_at = way.free_at;
            continue;
        }
        while captured.get(next).is_some_and(|captured| *captured <= at) {
            waiting.push(captured[next]);
            next += 1;
        }
        waiting.retain(|captured| captured + BUDGET >= at);
        let expected_at = at + packet_bits / known + way.one_way_delay;
        let oldest = waiting
            .iter()
            .position(|captured| captured + BUDGET >= expected_at);
        let Some(oldest) = oldest else {
            way.ready_at = captured.get(next).copied().unwrap_or(60.0);
            continue;
        };
        let due_at = waiting.remove(oldest) + BUDGET;
        let begins_at = way.free_at.max(at);
        way.free_at = begins_at + packet_bits / (way.rate)(begins_at);
        in_time += u32::from(way.free_at + way.one_way_delay <= due_at);
        way.ready_at = at + packet_bits / known;
    }
}

#[test]
fn the_bar_of_row_6b_is_what_the_capacities_allow() {
    let share = share_in_time(0.0);
    assert!((0.944..0.946).contains(&share), "{share}");
}

/// Who is told of each change a round trip later, and need not look for it.
#[test]
fn who_knows_row_6b_a_round_trip_late_reaches_its_bar_by_little() {
    let share = share_in_time(1.0);
    assert!((0.944..0.9445).contains(&share), "{share}");
}

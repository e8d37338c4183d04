//! Paths with an MTU below Ethernet's: every row keeps its bounds, and without the search it would
//! not.

use std::path::{Path, PathBuf};

use anabranch_lab::{Report, RunOptions, Scenario, run};

fn rows() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/weather");
    let files = std::fs::read_dir(folder).unwrap();
    let mut rows: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    rows.retain(|path| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("mtu-")
    });
    rows.sort();
    assert_eq!(rows.len(), 5, "{rows:?}");
    rows
}

fn report(path: &Path, settings: &[(&str, &str)]) -> Report {
    let settings: Vec<String> = settings
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let scenario = Scenario::load(path, &settings).unwrap_or_else(|error| panic!("{error}"));
    run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap()
}

#[test]
fn no_mtu_costs_a_frame() {
    for path in rows() {
        let report = report(&path, &[]);
        let broken: Vec<_> = report
            .expectations
            .iter()
            .filter(|one| !one.is_met)
            .map(|one| (&one.metric, &one.values))
            .collect();
        assert!(broken.is_empty(), "{}: {broken:?}", path.display());
        assert!(report.expectations.len() >= 3);
    }
}

/// Packets of a fixed size, as in experiments, show that the rows measure something.
#[test]
fn packets_of_a_fixed_size_would_not_arrive() {
    for path in rows() {
        let is_wide = path.ends_with("mtu-1492.toml");
        let report = report(&path, &[("flows.0.mtu-discovery", "false")]);
        let on_time = report
            .expectations
            .iter()
            .find(|one| one.metric == "frames-decodable-on-time");
        assert_eq!(on_time.unwrap().is_met, is_wide, "{}", path.display());
    }
}

//! The places that compute when a packet arrives: the forecast, and the sum over all paths.
//!
//! Published schedulers have estimates of their own, `min-cost` among them, and so has the path's
//! round-trip time estimator. Everything else asks [`anabranch_core::Forecast`].

use std::fs;
use std::path::{Path, PathBuf};

/// Files that compute an arrival time. Late drops share `path/forecast.rs`.
const PLACES: [&str; 3] = ["forecast.rs", "path/forecast.rs", "path/fluid_model.rs"];

/// Expressions of an estimate of one's own: a one-way delay, or half of a round-trip time.
const ESTIMATES: [&str; 5] = [
    "one_way_delay",
    "latest() / 2",
    "smoothed() / 2",
    "min_rtt() / 2",
    "rtt / 2",
];

/// Files in which the words mean something else.
const OTHERS: [(&str, &str); 2] = [
    ("path.rs", "late drops ask `path/forecast.rs`"),
    ("recovery", "it measures round-trip times"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path.ends_with("tests") || path.ends_with("tests.rs");
        if is_test {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Returns whether the code of a file, without its comments and tests, computes an arrival.
fn computes(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap();
    let mut lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.any(|line| ESTIMATES.iter().any(|estimate| line.contains(estimate)))
}

#[test]
fn only_the_forecast_computes_an_arrival() {
    fn is_other(file: &Path, source: &Path) -> bool {
        OTHERS
            .iter()
            .any(|(name, _)| file.starts_with(source.join(name)))
    }

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("src");
    let mut files = Vec::new();
    sources(&source, &mut files);
    let schedulers = root.parent().unwrap().join("schedulers/src");
    // Ours; that of streams is the default.
    files.extend(["earliest_completion.rs", "anabranch.rs"].map(|name| schedulers.join(name)));
    let mut computing: Vec<PathBuf> = files
        .into_iter()
        .filter(|file| !is_other(file, &source) && computes(file))
        .collect();
    computing.sort();
    let mut places = PLACES.map(|place| source.join(place));
    places.sort();
    assert_eq!(computing, places);
}

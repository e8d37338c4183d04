//! The page of results agrees with runs: RFC 8867's cases, of which two are run as on the page, and
//! the contest, of which no seed is worse than the page's worst. Claims are compared in
//! `papers/tests/reduced.rs`.

use std::path::{Path, PathBuf};

use anabranch_lab::compare::{Column, compare};
use anabranch_lab::{RunOptions, Scenario, run};

const PAGE: &str = include_str!("../../../docs/results-networks.md");
const BEHIND: &str = "docs/results-networks.md is behind the program; `make results` writes it";
/// The seeds of the page's comparison.
const SEEDS: u64 = 5;

fn block(name: &str) -> &'static str {
    let (begin, end) = (
        format!("<!-- begin {name} -->"),
        format!("<!-- end {name} -->"),
    );
    let (_, block) = PAGE.split_once(&begin).expect("the page has the block");
    block.split_once(&end).expect("it ends").0
}

fn scenarios(folder: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    root.join(folder)
}

#[test]
fn cases_of_rfc_8867_have_the_numbers_of_the_page() {
    let shown = [
        ("utilisation", 100.0, 0),
        ("delay-p95", 1.0, 0),
        ("loss", 100.0, 1),
    ];
    for (case, controller) in [
        ("5.4-competing-media", "live-bbr"),
        ("5.8-pause-and-resume", "gcc"),
    ] {
        let found = measured(&format!("rmcat/{case}"), controller, (SEEDS, &shown));
        assert_eq!(
            found,
            of_page("rmcat", case, controller),
            "{case}: {BEHIND}"
        );
    }
}

#[test]
fn cases_of_rfc_8869_have_the_numbers_of_the_page() {
    let shown = [
        ("frame-delay-all-p95", 1.0, 0),
        ("delay-p95", 1.0, 0),
        ("goodput", 1e-6, 2),
    ];
    for (case, controller) in [
        ("2.1-varying-load-down", "gcc"),
        ("2.2-bad-coverage-up", "live-bbr"),
        ("3.1-wired-uplink", "copa"),
    ] {
        let found = measured(&format!("rmcat-wireless/{case}"), controller, (3, &shown));
        assert_eq!(
            found,
            of_page("wireless", case, controller),
            "{case}: {BEHIND}"
        );
    }
}

/// Returns the page's cell of a case and a controller.
fn of_page(name: &str, case: &str, controller: &str) -> &'static str {
    let lines = block(name).lines().filter(|line| line.starts_with('|'));
    let table: Vec<Vec<&str>> = lines
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let heading = format!("`{controller}`");
    let at = table[0].iter().position(|cell| *cell == heading).unwrap();
    table.iter().find(|row| row[0] == case).unwrap()[at]
}

/// Returns a case's metrics, each with a factor and digits, as the page shows them.
fn measured(case: &str, controller: &str, (seeds, shown): (u64, &[(&str, f64, usize)])) -> String {
    let path = scenarios(&format!("{case}.toml"));
    let scenario = Scenario::load(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<String> = shown.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let columns = [Column {
        controller: Some(controller.to_owned()),
        ..Column::default()
    }];
    let comparison = compare(&[vec![scenario]], &columns, &names, seeds, 0, &|_| {}).unwrap();
    let cells: Vec<String> = shown
        .iter()
        .map(|(metric, factor, digits)| {
            let rows = comparison
                .rows
                .iter()
                .filter(|row| row.metric.name == *metric);
            let mean = rows.map(|row| row.cells[0].estimate.unwrap().mean * factor);
            let texts: Vec<String> = mean.map(|mean| format!("{mean:.digits$}")).collect();
            texts.join("/")
        })
        .collect();
    cells.join(", ")
}

/// Returns the worst of all seeds by the page: the share delivered and the overhead, in per cent.
fn worst(row: &str) -> (f64, f64) {
    let mut lines = block("contest").lines();
    let line = lines.find(|line| line.split_whitespace().next() == Some(row));
    let words: Vec<&str> = line
        .expect("the page has the row")
        .split_whitespace()
        .collect();
    let mut pairs = words.windows(3).filter_map(|words| match words {
        [median, "/", worst] => Some((median.parse().ok()?, worst.parse().ok()?)),
        _ => None,
    });
    // Behind the median.
    pairs.nth(1).expect("median, then worst")
}

#[test]
fn no_seed_of_the_contest_is_worse_than_the_worst_of_the_page() {
    for (row, file) in [
        ("1", "row-1-one-path-1-percent"),
        ("6b", "row-6b-capacity-drop-fixed"),
        ("8", "row-8-swing"),
    ] {
        let path = scenarios("contest").join(format!("{file}.toml"));
        let scenario = Scenario::load(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
        let report = run(&scenario, &RunOptions::seeds(2), &|_| ()).unwrap();
        let (least, most) = worst(row);
        for run in &report.runs {
            let total = &run.statistics.total;
            let frames = &total.frames;
            let ratio = match row {
                "6b" => frames.decodable_on_time_ratio,
                _ => frames.complete_on_time_ratio,
            };
            let delivered = ratio.unwrap() * 100.0;
            let overhead = total.overhead_ratio.unwrap() * 100.0;
            // Within the rounding of the page.
            let is_covered = delivered >= least - 0.000_6 && overhead <= most + 0.006;
            assert!(is_covered, "row {row}: {delivered} {overhead}; {BEHIND}");
        }
    }
}

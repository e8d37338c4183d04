//! The scenarios that are shipped: each can be read, is reproducible, and keeps its promises; and
//! expectations fail when they should.

use std::path::{Path, PathBuf};

use anabranch_lab::compare::{Column, compare};
use anabranch_lab::{
    Point, Report, RunOptions, Scenario, json, plot, run, run_sweep, sweep_table, table,
};
use anabranch_units::{Duration, Instant};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Returns all scenario files.
fn shipped() -> Vec<PathBuf> {
    let mut folders = vec![folder()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                Some(ending) if ending == "toml" => files.push(path),
                _ if path.is_dir() => folders.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    assert!(files.len() >= 12, "{files:?}");
    files
}

fn load(path: &Path, overrides: &[&str]) -> Scenario {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Scenario::load(path, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

fn run_seeds(scenario: &Scenario, seed_count: u64) -> Report {
    run(scenario, &RunOptions::seeds(seed_count), &|_| ()).unwrap()
}

fn hashes(report: &Report) -> Vec<String> {
    report
        .runs
        .iter()
        .map(|run| run.trace_hash.clone())
        .collect()
}

#[test]
fn every_scenario_runs_twice_to_the_same_hash() {
    for path in shipped() {
        let mut scenario = load(&path, &[]);
        if scenario.duration > Duration::from_secs(60) {
            // The first minute shows it; the test below runs all of it.
            let first = ["duration=60 s", "statistics={}", "expect={}"];
            scenario = load(&path, &first);
        }
        let (first, second) = (run_seeds(&scenario, 2), run_seeds(&scenario, 2));
        assert_eq!(hashes(&first), hashes(&second), "{}", path.display());
        // A bench of constant rates leaves nothing to chance, nor does an MTU.
        let is_of_mtu = path
            .parent()
            .is_some_and(|folder| folder.ends_with("weather"))
            && path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("mtu-"));
        let is_bench = ["zhang-multipath/bench.toml", "parity/two-paths.toml"];
        if !is_of_mtu && !is_bench.iter().any(|bench| path.ends_with(bench)) {
            assert_ne!(
                hashes(&first)[0],
                hashes(&first)[1],
                "{}: seeds differ",
                path.display()
            );
        }
    }
}

#[test]
fn every_scenario_meets_its_expectations() {
    for path in shipped() {
        // The contest's bars are other transports', and have a test of their own.
        if path
            .parent()
            .is_some_and(|folder| folder.ends_with("contest"))
        {
            continue;
        }
        let points = Point::load(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
        let report = run_sweep(&points, &RunOptions::seeds(2), &|_| ()).unwrap();
        for point in &report.points {
            let promised = &point.report.expectations;
            assert!(!promised.is_empty(), "{} promises nothing", path.display());
        }
        let table = sweep_table(&report);
        assert!(report.is_as_expected, "{}\n{table}", path.display());
    }
}

#[test]
fn expectations_fail_for_a_controller_at_the_wrong_rate() {
    fn broken(rate: &str) -> Vec<&'static str> {
        let path = folder().join("zhang-delay-bbr/case-1.toml");
        let rate = format!("flow-defaults.fixed-rate={rate}");
        let overrides = ["flow-defaults.controller=fixed", &rate];
        let report = run_seeds(&load(&path, &overrides), 1);
        assert!(!report.is_as_expected);
        let broken = report
            .expectations
            .iter()
            .filter(|expectation| !expectation.is_met);
        broken.map(|expectation| expectation.metric).collect()
    }
    assert_eq!(broken("500 kbit/s"), ["utilisation"]);
    assert!(broken("1.5 Mbit/s").contains(&"loss"));
}

#[test]
fn an_expectation_is_judged_over_its_own_window() {
    let setting = r#"expect.frame-delay-mean=[{max="1 s"}, {max="1 s", outside=["10 s", "15 s"]}]"#;
    let scenario = load(&folder().join("two-paths.toml"), &[setting]);
    let report = run_seeds(&scenario, 1);
    let delays: Vec<f64> = report
        .expectations
        .iter()
        .filter(|expectation| expectation.metric == "frame-delay-mean")
        .map(|expectation| expectation.values[0].unwrap())
        .collect();
    let whole = report.runs[0]
        .statistics
        .total
        .frames
        .delay_ms
        .unwrap()
        .mean;
    assert_eq!(delays[0], whole);
    assert!(delays[1] < whole, "frames wait in the outage: {delays:?}");
}

#[test]
fn the_json_report_keeps_its_contract() {
    let report = run_seeds(&load(&folder().join("two-paths.toml"), &[]), 2);
    let text = json(&report);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema"], "anabranch-report/1");
    assert_eq!(value["scenario"]["duration_s"], 30.0);
    assert_eq!(value["runs"][1]["seed"], 2);
    let hash = value["runs"][0]["trace_hash"].as_str();
    assert_eq!(hash.map(str::len), Some(16));
    for pointer in [
        "/runs/0/packets_sent",
        "/runs/0/packets_delivered",
        "/runs/0/packets_dropped",
        "/runs/0/data_packets_delivered",
        "/runs/0/statistics/jain_index",
        "/runs/0/statistics/total/goodput_bits_per_second",
        "/runs/0/statistics/flows/0/name",
        "/runs/0/statistics/flows/0/rate_variation",
        "/runs/0/statistics/flows/0/traffic/throughput_bits_per_second",
        "/runs/0/statistics/flows/0/traffic/delay_ms/p99",
        "/runs/0/statistics/flows/0/traffic/loss_ratio",
        "/runs/0/statistics/flows/0/traffic/packets_retransmitted",
        "/runs/0/statistics/flows/0/traffic/padding_ratio",
        "/runs/0/statistics/flows/0/frames/complete_on_time_ratio",
        "/runs/0/statistics/flows/0/frames/delay_ms/max",
        "/runs/0/statistics/flows/0/frames/delay_with_dropped_ms/mean",
        "/runs/0/statistics/flows/0/frames/longest_gap_ms",
        "/runs/0/statistics/flows/0/frames/delay_excess_ms/p95",
        "/runs/0/statistics/flows/0/frames/delay_excess_of_all_ms/p95",
        "/runs/0/statistics/flows/0/frames/decodable_ratio",
        "/runs/0/statistics/flows/0/overhead_ratio",
        "/runs/0/statistics/flows/0/fragments/gap_mean_ms",
        "/runs/0/statistics/flows/0/fragments/aggregate_cost_ms",
        "/runs/0/statistics/flows/0/fragments/reassembly_peak_bytes",
        "/runs/0/statistics/flows/0/player/freezes",
        "/runs/0/statistics/flows/0/player/stall_ratio",
        "/runs/0/statistics/flows/0/paths/1/media_ratio",
        "/runs/0/statistics/flows/0/paths/1/cost_ms",
        "/runs/0/statistics/flows/0/paths/1/route",
        "/runs/0/statistics/flows/0/paths/1/traffic/media_bits_per_second",
        "/runs/0/statistics/links/0/utilisation",
        "/runs/0/statistics/links/0/queue_mean_bytes",
        "/runs/0/statistics/links/0/queue_max_bytes",
        "/runs/0/statistics/links/0/packets_dropped/outage",
        "/summary/0/median",
        "/summary/0/subject",
        "/expectations/0/values/1",
        "/expectations/0/is_met",
        "/is_as_expected",
    ] {
        assert!(value.pointer(pointer).is_some(), "no {pointer}");
    }
}

#[test]
fn statistics_agree_with_one_another() {
    let report = run_seeds(&load(&folder().join("three-paths.toml"), &[]), 1);
    let run = &report.runs[0];
    let flow = &run.statistics.flows[0];
    let paths = flow.paths.iter().map(|path| &path.traffic);
    assert_eq!(
        paths.clone().map(|path| path.packets_sent).sum::<u64>(),
        flow.traffic.packets_sent
    );
    let delivered = paths.map(|path| path.packets_delivered).sum::<u64>();
    assert_eq!(delivered, run.data_packets_delivered);
    let on_links: f64 = ["fixed", "lte", "satellite"]
        .map(|name| {
            run.statistics
                .links
                .iter()
                .find(|link| link.name == name)
                .unwrap()
        })
        .map(|link| link.throughput_bits_per_second)
        .iter()
        .sum();
    let of_flow = flow.traffic.throughput_bits_per_second;
    assert!(
        (on_links / of_flow - 1.0).abs() < 1e-9,
        "{on_links} {of_flow}"
    );
    assert!(flow.goodput_bits_per_second < of_flow);
    assert!(flow.frames.complete + flow.frames.dropped <= flow.frames.captured);
    let delay = flow.frames.delay_ms.unwrap();
    assert!(delay.p50 <= delay.p95 && delay.p95 <= delay.p99 && delay.p99 <= delay.max);
}

#[test]
fn a_trace_is_written_plotted_and_changes_nothing() {
    let scenario = load(&folder().join("two-paths.toml"), &[]);
    let folder = tempfile::tempdir().unwrap();
    let trace = anabranch_lab::TraceOptions { has_packets: true };
    let options = RunOptions {
        trace: Some((folder.path().to_owned(), trace)),
        ..RunOptions::seeds(1)
    };
    let traced = run(&scenario, &options, &|_| ()).unwrap();
    assert_eq!(traced.runs, run_seeds(&scenario, 1).runs);
    let run = &traced.runs[0];
    let outcomes = &run.statistics.flows[0].frames;
    let events = run.packets_sent + run.packets_delivered + run.packets_dropped;
    for (name, expected) in [
        ("frames.csv", outcomes.complete + outcomes.dropped),
        // A sample at zero and one every 100 ms, of two paths and four links.
        ("flows.csv", 301),
        ("paths.csv", 602),
        ("links.csv", 1_204),
        ("packets.csv", events),
    ] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(text.lines().count() as u64 - 1, expected, "{name}");
    }
    check_reasons(&traced, &folder.path().join("packets.csv"));
    let picture = plot(folder.path()).unwrap();
    let picture = std::fs::read_to_string(picture).unwrap();
    for text in [
        "Mbit/s",
        "time, s",
        "wifi",
        "target bitrate",
        "Delay of frames",
        "Congestion windows",
        "Queues",
    ] {
        assert!(picture.contains(text), "the picture lacks {text:?}");
    }
}

/// The report counts the datagrams that the trace has, by reason, and the table shows them.
fn check_reasons(report: &Report, packets: &Path) {
    let text = std::fs::read_to_string(packets).unwrap();
    let traffic = &report.runs[0].statistics.flows[0].traffic;
    let text_table = table(report);
    assert!(traffic.reasons.len() > 4, "{:?}", traffic.reasons);
    for of in &traffic.reasons {
        let count = text
            .lines()
            .filter(|line| {
                let columns: Vec<&str> = line.split(',').collect();
                // The window opens after the first instant.
                (columns[1], columns[4], columns[9]) == ("sent", "forward", &of.reason)
                    && columns[0] != "0.0"
            })
            .count() as u64;
        assert_eq!(count, of.packets, "{}", of.reason);
        assert!(text_table.contains(&of.reason), "{}", of.reason);
    }
    let sum: u64 = traffic.reasons.iter().map(|of| of.packets).sum();
    assert_eq!(sum, traffic.packets_sent);
    let copies = traffic
        .reasons
        .iter()
        .find(|of| of.reason == "path-suspect");
    let copied_bytes = copies.unwrap().bytes as f64;
    let ratio = traffic.copy_ratio.unwrap();
    assert!(
        (copied_bytes / 16e6..copied_bytes / 13e6).contains(&ratio),
        "{ratio}"
    );
}

#[test]
fn progress_adds_up() {
    let scenario = load(&folder().join("two-paths.toml"), &[]);
    let simulated = std::sync::atomic::AtomicU64::new(0);
    run(&scenario, &RunOptions::seeds(3), &|progress| {
        let nanos = progress.simulated.as_nanos();
        simulated.fetch_add(nanos, std::sync::atomic::Ordering::Relaxed);
    })
    .unwrap();
    assert_eq!(simulated.into_inner(), 3 * scenario.duration.as_nanos());
}

#[test]
fn every_case_of_rfc_8867_and_8869_runs_with_every_media_controller() {
    let controllers = [
        "all-media".to_owned(),
        "cubic".to_owned(),
        "new-reno".to_owned(),
    ];
    let columns = Column::product(&controllers, &[]);
    let short = ["duration=3 s", "statistics={}", "expect={}", "sweep={}"];
    let mut scenarios = Vec::new();
    for path in shipped() {
        let folder = path.parent().unwrap();
        if !["rmcat", "rmcat-wireless"]
            .iter()
            .any(|name| folder.ends_with(name))
        {
            continue;
        }
        let mut scenario = load(&path, &short);
        // Late beginnings move to now, and late ends are removed.
        for flow in &mut scenario.flows {
            flow.start = Instant::ZERO;
            flow.start_jitter = Duration::ZERO;
            flow.stop = None;
        }
        scenarios.push(vec![scenario; columns.len()]);
    }
    assert!(scenarios.len() >= 35, "{}", scenarios.len());
    let metrics = ["throughput".to_owned(), "send-rate-variation".to_owned()];
    let comparison = compare(&scenarios, &columns, &metrics, 1, 0, &|_| ()).unwrap();
    for row in &comparison.rows {
        for (cell, column) in row.cells.iter().zip(&columns) {
            let value = cell.values[0].unwrap_or_default();
            assert!(
                value > 0.0,
                "{} {:?}: {}",
                row.scenario,
                row.subject,
                column.label()
            );
        }
    }
}

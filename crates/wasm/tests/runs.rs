//! Whole and live runs have the hashes of the laboratory's own.

use std::path::{Path, PathBuf};

use anabranch_lab::{RunHooks, Scenario, run_with};
use anabranch_wasm::Playground;
use serde_json::{Value, json};

/// Scenarios of every kind of traffic, route and link.
const NAMES: [&str; 12] = [
    "two-paths",
    "three-paths",
    "frame-trace",
    "shared-bottleneck",
    "multipath/outage",
    "multipath/cellular",
    "multipath/four-paths",
    "weather/jitter-reordering",
    "weather/mtu-falls",
    "weather/starlink",
    "contest/row-3-bursts",
    "encoder/token-bucket",
];

fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    folder.join(format!("{name}.toml"))
}

/// Returns a scenario's text, and the files that it names.
fn experiment(name: &str) -> Value {
    let path = path(name);
    let mut files = serde_json::Map::new();
    let text = std::fs::read_to_string(&path).unwrap();
    for quoted in text.split('"').skip(1).step_by(2) {
        if let Ok(text) = std::fs::read_to_string(path.with_file_name(quoted)) {
            files.insert(quoted.to_owned(), json!(text));
        }
    }
    json!({ "text": text, "files": files, "seed": 2 })
}

fn call(playground: &mut Playground, op: &str, mut request: Value) -> Value {
    request["op"] = json!(op);
    let answer: Value = serde_json::from_str(&playground.call(&request.to_string())).unwrap();
    assert!(answer["error"].is_null(), "{op}: {}", answer["error"]);
    answer["ok"].clone()
}

#[test]
fn whole_runs_have_the_hashes_of_the_program() {
    let playground = &mut Playground::default();
    for name in NAMES {
        let scenario = Scenario::load(&path(name), &[]).unwrap();
        let outcome = run_with(&scenario, 2, RunHooks::default(), &|_| {
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        let report = call(playground, "run", experiment(name));
        let run = &report["runs"][0];
        assert_eq!(run["trace_hash"], outcome.trace_hash.to_string(), "{name}");
        assert_eq!(run["packets_sent"], outcome.packets.sent, "{name}");
    }
}

/// Advances a live run to its end by uneven steps; returns its last hash and all its parts.
fn to_the_end(playground: &mut Playground, run: &Value) -> (Value, Vec<Value>) {
    let mut parts = Vec::new();
    for step in 1.. {
        let until_ms = f64::from(step) * 333.3;
        let request = json!({ "run": run, "until_ms": until_ms });
        let part = call(playground, "advance", request);
        let is_over = part["is_over"] == true;
        parts.push(part);
        if is_over {
            break;
        }
    }
    (parts.last().unwrap()["hash"].clone(), parts)
}

#[test]
fn a_live_run_has_the_hash_of_a_whole_one() {
    let playground = &mut Playground::default();
    for name in ["two-paths", "multipath/cellular", "shared-bottleneck"] {
        let report = call(playground, "run", experiment(name));
        let run = call(playground, "start", experiment(name))["run"].clone();
        let (hash, _) = to_the_end(playground, &run);
        assert_eq!(hash, report["runs"][0]["trace_hash"], "{name}");
        call(playground, "stop", json!({ "run": run }));
    }
}

#[test]
fn packets_frames_and_samples_are_complete() {
    let playground = &mut Playground::default();
    let report = call(playground, "run", experiment("two-paths"));
    let run = call(playground, "start", experiment("two-paths"))["run"].clone();
    let (_, parts) = to_the_end(playground, &run);
    let rows = [("sent", 6), ("ended", 3), ("frames", 5), ("samples", 1)];
    let [row_sent, row_ended, frames, samples] = rows.map(|(key, columns)| {
        let lengths = parts.iter().map(|part| part[key].as_array().unwrap().len());
        lengths.sum::<usize>() / columns
    });
    let counts = &report["runs"][0];
    let [sent, delivered, dropped] = ["packets_sent", "packets_delivered", "packets_dropped"]
        .map(|key| counts[key].as_u64().unwrap() as usize);
    assert_eq!(row_sent, sent);
    let ended = delivered + dropped;
    assert_eq!(row_ended, ended, "each packet ends once");
    let captured = &counts["statistics"]["total"]["frames"]["captured"];
    assert!(
        frames as u64 <= captured.as_u64().unwrap() && frames > 700,
        "{frames}"
    );
    assert_eq!(samples, 300);
    let mut numbers: Vec<u64> = parts
        .iter()
        .flat_map(|part| part["ended"].as_array().unwrap().chunks(3))
        .map(|ended| ended[0].as_f64().unwrap() as u64)
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), ended, "no packet ends twice");
}

#[test]
fn changes_replay_to_the_same_hash() {
    let playground = &mut Playground::default();
    let unchanged = call(playground, "run", experiment("two-paths"));
    let mut hashes = vec![unchanged["runs"][0]["trace_hash"].clone()];
    for change in [
        json!({ "link": "lte", "property": "rate", "value": 500e3 }),
        json!({ "link": "wifi", "property": "delay", "value": 150 }),
        json!({ "link": "lte", "property": "delay", "value": 0 }),
        json!({ "link": "lte", "property": "loss", "value": 0.2 }),
        json!({ "link": "lte", "property": "up", "value": false }),
    ] {
        let run = call(playground, "start", experiment("two-paths"))["run"].clone();
        let until = json!({ "run": run, "until_ms": 4_321 });
        call(playground, "advance", until);
        let mut request = change.clone();
        request["run"] = run.clone();
        let at_ms = call(playground, "change", request)["at_ms"].clone();
        assert_eq!(at_ms, 4_321.0);
        let (live, _) = to_the_end(playground, &run);
        call(playground, "stop", json!({ "run": run }));
        let mut replayed = experiment("two-paths");
        let mut timed = change.clone();
        timed["at_ms"] = at_ms;
        replayed["changes"] = json!([timed]);
        let report = call(playground, "run", replayed);
        assert_eq!(live, report["runs"][0]["trace_hash"], "{change}");
        assert!(!hashes.contains(&live), "{change} has an effect");
        hashes.push(live);
    }
}

/// Returns the change that cuts or restores a link.
fn up(link: &str, at_ms: u32, value: bool) -> Value {
    json!({ "at_ms": at_ms, "link": link, "property": "up", "value": value })
}

#[test]
fn an_outage_loses_packets_and_ends() {
    let playground = &mut Playground::default();
    let mut cut = experiment("two-paths");
    cut["changes"] = json!([
        up("lte", 3_000, false),
        up("lte-return", 3_000, false),
        up("lte-return", 5_000, true),
        up("lte", 5_000, true),
    ]);
    let report = call(playground, "run", cut.clone());
    let run = call(playground, "start", cut)["run"].clone();
    let (_, parts) = to_the_end(playground, &run);
    let ended = parts
        .iter()
        .flat_map(|part| part["ended"].as_array().unwrap().chunks(3));
    let lost: Vec<&[Value]> = ended
        .filter(|ended| ended[2].as_f64().unwrap() >= 0.0)
        .collect();
    assert_eq!(report["runs"][0]["packets_dropped"], lost.len());
    let at_once = lost.iter().filter(|ended| ended[1] == 3_000.0);
    assert!(at_once.count() > 0, "packets inside are lost with the link");
    assert_eq!(
        [4_000.0, 6_000.0].map(|at_ms| {
            let mut samples = parts
                .iter()
                .flat_map(|part| part["samples"].as_array().unwrap());
            let sample = samples.find(|sample| sample["at_ms"] == at_ms).unwrap();
            let links = sample["links"].as_array().unwrap();
            let down = links.iter().filter(|link| link["transit_ms"].is_null());
            down.count()
        }),
        [2, 0]
    );
}

#[test]
fn controllers_and_schedulers_can_be_chosen() {
    let playground = &mut Playground::default();
    let mut chosen = experiment("two-paths");
    chosen["controller"] = json!("cubic");
    chosen["scheduler"] = json!("round-robin");
    let summary = call(playground, "check", chosen.clone());
    assert_eq!(summary["flows"][0]["controller"], "cubic");
    assert_eq!(summary["flows"][0]["scheduler"], "round-robin");
    let report = call(playground, "run", chosen);
    assert_eq!(report["expectations"].as_array().unwrap().len(), 3);
    let path = path("two-paths");
    let settings = ["flows.0.controller=cubic", "flows.0.scheduler=round-robin"];
    let scenario = Scenario::load(&path, &settings.map(str::to_owned)).unwrap();
    let outcome = run_with(&scenario, 2, RunHooks::default(), &|_| {
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(
        report["runs"][0]["trace_hash"],
        outcome.trace_hash.to_string()
    );
}

#[test]
fn exports_are_files() {
    let playground = &mut Playground::default();
    let [svg, json, csv] = ["svg", "json", "csv"].map(|what| {
        let mut request = experiment("two-paths");
        request["what"] = json!(what);
        call(playground, "export", request)
    });
    assert!(
        svg[0]["text"].as_str().unwrap().starts_with("<svg"),
        "{svg}"
    );
    let report: Value = serde_json::from_str(json[0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(report["schema"], "anabranch-report/1");
    let names: Vec<&str> = csv
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["paths.csv", "flows.csv", "links.csv", "frames.csv"]);
    assert!(csv[3]["text"].as_str().unwrap().lines().count() > 700);
}

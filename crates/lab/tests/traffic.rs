//! Kinds of traffic from the scenario file to the report and the trace.

use std::path::{Path, PathBuf};

use anabranch_lab::metrics::{FlowStatistics, Traffic};
use anabranch_lab::{Report, RunOptions, Scenario, ScenarioError, TraceOptions, run, run_outcomes};
use anabranch_units::Duration;
use tempfile::TempDir;

const NETWORK: &str = r#"duration = "30 s"
[links.up]
rate = "4 Mbit/s"
delay = "20 ms"
queue = "100 ms"
[links.down]
rate = "4 Mbit/s"
delay = "20 ms"
[routes.there]
forward = ["up"]
reverse = ["down"]
[routes.back]
forward = ["down"]
reverse = ["up"]
[flow-defaults]
controller = "fixed"
fixed-rate = "1500 kbit/s"
paths = ["there"]
"#;

fn scenario(flows: &str) -> Scenario {
    let text = format!("{NETWORK}{flows}");
    Scenario::parse("test.toml", &text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn report(scenario: &Scenario, seed_count: u64) -> Report {
    run(scenario, &RunOptions::seeds(seed_count), &|_| ()).unwrap()
}

/// Returns a metric's median.
fn median(report: &Report, metric: &str, subject: &str) -> f64 {
    let found = report
        .summary
        .iter()
        .find(|entry| entry.metric == metric && entry.subject.as_deref() == Some(subject));
    found
        .unwrap_or_else(|| panic!("no {metric} of {subject}"))
        .spread
        .median
}

/// Each object has a session of its own, over all paths of the flow.
#[test]
fn short_objects_use_all_paths_and_counts_add_up() {
    fn flows(paths: &str) -> String {
        let text = r#"
[[flows]]
name = "pages"
kind = "short"
controller = "cubic"
min-bytes = "200 kB"
max-bytes = "400 kB"
mean-idle = "1 s"
"#;
        format!("{text}paths = {paths}\n")
    }
    fn by(paths: &str) -> Report {
        report(&scenario(&flows(paths)), 1)
    }
    let one = by(r#"["there"]"#);
    let two = by(r#"["there", "back"]"#);
    let transfers = median(&two, "transfers", "pages");
    assert!(transfers >= 5.0, "{transfers}");
    let [one_took, two_took] = [&one, &two].map(|of| median(of, "transfer-time-mean", "pages"));
    assert!(two_took < 0.8 * one_took, "{two_took} {one_took}");
    // The data of an object's last session is a small part of it.
    for path in &two.runs[0].statistics.flows[0].paths {
        let packets = path.traffic.packets_sent;
        assert!(
            packets as f64 > 40.0 * transfers,
            "{}: {packets}",
            path.route
        );
    }
}

const RAW: &str = r#"
[[flows]]
name = "camera"
source = { kind = "cbr", rate = "1 Mbit/s" }
[[flows]]
name = "steady"
kind = "cbr"
rate = "1 Mbit/s"
rate-schedule = [{ at = "15 s", rate = "500 kbit/s" }]
[[flows]]
name = "bursts"
kind = "on-off"
rate = "8 Mbit/s"
on = "3 s"
off = "7 s"
first = "off"
[[flows]]
name = "crowd"
kind = "poisson"
size = "100 B"
rate = "200 kbit/s"
paths = ["back"]
stop = "20 s"
"#;

#[test]
fn raw_flows_have_names_throughput_loss_and_delay() {
    let report = report(&scenario(RAW), 1);
    assert_eq!(report.runs[0].statistics.flows[1].controller, "cbr");
    let bursts = &report.runs[0].statistics.flows[2].traffic;
    // 8 Mbit/s for 9 s of 30 s are 6000 packets.
    assert!(
        (5_999..=6_001).contains(&bursts.packets_sent),
        "{}",
        bursts.packets_sent
    );
    // 6 of 10 Mbit/s exceed 4, except for the 50 kB for which each burst finds room.
    assert!((0.5..0.6).contains(&median(&report, "loss", "bursts")));
    assert!((20.0..25.0).contains(&median(&report, "delay-p50", "crowd")));
    // Other packets leave when the first gaps have passed; 20 s at 250 packets a second, ±2 %.
    let crowd = &report.runs[0].statistics.flows[3].traffic;
    assert!(
        (4_850..=5_150).contains(&crowd.packets_sent),
        "{}",
        crowd.packets_sent
    );
    assert_eq!(crowd.packets_dropped, 0);
    assert!((196e3..204e3).contains(&median(&report, "throughput", "crowd")));
    // 15 s at 1 Mbit/s and 15 s at 500 kbit/s; the part of it in bursts suffers.
    let steady = &report.runs[0].statistics.flows[1].traffic;
    assert!(
        (1_874..=1_876).contains(&steady.packets_sent),
        "{}",
        steady.packets_sent
    );
}

#[test]
fn raw_flows_are_in_the_traces() {
    fn rows(name: &str, flow: &str, folder: &TempDir) -> usize {
        let needle = format!(",{flow},");
        read(name, folder)
            .lines()
            .filter(|line| line.contains(&needle))
            .count()
    }

    fn read(name: &str, folder: &TempDir) -> String {
        std::fs::read_to_string(folder.path().join(name)).unwrap()
    }

    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions {
        seeds: vec![1],
        trace: Some((folder.path().to_owned(), TraceOptions { has_packets: true })),
        ..RunOptions::default()
    };
    run(&scenario(RAW), &options, &|_| ()).unwrap();
    // Every 100 ms, the first at 0 s.
    assert_eq!(
        (
            rows("paths.csv", "steady", &folder),
            rows("flows.csv", "crowd", &folder)
        ),
        (301, 301)
    );
    assert!(rows("packets.csv", "bursts", &folder) >= 12_000 - 200);
    anabranch_lab::plot(folder.path()).unwrap();
}

/// Raw traffic has no controller; streams have one from their beginning, or their next object's,
/// on.
#[test]
fn flows_of_every_kind_are_in_the_series() {
    let streams = "[[flows]]\nname = \"file\"\nkind = \"bulk\"\ncontroller = \"cubic\"\n\
                   [[flows]]\nname = \"pages\"\nkind = \"short\"\nmean-idle = \"2 s\"\n\
                   controller = \"cubic\"\n";
    let options = RunOptions {
        seeds: vec![1],
        series_interval: Some(Duration::from_secs(1)),
        ..RunOptions::default()
    };
    let outcomes = run_outcomes(&scenario(&format!("{RAW}{streams}")), &options, &|_| ()).unwrap();
    let series = outcomes[0].series.as_ref().unwrap();
    for flow in &series.flows {
        assert_eq!(flow.sent_bytes.len(), 30, "{}", flow.name);
        assert_eq!(flow.bandwidth_bits_per_second.len(), 30, "{}", flow.name);
        assert!(
            flow.delivered_bytes.iter().sum::<u64>() > 0,
            "{}",
            flow.name
        );
        let is_raw = ["steady", "bursts", "crowd"].contains(&flow.name.as_str());
        assert_eq!(flow.states.is_empty(), is_raw, "{}", flow.name);
        let estimate: u64 = flow.bandwidth_bits_per_second.iter().sum();
        assert_eq!(estimate == 0, is_raw, "{}", flow.name);
    }
}

#[test]
fn starts_are_jittered_by_seed_and_flow() {
    let flows =
        "[[flows]]\nkind = \"cbr\"\nrate = \"1 Mbit/s\"\ncount = 2\nstart-jitter = \"10 s\"";
    let report = report(&scenario(flows), 20);
    let mut delays = Vec::new();
    for run in &report.runs {
        for flow in &run.statistics.flows {
            // The rate is over the time in which the flow ran, so that it does not depend on it.
            let rate = flow.traffic.throughput_bits_per_second;
            assert!((995_000.0..1_003_000.0).contains(&rate), "{rate}");
            delays.push(30.0 - flow.traffic.packets_sent as f64 * 0.012);
        }
    }
    delays.sort_by(f64::total_cmp);
    assert!(delays[0] >= -0.02 && delays[39] <= 10.0, "{delays:?}");
    // 40 uniform draws: the largest gap between neighbours is below 2.5 s with 99.9 %.
    let gaps = delays.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.clone().all(|gap| gap < 2.5) && gaps.into_iter().any(|gap| gap > 0.1));
}

#[test]
fn a_paused_flow_captures_nothing() {
    let flows = r#"
[[flows]]
name = "camera"
source = "cbr"
pauses = [{ at = "10 s", for = "5 s" }]
[expect]
frames-captured.camera = [
    { min = 250, max = 251, to = "10 s" },
    { max = 0, from = "10 s", to = "14.9 s" },
    { min = 125, from = "14.95 s", to = "20 s" },
]
longest-gap.camera = { min = "4.9 s", max = "5.2 s" }
"#;
    let report = report(&scenario(flows), 1);
    assert!(report.is_as_expected, "{:?}", report.expectations);
}

#[test]
fn a_traces_file_is_looked_for_beside_the_scenario() {
    fn load(path: &Path) -> Result<Scenario, ScenarioError> {
        Scenario::load(path, &[])
    }

    fn write(name: &str, text: &str, folder: &TempDir) -> PathBuf {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..30)
        .map(|frame| format!("{frame},1000,2000\n"))
        .collect();
    write(
        "sizes/two.csv",
        &format!("frame,200 kbit/s,400 kbit/s\n{rows}"),
        &folder,
    );
    let source = r#"{ kind = "trace", file = "sizes/two.csv", fps = 25, min = "300 kbit/s" }"#;
    let flows = format!("{NETWORK}[[flows]]\nname = \"camera\"\nsource = {source}\n");
    let report = report(&load(&write("camera.toml", &flows, &folder)).unwrap(), 1);
    let frames = &report.runs[0].statistics.flows[0];
    assert_eq!(frames.frames.captured, 750 + 1);
    // The target is 80 % of 1500 kbit/s, and the file ends at 400 kbit/s: 2000 B 25 times a second.
    let goodput = frames.goodput_bits_per_second;
    assert!((398e3..402e3).contains(&goodput), "{goodput}");
    write("sizes/two.csv", "frame,200 kbit/s\n0,1,2\n", &folder);
    let error = load(&folder.path().join("camera.toml"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("camera.toml:21: flows[0].source.file: "),
        "{error}"
    );
    assert!(
        error.contains("two.csv: line 2: expected frame 0 and 1 sizes"),
        "{error}"
    );
}

#[test]
fn rates_sent_and_fed_back_and_fairness_are_measured_of_those_whom_they_concern() {
    fn traffic(flow: usize, flows: &[FlowStatistics]) -> &Traffic {
        &flows[flow].traffic
    }

    let flows = r#"
[[flows]]
name = "fast"
source = { kind = "ideal", min = "800 kbit/s", max = "800 kbit/s" }
feedback = "every packet"
[[flows]]
name = "slow"
source = { kind = "ideal", min = "200 kbit/s", max = "400 kbit/s" }
target-fraction = "20 %"
[[flows]]
name = "steady"
kind = "cbr"
rate = "1 Mbit/s"
"#;
    let report = report(&scenario(flows), 1);
    let run = &report.runs[0].statistics;
    for flow in 0..3 {
        let (sent, received) = (
            traffic(flow, &run.flows).sent_bits_per_second,
            traffic(flow, &run.flows).throughput_bits_per_second,
        );
        assert!(
            (0.995..1.001).contains(&(received / sent)),
            "{sent} {received}"
        );
    }
    // Every packet of up to 1400 B is answered by some 60 B; a generator's by none.
    let overhead = median(&report, "feedback-overhead", "fast");
    assert!((0.03..0.15).contains(&overhead), "{overhead}");
    assert_eq!(traffic(2, &run.flows).feedback_bits_per_second, 0.0);
    // 300 of 800 kbit/s, and headers; the raw flow is not asked.
    let fairness = run.fairness_ratio.unwrap();
    assert!((0.35..0.42).contains(&fairness), "{fairness}");
    assert!(
        run.fairness_ratio_min
            .iter()
            .all(|least| *least <= Some(fairness + 0.01))
    );
    assert!(run.jain_index.unwrap() < 0.9);
    let steady = run.flows[2].rates.unwrap();
    // 16 or 17 packets in 200 ms.
    assert_eq!(steady.received_max_bits_per_second, 1.02e6);
    assert_eq!(
        (steady.oscillations, steady.convergence_time_ms),
        (0, Some(0.0))
    );
}

//! Episodes: runs that a caller steers.

use std::ops::Range;

use anabranch_lab::episode::{Episode, EpisodeConfig, EpisodeError, Steering, StepReport};
use anabranch_lab::{RunOptions, Scenario, run_outcomes};
use anabranch_units::Duration;

const SECONDS: u64 = 6;
/// Time at which each flow starts.
const STARTS: [u64; 2] = [0, 1];

fn scenario(overrides: &[&str]) -> Scenario {
    let text = r#"
        duration = "6 s"
        links.wifi = { rate = "3 Mbit/s", delay = "20 ms", queue = "200 ms" }
        links.lte = { rate = "2 Mbit/s", delay = "40 ms", queue = "200 ms", loss = "1 %" }
        links.back = { delay = "20 ms" }
        routes.wifi = { forward = ["wifi"], reverse = ["back"] }
        routes.lte = { forward = ["lte"], reverse = ["back"] }

        [[flows]]
        paths = ["wifi"]
        deadline = "400 ms"
        source = { kind = "ideal", min = "100 kbit/s", max = "5 Mbit/s" }

        [[flows]]
        paths = ["wifi", "lte"]
        start = "1 s"
        source = { kind = "ideal", min = "100 kbit/s", max = "1 Mbit/s" }
    "#;
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    Scenario::parse("episode.toml", text, &overrides).expect("a scenario")
}

/// The first flow alone.
fn alone() -> Scenario {
    let mut scenario = scenario(&[]);
    scenario.flows.truncate(1);
    scenario
}

fn config(flow: usize, steering: Steering) -> EpisodeConfig {
    EpisodeConfig {
        flow,
        steering,
        step: Duration::from_millis(100),
    }
}

/// Returns the reports of an episode whose decision is a function of the step's number.
fn played(
    scenario: &Scenario,
    config: EpisodeConfig,
    decide: impl Fn(usize) -> Vec<f64>,
) -> Vec<StepReport> {
    let mut episode = Episode::new(scenario, 1, config).expect("an episode");
    let mut reports = Vec::new();
    while !episode.is_over() {
        let decision = decide(reports.len());
        reports.push(episode.advance(&decision).expect("a step"));
    }
    reports
}

#[test]
fn without_decisions_an_episode_is_the_run_of_its_seed() {
    fn of_step(report: &StepReport) -> u64 {
        report.network.iter().map(|path| path.delivered_bytes).sum()
    }

    let scenario = scenario(&[]);
    let outcomes = run_outcomes(&scenario, &RunOptions::seeds(1), &|_| ()).expect("a run");
    for (flow, start) in STARTS.into_iter().enumerate() {
        let reports = played(&scenario, config(flow, Steering::None), |_| Vec::new());
        let delivered_bytes: u64 = reports.iter().map(of_step).sum();
        let traffic = &outcomes[0].statistics.flows[flow].traffic;
        let expected = traffic.throughput_bits_per_second * (SECONDS - start) as f64 / 8.0;
        assert!(
            (delivered_bytes as f64 - expected).abs() < 1.0,
            "{delivered_bytes} {expected}"
        );
    }
}

#[test]
fn a_rate_holds_from_its_step_on() {
    fn sent(range: Range<usize>, reports: &[StepReport]) -> f64 {
        let seconds = 0.1 * range.len() as f64;
        let bytes: u64 = reports[range]
            .iter()
            .map(|report| report.sender[0].sent_bytes)
            .sum();
        bytes as f64 * 8.0 / seconds
    }

    fn rates(step: usize) -> Vec<f64> {
        vec![if step < 30 { 500e3 } else { 2e6 }]
    }
    let reports = played(&alone(), config(0, Steering::Rate), rates);
    assert_eq!(reports.len(), 60);
    // A frame is cut into packets, and repairs of nothing are sent.
    assert!(
        (sent(10..30, &reports) / 500e3 - 1.0).abs() < 0.05,
        "{}",
        sent(10..30, &reports)
    );
    assert!(
        (sent(30..60, &reports) / 2e6 - 1.0).abs() < 0.05,
        "{}",
        sent(30..60, &reports)
    );
    assert_eq!(reports[29].sender[0].bandwidth.bits_per_second(), 500_000);
    assert_eq!(reports[30].sender[0].bandwidth.bits_per_second(), 2_000_000);
    // Another decision does not change the past.
    let others = played(&alone(), config(0, Steering::Rate), |step| {
        vec![if step == 59 { 5e6 } else { rates(step)[0] }]
    });
    assert_eq!(reports[58].sender, others[58].sender);
    assert_ne!(reports[59].sender, others[59].sender);
}

#[test]
fn a_split_holds_and_a_path_without_weight_gets_no_first_transmissions() {
    fn share(weights: [f64; 2], scenario: &Scenario) -> f64 {
        fn sent(path: usize, reports: &[StepReport]) -> u64 {
            reports
                .iter()
                .map(|report| report.sender[path].sent_bytes)
                .sum()
        }

        let reports = played(scenario, config(1, Steering::Split), |_| weights.to_vec());
        sent(0, &reports) as f64 / (sent(0, &reports) + sent(1, &reports)) as f64
    }

    let scenario = scenario(&["links.lte.loss=0", "flows.1.padding=never"]);
    assert!(
        (share([0.75, 0.25], &scenario) - 0.75).abs() < 0.04,
        "{}",
        share([0.75, 0.25], &scenario)
    );
    assert!(
        share([0.0, 1.0], &scenario) < 0.04,
        "{}",
        share([0.0, 1.0], &scenario)
    );
}

#[test]
fn every_frame_of_the_episode_and_of_a_deadline_more_counts_once() {
    for rate in [300e3, 2e6, 20e6] {
        let reports = played(&alone(), config(0, Steering::Rate), |_| vec![rate]);
        let counted: u64 = reports
            .iter()
            .map(|report| report.frames.on_time + report.frames.missed)
            .sum();
        assert_eq!(counted, 25 * SECONDS + 10, "{rate}");
        let last = reports.last().expect("a step");
        assert!(last.is_over && last.frames.on_time + last.frames.missed > 10);
    }
}

#[test]
fn frames_beyond_the_capacity_are_missed_and_small_ones_have_little_quality() {
    fn of(read: fn(&StepReport) -> f64, reports: &[StepReport]) -> f64 {
        reports.iter().map(read).sum()
    }

    let [low, good, high] = [120e3, 2.4e6, 6e6].map(|rate| {
        let reports = played(&alone(), config(0, Steering::Rate), |_| vec![rate]);
        [
            of(|report| report.frames.quality_s, &reports),
            of(|report| report.frames.delay_s, &reports),
            of(|report| report.frames.missed_s, &reports),
        ]
    });
    assert!(low[0] < 0.5 && low[2] == 0.0, "{low:?}");
    assert!(good[0] > 4.5 && good[2] < 0.2, "{good:?}");
    assert!(high[2] > 1.0 && high[1] > 2.0 * good[1], "{high:?}");
}

#[test]
fn the_network_shows_capacity_and_queue() {
    fn capacity(step: usize, reports: &[StepReport]) -> Option<f64> {
        reports[step].network[0].capacity_bits_per_second
    }

    let mut scenario = scenario(&["links.wifi.outages=[{ at = \"3 s\", for = \"1 s\" }]"]);
    scenario.flows.truncate(1);
    let reports = played(&scenario, config(0, Steering::Rate), |_| vec![6e6]);
    assert_eq!(
        (capacity(10, &reports), capacity(35, &reports)),
        (Some(3e6), Some(0.0))
    );
    // 200 ms of 3 Mbit/s.
    assert!((60_000..=75_000).contains(&reports[25].network[0].queued_bytes));
    assert!(reports[25].network[0].dropped_packets > 0);
}

#[test]
fn mistakes_are_named() {
    fn refused(flow: usize, steering: Steering, step: u64) -> String {
        let config = EpisodeConfig {
            flow,
            steering,
            step: Duration::from_millis(step),
        };
        Episode::new(&scenario(&[]), 1, config)
            .expect_err("a mistake")
            .to_string()
    }
    assert!(refused(2, Steering::Rate, 100).contains("flow 2 carries no media"));
    assert!(refused(1, Steering::Rate, 100).contains("2 paths: a rate is for one path"));
    assert!(refused(0, Steering::Split, 100).contains("1 paths: a split is for two or more"));
    assert!(refused(0, Steering::Rate, 0).contains("1 ms to 10 s"));
    let mut episode = Episode::new(&alone(), 1, config(0, Steering::Rate)).expect("an episode");
    for decision in [vec![], vec![f64::NAN], vec![-1.0], vec![1e6, 1e6]] {
        assert!(matches!(
            episode.advance(&decision),
            Err(EpisodeError::Decision { .. })
        ));
    }
    while !episode.is_over() {
        episode.advance(&[1e6]).expect("a step");
    }
    assert!(matches!(episode.advance(&[1e6]), Err(EpisodeError::Over)));
}

//! S. Zhang and W. Lei, "An Optimized BBR for Multipath Real Time Video Streaming", Tables 1 and 2:
//! three greedy flows of one controller over one bottleneck, in nine cases.
//!
//! Table 2 gives mean one-way delay and loss of cases 1, 4 and 7, from one run each. Published
//! rules and the authors' code behave differently from seed to seed, so each is run with several
//! and its range is printed beside the paper's number.

use anabranch_units::{DataRate, Duration};

use crate::metrics::{METRICS, Metric, Subject};
use crate::report::{Report, Spread, report};
use crate::run::{Progress, RunError, RunOptions, in_parallel, run_outcomes};
use crate::scenario::{Scenario, ScenarioError};

/// The controllers that are compared: the project's own profile, the printed algorithms, and the
/// rules of the authors' published code.
pub const CONTROLLERS: [&str; 3] = ["delay-bbr", "delay-bbr-text", "delay-bbr-v5"];

/// One case of Table 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// Its number, 1 to 9.
    pub number: u8,
    /// The bottleneck's rate.
    pub rate: DataRate,
    /// The bottleneck's queue, as the time that it takes to drain.
    pub queue: Duration,
    /// What Table 2 prints for Delay-BBR, where it prints anything.
    pub published: Option<Published>,
    /// The scenario file that describes the case.
    pub scenario: &'static str,
}

/// What a paper prints for a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Mean one-way delay of all packets of all flows.
    pub delay_ms: f64,
    /// Lost over sent packets of all flows, 0 to 1.
    pub loss_ratio: f64,
}

macro_rules! case {
    ($number:literal, $megabits:literal, $queue_ms:literal, $published:expr) => {
        Case {
            number: $number,
            rate: DataRate::from_megabits_per_second($megabits),
            queue: Duration::from_millis($queue_ms),
            published: $published,
            scenario: include_str!(concat!(
                "../../../../scenarios/zhang-delay-bbr/case-",
                stringify!($number),
                ".toml"
            )),
        }
    };
}

const fn published(delay_ms: f64, loss_ratio: f64) -> Option<Published> {
    Some(Published {
        delay_ms,
        loss_ratio,
    })
}

/// Table 1, with Table 2's numbers for Delay-BBR.
pub const CASES: [Case; 9] = [
    case!(1, 3, 300, published(231.51, 0.0111)),
    case!(2, 3, 400, None),
    case!(3, 3, 600, None),
    case!(4, 4, 300, published(199.11, 0.0083)),
    case!(5, 4, 400, None),
    case!(6, 4, 600, None),
    case!(7, 5, 300, published(235.19, 0.0123)),
    case!(8, 5, 400, None),
    case!(9, 5, 600, None),
];

impl Case {
    /// The case as a scenario, with another controller.
    ///
    /// # Errors
    /// [`ScenarioError`] for a controller that is not known.
    pub fn scenario(&self, controller: &str) -> Result<Scenario, ScenarioError> {
        let setting = format!("flow-defaults.controller={controller}");
        Scenario::parse(
            &format!("case-{}.toml", self.number),
            self.scenario,
            &[setting],
        )
    }
}

/// One case with one controller, over all seeds.
#[derive(Clone, Debug)]
pub struct Row {
    /// The case.
    pub case: Case,
    /// The controller.
    pub controller: &'static str,
    /// Mean one-way delay of all packets of all flows, in ms.
    pub delay_ms: Spread,
    /// Lost over sent packets of all flows, 0 to 1.
    pub loss_ratio: Spread,
    /// The bottleneck's utilisation, 0 to 1.
    pub utilisation: Spread,
    /// Jain's index over the flows' throughput from 100 s to 300 s.
    pub jain_index: Spread,
    /// Whether every seed met the bounds of the case. They are `delay-bbr`'s; `None` for the
    /// others.
    pub is_as_expected: Option<bool>,
    /// The full report.
    pub report: Report,
}

/// Why the experiment could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// A shipped scenario cannot be read.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// It cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Runs all cases with all controllers, each with the seeds 1 to `seed_count`, on `threads` threads
/// (0: all cores). Rows come by controller, then case. `progress` hears of simulated time: in all
/// 27 × 300 s × `seed_count`.
///
/// # Errors
/// [`ReproduceError`], which no shipped scenario gives.
///
/// # Panics
/// If `seed_count` is zero.
pub fn reproduce(
    seed_count: u64,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Row>, ReproduceError> {
    assert!(seed_count > 0, "a run needs a seed");
    let mut rows = Vec::new();
    let mut jobs = Vec::new();
    for controller in CONTROLLERS {
        for case in CASES {
            let scenario = case.scenario(controller)?;
            jobs.extend((1..=seed_count).map(|seed| (rows.len(), scenario.clone(), seed)));
            rows.push((controller, case, scenario));
        }
    }
    // One pool for all runs of all rows: nothing waits for the last seed of a row.
    let results = in_parallel(&jobs, threads, |(_, scenario, seed)| {
        let options = RunOptions {
            seeds: vec![*seed],
            threads: 1,
            trace: None,
        };
        run_outcomes(scenario, &options, progress)
    });
    let mut outcomes = vec![Vec::new(); rows.len()];
    for ((row, ..), result) in jobs.iter().zip(results) {
        outcomes[*row].extend(result?);
    }
    let rows = rows.into_iter().zip(&outcomes);
    Ok(rows
        .map(|((controller, case, scenario), outcomes)| {
            row(case, controller, &scenario, report(&scenario, outcomes))
        })
        .collect())
}

fn row(case: Case, controller: &'static str, scenario: &Scenario, report: Report) -> Row {
    let metric = |name: &str| -> &Metric {
        METRICS
            .iter()
            .find(|metric| metric.name == name)
            .expect("the catalogue has it")
    };
    let over_runs = |name: &str, subject| {
        let of = |run: &crate::report::RunReport| metric(name).of(&run.statistics, subject);
        Spread::of(report.runs.iter().filter_map(of)).expect("greedy flows send")
    };
    let bottleneck = scenario
        .links
        .iter()
        .position(|link| link.name == "bottleneck");
    let bottleneck = Subject::Link(bottleneck.expect("every case has a bottleneck"));
    let jain = report
        .expectations
        .iter()
        .find(|expectation| expectation.metric == "jain");
    let jain = jain.expect("every case expects fairness from 100 s on");
    Row {
        case,
        controller,
        delay_ms: over_runs("delay-mean", Subject::All),
        loss_ratio: over_runs("loss", Subject::All),
        utilisation: over_runs("utilisation", bottleneck),
        jain_index: Spread::of(jain.values.iter().copied().flatten()).expect("greedy flows send"),
        is_as_expected: (controller == CONTROLLERS[0]).then_some(report.is_as_expected),
        report,
    }
}

/// Why ours differ from the paper's, as traces of these runs show it.
const DIFFERENCES: &str = "\
The paper's figures are of single runs; it does not say of how many, nor their seeds.

delay-bbr       Below the paper's delay and loss in every run: its Startup ends when the delay
                rises, so that no start fills the queue, which is where the published forms lose
                their packets.
delay-bbr-text  In case 1 all losses fall into the 20 s after a start: the gain of 2.885 that the
                text quotes runs until three rounds show no growth. Later nothing is lost. It is
                unfair because Algorithm 5, as printed, never renews an expired least round-trip
                time: a flow that saw the empty path stays in ProbeRTT nearly all of its time.
delay-bbr-v5    Two modes. The start at 80 s fills the queue; a flow that measures its base delay
                then takes the full queue for the path. In some runs all do, none answers to delay
                any more, and the queue stays full and overflows to the end; in the others it
                stays part full. The paper's delays lie between the two, its losses below both:
                the start-ups alone, at the code's gain of 2, lose more here than the paper's
                whole runs.
";

/// The rows as aligned text, ours beside the paper's, and what explains their differences.
pub fn table(rows: &[Row]) -> String {
    use crate::report::{cell, grid};
    let heading = [
        "controller",
        "case",
        "delay ms",
        "paper",
        "loss %",
        "paper",
        "utilisation %",
        "Jain 100-300 s",
        "verdict",
    ];
    let mut cells = vec![heading.map(str::to_owned).to_vec()];
    let dash = || "-".to_owned();
    for row in rows {
        let Row {
            case, controller, ..
        } = row;
        let percent = |value: f64| format!("{:.2}", value * 100.0);
        let rate = case.rate.megabits_per_second();
        cells.push(vec![
            (*controller).to_owned(),
            format!("{}: {rate} Mbit/s, {}", case.number, case.queue),
            cell(Some(row.delay_ms), |value| format!("{value:.1}")),
            case.published
                .map_or_else(dash, |paper| format!("{:.2}", paper.delay_ms)),
            cell(Some(row.loss_ratio), percent),
            case.published
                .map_or_else(dash, |paper| percent(paper.loss_ratio)),
            cell(Some(row.utilisation), percent),
            cell(Some(row.jain_index), |value| format!("{value:.3}")),
            row.is_as_expected.map_or_else(dash, |is_met| {
                if is_met { "ok" } else { "BROKEN" }.to_owned()
            }),
        ]);
    }
    let run_count = rows.first().map_or(0, |row| row.report.runs.len());
    format!(
        "{run_count} seeds: median (min-max)\n\n{}\n{DIFFERENCES}",
        grid(&cells)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_files_are_table_1() {
        for case in CASES {
            let scenario = case.scenario("delay-bbr-v5").unwrap();
            let link = scenario
                .links
                .iter()
                .find(|link| link.name == "bottleneck")
                .unwrap();
            assert_eq!(link.config.rate, Some(case.rate));
            assert_eq!(
                link.config.queue,
                anabranch_link::QueueLimit::Time(case.queue)
            );
            assert_eq!(link.config.delay, Duration::from_millis(100));
            let starts: Vec<f64> = scenario
                .flows
                .iter()
                .map(|flow| flow.start.as_secs_f64())
                .collect();
            assert_eq!(starts, [0.0, 40.0, 80.0]);
            assert!(
                scenario
                    .flows
                    .iter()
                    .all(|flow| flow.controller() == "delay-bbr-v5")
            );
            let bound = |name: &str| {
                scenario
                    .expectations
                    .iter()
                    .find(|expected| expected.metric.name == name)
            };
            assert_eq!(bound("utilisation").unwrap().min, Some(0.95));
            let loss = bound("loss").and_then(|expected| expected.max);
            assert!((loss.unwrap() - 0.013).abs() < 1e-12, "{loss:?}");
            let jain = bound("jain").unwrap();
            assert_eq!(
                (jain.min, jain.window.from.as_secs_f64()),
                (Some(0.95), 100.0)
            );
            let delay = bound("delay-mean").and_then(|expected| expected.max);
            let published = case.published.map(|paper| paper.delay_ms * 1.1);
            match (delay, published) {
                (Some(delay), Some(most)) => assert!((most - delay).abs() < 0.01, "{delay}"),
                (delay, published) => assert_eq!(delay, published),
            }
        }
    }
}

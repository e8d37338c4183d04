//! Zhang & Lei's scenarios at a small scale: three flows of one controller, nine links.

use anabranch_core::control::ControllerConfig;
use anabranch_core::recovery::{FeedbackSchedule, LossDetection};
use anabranch_units::{DataRate, Duration, Instant, Seed};

use super::testing::beds::mean_and_deviation;
use super::testing::build;
use super::testing::{Bed, Link, Outcome, Source, jain};

fn secs(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}

pub(super) fn paper_config(seed: u64) -> ControllerConfig {
    ControllerConfig {
        min_rate: DataRate::from_kilobits_per_second(500),
        max_packet_bytes: super::testing::PACKET_BYTES,
        seed: Seed(seed),
        ..ControllerConfig::default()
    }
}

/// Cases 1 to 9 of Table 1: Mbit/s and ms of queue.
pub(super) const CASES: [(u64, u64); 9] = [
    (3, 300),
    (3, 400),
    (3, 600),
    (4, 300),
    (4, 400),
    (4, 600),
    (5, 300),
    (5, 400),
    (5, 600),
];

pub(super) fn paper_link(case: usize) -> Link {
    let (rate, queue) = CASES[case - 1];
    Link::new(
        DataRate::from_megabits_per_second(rate),
        Duration::from_millis(100),
        Duration::from_millis(queue),
    )
}

/// Measures of the paper, over 300 s and three flows that start at 0, 40 and 80 s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    pub(super) one_way_delay_millis: f64,
    pub(super) loss_ratio: f64,
    pub(super) utilisation: f64,
    pub(super) jain: f64,
    /// Coefficient of variation of the rates in each second, mean over the flows.
    pub(super) variation: f64,
}

pub(super) fn three_flows(name: &str, case: usize, seed: u64) -> Measures {
    let mut bed = Bed::new(paper_link(case)).feedback(FeedbackSchedule::EVERY_PACKET);
    for flow in 0..3 {
        let controller = build(name, &paper_config(3 * seed + flow)).unwrap();
        let loss = LossDetection::GapImmediate;
        bed = bed.flow(controller, Source::Greedy, loss, secs(40 * flow), secs(300));
    }
    measure(CASES[case - 1].0, &bed.run(secs(300)))
}

pub(super) fn measure(megabits_per_second: u64, flows: &[Outcome]) -> Measures {
    let count = flows.len() as f64;
    let mean = |of: &dyn Fn(&Outcome) -> f64| flows.iter().map(of).sum::<f64>() / count;
    let sent: u64 = flows.iter().map(|flow| flow.sent_count).sum();
    let dropped: u64 = flows.iter().map(|flow| flow.dropped_count).sum();
    let delivered: u64 = flows
        .iter()
        .map(|flow| flow.delivered_between(0, 300))
        .sum();
    let capacity = DataRate::from_megabits_per_second(megabits_per_second);
    let shares: Vec<f64> = flows
        .iter()
        .map(|flow| flow.delivered_between(100, 300) as f64)
        .collect();
    Measures {
        one_way_delay_millis: mean(&|flow| flow.mean_one_way_delay().as_millis_f64()),
        loss_ratio: dropped as f64 / sent as f64,
        utilisation: delivered as f64 / capacity.bytes_in(Duration::from_secs(300)) as f64,
        jain: jain(&shares),
        variation: mean(&|flow| variation(flow, 100, 300)),
    }
}

/// Returns the coefficient of variation of the rates in each second.
fn variation(flow: &Outcome, from: usize, to: usize) -> f64 {
    let rates: Vec<f64> = (from..to)
        .map(|at| mbps_between(flow, at, at + 1))
        .collect();
    let (mean, deviation) = mean_and_deviation(&rates);
    deviation / mean
}

/// Expected, of the authors' code with the start-up exit and nothing else: one-way delay 145 to 206
/// ms, losses of 0.06 % at most, utilisation 1, Jain 0.985, variation 0.07 at most. Here: 143 to
/// 152 ms, none, 0.997, 0.955 to 0.998, 0.084 to 0.116; that form comes to 150 to 161 ms, at most
/// 0.07 %, 0.998, 0.94 to 0.998 and 0.064 to 0.082. The difference is the minimum rate, which the
/// default form always keeps to: with it the other comes to 0.965 to 0.983 and 0.094 to 0.118.
///
/// Occasionally flows take a queue's delay for the path's (`delay_bbr/live.rs`): of 72 runs over
/// the links 1, 4 and 7 one ended at 176 ms. Such a run may be one of a link's eight.
#[test]
fn zhang_lei_5_1_three_flows_share_all_nine_links_without_filling_the_queue() {
    fn mean(of: fn(&Measures) -> f64, runs: &[Measures]) -> f64 {
        runs.iter().map(of).sum::<f64>() / SEEDS as f64
    }

    const SEEDS: usize = 8;
    for case in 1..=9 {
        let runs: Vec<Measures> = (1..=SEEDS as u64)
            .map(|seed| three_flows("live-bbr", case, seed))
            .collect();
        for run in &runs {
            assert!(run.utilisation >= 0.99, "case {case}: {run:?}");
            assert!(run.jain >= 0.93, "case {case}: {run:?}");
            assert!(run.loss_ratio <= 0.0006, "case {case}: {run:?}");
        }
        let (variation, jain) = (
            mean(|run| run.variation, &runs),
            mean(|run| run.jain, &runs),
        );
        assert!(variation <= 0.125, "case {case}: {variation}");
        assert!(jain >= 0.97, "case {case}: {jain}");
        let usual = runs
            .iter()
            .filter(|run| (140.0..=158.0).contains(&run.one_way_delay_millis));
        assert!(usual.count() >= SEEDS - 1, "case {case}: {runs:?}");
    }
}

/// Measured on all nine links, with two seeds each; these are three of them.
#[test]
fn zhang_lei_5_1_less_delay_loss_and_variation_than_bbr() {
    for case in [1, 5, 9] {
        let [own, bbr] = ["live-bbr", "bbr-quic"].map(|name| three_flows(name, case, 1));
        let is_quicker = own.one_way_delay_millis < 0.6 * bbr.one_way_delay_millis;
        assert!(is_quicker, "case {case}: {own:?}, {bbr:?}");
        let is_better = own.loss_ratio < bbr.loss_ratio && own.variation < bbr.variation;
        assert!(is_better, "case {case}: {own:?}, {bbr:?}");
    }
}

#[test]
fn without_the_startup_exit_on_delay_three_flows_can_lock_in_at_a_full_queue() {
    let (code, product) = (
        three_flows("delay-bbr", 3, 1),
        three_flows("live-bbr", 3, 1),
    );
    assert!(code.one_way_delay_millis > 500.0, "{code:?}");
    assert!(product.one_way_delay_millis < 156.0, "{product:?}");
}

/// Runs one flow over 2 × 30 ms with a queue of 300 ms of the first rate and default schedules.
fn one_flow(source: Source, rates: &[(u64, u64)], until: u64, seed: u64) -> Outcome {
    let mbps = DataRate::from_megabits_per_second;
    let delay = Duration::from_millis(30);
    let mut link = Link::new(mbps(rates[0].1), delay, Duration::from_millis(300));
    for &(at, rate) in &rates[1..] {
        link = link.then(secs(at), mbps(rate));
    }
    let config = ControllerConfig {
        seed: Seed(seed),
        ..ControllerConfig::default()
    };
    let controller = build("live-bbr", &config).unwrap();
    let bed = Bed::new(link).flow(
        controller,
        source,
        LossDetection::PerPacket,
        secs(0),
        secs(until),
    );
    bed.run(secs(until)).remove(0)
}

fn mbps_between(outcome: &Outcome, from: usize, to: usize) -> f64 {
    outcome.rate_between(from, to).megabits_per_second()
}

#[test]
fn after_an_outage_the_rate_is_back_within_a_second_or_two() {
    for seed in 1..=5 {
        let outcome = one_flow(Source::Greedy, &[(0, 4), (10, 0), (14, 4)], 20, seed);
        let rate = mbps_between(&outcome, 15, 17);
        assert!(rate > 0.9 * 4.0, "seed {seed}: {rate}");
    }
}

#[test]
fn video_that_does_not_fill_the_path_does_not_lower_the_estimate_to_its_rate() {
    for seed in 1..=5 {
        let max = DataRate::from_megabits_per_second(3);
        let outcome = one_flow(Source::Video { max }, &[(0, 4)], 60, seed);
        let rate = mbps_between(&outcome, 20, 60);
        assert!(rate > 0.98 * 3.0, "seed {seed}: {rate}");
        assert_eq!(outcome.dropped_count, 0, "seed {seed}");
    }
}

#[test]
fn video_yields_to_a_capacity_drop_and_comes_back() {
    for seed in 1..=5 {
        let max = DataRate::from_megabits_per_second(4);
        let outcome = one_flow(Source::Video { max }, &[(0, 4), (20, 1), (35, 4)], 60, seed);
        let lost = outcome.dropped_count as f64 / outcome.sent_count as f64;
        assert!(lost < 0.03, "seed {seed}: {lost}");
        let rate = mbps_between(&outcome, 45, 60);
        assert!(rate > 0.75 * 4.0, "seed {seed}: {rate}");
    }
}

/// Expected, of the authors' code with the start-up exit: 1.55 beside Reno's 1.44 Mbit/s, 1.9 in
/// the five seconds after, 2.9 from 210 s on. That form comes to the same here
/// (`delay_bbr/tests/on_a_path.rs` explains why the default one yields more). Here: 0.96 to 1.19
/// and 1.78 to 2.04, 0.94 to 1.08, 2.89 to 2.98.
#[test]
fn zhang_lei_fig_7_reno_neither_starves_the_flow_nor_keeps_it_down() {
    for seed in 1..=3 {
        let mut bed = Bed::new(paper_link(2));
        for (name, from, to) in [("live-bbr", 0, 300), ("new-reno", 50, 200)] {
            let controller = build(name, &paper_config(seed)).unwrap();
            let loss = LossDetection::GapImmediate;
            bed = bed.flow(controller, Source::Greedy, loss, secs(from), secs(to));
        }
        let flows = bed.run(secs(300));
        let [own, reno] = [0, 1].map(|flow: usize| mbps_between(&flows[flow], 50, 200));
        assert!((0.85..=1.55).contains(&own), "seed {seed}: {own}");
        assert!(own + reno > 0.98 * 3.0, "seed {seed}: {own} and {reno}");
        let [just_after, later] =
            [(200, 205), (210, 300)].map(|(from, to)| mbps_between(&flows[0], from, to));
        assert!(just_after > 0.85, "seed {seed}: {just_after}");
        assert!(later > 0.95 * 3.0, "seed {seed}: {later}");
    }
}

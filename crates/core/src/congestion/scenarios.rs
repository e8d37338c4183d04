//! Zhang & Lei's scenarios in the small: three flows of one controller, nine links.

use anabranch_units::{DataRate, Duration, Instant, Seed};

use super::testing::{Bed, Link, Outcome, Source, jain};
use super::{ControllerConfig, FeedbackSchedule, build};
use crate::recovery::LossDetection;

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

/// What the paper measures over 300 s and three flows that start at 0, 40 and 80 s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measures {
    pub(super) one_way_delay_millis: f64,
    pub(super) loss_ratio: f64,
    pub(super) utilisation: f64,
    pub(super) jain: f64,
}

fn three_flows(name: &str, case: usize, seed: u64) -> Measures {
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
    }
}

#[test]
fn zhang_lei_5_1_three_flows_share_all_nine_links_without_filling_the_queue() {
    for case in 1..=9 {
        for seed in 1..=2 {
            let run = three_flows("delay-bbr", case, seed);
            assert!(run.utilisation >= 0.95, "case {case}, seed {seed}: {run:?}");
            assert!(run.jain >= 0.95, "case {case}, seed {seed}: {run:?}");
            assert!(run.loss_ratio <= 0.013, "case {case}, seed {seed}: {run:?}");
            assert!(
                run.one_way_delay_millis <= 220.0,
                "case {case}, seed {seed}: {run:?}"
            );
        }
    }
}

#[test]
fn without_the_startup_exit_on_delay_three_flows_can_lock_in_at_a_full_queue() {
    let (code, product) = (
        three_flows("delay-bbr-v5", 3, 1),
        three_flows("delay-bbr", 3, 1),
    );
    assert!(code.one_way_delay_millis > 500.0, "{code:?}");
    assert!(product.one_way_delay_millis < 220.0, "{product:?}");
}

/// One flow over 2 × 30 ms with a queue of 300 ms of the first rate, default schedules.
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
    let controller = build("delay-bbr", &config).unwrap();
    let bed = Bed::new(link);
    let bed = bed.flow(
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

#[test]
fn zhang_lei_fig_7_reno_neither_starves_the_flow_nor_keeps_it_down() {
    for seed in 1..=3 {
        let mut bed = Bed::new(paper_link(2));
        for (name, from, to) in [("delay-bbr", 0, 300), ("new-reno", 50, 200)] {
            let controller = build(name, &paper_config(seed)).unwrap();
            let loss = LossDetection::GapImmediate;
            bed = bed.flow(controller, Source::Greedy, loss, secs(from), secs(to));
        }
        let flows = bed.run(secs(300));
        let [with_reno, after] =
            [(60, 200), (210, 300)].map(|(from, to)| mbps_between(&flows[0], from, to));
        assert!(
            with_reno > 0.2 * 3.0 && with_reno < 0.8 * 3.0,
            "seed {seed}: {with_reno}"
        );
        assert!(after > 0.9 * 3.0, "seed {seed}: {after}");
    }
}

use super::super::testing::{self, Bed, Link, PACKET_BYTES, Report, Source};
use super::*;
use anabranch_core::recovery::LossDetection;
use anabranch_core::{PathRtt, PathState};
use anabranch_units::options::AlgorithmOptions;

use crate::testing::build as build_named;

type Rig = testing::Rig<Zhu>;

fn config(options: &str) -> ControllerConfig {
    ControllerConfig {
        max_packet_bytes: PACKET_BYTES,
        initial_rate: DataRate::from_megabits_per_second(1),
        options: AlgorithmOptions::parse(options, OPTIONS).unwrap(),
        ..ControllerConfig::default()
    }
}

fn rig(options: &str) -> Rig {
    Rig::new(Zhu::new(&config(options)), PACKET_BYTES)
}

fn view(id: u8, megabits: f64, min_rtt_millis: u64) -> PathView {
    fn rate(factor: f64, megabits: f64) -> DataRate {
        DataRate::from_bits_per_second((megabits * factor * 1e6) as u64)
    }
    PathView {
        id: PathId(id),
        state: PathState::Active,
        rtt: PathRtt::constant(Duration::from_millis(min_rtt_millis)),
        pacing_rate: Some(rate(PROBE_GAIN, megabits)),
        bandwidth: rate(0.8, megabits),
        ..PathView::default()
    }
}

const SESSION: SessionView = SessionView {
    backlog_bytes: 0,
    window_bytes: None,
    target_bitrate: DataRate::ZERO,
    deadline: Duration::from_millis(500),
    quickest_rtt: None,
};

#[test]
fn coupled_paths_of_equal_worth_are_allocated_alike() {
    let mut zhu = Zhu::new(&config(""));
    zhu.available = 2e6;
    let paths = [view(0, 2.0, 100), view(1, 2.0, 100)];
    zhu.allocate(PathId(0), &SESSION, &paths);
    let own = zhu.allocated;
    zhu.allocate(PathId(1), &SESSION, &paths);
    assert!((own - zhu.allocated).abs() < 1.0);
    assert!(own > 1.5e6 && own < 2e6, "{own}");
}

#[test]
fn a_path_that_eats_the_deadline_gets_less_and_a_dead_sibling_does_not_count() {
    let mut zhu = Zhu::new(&config(""));
    zhu.available = 1e6;
    let far = [view(0, 1.0, 900), view(1, 2.0, 50)];
    zhu.allocate(PathId(0), &SESSION, &far);
    let late = zhu.allocated;
    let near = [view(0, 1.0, 50), view(1, 2.0, 50)];
    zhu.allocate(PathId(0), &SESSION, &near);
    let beside = zhu.allocated;
    assert!(late < 0.8 * beside, "{late} {beside}");
    let mut alone = near;
    alone[1].state = PathState::Out;
    zhu.allocate(PathId(0), &SESSION, &alone);
    assert!(
        zhu.allocated > beside,
        "worse quality is worth more lateness"
    );
}

#[test]
fn train_measures_the_available_bandwidth() {
    // A bottleneck of 2 Mbit/s. Packets paced at 1.25 of 1 Mbit/s arrive as they left, so the
    // estimate grows by trains until it reaches the bottleneck.
    let link = Link::new(
        DataRate::from_megabits_per_second(2),
        Duration::from_millis(25),
        Duration::from_millis(300),
    );
    let max = DataRate::from_megabits_per_second(10);
    let bed = Bed::new(link).flow(
        build_named("zhu", &config("")).unwrap(),
        Source::Video { max },
        LossDetection::default(),
        Instant::ZERO,
        Instant::from_secs(1_000),
    );
    let outcome = &bed.run(Instant::from_secs(30))[0];
    let rate = outcome.rate_between(10, 30).megabits_per_second();
    // The bed's encoder takes 0.8 of the allocated rate.
    assert!(rate > 1.2 && rate < 1.8, "{rate}");
    let dropped = outcome.dropped_between(10, 30);
    assert_eq!(dropped, 0, "it leaves room");
    let delay = outcome.one_way_delay_between(10, 30);
    assert!(delay < Duration::from_millis(60), "{delay:?}");
}

#[test]
fn aimd_adds_a_packet_per_round_trip_and_halves_once_a_loss() {
    let mut rig = rig("policy=aimd");
    rig.controller.available = 5e6;
    rig.controller
        .increase(Duration::from_millis(100), Duration::from_millis(100));
    let packets_per_second = 10.0;
    let expected = 1e6 + f64::from(PACKET_BYTES) * 8.0 * packets_per_second;
    assert!((rig.controller.allocated - expected).abs() < 1e-3);
    rig.send(10);
    let before = rig.controller.allocated;
    for _ in 0..2 {
        rig.report(Report {
            acked: 2,
            lost: 1,
            ..Report::default()
        });
    }
    let after = rig.controller.allocated;
    assert!((after / before - 0.5).abs() < 0.02, "{after} {before}");
}

#[test]
fn timeout_halves_the_available_bandwidth() {
    let mut rig = rig("");
    rig.controller.on_timeout(Instant::ZERO, testing::SILENCE);
    assert_eq!(rig.controller.available, 0.5e6);
}

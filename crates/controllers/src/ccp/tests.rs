//! CCP's estimators, law and properties.

use anabranch_units::{DataRate, Duration, Seed};

use super::super::testing::beds::{link, mean_and_deviation, segment_config, t1};
use super::super::testing::{Bed, Report, Rig, SILENCE};
use super::super::window::PeakFlight;
use super::*;

type Ccp = Rig<Probing<Proportional>>;

fn start() -> Ccp {
    Rig::of_segments(probing(&segment_config()))
}

/// Plays a packet pair, sent `sent_apart` microseconds apart, that takes `rtt_millis` and arrives
/// `dispersion` microseconds apart.
fn pair(rig: &mut Ccp, sent_apart: u64, rtt_millis: u64, dispersion: u64) {
    rig.flying.clear();
    rig.send(1);
    rig.now += Duration::from_micros(sent_apart);
    rig.send(1);
    for apart in [0, dispersion] {
        rig.report(Report {
            acked: 1,
            rtt: Some(Duration::from_millis(rtt_millis)),
            received_at: Some(Instant::from_secs(9) + Duration::from_micros(apart)),
            ..Report::default()
        });
    }
}

/// Returns a rig past slow start, on a path of 1000 segments/s that holds 100 segments in its pipe
/// and as many in its buffer. `in_flight` segments are in flight, and the window is as large.
fn on_a_known_path(in_flight: usize) -> Ccp {
    let mut rig = start();
    pair(&mut rig, 0, 100, 1_000);
    rig.send(1);
    rig.hear(0, 1, 200);
    let now = rig.now;
    rig.controller.end_slow_start(now);
    rig.send(in_flight);
    rig.controller.window.segments = in_flight as f64;
    rig
}

#[test]
fn capprobe_believes_the_pair_that_was_delayed_least() {
    let mut rig = start();
    pair(&mut rig, 0, 150, 500);
    assert_eq!(rig.controller.path.capacity(), 2_000.0);
    pair(&mut rig, 0, 120, 1_000);
    assert_eq!(rig.controller.path.capacity(), 1_000.0);
    pair(&mut rig, 0, 130, 4_000);
    assert_eq!(rig.controller.path.capacity(), 1_000.0);
    pair(&mut rig, 600, 100, 1_000);
    assert_eq!(rig.controller.path.capacity(), 1_000.0, "not back to back");
    pair(&mut rig, 0, 100, 0);
    assert_eq!(rig.controller.path.capacity(), 1_000.0, "no dispersion");
    pair(&mut rig, 500, 100, 2_000);
    assert_eq!(rig.controller.path.capacity(), 500.0);
}

#[test]
fn before_any_pair_capacity_is_the_largest_delivery_rate() {
    let mut rig = start();
    for (megabits, expected) in [(4, 500.0), (8, 1_000.0), (2, 1_000.0)] {
        rig.send(1);
        rig.now += Duration::from_millis(100);
        rig.report(Report {
            acked: 1,
            rate: Some(DataRate::from_megabits_per_second(megabits)),
            ..Report::default()
        });
        assert_eq!(rig.controller.path.capacity(), expected);
    }
}

#[test]
fn storage_is_from_largest_rtt_at_least_1_5_pipes() {
    let mut rig = start();
    pair(&mut rig, 0, 100, 1_000);
    assert_eq!(
        (rig.controller.path.pipe(), rig.controller.path.storage()),
        (100.0, 150.0)
    );
    rig.send(1);
    rig.hear(0, 1, 300);
    assert_eq!(
        (rig.controller.path.pipe(), rig.controller.path.storage()),
        (100.0, 300.0)
    );
    assert_eq!(rig.controller.path.backlog(), 200.0);
    rig.flying.clear();
    rig.now += Duration::from_secs(10);
    rig.send(1);
    let storage = rig.controller.path.storage();
    assert!(
        (storage - 300.0 * libm::pow(0.99, 10.0)).abs() < 0.01,
        "idle: {storage}"
    );
}

#[test]
fn the_safety_takes_a_tenth_of_the_storage_after_ten_round_trips_of_much_loss() {
    for (lost, expected) in [(2, 200.0), (3, 180.0)] {
        let mut rig = on_a_known_path(20);
        rig.hear(lost, 10 - lost, 100);
        assert_eq!(rig.controller.path.storage(), 200.0);
        rig.now += rig.rtt.smoothed() * 10;
        rig.hear(0, 10, 100);
        assert_eq!(rig.controller.path.storage(), expected, "{lost} of 20");
    }
}

#[test]
fn law_gives_half_of_the_gain_beyond_the_flight() {
    // B = 200, x = 0, f = 60 - 2: [2 × 200 - 58] / 2.
    let mut rig = on_a_known_path(60);
    rig.controller.has_limiter = false;
    rig.hear(0, 2, 100);
    assert_eq!(rig.window_segments(), 171.0);
    // x = 50, f = 56.
    rig.hear(0, 2, 150);
    assert_eq!(rig.window_segments(), 122.0);
    assert_eq!(rig.controller.state(), "Probing");
}

#[test]
fn only_a_used_window_grows_by_acked_segments() {
    let mut rig = on_a_known_path(60);
    rig.hear(0, 2, 100);
    assert_eq!(rig.window_segments(), 62.0);
    rig.controller.window.flight = PeakFlight::default();
    rig.flying.truncate(20);
    rig.report(Report {
        acked: 2,
        rtt: Some(Duration::from_millis(100)),
        has_window_left: true,
        ..Report::default()
    });
    // [2 × (200 - 50) - 18] / 2 = 141 is the law's result.
    assert_eq!(rig.window_segments(), 62.0);
}

#[test]
fn two_segments_are_left_of_any_window() {
    let mut rig = on_a_known_path(300);
    rig.hear(0, 2, 200);
    assert_eq!(rig.window_segments(), 2.0);
}

#[test]
fn losses_end_slow_start_and_then_do_nothing() {
    let mut rig = start();
    rig.send(10);
    rig.hear(0, 4, 100);
    assert_eq!(
        (rig.window_segments(), rig.controller.state()),
        (14.0, "SlowStart")
    );
    rig.hear(1, 1, 100);
    assert_eq!(rig.controller.state(), "Probing");
    let (mut with_loss, mut without) = (on_a_known_path(60), on_a_known_path(60));
    with_loss.hear(2, 2, 150);
    without.hear(0, 4, 150);
    let [with_loss, without] = [with_loss, without].map(|rig| rig.window_segments());
    assert_eq!(
        (with_loss, without),
        (62.0, 64.0),
        "but that lost packets are not acknowledged"
    );
}

#[test]
fn timeouts_end_slow_start_and_only_silence_empties_the_window() {
    let mut rig = start();
    let cause = Timeout::Retransmission {
        count: 1,
        prior_bytes_in_flight: 5_000,
    };
    rig.controller.on_timeout(rig.now, cause);
    assert_eq!(
        (rig.window_segments(), rig.controller.state()),
        (10.0, "Probing")
    );
    rig.controller.on_timeout(rig.now, SILENCE);
    assert_eq!(rig.window_segments(), 2.0);
}

#[test]
fn property_the_flight_answers_a_step_with_swings_of_half_the_size() {
    let mut rig = on_a_known_path(60);
    let path = &rig.controller.path;
    let law = &mut rig.controller.law;
    // x = 100 by the newest round trip: Kp (B - x) = 200, so that 66.7 is the fixed point.
    let mut distance = 60.0 - 200.0 / 3.0;
    let mut in_flight = 60.0;
    for _ in 0..8 {
        in_flight = law.window(rig.now, path, 0.1, in_flight);
        let next = in_flight - 200.0 / 3.0;
        assert!(
            (next / distance + 0.5).abs() < 1e-6,
            "{next} after {distance}"
        );
        distance = next;
    }
}

/// Returns the pipe and the buffer of T1 in segments: the round trip of 50 ms and a transmission,
/// and the queue without the packet in service.
fn t1_pipe_and_buffer(queue: f64) -> (f64, f64) {
    (50.0 / 0.824 + 1.0, queue * 62_500.0 / 1_030.0 - 1.0)
}

#[test]
fn property_a_flow_alone_settles_where_theory_says() {
    for queue in [1.0, 5.0] {
        let (pipe, buffer) = t1_pipe_and_buffer(queue);
        let expected = (2.0 * (pipe + buffer) - 3.0 * pipe) / 5.0;
        let flow = t1(queue).greedy("ccp", 0).run_secs(60).remove(0);
        let backlog = flow.t1_backlog(20, 60);
        assert!(
            (backlog / expected - 1.0).abs() < 0.1,
            "{backlog} for {expected}"
        );
        assert_eq!(flow.dropped_between(5, 60), 0);
        assert!(flow.utilisation(20, 60) > 0.99);
        let (mean, _) = mean_and_deviation(&t1(queue).greedy("ccp", 0).windows(20, 60)[0]);
        assert!((mean / (pipe + expected) - 1.0).abs() < 0.1, "{mean}");
    }
}

/// Whether the window swings by more than a fifth of its mean.
fn is_limit_cycle(name: &str) -> bool {
    let (mean, deviation) = mean_and_deviation(&t1(1.0).greedy(name, 0).windows(20, 60)[0]);
    deviation > 0.2 * mean
}

#[test]
fn property_a_gain_of_three_is_unstable_without_the_limiter() {
    assert!(!is_limit_cycle("ccp"));
    assert!(!is_limit_cycle("ccp:limiter=off"));
    assert!(is_limit_cycle("ccp:kp=3:limiter=off"));
    let flow = t1(1.0)
        .greedy("ccp:kp=3:limiter=off", 0)
        .run_secs(60)
        .remove(0);
    assert!(flow.utilisation(20, 60) < 0.3);
}

#[test]
fn property_random_loss_does_not_move_the_window_but_costs_more_than_cubics() {
    fn mean(loss_ratio: f64) -> f64 {
        let bed = t1(0.5).random_loss(loss_ratio, Seed(1));
        mean_and_deviation(&bed.greedy("ccp", 0).windows(20, 60)[0]).0
    }

    // With a buffer of half a pipe, slow start shows no more than the least storage either way.
    let (without, with) = (mean(0.0), mean(0.01));
    assert!((with / without - 1.0).abs() < 0.05, "{with}, {without}");
    let [mine, cubics] = ["ccp", "cubic"].map(|name| {
        let bed = t1(0.5).random_loss(0.01, Seed(1));
        bed.greedy(name, 0)
            .run_secs(60)
            .remove(0)
            .dropped_between(20, 60)
    });
    assert!(mine > 2 * cubics, "{mine}, {cubics}");
}

#[test]
fn property_half_of_the_capacity_is_followed_within_three_round_trips() {
    let rate = DataRate::from_megabits_per_second(5);
    let link = link(50, 1.0).then(Instant::from_secs(20), rate);
    let (mut before, mut trace) = (0.0, Vec::new());
    Bed::new(link)
        .greedy("ccp", 0)
        .run_observed(Instant::from_secs(40), |now, _, controller| {
            let window = controller.control().congestion_window.unwrap() as f64 / 1_030.0;
            if now < Instant::from_secs(20) {
                before = window;
            } else {
                trace.push((now - Instant::from_secs(20), window));
            }
        });
    assert!(before > 70.0, "{before}");
    // CCP settles at the new pipe and a queue.
    let (settled, deviation) = mean_and_deviation(&windows_from(&trace, 5));
    assert!((31.0..55.0).contains(&settled), "{settled}");
    assert!(deviation < 0.05 * settled, "{deviation} about {settled}");
    let (reacted_after, _) = trace.iter().find(|(_, window)| *window <= settled).unwrap();
    assert!(
        *reacted_after < Duration::from_millis(3 * 60),
        "{reacted_after}"
    );
}

fn windows_from(trace: &[(Duration, f64)], from_second: u64) -> Vec<f64> {
    let from = Duration::from_secs(from_second);
    let late = trace.iter().filter(|(at, _)| *at >= from);
    late.map(|(_, window)| *window).collect()
}

#[test]
fn property_two_flows_keep_the_queue_that_the_law_gives_them() {
    // 3 W = 2 (2 P - q) and 2 W = P + q, with a buffer as large as the pipe P: q = 5/7 P.
    let flows = t1(1.0).greedy("ccp", 0).greedy("ccp", 0).run_secs(60);
    let (pipe, _) = t1_pipe_and_buffer(1.0);
    let backlog = flows[0].t1_backlog(20, 60);
    assert!(
        (backlog / (pipe * 5.0 / 7.0) - 1.0).abs() < 0.1,
        "{backlog}"
    );
    let lost: u64 = flows.iter().map(|flow| flow.dropped_between(20, 60)).sum();
    let sent: u64 = flows.iter().map(|flow| flow.sent_count).sum();
    assert!(lost * 100 < sent, "{lost} of {sent}");
}

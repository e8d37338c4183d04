//! Equations, transitions and properties of CUBIC.

use anabranch_units::options::AlgorithmOptions;

use super::super::testing::beds::{
    link, mean_and_deviation, segment_config, t1, t2_jain, t5_ratio,
};
use super::super::testing::{Report, Rig, SILENCE};
use super::super::window::PeakFlight;
use super::*;

const RTT: u64 = 100;

/// Returns a rig of a new controller with these options.
fn start(options: &str) -> Rig<Cubic> {
    let options = AlgorithmOptions::parse(options, OPTIONS).unwrap();
    let config = ControllerConfig {
        options,
        ..segment_config()
    };
    Rig::of_segments(Cubic::new(&config))
}

/// Returns a rig that has just entered congestion avoidance, with `segments` in flight.
fn at(options: &str, segments: f64) -> Rig<Cubic> {
    let mut rig = start(options);
    rig.controller.window.segments = segments;
    rig.controller.window.ssthresh = segments;
    rig.fill();
    rig
}

/// Returns a rig just after a loss from a window of `segments`, with no earlier packet in flight.
fn after_a_loss(options: &str, segments: f64) -> Rig<Cubic> {
    let mut rig = at(options, segments);
    rig.hear(1, rig.flying.len() - 1, RTT);
    rig
}

/// Plays a round trip, ten packets a report.
fn round(rig: &mut Rig<Cubic>, rtt_millis: u64) {
    rig.fill();
    rig.now += Duration::from_millis(rtt_millis);
    let mut left = rig.flying.len();
    while left > 0 {
        let count = left.min(10);
        rig.hear(0, count, rtt_millis);
        rig.fill();
        left -= count;
    }
}

#[test]
fn rfc9438_4_6_a_loss_leaves_seven_tenths_once_per_round_trip() {
    let mut rig = at("", 100.0);
    rig.hear(1, 1, RTT);
    assert_eq!(
        (rig.window_segments(), rig.controller.state()),
        (70.0, "Recovery")
    );
    assert_eq!(rig.controller.window.ssthresh, 70.0);
    assert_eq!(
        (rig.controller.max_window, rig.controller.prior_window),
        (100.0, 100.0)
    );
    rig.hear(1, 1, RTT);
    assert_eq!(rig.window_segments(), 70.0);
    let mut rig = at("beta=0.5", 3.0);
    rig.hear(1, 1, RTT);
    assert_eq!(rig.window_segments(), 2.0);
}

#[test]
fn rfc9438_4_6_it_is_the_flight_that_counts_and_a_mark_may_leave_one_segment() {
    let mut rig = start("");
    rig.controller.window.segments = 100.0;
    rig.send(20);
    rig.hear(1, 1, RTT);
    assert_eq!(rig.window_segments(), 14.0);
    assert_eq!(rig.controller.max_window, 100.0);
    let mut rig = start("");
    rig.send(1);
    let report = Report {
        acked: 1,
        ce_count: 1,
        ..Report::default()
    };
    rig.report(report);
    assert_eq!(
        (rig.window_segments(), rig.controller.window.ssthresh),
        (1.0, 2.0)
    );
}

#[test]
fn rfc9438_4_7_fast_convergence_lowers_a_shrinking_maximum() {
    for (options, expected) in [("", 80.0 * 0.85), ("fast-convergence=off", 80.0)] {
        let mut rig = at(options, 80.0);
        rig.controller.max_window = 100.0;
        rig.hear(1, 1, RTT);
        assert_eq!(rig.controller.max_window, expected);
    }
}

#[test]
fn rfc9438_4_2_k_is_the_cube_root_of_the_reduction() {
    let mut rig = after_a_loss("", 100.0);
    assert!(rig.controller.epoch.is_none());
    rig.now += Duration::from_secs(1);
    round(&mut rig, RTT);
    let epoch = rig.controller.epoch.unwrap();
    assert!(
        (epoch.time_to_origin - 4.217).abs() < 0.001,
        "cbrt(30 / 0.4)"
    );
    assert_eq!(
        epoch.began_at, rig.now,
        "at the first acknowledgement after recovery"
    );
    assert_eq!(epoch.origin, 100.0);
}

#[test]
fn rfc9438_4_2_the_curve() {
    let epoch = Epoch {
        began_at: Instant::ZERO,
        origin: 100.0,
        time_to_origin: 4.0,
        reno_window: 0.0,
        whole: WholeSegments::new(0.0),
    };
    assert!((epoch.window_at(0.0, 0.4) - 74.4).abs() < 1e-9);
    assert_eq!(epoch.window_at(4.0, 0.4), 100.0);
    assert!((epoch.window_at(9.0, 0.4) - 150.0).abs() < 1e-9);
}

#[test]
fn rfc9438_4_4_the_window_goes_a_window_th_of_the_way_to_the_target_per_segment() {
    let mut rig = after_a_loss("", 100.0);
    rig.fill();
    rig.hear(0, 1, RTT);
    let before = rig.controller.window.segments;
    rig.now += Duration::from_secs(1);
    rig.hear(0, 1, RTT);
    // W(1.1 s) = 0.4 (1.1 - 4.217)³ + 100.
    let expected = before + (87.886 - before) / before;
    let window = rig.controller.window.segments;
    assert!((window - expected).abs() < 0.001, "{window} for {expected}");
}

#[test]
fn rfc9438_4_2_the_target_is_at_most_half_a_window_away() {
    let mut rig = after_a_loss("c=100", 1_000.0);
    rig.fill();
    rig.hear(0, 1, RTT);
    let began_with = rig.window_segments();
    rig.now += Duration::from_secs(20);
    rig.hear(0, 1, RTT);
    assert!((rig.window_segments() - began_with - 0.5).abs() < 0.01);
}

#[test]
fn rfc9438_4_3_where_reno_would_be_larger_the_window_is_renos() {
    // Short round trips, in which the curve hardly moves.
    let mut rig = after_a_loss("", 20.0);
    rig.rtt = Default::default();
    rig.rtt.on_sample(rig.now, Duration::from_millis(10));
    for _ in 0..10 {
        round(&mut rig, 10);
    }
    let epoch = rig.controller.epoch.unwrap();
    assert_eq!(rig.controller.window.segments, epoch.reno_window);
    // α = 9/17 segments per round trip, from 14 on.
    let grown = epoch.reno_window - 14.0;
    assert!((grown - 10.0 * 9.0 / 17.0).abs() < 0.3, "{grown}");
    for _ in 0..20 {
        round(&mut rig, 10);
    }
    let grown = rig.window_segments();
    round(&mut rig, 10);
    let grown = rig.window_segments() - grown;
    assert!(
        (grown - 1.0).abs() < 0.05,
        "a segment per round trip above the last maximum"
    );
}

#[test]
fn linux_goes_on_by_8_15_of_a_segment_above_the_last_maximum() {
    let mut rig = after_a_loss("friendliness=linux", 20.0);
    rig.rtt = Default::default();
    rig.rtt.on_sample(rig.now, Duration::from_millis(10));
    for _ in 0..30 {
        round(&mut rig, 10);
    }
    // Whole segments: one round has none or one.
    let before = rig.window_segments();
    for _ in 0..30 {
        round(&mut rig, 10);
    }
    let grown = (rig.window_segments() - before) / 30.0;
    assert!((grown - 8.0 / 15.0).abs() < 0.05, "{grown}");
}

#[test]
fn linux_counts_in_whole_segments_and_goes_by_the_window() {
    let mut rig = start("friendliness=linux");
    rig.controller.window.segments = 9.5;
    rig.send(5);
    rig.hear(1, 1, RTT);
    // 0.7 of nine.
    assert_eq!(rig.window_segments(), 6.0);
}

#[test]
fn rfc9438_4_8_after_a_timeout_the_curve_begins_flat_where_slow_start_ends() {
    let mut rig = at("", 100.0);
    let cause = Timeout::Retransmission {
        count: 1,
        prior_bytes_in_flight: rig.bytes_in_flight(),
    };
    rig.controller.on_timeout(rig.now, cause);
    rig.controller.on_timeout(rig.now, SILENCE);
    assert_eq!(
        (rig.window_segments(), rig.controller.window.ssthresh),
        (1.0, 70.0)
    );
    assert_eq!(rig.controller.state(), "SlowStart");
    rig.flying.clear();
    for _ in 0..7 {
        round(&mut rig, RTT);
    }
    let epoch = rig.controller.epoch.unwrap();
    assert_eq!((epoch.time_to_origin, epoch.origin), (0.0, 70.0));
}

#[test]
fn rfc9438_5_8_time_without_a_used_window_does_not_count() {
    let mut rig = after_a_loss("", 100.0);
    round(&mut rig, RTT);
    rig.flying.clear();
    rig.controller.window.flight = PeakFlight::default();
    let began_at = rig.controller.epoch.unwrap().began_at;
    for _ in 0..10 {
        rig.send(1);
        rig.now += Duration::from_millis(RTT);
        rig.report(Report {
            acked: 1,
            has_window_left: true,
            ..Report::default()
        });
    }
    assert_eq!(
        rig.controller.epoch.unwrap().began_at,
        began_at + Duration::from_secs(1)
    );
    rig.now += Duration::from_millis(500);
    rig.send(1);
    let put_off = Duration::from_millis(1_500);
    assert_eq!(
        rig.controller.epoch.unwrap().began_at,
        began_at + put_off,
        "idle time"
    );
}

#[test]
fn property_the_window_is_back_at_its_maximum_after_k_and_flat_there() {
    fn slope(at: f64, trace: &[(f64, f64)]) -> f64 {
        let first = trace.iter().position(|(t, _)| *t >= at).unwrap();
        let (a, b) = (trace[first], trace[first + 2]);
        (b.1 - a.1) / (b.0 - a.0)
    }

    let mut rig = after_a_loss("", 400.0);
    round(&mut rig, RTT);
    let epoch = rig.controller.epoch.unwrap();
    let k = epoch.time_to_origin;
    let mut trace = Vec::new();
    while rig.now < epoch.began_at + Duration::from_secs_f64(2.0 * k) {
        round(&mut rig, RTT);
        let t = (rig.now - epoch.began_at).as_secs_f64();
        trace.push((t, rig.controller.window.segments));
    }
    let back_at = trace.iter().find(|(_, window)| *window > 400.0).unwrap().0;
    assert!((back_at / k - 1.0).abs() < 0.05, "{back_at} of {k}");
    assert!(slope(k, &trace) < 0.1 * slope(0.2, &trace));
    assert!(
        slope(2.0 * k - 0.4, &trace) > 0.8 * slope(0.2, &trace),
        "and convex beyond"
    );
}

#[test]
fn property_delay_without_loss_does_not_move_the_window() {
    fn run(rtts: [u64; 2]) -> f64 {
        let mut rig = after_a_loss("", 400.0);
        let end = rig.now + Duration::from_secs(12);
        let mut count = 0;
        while rig.now < end {
            round(&mut rig, rtts[count / 10 % 2]);
            count += 1;
        }
        rig.window_segments()
    }
    let (steady, cycling) = (run([100, 100]), run([60, 140]));
    assert!((cycling / steady - 1.0).abs() < 0.02, "{steady} {cycling}");
}

#[test]
fn rfc9438_5_1_average_window_under_regular_losses() {
    let loss_ratio = 1e-4;
    let mut rig = after_a_loss("fast-convergence=off", 187.0);
    let (mut until_loss, mut windows) = ((1.0 / loss_ratio) as i64, Vec::new());
    for _ in 0..1_500 {
        rig.fill();
        rig.now += Duration::from_millis(RTT);
        let mut left = rig.flying.len();
        while left > 0 {
            let count = left.min(10);
            left -= count;
            until_loss -= count as i64;
            let lost = usize::from(until_loss <= 0);
            if lost == 1 {
                until_loss += (1.0 / loss_ratio) as i64;
            }
            rig.hear(lost, count - lost, RTT);
            rig.fill();
        }
        windows.push(rig.window_segments());
    }
    let mean = mean_and_deviation(&windows[300..]).0;
    let expected = 1.054 * libm::pow(0.1 / loss_ratio, 0.75);
    assert!((mean / expected - 1.0).abs() < 0.2, "{mean} for {expected}");
}

#[test]
fn property_a_queue_of_one_bdp_keeps_the_link_busy() {
    for name in ["cubic", "cubic:hystart=classic", "cubic:hystart=off"] {
        let flow = t1(1.0).greedy(name, 0).run_secs(60).remove(0);
        let utilisation = flow.utilisation(20, 60);
        assert!(utilisation >= 0.97, "{name}: {utilisation}");
    }
}

#[test]
fn property_two_flows_share_evenly() {
    let jain = t2_jain("cubic");
    assert!(jain >= 0.9, "{jain}");
}

#[test]
fn property_over_a_short_path_it_is_renos_equal() {
    let ratio = t5_ratio(link(20, 1.0), "cubic", "new-reno");
    assert!((0.8..=1.6).contains(&ratio), "{ratio}");
    // Four BDP of queue make the round trip up to 100 ms long, where the curve is the faster one.
    let ratio = t5_ratio(link(20, 4.0), "cubic", "new-reno");
    assert!((1.0..=2.0).contains(&ratio), "{ratio}");
}

/// Plays a round of slow start with a report for each two packets. Their round-trip times grow from
/// `first` to `last` milliseconds.
fn slow_start_round(rig: &mut Rig<Cubic>, first: u64, last: u64) {
    rig.fill();
    let count = rig.flying.len() / 2;
    rig.now += Duration::from_millis(first);
    for index in 0..count {
        let grown = (last - first) * index as u64 / count as u64;
        rig.hear(0, 2, first + grown);
        rig.fill();
    }
}

#[test]
fn rfc9406_4_2_a_longer_round_leads_to_conservative_slow_start_and_five_of_them_end_it() {
    let mut rig = start("");
    slow_start_round(&mut rig, 100, 100);
    slow_start_round(&mut rig, 111, 111);
    assert_eq!(
        (rig.window_segments(), rig.controller.state()),
        (40.0, "SlowStart")
    );
    // 100 / 8 = 12.5 ms, but it is the last round that counts: 111 / 8 = 13.875 ms.
    slow_start_round(&mut rig, 125, 125);
    assert_eq!(rig.controller.state(), "ConservativeSlowStart");
    let entered_with = rig.window_segments();
    // Three reports, a full one each, pass before the eighth sample.
    assert_eq!(entered_with, 40.0 + 3.0 * 2.0 + 17.0 * 0.5);
    for _ in 0..4 {
        assert_eq!(rig.controller.state(), "ConservativeSlowStart");
        slow_start_round(&mut rig, 130, 130);
    }
    assert_eq!(rig.controller.state(), "ConservativeSlowStart");
    let window = rig.window_segments();
    assert!(
        window / entered_with > 1.2_f64 * 1.2 * 1.2,
        "a quarter more a round"
    );
    slow_start_round(&mut rig, 130, 130);
    assert_eq!(rig.controller.state(), "CongestionAvoidance");
    assert_eq!(rig.controller.window.ssthresh, window);
    let epoch = rig.controller.epoch.unwrap();
    assert_eq!(
        (epoch.time_to_origin, epoch.origin),
        (0.0, window),
        "RFC 9438 §4.10"
    );
}

#[test]
fn rfc9406_4_2_a_shorter_round_in_conservative_slow_start_leads_back() {
    let mut rig = start("");
    slow_start_round(&mut rig, 100, 100);
    slow_start_round(&mut rig, 120, 120);
    assert_eq!(rig.controller.state(), "ConservativeSlowStart");
    slow_start_round(&mut rig, 119, 119);
    assert_eq!(rig.controller.state(), "SlowStart");
    assert_eq!(rig.controller.window.ssthresh, f64::INFINITY);
}

#[test]
fn rfc9406_4_3_thresholds_lie_between_4_and_16_ms_and_need_eight_samples() {
    for (rtt, threshold) in [(16, 4), (96, 12), (400, 16)] {
        for (longer, expected) in [
            (threshold - 1, "SlowStart"),
            (threshold, "ConservativeSlowStart"),
        ] {
            let mut rig = start("");
            slow_start_round(&mut rig, rtt, rtt);
            slow_start_round(&mut rig, rtt + longer, rtt + longer);
            assert_eq!(rig.controller.state(), expected, "{rtt} + {longer}");
        }
    }
    let mut rig = start("");
    slow_start_round(&mut rig, 100, 100);
    rig.fill();
    for _ in 0..7 {
        rig.hear(0, 1, 150);
    }
    assert_eq!(rig.controller.state(), "SlowStart");
    rig.hear(0, 1, 150);
    assert_eq!(rig.controller.state(), "ConservativeSlowStart");
}

#[test]
fn rfc9406_4_3_a_report_adds_eight_segments_at_most() {
    for (options, expected) in [("", 18.0), ("hystart=off", 20.0), ("hystart=classic", 20.0)] {
        let mut rig = start(options);
        rig.send(10);
        rig.hear(0, 10, RTT);
        assert_eq!(rig.window_segments(), expected);
    }
}

#[test]
fn rfc9406_4_3_only_the_first_slow_start_is_watched() {
    let mut rig = start("");
    rig.controller.on_timeout(rig.now, SILENCE);
    rig.controller.window.ssthresh = 1_000.0;
    rig.controller.window.segments = 20.0;
    slow_start_round(&mut rig, 100, 100);
    slow_start_round(&mut rig, 150, 150);
    assert_eq!(rig.controller.state(), "SlowStart");
}

#[test]
fn hystart_ends_slow_start_when_a_rounds_first_eight_are_late() {
    let mut rig = start("hystart=classic");
    slow_start_round(&mut rig, 100, 100);
    slow_start_round(&mut rig, 112, 112);
    assert_eq!(
        (rig.window_segments(), rig.controller.state()),
        (40.0, "SlowStart")
    );
    // A long queue that grows within the round: its first eight are not late.
    slow_start_round(&mut rig, 101, 150);
    assert_eq!(rig.controller.state(), "SlowStart");
    slow_start_round(&mut rig, 113, 113);
    assert_eq!(rig.controller.state(), "CongestionAvoidance");
    assert_eq!(
        rig.controller.window.ssthresh,
        80.0 + 6.0,
        "at the eighth sample"
    );
    let mut rig = start("hystart=classic");
    slow_start_round(&mut rig, 100, 100);
    rig.controller.window.segments = 9.0;
    rig.flying.clear();
    slow_start_round(&mut rig, 150, 150);
    assert_eq!(rig.controller.state(), "SlowStart", "below 16 segments");
}

#[test]
fn hystart_ends_slow_start_when_a_train_lasts_half_a_round_trip() {
    for (spacing, expected) in [(2, "CongestionAvoidance"), (3, "SlowStart")] {
        let mut rig = start("hystart=classic");
        slow_start_round(&mut rig, 100, 100);
        slow_start_round(&mut rig, 100, 100);
        let mut ended_after = None;
        for report in 0..40 {
            rig.fill();
            rig.hear(0, 1, 100);
            if ended_after.is_none() && rig.controller.state() == "CongestionAvoidance" {
                ended_after = Some(report * spacing);
            }
            rig.now += Duration::from_millis(spacing);
        }
        assert_eq!(rig.controller.state(), expected);
        assert!(
            ended_after.is_none_or(|after| after == 52),
            "{ended_after:?}"
        );
    }
}

/// A queue has gone since: the remaining rounds of conservative slow start do not end the next slow
/// start.
#[test]
fn slow_start_after_idleness_counts_its_own_rounds() {
    let mut rig = start("");
    slow_start_round(&mut rig, 100, 100);
    for _ in 0..5 {
        slow_start_round(&mut rig, 130, 130);
    }
    assert!(rig.controller.hystart.is_in_css());
    rig.flying.clear();
    rig.now += Duration::from_secs(3);
    for _ in 0..2 {
        slow_start_round(&mut rig, 100, 100);
        assert_eq!(rig.controller.state(), "SlowStart");
        assert!(!rig.controller.hystart.is_in_css());
    }
    assert!(rig.window_segments() > 20.0);
}

#[test]
fn an_idle_window_starts_again_without_hystart_and_with_a_new_curve() {
    let mut rig = start("");
    slow_start_round(&mut rig, 100, 100);
    slow_start_round(&mut rig, 120, 120);
    for _ in 0..6 {
        slow_start_round(&mut rig, 130, 130);
    }
    assert_eq!(rig.controller.state(), "CongestionAvoidance");
    let threshold = rig.controller.window.ssthresh;
    rig.flying.clear();
    rig.now += Duration::from_secs(3);
    rig.fill();
    assert_eq!(
        (rig.window_segments(), rig.controller.state()),
        (10.0, "SlowStart")
    );
    assert!(rig.controller.epoch.is_none());
    rig.controller.max_window = 2.0 * threshold;
    for _ in 0..8 {
        slow_start_round(&mut rig, 200, 200);
    }
    let epoch = rig.controller.epoch.unwrap();
    assert_eq!((epoch.time_to_origin, epoch.origin), (0.0, threshold));
}

//! One test per gain, transition, filter and rule.

use anabranch_units::Seed;

use super::*;
use crate::testing::{self, Report, SILENCE};

const PACKET: u64 = 1_000;
const RTT: Duration = Duration::from_millis(100);
/// Bandwidth of 100 packets per round trip.
const BANDWIDTH: DataRate = DataRate::from_megabits_per_second(8);
const BDP: u64 = 100 * PACKET;

type Rig = testing::Rig<BbrQuic>;

impl Rig {
    fn start(settings: Settings) -> Self {
        let config = ControllerConfig {
            seed: Seed(7),
            ..ControllerConfig::default()
        };
        let mut bbr = BbrQuic::new(settings, &config);
        bbr.segment_bytes = SEGMENT_BYTES;
        bbr.congestion_window = 32 * SEGMENT_BYTES;
        Rig::new(bbr, PACKET as u32)
    }

    /// Sends `packets` and acknowledges them together a round trip later: a sample of `packets` per
    /// round trip.
    fn go_round(&mut self, packets: usize) {
        self.send(packets);
        self.now += RTT;
        self.ack(packets);
    }

    /// Returns a rig in ProbeBW's phase of this gain, with 8 Mbit/s and 100 ms.
    fn in_probe_bw(settings: Settings, gain: f64) -> Self {
        let mut rig = Rig::start(settings);
        while rig.controller.state() != "PROBE_BW" {
            rig.go_round(100);
        }
        rig.go_to_gain(gain);
        rig
    }

    /// Steps to the first phase of this gain after one of another gain.
    fn go_to_gain(&mut self, gain: f64) {
        let now = self.now;
        let bbr = &mut self.controller;
        let Mode::ProbeBw(cycle) = &mut bbr.mode else {
            panic!("in ProbeBW");
        };
        let mut before = gain;
        while before == gain || cycle.gain(&GAINS) != gain {
            before = cycle.gain(&GAINS);
            cycle.advance(now);
        }
        bbr.pacing_gain = gain;
        bbr.update_pacing_rate();
    }

    fn pacing_rate(&self) -> DataRate {
        self.controller.control().pacing_rate.unwrap()
    }

    fn window(&self) -> u64 {
        self.controller.control().congestion_window.unwrap()
    }

    fn lose_and_ack(&mut self, lost: usize, acked: usize) {
        self.report(Report {
            lost,
            acked,
            ..Report::default()
        });
    }
}

fn close(rate: DataRate, expected: DataRate) -> bool {
    let (rate, expected) = (rate.megabits_per_second(), expected.megabits_per_second());
    (rate / expected - 1.0).abs() < 0.01
}

#[test]
fn before_a_round_trip_time_the_initial_window_goes_in_100_ms_times_the_high_gain() {
    fn a_window_in(span: Duration) -> DataRate {
        DataRate::from_bytes_per(32 * 1_460, span)
    }

    let mut rig = Rig::start(Settings::default());
    let expected = a_window_in(Duration::from_millis(100)).mul_f64(2.885);
    assert!(close(rig.pacing_rate(), expected), "{}", rig.pacing_rate());
    assert_eq!(rig.window(), 32 * 1_460);
    rig.send(1);
    rig.now += Duration::from_millis(50);
    rig.ack(1);
    assert!(close(
        rig.pacing_rate(),
        a_window_in(Duration::from_millis(50))
    ));
}

#[test]
fn startup_paces_at_2_885_and_never_slower_than_before() {
    let mut rig = Rig::start(Settings::default());
    rig.go_round(100);
    rig.go_round(200);
    assert_eq!(rig.controller.state(), "STARTUP");
    assert!(close(rig.pacing_rate(), BANDWIDTH.mul_f64(2.0 * 2.885)));
    let before = rig.pacing_rate();
    rig.controller.bandwidth.restart(BANDWIDTH.mul_f64(0.1));
    rig.go_round(10);
    assert_eq!(rig.pacing_rate(), before);
}

#[test]
fn startup_window_gain_is_2_885_or_that_of_the_option() {
    for gain in [2.885, 2.0] {
        let mut rig = Rig::start(Settings {
            startup_window_gain: gain,
            ..Settings::default()
        });
        for _ in 0..3 {
            rig.go_round(100);
        }
        assert_eq!(rig.controller.state(), "STARTUP");
        let target = (gain * BDP as f64) as u64;
        // It grows by the acknowledged bytes until it exceeds the target.
        assert!((target..target + BDP).contains(&rig.window()));
        assert!(close(rig.pacing_rate(), BANDWIDTH.mul_f64(2.885)));
    }
}

#[test]
fn options_choose_the_version() {
    for (text, in_startup) in [("bbr-quic", 2.885), ("bbr-quic:startup-cwnd-gain=2.0", 2.0)] {
        let bbr = crate::testing::build(text, &ControllerConfig::default()).unwrap();
        let text = format!("{bbr:?}");
        assert!(
            text.contains(&format!("window_gain: {in_startup}")),
            "{text}"
        );
    }
    let name = "bbr-quic:initial-window=10";
    let bbr = crate::testing::build(name, &ControllerConfig::default()).unwrap();
    assert_eq!(bbr.control().congestion_window, Some(10 * 1_500));
}

#[test]
fn startup_ends_after_three_rounds_without_growth_and_drain_with_the_excess() {
    let mut rig = Rig::start(Settings::default());
    let mut states = Vec::new();
    for packets in [40, 80, 100, 100, 100] {
        rig.go_round(packets);
        states.push(rig.controller.state());
    }
    // 100 is a quarter more than 80.
    assert_eq!(states, ["STARTUP"; 5]);
    rig.send(250);
    rig.now += RTT;
    rig.ack(100);
    assert_eq!(rig.controller.state(), "DRAIN");
    let drain_rate = rig.controller.bandwidth.max().mul_f64(1.0 / 2.885);
    assert!(close(rig.pacing_rate(), drain_rate));
    while rig.bytes_in_flight() > rig.controller.target_window(1.0) {
        assert_eq!(rig.controller.state(), "DRAIN");
        rig.ack(1);
    }
    assert_eq!(rig.controller.state(), "PROBE_BW");
}

#[test]
fn startup_goes_on_while_rounds_are_app_limited() {
    let mut rig = Rig::start(Settings::default());
    rig.is_app_limited = true;
    for _ in 0..20 {
        rig.go_round(10);
    }
    assert_eq!(rig.controller.state(), "STARTUP");
}

#[test]
fn app_limited_samples_raise_the_bandwidth_only() {
    fn packets(rig: &Rig) -> u64 {
        let rate = rig.controller.bandwidth.max();
        rate.bytes_in(RTT).div_ceil(PACKET)
    }

    let mut rig = Rig::in_probe_bw(Settings::default(), 1.0);
    rig.is_app_limited = true;
    for _ in 0..9 {
        rig.go_round(20);
    }
    assert_eq!(packets(&rig), 100);
    rig.go_round(150);
    assert_eq!(packets(&rig), 150);
}

#[test]
fn a_bandwidth_sample_counts_for_ten_rounds() {
    let mut rig = Rig::in_probe_bw(Settings::default(), 1.0);
    rig.go_round(100);
    for _ in 0..10 {
        rig.go_round(50);
        assert!(close(rig.controller.bandwidth.max(), BANDWIDTH));
    }
    rig.go_round(50);
    assert!(close(
        rig.controller.bandwidth.max(),
        BANDWIDTH.mul_f64(0.5)
    ));
}

#[test]
fn probe_bw_paces_at_five_quarters_then_three_quarters_then_one() {
    let mut rig = Rig::in_probe_bw(Settings::default(), 1.25);
    assert!(close(rig.pacing_rate(), BANDWIDTH.mul_f64(1.25)));
    // A fifth more packets in flight than end it: time alone does not suffice.
    rig.send(120);
    rig.now += RTT * 2;
    rig.ack(1);
    assert_eq!(rig.controller.pacing_gain, 1.25, "120 are not in flight");
    rig.send(10);
    rig.ack(1);
    assert_eq!(rig.controller.pacing_gain, 0.75);
    assert!(close(rig.pacing_rate(), BANDWIDTH.mul_f64(0.75)));
    rig.ack(27);
    assert_eq!(rig.controller.pacing_gain, 0.75);
    rig.ack(1);
    rig.ack(1);
    assert_eq!(rig.controller.pacing_gain, 1.0, "drained before its time");
    assert!(close(rig.pacing_rate(), BANDWIDTH));
}

#[test]
fn losses_end_probing_after_a_round_trip() {
    let mut rig = Rig::in_probe_bw(Settings::default(), 1.25);
    rig.send(50);
    rig.now += RTT + Duration::from_millis(1);
    rig.lose_and_ack(1, 1);
    assert_eq!(rig.controller.pacing_gain, 0.75);
}

#[test]
fn drain_to_target_stays_low_until_the_excess_is_gone() {
    for (is_drained_to_target, gain) in [(false, 1.0), (true, 0.75)] {
        let settings = Settings {
            is_drained_to_target,
            ..Settings::default()
        };
        let mut rig = Rig::in_probe_bw(settings, 0.75);
        rig.send(140);
        rig.now += RTT + Duration::from_millis(1);
        rig.ack(1);
        assert_eq!(rig.controller.pacing_gain, gain);
        rig.ack(40);
        rig.ack(1);
        assert_eq!(rig.controller.pacing_gain, 1.0);
    }
}

#[test]
fn window_is_two_bdp_plus_aggregation() {
    let rig = Rig::in_probe_bw(Settings::default(), 1.0);
    let without = rig.controller.target_window(2.0);
    assert_eq!(without.div_ceil(PACKET), 200);
    assert_eq!(
        rig.window(),
        without + rig.controller.aggregation.height.max()
    );
    let mut aggregation = Aggregation {
        epoch: None,
        epoch_bytes: 0,
        height: RoundMax::new(BANDWIDTH_WINDOW_ROUNDS),
    };
    let at = Instant::from_millis;
    // 8 Mbit/s is 1000 bytes a millisecond.
    aggregation.on_acked(at(0), 5_000, BANDWIDTH);
    aggregation.on_acked(at(2), 5_000, BANDWIDTH);
    assert_eq!(aggregation.height.max(), 10_000 - 2_000);
    aggregation.on_acked(at(20), 5_000, BANDWIDTH);
    aggregation.on_acked(at(30), 5_000, BANDWIDTH);
    assert_eq!(aggregation.height.max(), 8_000, "the epoch began again");
}

#[test]
fn the_window_is_within_4_and_2000_segments() {
    let mut rig = Rig::in_probe_bw(Settings::default(), 1.0);
    rig.controller
        .bandwidth
        .restart(DataRate::from_kilobits_per_second(100));
    rig.controller.aggregation.height.restart(0);
    rig.controller.update_window(0);
    assert_eq!(rig.window(), 4 * 1_460);
    rig.controller
        .bandwidth
        .restart(DataRate::from_megabits_per_second(10_000));
    rig.controller.congestion_window = 2_000 * 1_460 - 1;
    rig.go_round(2);
    assert_eq!(rig.window(), 2_000 * 1_460);
}

#[test]
fn recovery_conserves_packets_then_grows() {
    let mut rig = Rig::in_probe_bw(Settings::default(), 1.0);
    let window = rig.window();
    rig.send(100);
    rig.now += RTT;
    rig.lose_and_ack(10, 5);
    assert_eq!(rig.window(), (85 + 5) * PACKET);
    rig.ack(5);
    assert_eq!(
        rig.window(),
        (85 + 5) * PACKET,
        "what left before may leave again"
    );
    rig.send(10);
    rig.lose_and_ack(5, 5);
    assert_eq!(rig.window(), (80 + 5) * PACKET, "less what is lost");
    rig.ack(70);
    rig.send(60);
    rig.ack(5);
    assert_eq!(rig.window(), (85 + 5) * PACKET, "growth");
    assert!(rig.controller.recovery.is_active());
    rig.send(1);
    rig.ack(10);
    assert!(!rig.controller.recovery.is_active() && rig.window() >= window);
}

#[test]
fn recovery_grows_in_its_second_round() {
    let mut window = RecoveryWindow::default();
    assert!(window.update(10, true, false, 20));
    window.on_bytes(50_000, 2_000, 1_000, 1_460, 5_840);
    assert_eq!(window.bytes(), Some(52_000));
    assert!(!window.update(12, true, false, 30));
    window.on_bytes(40_000, 2_000, 3_000, 1_460, 5_840);
    assert_eq!(window.bytes(), Some(49_000), "conservation");
    window.update(20, false, true, 40);
    window.on_bytes(40_000, 2_000, 0, 1_460, 5_840);
    assert_eq!(window.bytes(), Some(51_000), "growth");
    window.update(30, true, true, 50);
    window.on_bytes(1_000, 0, 60_000, 1_460, 5_840);
    assert_eq!(window.bytes(), Some(5_840), "four segments at least");
    window.update(50, false, true, 60);
    assert_eq!((window.bytes(), window.is_active()), (None, false));
}

#[test]
fn losses_in_startup_start_no_recovery() {
    let mut rig = Rig::start(Settings::default());
    rig.send(40);
    rig.now += RTT;
    rig.lose_and_ack(10, 10);
    assert!(!rig.controller.recovery.is_active());
}

#[test]
fn probe_rtt_comes_after_10_s_and_lasts_200_ms_and_a_round_at_four_segments() {
    let mut rig = Rig::in_probe_bw(Settings::default(), 1.0);
    rig.send(100);
    rig.now = rig.controller.min_rtt_at + Duration::from_millis(10_001);
    rig.ack(10);
    assert_eq!(rig.controller.state(), "PROBE_RTT");
    assert_eq!(rig.window(), 4 * 1_460);
    assert_eq!(rig.controller.pacing_gain, 1.0);
    assert!(rig.controller.min_rtt > Some(RTT), "expired");
    rig.now += Duration::from_millis(10);
    rig.ack(82);
    let Mode::ProbeRtt(stay) = rig.controller.mode else {
        panic!("in ProbeRTT");
    };
    assert_eq!(stay.exit_at, None, "8 packets are more than five segments");
    rig.ack(1);
    rig.now += Duration::from_millis(199);
    rig.send(1);
    rig.ack(7);
    rig.now += Duration::from_millis(2);
    rig.send(1);
    rig.ack(1);
    assert_eq!(rig.controller.state(), "PROBE_BW");
    assert_eq!(rig.controller.min_rtt_at, rig.now);
}

#[test]
fn probe_rtt_is_left_to_startup_if_the_pipe_was_never_full() {
    let mut rig = Rig::start(Settings::default());
    rig.go_round(10);
    rig.send(3);
    rig.now += Duration::from_millis(10_100);
    rig.ack(1);
    assert_eq!(rig.controller.state(), "PROBE_RTT");
    rig.go_round(3);
    rig.now += Duration::from_millis(99);
    rig.go_round(0);
    assert_eq!(rig.controller.state(), "PROBE_RTT");
    rig.go_round(1);
    assert_eq!(rig.controller.state(), "STARTUP");
    assert_eq!(rig.controller.pacing_gain, HIGH_GAIN);
}

#[test]
fn samples_of_probe_rtt_do_not_age_the_bandwidth_away() {
    let mut rig = Rig::in_probe_bw(Settings::default(), 1.0);
    rig.go_round(100);
    rig.now += Duration::from_millis(10_001);
    rig.go_round(100);
    assert_eq!(rig.controller.state(), "PROBE_RTT");
    rig.controller.bandwidth.restart(BANDWIDTH);
    rig.go_round(4);
    assert_eq!(rig.controller.state(), "PROBE_RTT");
    for _ in 0..3 {
        rig.go_round(4);
    }
    assert!(close(rig.controller.bandwidth.max(), BANDWIDTH));
}

#[test]
fn a_sender_that_was_quiet_skips_probe_rtt() {
    let mut rig = Rig::in_probe_bw(Settings::default(), 1.0);
    rig.is_app_limited = true;
    rig.now += Duration::from_secs(11);
    rig.go_round(10);
    assert_eq!(rig.controller.state(), "PROBE_BW");
    assert_eq!(rig.controller.min_rtt, Some(RTT));
}

#[test]
fn a_similar_round_trip_time_does_not_confirm_the_least_one() {
    let mut rig = Rig::in_probe_bw(Settings::default(), 1.0);
    let at = rig.controller.min_rtt_at;
    rig.send(1);
    rig.now += RTT + Duration::from_millis(5);
    rig.ack(1);
    assert_eq!(
        (rig.controller.min_rtt, rig.controller.min_rtt_at),
        (Some(RTT), at)
    );
    rig.send(1);
    rig.now += Duration::from_millis(90);
    rig.ack(1);
    assert_eq!(rig.controller.min_rtt, Some(Duration::from_millis(90)));
}

#[test]
fn exit_startup_on_loss_by_recovery_needs_a_round_without_growth() {
    let mut rig = Rig::start(Settings {
        startup_loss_exit: StartupLossExit::InRecovery,
        recovers_in_startup: true,
        ..Settings::default()
    });
    rig.go_round(100);
    rig.send(201);
    rig.now += RTT;
    rig.lose_and_ack(1, 200);
    assert_eq!(rig.controller.state(), "STARTUP", "it has doubled");
    rig.send(101);
    rig.now += RTT;
    rig.lose_and_ack(1, 100);
    assert_ne!(rig.controller.state(), "STARTUP");
}

#[test]
fn exit_startup_on_loss_by_excess_needs_eight_events_and_2_percent() {
    for (events, lost, has_left) in [(7, 2, false), (8, 1, true), (8, 0, false)] {
        let mut rig = Rig::start(Settings {
            startup_loss_exit: StartupLossExit::Excess,
            ..Settings::default()
        });
        rig.go_round(100);
        rig.send(400);
        rig.now += RTT;
        rig.ack(1);
        for _ in 0..events {
            rig.lose_and_ack(lost, 1);
        }
        rig.send(1);
        let count = rig.flying.len();
        rig.ack(count);
        assert_eq!(
            rig.controller.state() != "STARTUP",
            has_left,
            "{events} × {lost}"
        );
    }
}

#[test]
fn receivers_report_every_packet_for_the_first_hundred() {
    let mut rig = Rig::start(Settings::default());
    rig.send(99);
    assert_eq!(
        rig.controller.feedback_schedule(),
        FeedbackSchedule::EVERY_PACKET
    );
    rig.send(1);
    let schedule = rig.controller.feedback_schedule();
    assert_eq!(
        (schedule.every_packets, schedule.max_delay),
        (10, Duration::from_millis(25))
    );
}

#[test]
fn silence_ends_recovery_and_keeps_the_model() {
    let mut rig = Rig::in_probe_bw(Settings::default(), 1.0);
    rig.send(100);
    rig.now += RTT;
    rig.lose_and_ack(10, 5);
    rig.controller.on_timeout(rig.now, SILENCE);
    assert!(!rig.controller.recovery.is_active());
    assert!(close(rig.controller.bandwidth.max(), BANDWIDTH));
}

#[test]
fn padding_is_asked_for_while_probing_only() {
    for (gain, is_padded) in [(1.25, true), (0.75, false), (1.0, false)] {
        let rig = Rig::in_probe_bw(Settings::default(), gain);
        assert_eq!(!rig.controller.control().padding_rate.is_zero(), is_padded);
    }
}

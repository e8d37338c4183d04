//! One test per gain, transition, filter and rule.

use anabranch_units::Seed;

use super::*;
use crate::testing::{self, Report, SILENCE};

const PACKET: u64 = 1_000;
const RTT: Duration = Duration::from_millis(100);
/// Bandwidth of 100 packets per round trip.
const BANDWIDTH: DataRate = DataRate::from_megabits_per_second(8);
const BOTH: [&Profile; 2] = [&profile::TODAY, &profile::LINUX_4_9];

type Rig = testing::Rig<BbrLinux>;

impl Rig {
    fn start(profile: &'static Profile) -> Self {
        let config = ControllerConfig {
            max_packet_bytes: PACKET as u32,
            seed: Seed(7),
            ..ControllerConfig::default()
        };
        Rig::new(BbrLinux::new(profile, &config), PACKET as u32)
    }

    /// Sends `packets` and acknowledges them together a round trip later: a sample of `packets` per
    /// round trip.
    fn go_round(&mut self, packets: usize) {
        self.send(packets);
        self.now += RTT;
        let is_app_limited = self.is_app_limited;
        self.report(Report {
            acked: packets,
            is_app_limited,
            ..Report::default()
        });
    }

    /// Returns a rig in ProbeBW's phase of this gain, with 8 Mbit/s and 100 ms.
    fn in_probe_bw(profile: &'static Profile, gain: f64) -> Self {
        let mut rig = Rig::start(profile);
        while rig.controller.state() != "PROBE_BW" {
            rig.go_round(100);
        }
        let now = rig.now;
        let Mode::ProbeBw(cycle) = &mut rig.controller.mode else {
            panic!("in ProbeBW");
        };
        let mut before = gain;
        while before == gain || cycle.gain(&GAINS) != gain {
            before = cycle.gain(&GAINS);
            cycle.advance(now);
        }
        rig
    }

    /// Sends `packets` by the pacer, the last of them just now.
    fn send_paced(&mut self, packets: usize) {
        self.send(packets);
        self.controller.departs_at = self.now;
    }

    fn lose_and_ack(&mut self, lost: usize, acked: usize) {
        self.report(Report {
            lost,
            acked,
            ..Report::default()
        });
    }

    fn packets(&self) -> u64 {
        self.controller.control().congestion_window.unwrap() / PACKET
    }

    fn pacing_rate(&self) -> DataRate {
        self.controller.control().pacing_rate.unwrap()
    }
}

fn is_close(rate: DataRate, expected: DataRate) -> bool {
    let (rate, expected) = (rate.megabits_per_second(), expected.megabits_per_second());
    (rate / expected - 1.0).abs() < 0.005
}

#[test]
fn gains_are_the_source_s_in_256ths() {
    assert_eq!((HIGH_GAIN * 256.0) as u32, 2885 * 256 / 1000 + 1);
    assert_eq!((DRAIN_GAIN * 256.0) as u32, 256 * 1000 / 2885);
}

#[test]
fn the_first_pacing_rate_is_the_window_in_a_nominal_then_a_measured_round_trip() {
    let mut rig = Rig::start(&profile::TODAY);
    let gain = HIGH_GAIN * 0.99;
    let nominal = DataRate::from_bytes_per(10 * PACKET, Duration::from_millis(1)).mul_f64(gain);
    assert!(is_close(rig.pacing_rate(), nominal));
    assert_eq!(rig.packets(), 10);
    rig.send(10);
    rig.now += RTT;
    rig.ack(1);
    let measured = DataRate::from_bytes_per(10 * PACKET, RTT).mul_f64(gain);
    assert!(is_close(rig.pacing_rate(), measured));
}

#[test]
fn pacing_is_one_percent_below_gain_times_bandwidth() {
    for (gain, packets) in [(1.25, 100), (0.75, 160), (1.0, 100)] {
        let mut rig = Rig::in_probe_bw(&profile::TODAY, gain);
        rig.send_paced(packets);
        rig.now += Duration::from_millis(99);
        rig.report(Report {
            acked: 1,
            rate: Some(BANDWIDTH),
            rtt: Some(RTT),
            ..Report::default()
        });
        assert!(
            is_close(rig.pacing_rate(), BANDWIDTH.mul_f64(0.99 * gain)),
            "{gain}: {}",
            rig.pacing_rate()
        );
    }
}

#[test]
fn startup_ends_after_three_rounds_without_growth_drain_with_the_excess() {
    let mut rig = Rig::start(&profile::TODAY);
    for packets in [10, 20, 40, 80, 100, 101] {
        rig.go_round(packets);
        assert_eq!(rig.controller.state(), "STARTUP");
        assert!(rig.pacing_rate() > BANDWIDTH.mul_f64(packets as f64 / 100.0 * 2.8));
    }
    rig.go_round(102);
    rig.send(250);
    rig.now += RTT;
    rig.ack(100);
    assert_eq!(rig.controller.state(), "DRAIN");
    assert!(is_close(
        rig.pacing_rate(),
        rig.controller.bandwidth.max().mul_f64(0.99 * 88.0 / 256.0)
    ));
    while rig.bytes_in_flight() > rig.controller.inflight(rig.controller.bandwidth.max(), 1.0) {
        assert_eq!(rig.controller.state(), "DRAIN");
        rig.ack(1);
    }
    assert_eq!(rig.controller.state(), "PROBE_BW");
}

#[test]
fn app_limited_rounds_do_not_fill_the_pipe_nor_lower_the_bandwidth() {
    let mut rig = Rig::start(&profile::TODAY);
    rig.go_round(100);
    rig.is_app_limited = true;
    for _ in 0..30 {
        rig.go_round(10);
    }
    assert_eq!(rig.controller.state(), "STARTUP");
    assert!(is_close(rig.controller.bandwidth.max(), BANDWIDTH));
}

#[test]
fn cwnd_target_is_two_products_three_segments_and_even() {
    for (profile, extra) in [(&profile::LINUX_4_9, 0), (&profile::TODAY, 2)] {
        let mut rig = Rig::in_probe_bw(profile, 1.25);
        let bbr = &mut rig.controller;
        bbr.pacing_rate = BANDWIDTH;
        // 8 Mbit/s in 1/1024 s are no packet, yet two are the least above 1.2 Mbit/s.
        assert_eq!(
            bbr.with_quantization_budget(199 * PACKET),
            (206 + extra) * PACKET
        );
        bbr.pacing_rate = DataRate::from_megabits_per_second(100);
        assert_eq!(
            bbr.with_quantization_budget(200 * PACKET),
            (236 + extra) * PACKET
        );
        bbr.pacing_rate = DataRate::from_kilobits_per_second(1_199);
        assert_eq!(
            bbr.with_quantization_budget(6 * PACKET),
            (10 + extra) * PACKET
        );
        bbr.mode = Mode::Drain;
        assert_eq!(bbr.with_quantization_budget(6 * PACKET), 10 * PACKET);
    }
}

#[test]
fn the_product_is_in_whole_packets_rounded_up() {
    let mut rig = Rig::start(&profile::TODAY);
    assert_eq!(rig.controller.product(BANDWIDTH, 1.0), 10 * PACKET);
    rig.controller.min_rtt = Some(Duration::from_micros(10_100));
    assert_eq!(rig.controller.product(BANDWIDTH, 1.0), 11 * PACKET);
    assert_eq!(rig.controller.product(BANDWIDTH, 2.0), 21 * PACKET);
}

#[test]
fn extra_acked_widens_the_window_of_today_only() {
    for (profile, expected) in [(&profile::TODAY, 30), (&profile::LINUX_4_9, 0)] {
        let mut rig = Rig::in_probe_bw(profile, 1.0);
        rig.controller.extra_acked = ExtraAcked::default();
        rig.controller.congestion_window = 500 * PACKET;
        rig.controller.approach_target(0);
        let without = rig.packets();
        let (now, bandwidth) = (rig.now, BANDWIDTH);
        rig.controller
            .extra_acked
            .on_acked(now, 30 * PACKET, bandwidth, 200 * PACKET, false);
        rig.controller.congestion_window = 500 * PACKET;
        rig.controller.approach_target(0);
        assert_eq!(rig.packets() - without, expected);
    }
}

#[test]
fn window_grows_by_acked_bytes_from_four_packets() {
    let mut rig = Rig::start(&profile::TODAY);
    rig.go_round(10);
    assert_eq!(rig.packets(), 20);
    let mut rig = Rig::in_probe_bw(&profile::TODAY, 1.0);
    rig.controller.congestion_window = 50 * PACKET;
    rig.controller.approach_target(3 * PACKET);
    assert_eq!(rig.packets(), 53);
    rig.controller.congestion_window = PACKET;
    rig.controller.approach_target(0);
    assert_eq!(rig.packets(), 4);
}

#[test]
fn probing_ends_with_losses_or_enough_in_flight() {
    for (in_flight, lost, gain) in [(100, 0, 1.25), (140, 0, 0.75), (100, 1, 0.75)] {
        let mut rig = Rig::in_probe_bw(&profile::TODAY, 1.25);
        rig.send_paced(in_flight);
        rig.now += RTT + Duration::from_millis(1);
        rig.lose_and_ack(lost, 1);
        assert_eq!(
            rig.controller.pacing_gain(),
            gain,
            "{in_flight}, {lost} lost"
        );
    }
}

/// The packets in the network when the next packet departs count: with that one while probing, and
/// less the deliveries until then.
#[test]
fn phases_end_by_inflight_at_next_departure() {
    // 125 packets, three segments of two, even, and two to probe with; 100 and six.
    let ends_at = |profile, gain: f64, in_flight, wait_millis| {
        let mut rig = Rig::in_probe_bw(profile, gain);
        rig.controller.knows_departure_times = profile.knows_departure_times;
        rig.send(in_flight);
        rig.now += Duration::from_millis(if gain > 1.0 { 101 } else { 50 });
        rig.controller.departs_at = rig.now + Duration::from_millis(wait_millis);
        rig.lose_and_ack(0, 1);
        rig.controller.pacing_gain() != gain
    };
    for (gain, least_or_most, wait_millis) in [
        (1.25, 132, 0),
        (1.25, 142, 10),
        (0.75, 106, 0),
        (0.75, 116, 10),
    ] {
        let beyond = if gain > 1.0 {
            least_or_most - 1
        } else {
            least_or_most + 1
        };
        assert!(ends_at(&profile::TODAY, gain, least_or_most, wait_millis));
        assert!(!ends_at(&profile::TODAY, gain, beyond, wait_millis));
    }
    assert!(ends_at(&profile::LINUX_4_9, 0.75, 106, 10));
    assert!(!ends_at(&profile::LINUX_4_9, 0.75, 107, 10));
}

#[test]
fn offloaded_segments_are_two_packets_or_a_millisecond_s() {
    let mut rig = Rig::in_probe_bw(&profile::TODAY, 1.0);
    for (megabits, packets) in [(1, 1), (8, 2), (100, 12)] {
        rig.controller.pacing_rate = DataRate::from_megabits_per_second(megabits);
        assert_eq!(rig.controller.control().group_bytes / PACKET, packets);
    }
}

#[test]
fn recovery_conserves_packets_for_a_round_and_its_end_restores_the_window() {
    for profile in BOTH {
        let mut rig = Rig::in_probe_bw(profile, 1.0);
        rig.go_round(100);
        let before = rig.packets();
        rig.send(100);
        rig.now += RTT;
        rig.lose_and_ack(10, 5);
        assert_eq!(rig.packets(), 85 + 5);
        rig.lose_and_ack(3, 2);
        assert_eq!(
            rig.packets(),
            90 - 3,
            "less what is lost, since 80 + 2 are less"
        );
        rig.send(7);
        rig.ack(5);
        assert_eq!(rig.packets(), 87);
        assert!(rig.controller.recovery.is_active());
        rig.send(1);
        rig.now += RTT;
        rig.ack(83);
        assert!(!rig.controller.recovery.is_active());
        assert!(rig.packets() >= before.min(200), "{}", rig.packets());
    }
}

#[test]
fn after_the_first_round_of_recovery_the_window_goes_to_its_target() {
    let mut rig = Rig::in_probe_bw(&profile::TODAY, 1.0);
    rig.send(100);
    rig.now += RTT;
    rig.lose_and_ack(50, 5);
    assert_eq!(rig.packets(), 45 + 5);
    rig.controller.recovery.end_conservation();
    rig.ack(5);
    assert_eq!(rig.packets(), 50 + 5);
}

#[test]
fn losses_that_were_none_restore_the_window_and_the_search_for_a_full_pipe() {
    for profile in BOTH {
        let mut rig = Rig::start(profile);
        rig.go_round(10);
        rig.go_round(20);
        rig.go_round(20);
        let before = rig.packets();
        rig.send(20);
        rig.now += RTT;
        rig.lose_and_ack(3, 2);
        assert!(rig.packets() < before);
        rig.report(Report {
            spurious: 2,
            acked: 1,
            ..Report::default()
        });
        assert!(rig.controller.recovery.is_active(), "one is missing");
        rig.report(Report {
            spurious: 1,
            ..Report::default()
        });
        assert!(!rig.controller.recovery.is_active());
        assert!(rig.packets() >= before);
        let restarted = format!("{:?}", rig.controller.full_pipe).contains("without_growth: 0");
        assert_eq!(restarted, profile.has_undo);
    }
}

#[test]
fn a_timeout_saves_the_window_and_the_search_for_a_full_pipe_begins_again() {
    let mut rig = Rig::start(&profile::TODAY);
    rig.go_round(10);
    rig.go_round(20);
    let before = rig.packets();
    rig.send(6);
    let cause = Timeout::Retransmission {
        count: 1,
        prior_bytes_in_flight: 6 * PACKET,
    };
    rig.controller.on_timeout(rig.now, cause);
    assert_eq!(rig.packets(), 1);
    let pipe = format!("{:?}", rig.controller.full_pipe);
    assert!(pipe.contains("last_growth: 0"), "{pipe}");
    rig.now += RTT;
    rig.lose_and_ack(6, 0);
    rig.go_round(2);
    assert!(rig.packets() >= before, "{} of {before}", rig.packets());
    rig.send(3);
    rig.controller.on_timeout(rig.now, SILENCE);
    assert_eq!(rig.packets(), 4);
}

#[test]
fn probe_rtt_comes_after_10_s_and_lasts_200_ms_and_a_round_with_four_packets() {
    for profile in BOTH {
        let mut rig = Rig::in_probe_bw(profile, 1.0);
        rig.go_round(100);
        let before = rig.packets();
        rig.send(100);
        rig.now = rig.controller.min_rtt_at + Duration::from_millis(10_001);
        rig.ack(50);
        assert_eq!((rig.controller.state(), rig.packets()), ("PROBE_RTT", 4));
        assert_eq!(rig.controller.pacing_gain(), 1.0);
        assert_eq!(rig.controller.prior_window / PACKET, before);
        rig.ack(46);
        rig.now += Duration::from_millis(199);
        rig.send(1);
        rig.ack(4);
        assert_eq!(
            rig.controller.state(),
            "PROBE_RTT",
            "neither time nor round"
        );
        rig.send(1);
        rig.now += Duration::from_millis(2);
        rig.ack(2);
        assert_eq!(rig.controller.state(), "PROBE_BW");
        assert_eq!(rig.controller.min_rtt_at, rig.now);
        assert!(rig.packets() > 4, "no longer bound to four");
    }
}

#[test]
fn probe_rtt_is_left_to_startup_if_the_pipe_was_never_full() {
    let mut rig = Rig::start(&profile::TODAY);
    rig.go_round(10);
    rig.send(1);
    rig.now += Duration::from_millis(10_100);
    rig.ack(1);
    assert_eq!(rig.controller.state(), "PROBE_RTT");
    for _ in 0..3 {
        rig.go_round(1);
    }
    assert_eq!(rig.controller.state(), "STARTUP");
}

#[test]
fn an_equal_round_trip_time_confirms_the_least_one_in_4_9_only() {
    for (profile, confirms) in [(&profile::TODAY, false), (&profile::LINUX_4_9, true)] {
        let mut rig = Rig::in_probe_bw(profile, 1.0);
        let before = rig.controller.min_rtt_at;
        rig.go_round(100);
        assert_eq!(rig.controller.min_rtt, Some(RTT));
        assert_eq!(rig.controller.min_rtt_at > before, confirms);
    }
}

#[test]
fn a_restart_from_idle_paces_at_the_bandwidth_and_skips_probe_rtt() {
    let mut rig = Rig::in_probe_bw(&profile::TODAY, 1.25);
    rig.now += Duration::from_secs(11);
    rig.is_app_limited = true;
    rig.send(10);
    assert!(is_close(rig.pacing_rate(), BANDWIDTH.mul_f64(0.99)));
    rig.now += RTT;
    rig.ack(10);
    assert_eq!(rig.controller.state(), "PROBE_BW");
}

#[test]
fn a_policer_s_rate_is_paced_at_without_probing() {
    let mut rig = Rig::in_probe_bw(&profile::TODAY, 1.25);
    let mut rounds = 0;
    while rig.controller.policer.rate().is_none() {
        rig.send(100);
        rig.now += RTT;
        rig.lose_and_ack(30, 70);
        rounds += 1;
        assert!(rounds < 20);
    }
    assert!(rounds >= 8, "{rounds}");
    let found = rig.controller.bandwidth().megabits_per_second();
    assert!((5.0..=6.0).contains(&found), "{found}");
    assert_eq!(rig.controller.pacing_gain(), 1.0);
}

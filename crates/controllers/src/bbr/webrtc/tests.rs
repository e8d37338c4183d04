//! One test per gain, transition, filter and rule.

use anabranch_units::Seed;

use super::*;
use crate::testing;

const PACKET: u64 = 1_000;
const RTT: Duration = Duration::from_millis(100);
/// Bandwidth of 100 packets per round trip.
const BANDWIDTH: DataRate = DataRate::from_megabits_per_second(8);

type Rig = testing::Rig<BbrWebrtc>;

impl Rig {
    fn start() -> Self {
        let config = ControllerConfig {
            seed: Seed(7),
            ..ControllerConfig::default()
        };
        Rig::new(BbrWebrtc::new(&config), PACKET as u32)
    }

    /// Sends `packets` and acknowledges them together after `rtt`.
    fn go_round(&mut self, packets: usize, rtt: Duration) {
        self.send(packets);
        self.now += rtt;
        self.ack(packets);
    }

    /// Returns a rig in ProbeBW, with 8 Mbit/s and 100 ms.
    fn in_probe_bw() -> Self {
        let mut rig = Rig::start();
        while rig.controller.state() != "PROBE_BW" {
            rig.go_round(100, RTT);
        }
        rig
    }

    fn pacing_rate(&self) -> f64 {
        let rate = self.controller.control().pacing_rate.unwrap();
        rate.megabits_per_second()
    }
}

#[test]
fn startup_and_drain_have_the_high_gain_and_its_inverse() {
    let mut rig = Rig::start();
    rig.go_round(100, RTT);
    assert_eq!(rig.controller.state(), "STARTUP");
    assert!((rig.pacing_rate() / (8.0 * 2.885) - 1.0).abs() < 0.01);
    for _ in 0..2 {
        rig.go_round(100, RTT);
    }
    rig.send(300);
    rig.now += RTT;
    rig.ack(100);
    assert_eq!(rig.controller.state(), "DRAIN");
    assert!((rig.pacing_rate() * 2.885 / 8.0 - 1.0).abs() < 0.01);
    rig.ack(100);
    assert_eq!(rig.controller.state(), "PROBE_BW");
}

#[test]
fn the_cycle_probes_by_a_tenth_until_1_15_products_fly_and_drains_by_a_tenth() {
    let mut rig = Rig::in_probe_bw();
    let mut seen = Vec::new();
    for _ in 0..20 {
        rig.send(120);
        rig.now += RTT + Duration::from_millis(1);
        rig.ack(1);
        let gain = rig.controller.pacing_gain;
        if seen.last() != Some(&gain) {
            seen.push(gain);
        }
        let rest = rig.flying.len();
        rig.controller.bandwidth.restart(BANDWIDTH);
        rig.flying.drain(..rest);
    }
    let probe = seen.iter().position(|gain| *gain == 1.1).unwrap();
    assert_eq!(seen[probe..probe + 3], [1.1, 0.9, 1.0]);
    let mut rig = Rig::in_probe_bw();
    rig.controller.pacing_gain = 1.1;
    rig.controller.bytes_in_flight = 114 * PACKET;
    let cycle = GainCycle::enter(Instant::ZERO, &mut rig.controller.rng);
    rig.controller.maybe_advance_cycle(rig.now, cycle);
    assert_eq!(rig.controller.pacing_gain, 1.1, "114 of 115 are not enough");
}

#[test]
fn probe_rtt_comes_when_the_mean_of_25_is_2_3_times_the_least() {
    let mut filter = GrownMinRtt::default();
    for _ in 0..25 {
        filter.on_rtt(RTT);
    }
    for count in 0..25 {
        assert!(!filter.has_grown(), "{count}");
        filter.on_rtt(Duration::from_micros(230_001));
    }
    assert!(filter.has_grown());
    filter.on_rtt(Duration::from_millis(260));
    assert_eq!(
        filter.value,
        Some(Duration::from_millis(260)),
        "any replaces it"
    );
    assert!(!filter.has_grown());
}

#[test]
fn probe_rtt_has_a_window_of_0_65_products_and_lasts_200_ms_and_a_round() {
    let mut rig = Rig::in_probe_bw();
    rig.controller.pacing_gain = 1.0;
    for _ in 0..25 {
        rig.controller.min_rtt.on_rtt(Duration::from_millis(235));
    }
    rig.send(100);
    rig.now += RTT;
    rig.ack(1);
    assert_eq!(rig.controller.state(), "PROBE_RTT");
    assert_eq!(rig.controller.window_gain, 0.65);
    let rates = rig.controller.control();
    let share = rates.target_rate.megabits_per_second() / rig.pacing_rate();
    assert!((share - 0.1).abs() < 0.001, "the encoder rests: {share}");
    let window = (rig.controller.target_window(0.65) / PACKET) as usize;
    rig.ack(98 - window);
    assert!(matches!(rig.controller.mode, Mode::ProbeRtt(None)));
    rig.ack(1);
    assert!(matches!(rig.controller.mode, Mode::ProbeRtt(Some(_))));
    rig.now += Duration::from_millis(199);
    rig.go_round(1, Duration::ZERO);
    rig.send(1);
    rig.now += Duration::from_millis(1);
    rig.ack(1);
    assert_eq!(rig.controller.state(), "PROBE_RTT", "no round has passed");
    rig.send(1);
    let rest = rig.flying.len();
    rig.ack(rest);
    // Recovery then drains the queue that caused ProbeRTT.
    assert_ne!(rig.controller.state(), "PROBE_RTT");
}

#[test]
fn recovery_lasts_from_a_mean_of_3_to_one_of_1_5_least_round_trip_times() {
    let mut rig = Rig::in_probe_bw();
    let slow = Duration::from_millis(305);
    rig.go_round(3, slow);
    rig.go_round(3, slow);
    assert_eq!(rig.controller.state(), "RECOVERY");
    assert_eq!(
        (rig.controller.pacing_gain, rig.controller.window_gain),
        (0.5, 1.5)
    );
    rig.go_round(1, Duration::from_millis(155));
    rig.go_round(1, Duration::from_millis(145));
    assert_eq!(
        rig.controller.state(),
        "RECOVERY",
        "the mean is one of the round before"
    );
    rig.go_round(1, Duration::from_millis(145));
    assert_eq!(rig.controller.state(), "PROBE_BW");
}

#[test]
fn the_encoder_rests_with_0_69_of_the_window_in_flight() {
    let mut rig = Rig::in_probe_bw();
    let window = rig.controller.target_window(2.0);
    rig.controller.bytes_in_flight = (window as f64 * 0.688) as u64;
    assert!(rig.controller.control().target_rate > rig.controller.min_rate);
    rig.controller.bytes_in_flight = (window as f64 * 0.691) as u64;
    assert_eq!(
        rig.controller.control().target_rate,
        rig.controller.min_rate
    );
}

#[test]
fn the_window_holds_nothing_back_unless_enforced_and_the_rate_has_a_floor() {
    let config = ControllerConfig::default();
    for (text, has_window) in [
        ("bbr-webrtc", false),
        ("bbr-webrtc:enforce-cwnd=on", true),
        ("bbr-webrtc:form=chromium-2018", true),
        ("bbr-webrtc:form=chromium-2018:enforce-cwnd=off", false),
    ] {
        let bbr = crate::testing::build(text, &config).unwrap();
        assert_eq!(
            bbr.control().congestion_window.is_some(),
            has_window,
            "{text}"
        );
        assert_eq!(
            bbr.feedback_schedule().interval,
            Some(Duration::from_millis(100))
        );
    }
    let mut rig = Rig::in_probe_bw();
    rig.controller
        .bandwidth
        .restart(DataRate::from_bits_per_second(10));
    assert_eq!(rig.pacing_rate(), 0.05);
}

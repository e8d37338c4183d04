//! ProbeRTT (§5.3.4).

use super::*;

#[test]
fn entering_and_exiting_probe_rtt() {
    let mut rig = Rig::until("ProbeBW_CRUISE");
    let before = rig.packets();
    rig.controller.cycle_at = Instant::from_secs(1_000);
    rig.controller.rounds_since_probe_up = 0;
    rig.send(100);
    rig.now = rig.controller.probe_rtt.min_delay_at + Duration::from_millis(5_001);
    rig.hear_of(0, 20);
    assert_eq!(rig.controller.state(), "ProbeRTT");
    assert_eq!(
        (rig.controller.cwnd_gain(), rig.controller.pacing_gain()),
        (0.5, 1.0)
    );
    assert_eq!(rig.packets(), rig.controller.probe_rtt_cwnd() / PACKET);
    rig.hear_of(0, 70);
    assert_eq!(rig.controller.prior_cwnd / PACKET, before);
    rig.now += Duration::from_millis(199);
    rig.go_round(1);
    assert_eq!(rig.controller.state(), "ProbeRTT", "no round has passed");
    rig.send(1);
    rig.now += RTT;
    rig.hear_of(0, 10);
    rig.hear_of(0, 1);
    assert_eq!(rig.controller.state(), "ProbeBW_CRUISE");
    assert_eq!(rig.controller.probe_rtt.min_delay_at, rig.now);
}

#[test]
fn skipping_probe_rtt_due_to_application_limited_sending() {
    let mut rig = Rig::until("ProbeBW_CRUISE");
    rig.is_app_limited = true;
    rig.now += Duration::from_secs(6);
    rig.send(5);
    assert!(rig.controller.is_idle_restart);
    assert!(is_about(rig.pacing(), 0.99), "at the bandwidth");
    rig.now += RTT;
    rig.hear_of(0, 5);
    assert!(rig.controller.is_in_probe_bw());
    assert!(!rig.controller.is_idle_restart);
}

#[test]
fn entering_and_exiting_probe_rtt_during_startup() {
    let mut rig = Rig::start();
    rig.go_round(10);
    rig.send(2);
    rig.now += Duration::from_millis(5_100);
    rig.hear_of(0, 1);
    assert_eq!(rig.controller.state(), "ProbeRTT");
    for _ in 0..4 {
        rig.go_round(1);
    }
    assert_eq!(rig.controller.state(), "Startup");
}

/// `BBRCheckProbeRTTDone` (§5.3.4.4) calls `BBRResetShortTermModel`: bounds by earlier losses end
/// with it.
#[test]
fn exiting_probe_rtt_forgets_the_short_term() {
    let mut rig = Rig::until("ProbeBW_CRUISE");
    rig.controller.cycle_at = Instant::from_secs(1_000);
    lose_in_a_round(&mut rig, 9);
    let bbr = &rig.controller;
    assert!(bbr.bw_shortterm < DataRate::MAX && bbr.inflight_shortterm < UNBOUNDED);
    rig.now = bbr.probe_rtt.min_delay_at + Duration::from_millis(5_001);
    rig.hear_of(0, 1);
    assert_eq!(rig.controller.state(), "ProbeRTT");
    assert!(rig.controller.bw_shortterm < DataRate::MAX);
    let flying = rig.flying.len();
    rig.hear_of(0, flying);
    while rig.controller.state() == "ProbeRTT" {
        rig.go_round(2);
    }
    let bbr = &rig.controller;
    assert_eq!(bbr.state(), "ProbeBW_CRUISE");
    assert_eq!(bbr.bw_shortterm, DataRate::MAX);
    assert_eq!(bbr.inflight_shortterm, UNBOUNDED);
    assert_eq!(bbr.bw, bbr.max_bw.max());
}

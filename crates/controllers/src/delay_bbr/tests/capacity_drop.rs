//! Delay-BBR's estimate when less arrives than is sent, though congestion has slowed it down.

use super::*;

#[test]
fn app_limited_samples_lower_the_estimate_while_congestion_drains_if_less_arrives_than_is_sent() {
    assert_eq!(estimate_after_congestion(1_400), kbps(1_200));
    assert_eq!(estimate_after_congestion(1_200), kbps(2_000));
}

/// Returns the estimate after rounds in which packets were sent at this rate and delivered at 1.2
/// Mbit/s.
fn estimate_after_congestion(sent_kbps: u64) -> DataRate {
    let mut rig = Rig::in_probe_bw(&live::PROFILE, kbps(2_000));
    rig.congest(60);
    // Eleven rounds of twice sixty packets that never drain.
    for _ in 0..23 {
        rig.send(60);
        rig.set_send_rate(kbps(sent_kbps));
        rig.now += millis(200);
        rig.ack(60, 200, kbps(1_200), true);
    }
    rig.bbr.bandwidth.max()
}

#[test]
fn a_capacity_drop_replaces_the_estimate_at_once() {
    for (profile, bandwidth) in [(&v5::PROFILE, 4_000), (&live::PROFILE, 1_000)] {
        let mut rig = Rig::in_probe_bw(profile, kbps(4_000));
        rig.congest(80);
        rig.send(1);
        // Sent at 3 Mbit/s, delivered at 1.
        rig.set_send_rate(kbps(3_000));
        rig.send(100);
        rig.ack(81, 200, kbps(1_000), false);
        assert_eq!(rig.bbr.bandwidth.max(), kbps(bandwidth));
        let is_product = profile.has_startup_delay_exit;
        assert_eq!(
            rig.bbr.state(),
            if is_product { "Drain" } else { "ProbeRTT" }
        );
        assert_eq!(
            rig.bbr.control().target_rate,
            kbps(if is_product { 500 } else { 4_000 })
        );
    }
}

#[test]
fn a_capacity_drop_is_believed_before_the_round_is_over() {
    for (profile, bandwidth) in [(&v5::PROFILE, 4_000), (&live::PROFILE, 1_000)] {
        let mut rig = Rig::in_probe_bw(profile, kbps(4_000));
        rig.congest(80);
        for _ in 0..2 {
            rig.send(1);
            rig.set_send_rate(kbps(3_000));
        }
        rig.send(100);
        // The first packet of the stay ends a round, and is delivered as it was sent.
        rig.ack(81, 200, kbps(3_000), true);
        assert_eq!(rig.bbr.bandwidth.max(), kbps(4_000));
        let rounds = rig.bbr.rounds.count;
        rig.ack(1, 200, kbps(1_000), true);
        assert_eq!(rig.bbr.rounds.count, rounds, "the round goes on");
        assert_eq!(rig.bbr.bandwidth.max(), kbps(bandwidth));
    }
}

//! One test per equation and transition.

use anabranch_core::PathId;
use anabranch_core::recovery::{DeliverySnapshot, PacketContent, RttEstimator};
use anabranch_units::{Duration, Seed};

use super::super::testing::SILENCE;
use super::*;

mod capacity_drop;
mod on_a_path;
mod opening;
mod trains;

const PACKET_BYTES: u32 = 1_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn kbps(rate: u64) -> DataRate {
    DataRate::from_kilobits_per_second(rate)
}

/// A controller, its packets in flight, and a path under the test's control.
struct Rig {
    bbr: DelayBbr,
    now: Instant,
    flying: Vec<SentPacket>,
    next_packet_number: u64,
    lost_bytes: u64,
}

impl Rig {
    fn new(profile: &'static Profile) -> Self {
        let config = ControllerConfig {
            seed: Seed(7),
            ..ControllerConfig::default()
        };
        Rig {
            bbr: DelayBbr::new(profile, &config),
            now: Instant::from_secs(1),
            flying: Vec::new(),
            next_packet_number: 0,
            lost_bytes: 0,
        }
    }

    /// Returns a rig in ProbeBW, with this bandwidth, a round-trip time of 100 ms, and nothing in
    /// flight.
    fn in_probe_bw(profile: &'static Profile, bandwidth: DataRate) -> Self {
        let mut rig = Rig::new(profile);
        while rig.bbr.state() != "ProbeBW" {
            rig.round(100, bandwidth);
        }
        rig
    }

    fn send(&mut self, count: u64) {
        for _ in 0..count {
            let bytes_in_flight = (self.flying.len() as u64 + 1) * u64::from(PACKET_BYTES);
            let packet = SentPacket {
                packet_number: self.next_packet_number,
                sent_at: self.now,
                bytes: PACKET_BYTES,
                bytes_in_flight,
                delivery: DeliverySnapshot {
                    lost_bytes: self.lost_bytes,
                    ..DeliverySnapshot::default()
                },
                content: PacketContent::Padding,
            };
            self.next_packet_number += 1;
            self.flying.push(packet);
            self.bbr.on_sent(self.now, &packet);
        }
    }

    /// Sets the send rate that the newest packet records for itself and those before it.
    fn set_send_rate(&mut self, rate: DataRate) {
        let packet = self.flying.last_mut().unwrap();
        packet.delivery.first_sent_at = packet.sent_at.saturating_sub(millis(100));
        packet.delivery.sent_bytes = rate.bytes_in(millis(100));
    }

    /// Reports the oldest packets in flight, all with one round-trip time.
    fn ack(&mut self, count: usize, rtt_millis: u64, rate: DataRate, is_app_limited: bool) {
        let prior_bytes_in_flight = self.flying.len() as u64 * u64::from(PACKET_BYTES);
        let acked: Vec<AckedPacket> = self
            .flying
            .drain(..count)
            .map(|sent| AckedPacket {
                sent,
                received_at: Some(self.now),
                rtt: Some(millis(rtt_millis)),
                delivered_bytes: 0,
            })
            .collect();
        let sample = RateSample {
            delivery_rate: rate,
            min_of_send_and_ack_rate: rate,
            delivered_bytes: u64::from(PACKET_BYTES),
            prior_delivered_bytes: 0,
            interval: millis(rtt_millis),
            is_full_round: true,
            is_app_limited,
            is_first_flight: false,
        };
        let feedback = Feedback {
            path: PathId(0),
            acked: &acked,
            lost: &[],
            spurious: &[],
            rtt: &RttEstimator::default(),
            delivery: Some(sample),
            prior_bytes_in_flight,
            bytes_in_flight: self.flying.len() as u64 * u64::from(PACKET_BYTES),
            delivered_bytes: 0,
            lost_bytes: self.lost_bytes,
            is_app_limited,
            is_window_limited: false,
            reported_at: self.now,
            ce_count: 0,
        };
        self.bbr
            .on_feedback(self.now, &feedback, &SessionView::default(), &[]);
    }

    /// Sends a packet and acknowledges it alone.
    fn round(&mut self, rtt_millis: u64, rate: DataRate) {
        self.send(1);
        self.now += millis(rtt_millis);
        self.ack(1, rtt_millis, rate, false);
    }

    /// Sends a packet and acknowledges it, while `lost_share` of its bytes are lost.
    fn lossy_round(&mut self, rtt_millis: u64, rate: DataRate, lost_share: f64) {
        self.send(1);
        self.lost_bytes += (f64::from(PACKET_BYTES) * lost_share) as u64;
        self.now += millis(rtt_millis);
        self.ack(1, rtt_millis, rate, false);
    }

    fn app_limited_round(&mut self, rtt_millis: u64, rate: DataRate) {
        self.send(1);
        self.now += millis(rtt_millis);
        self.ack(1, rtt_millis, rate, true);
    }

    /// Sends packets so that `in_flight` remain, and reports delay, which enters ProbeRTT.
    fn congest(&mut self, in_flight: u64) {
        self.send(in_flight + 2);
        self.now += millis(100);
        self.ack(1, 100, kbps(1), false);
        self.ack(1, 160, kbps(1), false);
        assert_eq!(self.bbr.state(), "ProbeRTT");
    }

    fn pacing_rate(&self) -> DataRate {
        self.bbr.control().pacing_rate.unwrap()
    }
}

#[test]
fn eq_12_weighs_the_new_sample_with_alpha() {
    fn congested_from(profile: &'static Profile, rtt_micros: u64) -> bool {
        let (mut signal, form) = (DelaySignal::default(), profile.delay_signal);
        signal.on_rtt(0, millis(200), &Noise::default(), form);
        signal.on_rtt(
            1,
            Duration::from_micros(rtt_micros),
            &Noise::default(),
            form,
        );
        signal.is_congested()
    }
    // 0.1 × 200 + 0.9 × r > 240 from r = 244.4 on.
    assert!(!congested_from(&text::PROFILE, 244_400));
    assert!(congested_from(&text::PROFILE, 244_500));
    // 0.05 × 200 + 0.95 × ⌊r⌋, cut to ms, > 240 from ⌊r⌋ = 244 on.
    assert!(!congested_from(&v5::PROFILE, 243_999));
    assert!(congested_from(&v5::PROFILE, 244_000));
}

#[test]
fn alg_3_base_is_the_least_since_the_back_off_and_resets_the_smoothed_one() {
    let form = text::PROFILE.delay_signal;
    let mut signal = DelaySignal::default();
    signal.on_rtt(0, millis(200), &Noise::default(), form);
    signal.on_rtt(1, millis(300), &Noise::default(), form);
    assert!(signal.is_congested());
    signal.on_rtt(2, millis(190), &Noise::default(), form);
    assert!(!signal.is_congested());
    signal.restart(10);
    signal.on_rtt(9, millis(100), &Noise::default(), form);
    signal.on_rtt(10, millis(300), &Noise::default(), form);
    assert!(!signal.is_congested(), "packet 9 left before the back-off");
    signal.on_rtt(11, millis(400), &Noise::default(), form);
    assert!(signal.is_congested());
}

#[test]
fn alg_4_needs_the_margin_too_on_short_paths() {
    for (profile, is_congested) in [(&text::PROFILE, true), (&live::PROFILE, false)] {
        let (mut signal, form) = (DelaySignal::default(), profile.delay_signal);
        signal.on_rtt(0, millis(4), &Noise::default(), form);
        signal.on_rtt(1, millis(8), &Noise::default(), form);
        assert_eq!(signal.is_congested(), is_congested);
    }
}

#[test]
fn alg_3_a_similar_rtt_confirms_the_least_one() {
    fn confirmed(profile: &Profile, rtt_micros: u64) -> bool {
        let mut min_rtt = MinRtt::default();
        min_rtt.on_rtt(Instant::ZERO, millis(80), profile.comparison);
        let rtt = Duration::from_micros(rtt_micros);
        min_rtt.on_rtt(Instant::from_secs(9), rtt, profile.comparison);
        assert_eq!(min_rtt.value, Some(millis(80)));
        !min_rtt.has_expired(Instant::from_secs(11))
    }
    // 1.125 × 80 = 90.
    assert!(confirmed(&text::PROFILE, 89_999));
    assert!(!confirmed(&text::PROFILE, 90_000));
    assert!(confirmed(&v5::PROFILE, 90_000));
    assert!(!confirmed(&v5::PROFILE, 90_001));
}

#[test]
fn eq_13_gives_one_sample_a_round_on_the_ack_that_closes_it() {
    let mut rig = Rig::new(&v5::PROFILE);
    rig.send(4);
    rig.ack(1, 100, kbps(9_000), false);
    assert_eq!(
        rig.bbr.bandwidth.max(),
        DataRate::ZERO,
        "the first round gives none"
    );
    rig.send(1);
    rig.ack(3, 100, kbps(9_000), false);
    assert_eq!(
        rig.bbr.bandwidth.max(),
        DataRate::ZERO,
        "they left in the first round"
    );
    rig.ack(1, 100, kbps(2_000), false);
    assert_eq!(rig.bbr.bandwidth.max(), kbps(2_000));
}

#[test]
fn before_the_first_sample_ten_packets_a_round_trip() {
    for (profile, unasked, answered) in [
        // 2 × the minimum rate, then 10 kB in 100 ms; twice ten packets of 1,500 B in 100 ms.
        (&v5::PROFILE, kbps(100), kbps(800)),
        (&live::PROFILE, kbps(400), kbps(2_400)),
    ] {
        let mut rig = Rig::new(profile);
        assert_eq!(rig.pacing_rate(), unasked);
        rig.round(100, kbps(1));
        assert_eq!(rig.pacing_rate(), answered);
    }
}

#[test]
fn startup_doubles_until_the_pipe_is_full_and_drain_halves() {
    let mut rig = Rig::new(&v5::PROFILE);
    rig.round(100, kbps(1));
    for rate in [1_000, 2_000, 2_100, 2_200] {
        rig.round(100, kbps(rate));
        assert_eq!(
            (rig.bbr.state(), rig.pacing_rate()),
            ("Startup", kbps(2 * rate))
        );
    }
    rig.send(200);
    rig.ack(1, 100, kbps(2_300), false);
    assert_eq!((rig.bbr.state(), rig.pacing_rate()), ("Drain", kbps(1_150)));
    // 2.3 Mbit/s × 100 ms = 28,750 bytes.
    rig.ack(170, 100, kbps(1), false);
    assert_eq!(rig.bbr.state(), "Drain");
    rig.ack(1, 100, kbps(1), false);
    assert_eq!(rig.bbr.state(), "ProbeBW");
}

#[test]
fn startup_ends_on_delay_from_its_third_round_on() {
    for (profile, state) in [(&v5::PROFILE, "Startup"), (&live::PROFILE, "Drain")] {
        let mut rig = Rig::new(profile);
        rig.send(1);
        rig.ack(1, 100, kbps(1_000), false);
        rig.send(1);
        rig.ack(1, 200, kbps(1_000), false);
        assert_eq!(rig.bbr.state(), "Startup", "second round");
        rig.send(1);
        rig.set_send_rate(kbps(4_000));
        rig.send(99);
        rig.ack(1, 200, kbps(2_000), false);
        assert_eq!(rig.bbr.state(), state, "third round");
    }
}

#[test]
fn probe_bw_paces_by_the_gain_cycle() {
    let mut rig = Rig::in_probe_bw(&v5::PROFILE, kbps(1_000));
    let gains: Vec<u64> = (0..16)
        .map(|_| {
            rig.now += millis(1);
            rig.round(100, kbps(1_000));
            rig.pacing_rate().bits_per_second() / 1_000
        })
        .collect();
    let probe = gains.iter().position(|&rate| rate == 1_110).unwrap();
    assert_eq!(gains[probe + 1], 900);
    assert_eq!(
        gains.iter().filter(|&&rate| rate == 1_000).count(),
        12,
        "{gains:?}"
    );
}

#[test]
fn alg_5_congestion_enters_probe_rtt_at_three_quarters_until_drained() {
    for (profile, exit_at) in [(&v5::PROFILE, 25), (&text::PROFILE, 24)] {
        // 2 Mbit/s × 100 ms = 25 packets.
        let mut rig = Rig::in_probe_bw(profile, kbps(2_000));
        rig.congest(40);
        assert_eq!(rig.pacing_rate(), kbps(1_500));
        let mut in_flight = 40;
        while rig.bbr.state() == "ProbeRTT" {
            in_flight -= 1;
            rig.ack(1, 200, kbps(1), false);
        }
        assert_eq!((rig.bbr.state(), in_flight), ("ProbeBW", exit_at));
        assert!(
            !rig.bbr.signal.is_congested(),
            "acks of packets sent before do not count"
        );
    }
}

#[test]
fn alg_5_keeps_the_least_rtt_as_printed_and_the_code_raises_it() {
    for (profile, then) in [(&text::PROFILE, 100), (&v5::PROFILE, 300)] {
        let mut rig = Rig::in_probe_bw(profile, kbps(2_000));
        rig.now += Duration::from_secs(11);
        rig.send(60);
        rig.ack(1, 300, kbps(2_000), false);
        assert_eq!(rig.bbr.state(), "ProbeRTT");
        rig.ack(1, 300, kbps(2_000), false);
        rig.now += millis(401);
        rig.ack(1, 320, kbps(2_000), false);
        let state = if then == 100 { "ProbeRTT" } else { "ProbeBW" };
        assert_eq!(
            rig.bbr.state(),
            state,
            "four round trips have passed, not drained"
        );
        assert_eq!(rig.bbr.min_rtt.value, Some(millis(then)));
        assert_eq!(rig.bbr.min_rtt.has_expired(rig.now), then == 100);
    }
}

#[test]
fn a_batch_counts_packet_by_packet() {
    let mut rig = Rig::in_probe_bw(&live::PROFILE, kbps(2_000));
    rig.congest(40);
    // The fifteenth of these twenty leaves 25 packets in flight, and the others find ProbeBW.
    rig.ack(20, 200, kbps(1), false);
    assert_eq!(rig.bbr.state(), "ProbeBW");
    let mut single = Rig::in_probe_bw(&live::PROFILE, kbps(2_000));
    single.congest(40);
    for _ in 0..20 {
        single.ack(1, 200, kbps(1), false);
    }
    assert_eq!(rig.pacing_rate(), single.pacing_rate());
    assert_eq!(rig.bbr.bytes_in_flight, single.bbr.bytes_in_flight);
}

#[test]
fn app_limited_samples_only_raise_live_bbr() {
    for (profile, low, high) in [(&v5::PROFILE, 500, 3_000), (&live::PROFILE, 2_000, 3_000)] {
        let mut rig = Rig::in_probe_bw(profile, kbps(2_000));
        for _ in 0..20 {
            rig.app_limited_round(100, kbps(500));
        }
        assert_eq!(rig.bbr.bandwidth.max(), kbps(low));
        rig.app_limited_round(100, kbps(3_000));
        assert_eq!(rig.bbr.bandwidth.max(), kbps(high));
    }
}

#[test]
fn app_limited_rounds_do_not_fill_the_pipe() {
    let mut rig = Rig::new(&live::PROFILE);
    for _ in 0..20 {
        rig.app_limited_round(100, kbps(500));
    }
    assert_eq!(rig.bbr.state(), "Startup");
    // Until the path is found full, no less than at the start.
    assert_eq!(rig.bbr.control().padding_rate, kbps(2_400));
}

#[test]
fn silence_halves_the_rate_until_the_first_answer() {
    let mut rig = Rig::in_probe_bw(&v5::PROFILE, kbps(2_000));
    rig.bbr.on_timeout(rig.now, SILENCE);
    rig.bbr.on_timeout(rig.now, SILENCE);
    assert_eq!(rig.pacing_rate(), kbps(1_000));
    assert_eq!(rig.bbr.control().padding_rate, DataRate::ZERO);
    rig.round(100, kbps(10));
    assert_eq!(rig.bbr.state(), "ProbeBW");
    assert_eq!(
        rig.bbr.bandwidth.max(),
        kbps(2_000),
        "the first answer restarts the round"
    );
}

#[test]
fn live_bbr_restarts_from_half_after_silence() {
    let mut rig = Rig::in_probe_bw(&live::PROFILE, kbps(2_000));
    rig.send(1);
    rig.bbr.on_timeout(rig.now, SILENCE);
    rig.bbr.on_timeout(rig.now, SILENCE);
    assert_eq!(
        (rig.bbr.state(), rig.pacing_rate()),
        ("Startup", kbps(1_000))
    );
    rig.now += Duration::from_secs(3);
    rig.ack(1, 3_000, kbps(10), false);
    assert_eq!(rig.bbr.min_rtt.value, None, "it left before the silence");
    assert_eq!(rig.pacing_rate(), kbps(2_000));
    rig.round(150, kbps(1_500));
    assert_eq!(rig.bbr.min_rtt.value, Some(millis(150)));
    assert_eq!(rig.pacing_rate(), kbps(3_000));
}

#[test]
fn the_minimum_rate_holds_always_or_only_while_cruising() {
    for (profile, drained) in [(&v5::PROFILE, kbps(15)), (&live::PROFILE, kbps(50))] {
        let mut rig = Rig::in_probe_bw(profile, kbps(20));
        rig.congest(40);
        assert_eq!(rig.pacing_rate(), drained);
        rig.ack(40, 100, kbps(20), false);
        assert_eq!(rig.bbr.state(), "ProbeBW");
        assert_eq!(rig.bbr.control().target_rate, kbps(50));
    }
}

#[test]
fn padding_is_asked_for_while_probing_only() {
    let mut rig = Rig::in_probe_bw(&live::PROFILE, kbps(2_000));
    for _ in 0..20 {
        rig.now += millis(1);
        rig.round(100, kbps(2_000));
        let control = rig.bbr.control();
        let is_probing = control.pacing_rate > Some(kbps(2_000));
        assert_eq!(!control.padding_rate.is_zero(), is_probing);
    }
}

#[test]
fn an_overflow_replaces_the_estimate_and_drains_to_the_least_rtt_ever() {
    let mut rig = Rig::in_probe_bw(&live::PROFILE, kbps(3_000));
    // The queue of others has been taken for the path's delay.
    rig.bbr.min_rtt.replace(millis(300), rig.now);
    rig.bbr.signal.restart(u64::MAX);
    rig.lossy_round(300, kbps(2_500), 0.2);
    assert_eq!(
        rig.bbr.bandwidth.max(),
        kbps(3_000),
        "one round may be another flow's"
    );
    rig.lossy_round(300, kbps(2_000), 0.2);
    assert_eq!(rig.bbr.state(), "Drain");
    assert_eq!(rig.bbr.bandwidth.max(), kbps(2_000));
    assert_eq!(rig.bbr.min_rtt.value, Some(millis(100)));
}

#[test]
fn losses_without_a_queue_or_a_queue_without_losses_are_no_overflow() {
    for (rtt_millis, lost_share) in [(110, 0.3), (300, 0.03)] {
        let mut rig = Rig::in_probe_bw(&live::PROFILE, kbps(3_000));
        rig.bbr.signal.restart(u64::MAX);
        for _ in 0..2 {
            rig.lossy_round(rtt_millis, kbps(2_000), lost_share);
        }
        assert_eq!(rig.bbr.bandwidth.max(), kbps(3_000), "{rtt_millis} ms");
    }
}

#[test]
fn an_answer_that_does_not_help_is_not_repeated_for_long() {
    fn answers(rig: &mut Rig, rounds: usize) -> usize {
        let mut count = 0;
        for _ in 0..rounds {
            rig.bbr.enter_probe_bw(rig.now);
            rig.bbr.signal.restart(u64::MAX);
            rig.lossy_round(300, kbps(2_000), 0.2);
            count += usize::from(rig.bbr.state() == "Drain");
        }
        count
    }

    let mut rig = Rig::in_probe_bw(&live::PROFILE, kbps(3_000));
    // The path has become longer and loses packets by itself.
    assert_eq!(answers(&mut rig, 40), 1);
    assert_eq!(answers(&mut rig, 10), 1);
}

#[test]
fn an_answer_that_helps_may_be_followed_by_another() {
    let mut rig = Rig::in_probe_bw(&live::PROFILE, kbps(3_000));
    for _ in 0..2 {
        rig.bbr.signal.restart(u64::MAX);
        rig.lossy_round(300, kbps(2_000), 0.4);
    }
    assert_eq!(rig.bbr.bandwidth.max(), kbps(2_000));
    for _ in 0..4 {
        rig.lossy_round(300, kbps(1_500), 0.1);
    }
    assert_eq!(rig.bbr.bandwidth.max(), kbps(2_000));
    rig.lossy_round(300, kbps(1_500), 0.1);
    assert_eq!(rig.bbr.bandwidth.max(), kbps(1_500));
}

#[test]
fn drain_lowers_the_estimate_only_at_lower_delivery() {
    for (sent, expected) in [(kbps(1_500), kbps(3_000)), (kbps(2_000), kbps(1_500))] {
        let mut rig = Rig::in_probe_bw(&live::PROFILE, kbps(3_000));
        rig.bbr.mode = Mode::Drain;
        // A queue has been taken for the path.
        rig.bbr.min_rtt.replace(millis(110), rig.now);
        for _ in 0..2 {
            // More than the bandwidth-delay product stays in flight.
            rig.send(60);
            // The newest packet that is acknowledged ends the round.
            let count = rig.flying.len() - 59;
            let newest = &mut rig.flying[count - 1];
            newest.delivery.first_sent_at = newest.sent_at.saturating_sub(millis(100));
            newest.delivery.sent_bytes = sent.bytes_in(millis(100));
            rig.lost_bytes += u64::from(PACKET_BYTES);
            rig.now += millis(300);
            rig.ack(count, 300, kbps(1_500), false);
            assert_eq!(rig.bbr.state(), "Drain");
        }
        assert_eq!(rig.bbr.bandwidth.max(), expected);
        assert_eq!(rig.bbr.min_rtt.value, Some(millis(100)));
    }
}

#[test]
fn the_published_forms_do_not_answer_to_loss() {
    for profile in [&text::PROFILE, &v5::PROFILE] {
        let mut rig = Rig::in_probe_bw(profile, kbps(3_000));
        for _ in 0..2 {
            rig.lossy_round(300, kbps(2_000), 0.5);
        }
        assert_eq!(rig.bbr.bandwidth.max(), kbps(3_000));
    }
}

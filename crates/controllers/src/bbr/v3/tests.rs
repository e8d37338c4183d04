//! The draft's example test cases (its appendix), and one test per rule that they leave out. For
//! test cases that need a path see `v3/paths.rs`.

use anabranch_core::recovery::{DeliverySnapshot, PacketContent};
use anabranch_units::Seed;

use super::*;
use crate::testing::{self, Report, SILENCE};

mod probe_rtt;

const PACKET: u64 = 1_000;
const RTT: Duration = Duration::from_millis(100);
/// Bandwidth of 100 packets per round trip.
const BANDWIDTH: DataRate = DataRate::from_megabits_per_second(8);

type Rig = testing::Rig<Bbr3>;

impl Rig {
    fn start() -> Self {
        let config = ControllerConfig {
            max_packet_bytes: PACKET as u32,
            seed: Seed(7),
            ..ControllerConfig::default()
        };
        Rig::new(Bbr3::new(&config), PACKET as u32)
    }

    /// Acknowledges packets at 8 Mbit/s, and declares older ones lost.
    fn hear_of(&mut self, lost: usize, acked: usize) {
        self.hear_at(lost, acked, Some(BANDWIDTH));
    }

    fn hear_at(&mut self, lost: usize, acked: usize, rate: Option<DataRate>) {
        let is_app_limited = self.is_app_limited;
        self.report(Report {
            lost,
            acked,
            rate,
            is_app_limited,
            has_window_left: true,
            ..Report::default()
        });
    }

    /// Sends `packets` and acknowledges them together a round trip later: a sample of `packets` per
    /// round trip.
    fn go_round(&mut self, packets: usize) {
        self.send(packets);
        self.now += RTT;
        self.hear_at(0, packets, None);
    }

    /// Returns a rig in this state, by rounds of 100 packets.
    fn until(state: &str) -> Self {
        let mut rig = Rig::start();
        for _ in 0..200 {
            rig.go_round(100);
            if rig.controller.state() == state {
                return rig;
            }
        }
        panic!("never in {state}");
    }

    /// Leaves Startup with 250 packets in flight.
    fn in_drain() -> Self {
        let mut rig = Rig::start();
        for packets in [50, 100, 100, 100] {
            rig.go_round(packets);
        }
        rig.send(350);
        rig.now += RTT;
        rig.hear_of(0, 100);
        assert_eq!(rig.controller.state(), "Drain");
        rig
    }

    fn pacing(&self) -> f64 {
        let rate = self.controller.control().pacing_rate.unwrap();
        rate.megabits_per_second() / self.controller.bw.megabits_per_second()
    }

    fn packets(&self) -> u64 {
        self.controller.control().congestion_window.unwrap() / PACKET
    }

    fn inflight(&self) -> u64 {
        self.controller.inflight(self.controller.bw, 1.0)
    }
}

fn is_about(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 0.005
}

#[test]
fn exiting_startup_on_bandwidth_plateau_takes_three_rounds() {
    let mut rig = Rig::start();
    for packets in [10, 20, 40, 80, 101, 102, 103] {
        rig.go_round(packets);
        assert_eq!(rig.controller.state(), "Startup", "{packets}");
        assert!(rig.pacing() >= 2.77 * 0.98);
    }
    assert_eq!(rig.controller.full_bw.count, 2);
    rig.send(250);
    rig.now += RTT;
    rig.hear_of(0, 104);
    assert!(rig.controller.full_bw.is_now && rig.controller.full_bw.is_reached);
    assert_eq!(rig.controller.state(), "Drain");
    assert!(is_about(rig.pacing(), 0.5 * 0.99), "{}", rig.pacing());
}

/// Loses `ranges` in a round, which a packet closes that left after the first.
fn lose_in_a_round(rig: &mut Rig, ranges: usize) {
    rig.send(100);
    rig.now += RTT;
    rig.hear_of(1, 5);
    rig.send(100);
    for _ in 1..ranges {
        rig.hear_of(1, 5);
    }
    let old = rig.flying.len() - 100;
    rig.hear_of(0, old);
    rig.now += RTT;
    rig.hear_of(0, 1);
}

#[test]
fn exiting_startup_on_loss_when_application_limited_needs_six_ranges_and_2_percent() {
    for (ranges, has_left) in [(9, true), (5, false)] {
        let mut rig = Rig::start();
        rig.is_app_limited = true;
        rig.go_round(100);
        lose_in_a_round(&mut rig, ranges);
        assert_eq!(rig.controller.full_bw.is_reached, has_left, "{ranges}");
        assert_eq!(rig.controller.state() == "Startup", !has_left);
        if has_left {
            let bounds = rig.controller.bdp.max(rig.controller.inflight_latest);
            assert!(rig.controller.inflight_longterm <= bounds.max(200 * PACKET));
        }
    }
}

#[test]
fn exiting_drain_based_on_inflight() {
    let mut rig = Rig::in_drain();
    while rig.bytes_in_flight() > rig.inflight() {
        assert_eq!(rig.controller.state(), "Drain");
        rig.hear_of(0, 1);
    }
    assert!(rig.controller.is_in_probe_bw());
}

#[test]
fn exiting_drain_based_on_time() {
    let mut rig = Rig::in_drain();
    loop {
        rig.send(100);
        rig.now += RTT;
        rig.hear_of(0, 100);
        assert!(rig.bytes_in_flight() > rig.inflight());
        if rig.controller.round_count > rig.controller.drain_start_round + 3 {
            return assert!(rig.controller.is_in_probe_bw());
        }
        assert_eq!(rig.controller.state(), "Drain");
    }
}

#[test]
fn exiting_probe_up_on_bandwidth_plateau() {
    let mut rig = Rig::until("ProbeBW_UP");
    assert!(is_about(rig.pacing(), 1.25 * 0.99));
    assert_eq!(rig.controller.cwnd_gain(), 2.25);
    for count in 1..=2 {
        rig.go_round(102);
        assert_eq!(
            (rig.controller.state(), rig.controller.full_bw.count),
            ("ProbeBW_UP", count)
        );
    }
    rig.go_round(103);
    assert_eq!(rig.controller.state(), "ProbeBW_DOWN");
    assert!(!rig.controller.is_prev_probe_too_high);
}

#[test]
fn exiting_probe_up_on_loss_when_application_limited() {
    for is_app_limited in [true, false] {
        let mut rig = Rig::until("ProbeBW_UP");
        rig.is_app_limited = is_app_limited;
        rig.send(210);
        rig.now += RTT;
        rig.hear_of(0, 100);
        rig.hear_of(2, 1);
        assert_eq!(rig.controller.state(), "ProbeBW_UP", "2 of 101");
        rig.hear_of(1, 1);
        assert_eq!(rig.controller.state(), "ProbeBW_DOWN", "3 of 104");
        assert!(rig.controller.is_prev_probe_too_high);
        // The losses bound the packets in flight, unless the sender is application-limited.
        assert_eq!(
            rig.controller.inflight_longterm == UNBOUNDED,
            is_app_limited
        );
    }
}

#[test]
fn never_exiting_probe_up_or_startup_when_application_limited_with_no_loss() {
    let mut startup = Rig::start();
    startup.go_round(10);
    let up = Rig::until("ProbeBW_UP");
    for (mut rig, state) in [(startup, "Startup"), (up, "ProbeBW_UP")] {
        rig.is_app_limited = true;
        for _ in 0..30 {
            rig.go_round(20);
            assert_eq!(rig.controller.state(), state);
        }
    }
}

#[test]
fn exiting_probe_down_on_inflight_below_the_product_and_the_headroom() {
    let mut rig = Rig::until("ProbeBW_UP");
    rig.go_round(102);
    rig.go_round(102);
    rig.send(203);
    rig.now += RTT;
    rig.hear_of(0, 80);
    assert_eq!(rig.controller.state(), "ProbeBW_DOWN");
    assert!(is_about(rig.pacing(), 0.9 * 0.99));
    while rig.bytes_in_flight() > rig.inflight() {
        assert_eq!(rig.controller.state(), "ProbeBW_DOWN");
        rig.hear_of(0, 1);
    }
    assert_eq!(rig.controller.state(), "ProbeBW_CRUISE");
    assert!(is_about(rig.pacing(), 0.99));
    rig.controller.inflight_longterm = 80 * PACKET;
    for (packets, is_time) in [(68, true), (69, false)] {
        rig.controller.bytes_in_flight = packets * PACKET;
        assert_eq!(rig.controller.is_time_to_cruise(), is_time);
    }
}

#[test]
fn headroom_is_15_percent_a_packet_at_least_and_leaves_four() {
    let mut rig = Rig::start();
    assert_eq!(rig.controller.inflight_with_headroom(), UNBOUNDED);
    for (longterm, expected) in [(100, 85_000), (5, 4_000), (6, 5_000)] {
        rig.controller.inflight_longterm = longterm * PACKET;
        assert_eq!(rig.controller.inflight_with_headroom(), expected);
    }
}

#[test]
fn exiting_probe_down_after_max_time() {
    let mut rig = Rig::until("ProbeBW_UP");
    rig.go_round(102);
    rig.go_round(102);
    rig.send(303);
    rig.now += RTT;
    rig.hear_of(0, 103);
    let started_at = rig.now;
    let mut states = vec![rig.controller.state()];
    while *states.last().unwrap() == "ProbeBW_DOWN" {
        rig.send(90);
        rig.now += RTT;
        // The least round-trip time stays young.
        rig.controller.probe_rtt.min_delay_at = rig.now;
        rig.hear_of(0, 90);
        states.push(rig.controller.state());
    }
    assert_eq!(*states.last().unwrap(), "ProbeBW_REFILL");
    let waited = rig.now - started_at;
    assert!((2.0..=3.2).contains(&waited.as_secs_f64()), "{waited}");
}

#[test]
fn the_next_probe_is_as_early_as_reno_s_loss_and_at_most_63_rounds_off() {
    let mut rig = Rig::until("ProbeBW_CRUISE");
    let now = rig.controller.cycle_at;
    for (bdp_packets, rounds, is_time) in [(20, 19, false), (20, 20, true), (500, 63, true)] {
        rig.controller.bdp = bdp_packets * PACKET;
        rig.controller.cwnd = 1_000 * PACKET;
        rig.controller.rounds_since_probe_up = rounds;
        let is_now = rig.controller.is_time_to_probe(now);
        assert_eq!(is_now, is_time, "{bdp_packets}, {rounds}");
    }
}

#[test]
fn refill_lasts_a_round_and_forgets_the_short_term() {
    let mut rig = Rig::until("ProbeBW_CRUISE");
    rig.controller.bw_shortterm = BANDWIDTH.mul_f64(0.5);
    rig.controller.inflight_shortterm = 50 * PACKET;
    rig.controller.start_probe_bw_refill();
    assert_eq!(rig.controller.bw_shortterm, DataRate::MAX);
    assert_eq!(rig.controller.inflight_shortterm, UNBOUNDED);
    rig.go_round(100);
    assert_eq!(rig.controller.state(), "ProbeBW_UP");
    assert!(rig.controller.is_bw_probe_sample);
}

#[test]
fn handling_loss_during_probe_up_after_inflight_longterm_is_set() {
    let mut rig = Rig::until("ProbeBW_UP");
    rig.controller.inflight_longterm = 500 * PACKET;
    rig.send(210);
    rig.now += RTT;
    rig.hear_of(0, 100);
    rig.controller.inflight_longterm = 500 * PACKET;
    rig.hear_of(5, 1);
    assert_eq!(rig.controller.state(), "ProbeBW_DOWN");
    // The third of 103 crossed 2 %.
    let longterm = rig.controller.inflight_longterm;
    assert!((102_000..=102_100).contains(&longterm), "{longterm}");
    assert!(!rig.controller.is_bw_probe_sample, "once per probe");
    let reduced = (0.7 * rig.controller.target_inflight() as f64) as u64;
    rig.controller.on_inflight_too_high(rig.now, PACKET, false);
    assert_eq!(rig.controller.inflight_longterm, reduced);
}

#[test]
fn inflight_at_loss_is_where_losses_crossed_the_threshold() {
    let packet = SentPacket {
        packet_number: 9,
        sent_at: Instant::ZERO,
        bytes: 10_000,
        bytes_in_flight: 110_000,
        delivery: DeliverySnapshot::default(),
        content: PacketContent::Padding,
    };
    // (0.02 × 100000 - 0) / 0.98 = 2040.8 more bytes could have been lost.
    assert_eq!(model::inflight_at_loss(&packet, 10_000), 102_040);
    assert_eq!(model::inflight_at_loss(&packet, 11_000), 101_020);
}

#[test]
fn precautionary_probing_stops_at_the_bound_and_goes_on_if_it_was_safe() {
    let mut rig = Rig::until("ProbeBW_UP");
    rig.controller.is_prev_probe_too_high = true;
    rig.controller.inflight_longterm = 120 * PACKET;
    rig.send(220);
    rig.now += RTT;
    rig.hear_of(0, 99);
    assert!(rig.controller.inflight_longterm >= 120 * PACKET);
    rig.controller.inflight_longterm = 110 * PACKET;
    rig.controller.state = State::ProbeBwUp;
    rig.controller.is_prev_probe_too_high = true;
    let (now, sample) = (rig.now, any_sample());
    rig.controller.update_probe_bw_cycle_phase(now, &sample);
    assert_eq!(rig.controller.state(), "ProbeBW_DOWN");
    assert!(rig.controller.is_prev_probe_precautionary);
    rig.hear_of(0, 121);
    rig.go_round(50);
    assert_eq!(
        rig.controller.state(),
        "ProbeBW_REFILL",
        "no loss came of it"
    );
}

fn any_sample() -> Sample {
    Sample {
        delivery_rate: BANDWIDTH,
        delivered: 100 * PACKET,
        prior_delivered: 0,
        newly_acked: PACKET,
        lost: 0,
        tx_in_flight: 100 * PACKET,
        is_app_limited: false,
        rtt: Some(RTT),
    }
}

#[test]
fn inflight_longterm_grows_by_twice_as_much_each_round_of_probing() {
    let mut rig = Rig::until("ProbeBW_UP");
    let bbr = &mut rig.controller;
    (bbr.cwnd, bbr.inflight_longterm) = (64 * PACKET, 64 * PACKET);
    bbr.is_cwnd_limited = [true, false];
    bbr.bw_probe_up_rounds = 0;
    bbr.raise_inflight_longterm_slope();
    let mut growth = Vec::new();
    for _ in 0..4 {
        let before = bbr.inflight_longterm;
        for count in 0..64 {
            bbr.is_round_start = count == 63;
            bbr.cwnd = bbr.inflight_longterm;
            let sample = Sample {
                tx_in_flight: 0,
                ..any_sample()
            };
            bbr.adapt_long_term_model(&sample);
            bbr.ack_phase = AckPhase::ProbeFeedback;
        }
        growth.push((bbr.inflight_longterm - before) / PACKET);
    }
    assert_eq!(growth[0], 1);
    assert!(
        growth.windows(2).all(|pair| pair[1] >= 2 * pair[0] - 1),
        "{growth:?}"
    );
}

#[test]
fn losses_outside_probing_cut_rate_and_flight_to_the_latest_or_0_7() {
    let mut rig = Rig::until("ProbeBW_CRUISE");
    rig.controller.cycle_at = Instant::from_secs(1_000);
    let (bw, cwnd) = (rig.controller.max_bw.max(), rig.controller.cwnd);
    lose_in_a_round(&mut rig, 9);
    let bbr = &rig.controller;
    assert!(bbr.bw_shortterm < DataRate::MAX && bbr.bw_shortterm >= bw.mul_f64(0.7));
    assert!(bbr.inflight_shortterm >= (0.7 * cwnd as f64) as u64);
    assert!(bbr.inflight_shortterm < UNBOUNDED && bbr.cwnd <= bbr.inflight_shortterm);
    assert_eq!(bbr.bw, bbr.max_bw.max().min(bbr.bw_shortterm));
}

#[test]
fn handling_spurious_fast_recovery() {
    let mut rig = Rig::until("ProbeBW_UP");
    rig.controller.inflight_longterm = 500 * PACKET;
    rig.send(210);
    rig.now += RTT;
    rig.hear_of(0, 100);
    rig.hear_of(10, 1);
    assert_eq!(rig.controller.state(), "ProbeBW_DOWN");
    assert!(rig.controller.inflight_longterm < 500 * PACKET);
    rig.report(Report {
        spurious: 10,
        ..Report::default()
    });
    assert_eq!(rig.controller.inflight_longterm, 500 * PACKET);
    assert_eq!(rig.controller.state(), "ProbeBW_REFILL", "it probes again");
    assert!(rig.packets() >= 200, "{}", rig.packets());
    assert!(!rig.controller.recovery.is_active());
}

#[test]
fn a_spurious_loss_that_ended_startup_returns_to_it() {
    let mut rig = Rig::start();
    rig.go_round(100);
    rig.controller.recovery.on_lost(1, 1_000);
    rig.controller.save_state_upon_loss();
    rig.controller.undo.state = Some(State::Startup);
    rig.controller.full_bw.is_reached = true;
    rig.controller.state = State::ProbeBwDown;
    rig.send(10);
    rig.now += RTT;
    rig.hear_of(1, 1);
    rig.controller.recovery.on_spurious(1);
    rig.report(Report {
        spurious: 1,
        ..Report::default()
    });
    assert_eq!(rig.controller.state(), "Startup");
    assert!(!rig.controller.full_bw.is_reached);
}

#[test]
fn handling_rto_recovery() {
    let mut rig = Rig::until("ProbeBW_CRUISE");
    let cwnd = rig.controller.cwnd;
    rig.send(6);
    let cause = Timeout::Retransmission {
        count: 1,
        prior_bytes_in_flight: 6 * PACKET,
    };
    rig.controller.on_timeout(rig.now, cause);
    assert_eq!(rig.packets(), 1);
    assert_eq!(rig.controller.prior_cwnd, cwnd);
    rig.send(1);
    rig.now += RTT;
    rig.hear_of(0, 6);
    rig.hear_of(0, 1);
    assert!(rig.controller.cwnd > 100 * PACKET, "{}", rig.packets());
    rig.controller.on_timeout(rig.now, SILENCE);
    assert_eq!(rig.packets(), 1);
}

#[test]
fn handling_application_limited_sending_during_probe_refill() {
    let mut rig = Rig::until("ProbeBW_REFILL");
    let before = rig.controller.max_bw.max();
    rig.is_app_limited = true;
    rig.go_round(10);
    assert_eq!(rig.controller.max_bw.max(), before);
    assert_eq!(rig.controller.state(), "ProbeBW_UP");
    rig.is_app_limited = false;
    for _ in 0..4 {
        rig.go_round(100);
    }
    assert_ne!(rig.controller.state(), "ProbeBW_UP");
}

#[test]
fn max_bw_counts_for_the_cycle_that_runs_and_the_one_before() {
    let mut rig = Rig::until("ProbeBW_CRUISE");
    rig.controller.max_bw.restart(BANDWIDTH.mul_f64(2.0));
    for is_counted in [true, false] {
        rig.controller.max_bw.on_round(None);
        rig.controller.max_bw.push(BANDWIDTH);
        let is_double = rig.controller.max_bw.max() > BANDWIDTH;
        assert_eq!(is_double, is_counted);
    }
}

#[test]
fn the_send_quantum_is_a_millisecond_two_packets_at_least_64_kb_at_most() {
    for (mbps, expected) in [(8, 2_000), (80, 10_000), (8_000, 65_536)] {
        let rate = DataRate::from_megabits_per_second(mbps);
        assert_eq!(send_quantum(rate, PACKET), expected);
    }
    let mut rig = Rig::start();
    let rate = DataRate::from_megabits_per_second(80);
    rig.controller.pacing_rate = rate;
    rig.controller.has_seen_rtt = true;
    rig.go_round(10);
    assert_eq!(rig.controller.control().burst_bytes, 10_000);
}

#[test]
fn the_window_is_bounded_by_the_long_term_with_headroom_when_cruising() {
    for (state, expected) in [
        (State::ProbeBwCruise, 85),
        (State::ProbeRtt, 85),
        (State::ProbeBwDown, 100),
        (State::ProbeBwUp, 100),
        (State::ProbeBwRefill, 100),
        (State::Drain, 300),
        (State::Startup, 300),
    ] {
        let mut rig = Rig::start();
        rig.controller.state = state;
        rig.controller.inflight_longterm = 100 * PACKET;
        rig.controller.cwnd = 300 * PACKET;
        rig.controller.bound_cwnd_for_model();
        assert_eq!(rig.packets(), expected, "{state:?}");
        rig.controller.inflight_shortterm = 2 * PACKET;
        rig.controller.bound_cwnd_for_model();
        assert_eq!(rig.packets(), 4, "four packets at least");
    }
}

//! One test per rule, and the behaviour of the controller on the beds.

use anabranch_units::options::AlgorithmOptions;

use super::super::testing::{
    CAPACITY, Link, Measures, SILENCE, Source, bed_config, jain, run_flows, ten_megabits,
};
use super::*;

const GREEDY: Source = Source::Greedy;
const VIDEO: Source = Source::Video { max: DataRate::MAX };
/// A packet of 1,250 bytes at 1 Mbit/s takes 10 ms.
const PACKET_BYTES: u16 = 1_250;
const MEGABIT: f64 = 1e6;

/// Returns a controller with a capacity of 1 Mbit/s and a round trip of 100 ms.
fn poise(options: &str) -> Poise {
    let mut poise = Poise::new(&ControllerConfig {
        options: AlgorithmOptions::parse(options, OPTIONS).unwrap(),
        max_packet_bytes: PACKET_BYTES.into(),
        max_rate: DataRate::from_megabits_per_second(100),
        ..ControllerConfig::default()
    });
    poise.phase = Phase::Steady;
    poise.capacity = MEGABIT;
    poise.rate = MEGABIT;
    poise
}

/// Shows the controller a bare path, and then a queue that grows by `growth` in the last 100 ms.
fn with_queue(mut poise: Poise, queue_millis: f64, growth: f64) -> Poise {
    for millis in (0..2_000).step_by(10) {
        let remaining = (1_950 - millis as i64).clamp(0, 100) as f64;
        let queue = if millis < 1_000 {
            0.0
        } else {
            queue_millis - growth * remaining
        };
        let now = Instant::from_millis(millis);
        poise.queue.on_packet(now, 50.0 + queue);
        poise.queue.measure(now, Duration::ZERO);
    }
    poise
}

fn rates(sent: f64, arrived: f64) -> Option<Rates> {
    Some(Rates { sent, arrived })
}

fn near(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-6, "{found}, {expected}");
}

#[test]
fn rule_1_the_queue_has_packets_of_each_flow_and_half_the_jitter() {
    let mut poise = poise("");
    near(poise.target_millis(), 2.0 + 7.5);
    poise.jitter = Duration::from_millis(20);
    near(poise.target_millis(), 2.0 + 7.5 + 10.0);
    poise.capacity = 4.0 * MEGABIT;
    near(poise.target_millis(), 2.0 + 1.875 + 10.0);
}

#[test]
fn rule_2_the_excess_drains_within_a_fifth_of_a_second() {
    near(with_queue(poise(""), 49.5, 0.0).gain(), 1.0 - 40.0 / 200.0);
    // The growth of the next 150 ms counts.
    let growing = with_queue(poise(""), 49.5, 0.2).gain();
    near(growing, 1.0 - (40.0 + 0.2 * 150.0) / 200.0);
    near(with_queue(poise("ahead=0"), 49.5, 0.2).gain(), 0.8);
    near(with_queue(poise(""), 500.0, 0.0).gain(), LEAST_GAIN);
    let mut far = with_queue(poise(""), 49.5, 0.0);
    far.round_trip = Duration::from_millis(400);
    near(far.gain(), 0.9);
}

#[test]
fn rule_3_arrivals_bound_the_capacity_on_one_side() {
    for (sent, arrived, rounds, expected) in [
        // The queue grows: from above, within a round trip, or at once.
        (1.1 * MEGABIT, 0.95 * MEGABIT, 0.5, 0.975 * MEGABIT),
        (1.1 * MEGABIT, 0.6 * MEGABIT, 0.1, 0.6 * MEGABIT),
        (1.1 * MEGABIT, 1.05 * MEGABIT, 1.0, MEGABIT),
        // It shrinks: from below, and a burst of others counts little.
        (0.5 * MEGABIT, 0.6 * MEGABIT, 1.0, MEGABIT),
        (0.9 * MEGABIT, 1.5 * MEGABIT, 1.0, 1.02 * MEGABIT),
    ] {
        let mut poise = poise("");
        poise.follow(rounds, rates(sent, arrived));
        near(poise.capacity, expected);
    }
    let mut unbound = poise("bounds=off");
    unbound.follow(1.0, rates(0.5 * MEGABIT, 0.6 * MEGABIT));
    near(unbound.capacity, 0.6 * MEGABIT);
}

#[test]
fn rule_3_jitter_explains_a_part_of_a_fall() {
    let mut poise = poise("");
    poise.jitter = Duration::from_millis(50);
    // 50 ms of 300 explain a sixth: the capacity has fallen below 0.73.
    poise.follow(0.1, rates(MEGABIT, 0.8 * MEGABIT));
    near(poise.capacity, 0.98 * MEGABIT);
}

#[test]
fn rule_4_growth_by_packets_then_by_shares() {
    let mut poise = with_queue(poise(""), 4.75, 0.0);
    poise.grow(1.0, rates(MEGABIT, MEGABIT));
    // Half of q* is left: half of 0.4 packets in a round trip of 100 ms.
    near(poise.capacity, MEGABIT + 0.5 * 0.4 * 1e4 / 0.1);

    let mut empty = with_queue(self::poise(""), 0.0, 0.0);
    let mut growths = Vec::new();
    for _ in 0..8 {
        let before = empty.capacity;
        empty.grow(1.0, rates(empty.rate, empty.rate));
        growths.push(empty.capacity / before - 1.0);
    }
    assert!(
        growths[..3].iter().all(|&growth| growth < 0.041),
        "{growths:?}"
    );
    near(growths[3], 0.12);
    near(growths[4], 0.24);
    near(growths[7], MOST_GROWTH);
}

#[test]
fn rule_4_a_dozen_round_trips_without_a_standing_queue_are_calm() {
    for (options, is_fast) in [("", true), ("calm=1000", false)] {
        let mut poise = with_queue(poise(options), 4.75, 0.0);
        for _ in 0..14 {
            poise.capacity = MEGABIT;
            poise.grow(1.0, rates(MEGABIT, MEGABIT));
        }
        assert_eq!(poise.capacity > 1.1 * MEGABIT, is_fast, "{options}");
    }
}

#[test]
fn rule_4_an_unused_rate_does_not_grow() {
    let mut poise = with_queue(poise(""), 0.0, 0.0);
    for _ in 0..20 {
        poise.grow(1.0, rates(0.79 * MEGABIT, 0.79 * MEGABIT));
    }
    near(poise.capacity, MEGABIT);
    assert!(!poise.is_probing());
}

#[test]
fn rule_5_heavy_losses_and_marks() {
    for (arrived, expected) in [(0.7 * MEGABIT, 0.7), (0.2 * MEGABIT, 0.5)] {
        let mut poise = poise("");
        poise.answer_losses(Instant::from_secs(1), None);
        poise.losses.on_report(17, 3);
        poise.answer_losses(Instant::from_millis(1_500), rates(MEGABIT, arrived));
        near(poise.capacity, expected * MEGABIT);
    }
    let mut poise = poise("");
    poise.answer_marks(Instant::from_secs(1));
    poise.marks.on_report(10, 8);
    poise.answer_marks(Instant::from_millis(1_100));
    near(poise.capacity, MEGABIT * (1.0 - 0.8 / 16.0 / 2.0));
}

#[test]
fn rule_6_a_base_that_was_hidden_for_ten_seconds_is_looked_at() {
    let mut poise = with_queue(poise(""), 30.0, 0.0);
    poise.look_at_base(Instant::from_millis(10_900));
    assert_eq!(poise.state(), "Steady");
    poise.look_at_base(Instant::from_millis(11_100));
    let until = Instant::from_millis(11_100 + 2 * 100 + 30);
    assert_eq!(poise.phase, Phase::Drain(until));
    near(poise.gain(), DRAIN_GAIN);
}

#[test]
fn rule_8_the_encoder_gets_its_share() {
    let control = poise("").control();
    assert_eq!(control.target_rate.bits_per_second(), 920_000);
    assert_eq!(control.pacing_rate.unwrap().bits_per_second(), 1_000_000);
    // Windows are of a round trip, and of 100 ms by which reports may be late.
    assert_eq!(control.congestion_window, Some(25_000));
}

#[test]
fn rule_9_grows_by_a_half_each_round_trip_until_the_first_excess() {
    let mut poise = poise("");
    poise.phase = Phase::Startup;
    poise.start(1.0, rates(MEGABIT, MEGABIT));
    near(poise.capacity, 1.5 * MEGABIT);
    poise.start(1.0, rates(0.5 * MEGABIT, 0.5 * MEGABIT));
    near(poise.capacity, 1.5 * MEGABIT);
    near(
        poise.control().pacing_rate.unwrap().bits_per_second() as f64,
        2.0 * MEGABIT,
    );
    assert_eq!(poise.control().congestion_window, None);
    poise.end_startup(rates(1.8 * MEGABIT, 1.2 * MEGABIT));
    near(poise.capacity, 1.2 * MEGABIT);
    assert_eq!(poise.phase, Phase::Steady);
}

#[test]
fn rule_9_a_source_that_does_not_follow_is_carried_from_the_start() {
    let mut poise = poise("");
    poise.on_source_rate(DataRate::from_megabits_per_second(4));
    near(poise.capacity, MEGABIT);
    poise.phase = Phase::Startup;
    poise.on_source_rate(DataRate::from_megabits_per_second(4));
    near(poise.capacity, 4.0 * MEGABIT / 0.92);
}

#[test]
fn silence_halves_the_capacity_and_forgets_the_path() {
    let mut poise = with_queue(poise(""), 30.0, 0.0);
    poise.on_timeout(Instant::from_secs(3), SILENCE);
    near(poise.capacity, MEGABIT / 2.0);
    assert_eq!(poise.phase, Phase::Startup);
    assert_eq!(poise.queue.millis(), 0.0);
    poise.on_timeout(Instant::from_secs(4), Timeout::Own);
    near(poise.capacity, MEGABIT / 2.0);
}

#[test]
fn marks_are_asked_for_if_the_path_may_carry_them() {
    assert_eq!(poise("").control().ecn, Ecn::NotEct);
    let config = ControllerConfig {
        is_ecn_capable: true,
        ..ControllerConfig::default()
    };
    assert_eq!(Poise::new(&config).control().ecn, Ecn::Ect1);
}

#[test]
fn property_a_link_is_full_and_its_queue_short() {
    for source in [GREEDY, VIDEO] {
        let run = run_flows(
            ten_megabits(100),
            &bed_config(1),
            &[("poise", source, 0)],
            60,
        );
        let measures = Measures::of(&run[0], 10, 60);
        // Media have 0.92 of it.
        assert!(measures.utilisation > 0.9, "{source:?}: {measures:?}");
        assert!(measures.queue_millis < 10.0, "{source:?}: {measures:?}");
        assert_eq!(measures.loss_ratio, 0.0, "{source:?}: {measures:?}");
    }
}

#[test]
fn property_nine_tenths_of_the_share_within_two_seconds() {
    let run = run_flows(ten_megabits(100), &bed_config(1), &[("poise", VIDEO, 0)], 4);
    let rate = run[0].rate_between(2, 3);
    assert!(rate > CAPACITY.mul_f64(0.9 * 0.92), "{rate}");
    let loss_ratio = Measures::of(&run[0], 0, 4).loss_ratio;
    assert!(loss_ratio < 0.01, "{loss_ratio}");
}

#[test]
fn property_flows_share_whenever_they_start() {
    for seconds in [0, 10, 30] {
        let flows = [("poise", VIDEO, 0), ("poise", VIDEO, seconds)];
        let run = run_flows(ten_megabits(100), &bed_config(2), &flows, 150);
        let shares = [0, 1].map(|flow| Measures::of(&run[flow], 90, 150).utilisation);
        assert!(jain(&shares) > 0.95, "{seconds}: {shares:?}");
        assert!(shares[0] + shares[1] > 0.88, "{seconds}: {shares:?}");
    }
}

#[test]
fn property_a_halving_costs_no_packet() {
    let halved = DataRate::from_megabits_per_second(5);
    let link = ten_megabits(200)
        .then(Instant::from_secs(20), halved)
        .then(Instant::from_secs(40), CAPACITY);
    let run = run_flows(link, &bed_config(3), &[("poise", VIDEO, 0)], 60);
    assert_eq!(Measures::of(&run[0], 0, 60).loss_ratio, 0.0);
    let delay = run[0].one_way_delay_between(22, 40).as_millis_f64();
    assert!(delay < 25.0 + 1.6 + 10.0, "{delay}");
    assert!(run[0].rate_between(22, 40) > halved.mul_f64(0.85));
    assert!(run[0].rate_between(43, 60) > CAPACITY.mul_f64(0.85));
}

#[test]
fn rule_10_packets_of_growth_and_one_answer_for_losses_of_a_round_trip() {
    let at = Instant::from_secs;
    let mut poise = with_queue(poise(""), 100.0, 0.0);
    poise.round_trip = Duration::from_millis(200);
    poise.phase = Phase::Compete(at(8));
    poise.stood_at = at(1);
    poise.compete(at(1), at(8), 0.5, rates(MEGABIT, MEGABIT));
    // Half of a packet in 200 ms.
    near(poise.capacity, MEGABIT + 0.5 * 1e4 / 0.2);
    poise.compete(at(1), at(8), 0.5, rates(0.5 * MEGABIT, 0.5 * MEGABIT));
    near(poise.capacity, MEGABIT + 0.5 * 1e4 / 0.2);
    near(poise.gain(), 1.0);
    poise.capacity = MEGABIT;
    for millis in [2_000, 2_199, 2_200] {
        poise.answer_loss_of_round(Instant::from_millis(millis));
    }
    near(poise.capacity, 0.49 * MEGABIT);
}

#[test]
fn rule_10_a_test_ends_it_if_the_queue_drains() {
    let at = Instant::from_secs;
    for (left_millis, expected) in [(29.0, Phase::Steady), (31.0, Phase::Compete(at(11)))] {
        let mut poise = with_queue(poise(""), 100.0, 0.0);
        poise.stood_at = at(2);
        poise.compete(at(2), at(1), 0.1, rates(MEGABIT, MEGABIT));
        let until = at(2) + poise.round_trip + Duration::from_millis(200);
        let test = Phase::Test {
            until,
            queue_millis: 100.0,
        };
        assert_eq!(poise.phase, test);
        near(poise.gain(), TEST_GAIN);
        let mut after = with_queue(poise, left_millis, 0.0);
        after.test(at(3), until, 100.0);
        assert_eq!(after.phase, expected, "{left_millis}");
    }
}

#[test]
fn rule_10_four_seconds_without_a_queue_end_it() {
    let mut poise = poise("");
    poise.phase = Phase::Compete(Instant::from_secs(8));
    poise.compete(
        Instant::from_millis(4_001),
        Instant::from_secs(8),
        0.1,
        None,
    );
    assert_eq!(poise.phase, Phase::Steady);
}

/// In one and four products of queue.
#[test]
fn property_a_share_beside_reno_and_cubic() {
    for (queue_millis, rival, least) in [
        (50, "new-reno", 0.3),
        (50, "cubic", 0.3),
        (200, "new-reno", 0.3),
        (200, "cubic", 0.2),
    ] {
        let link: Link = ten_megabits(queue_millis);
        let flows = [("poise", VIDEO, 0), (rival, GREEDY, 10)];
        let run = run_flows(link, &bed_config(4), &flows, 120);
        let share = Measures::of(&run[0], 60, 120).utilisation;
        assert!(
            (least..0.7).contains(&share),
            "{rival}, {queue_millis} ms: {share}"
        );
    }
}

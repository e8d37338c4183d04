//! Behaviour of the family's members on a path: the test beds, and Zhang & Lei's nine links.

use anabranch_core::control::{CongestionController, ControllerConfig};
use anabranch_core::recovery::LossDetection;
use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::scenarios::{CASES, measure, paper_config, paper_link};
use crate::testing::build;
use crate::testing::{Bed, Link, Outcome, PACKET_BYTES, Source, jain};

/// Capacity of the test beds.
const CAPACITY: f64 = 10.0;

pub(super) fn secs(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}

/// Returns a link of 10 Mbit/s, with a round trip of 50 ms and a queue of `queue_bdps`
/// bandwidth-delay products.
pub(super) fn bed_link(queue_bdps: f64) -> Link {
    let rate = DataRate::from_megabits_per_second(10);
    let queue = Duration::from_millis(50).mul_f64(queue_bdps);
    Link::new(rate, Duration::from_millis(25), queue)
}

pub(super) fn controller(name: &str, seed: u64) -> Box<dyn CongestionController> {
    let config = ControllerConfig {
        max_packet_bytes: PACKET_BYTES,
        seed: Seed(seed),
        ..ControllerConfig::default()
    };
    build(name, &config).unwrap()
}

/// Runs greedy flows, each from its second on.
pub(super) fn greedy(bed: Bed, names: &[(&str, u64)], until: u64, seed: u64) -> Bed {
    let flows = names.iter().zip(0..);
    flows.fold(bed, |bed, (&(name, from), index)| {
        let controller = controller(name, 10 * seed + index);
        let loss = LossDetection::PerPacket;
        bed.flow(controller, Source::Greedy, loss, secs(from), secs(until))
    })
}

pub(super) fn utilisation(flows: &[Outcome], from: usize, to: usize) -> f64 {
    let rates = flows.iter().map(|flow| flow.rate_between(from, to));
    rates.map(DataRate::megabits_per_second).sum::<f64>() / CAPACITY
}

pub(super) fn loss_ratio(flow: &Outcome, from: usize, to: usize) -> f64 {
    let delivered = flow.delivered_between(from, to) / u64::from(PACKET_BYTES);
    let dropped = flow.dropped_between(from, to);
    dropped as f64 / (delivered + dropped).max(1) as f64
}

/// Returns the mean time in the queue.
pub(super) fn queueing_millis(flow: &Outcome, from: usize, to: usize) -> f64 {
    let in_service = 8.0 * f64::from(PACKET_BYTES) / (1_000.0 * CAPACITY);
    flow.one_way_delay_between(from, to).as_millis_f64() - 25.0 - in_service
}

/// Runs Zhang & Lei §5.1: three flows that start at 0, 40 and 80 s, with the receivers' schedules
/// of the controllers.
fn three_flows(name: &str, case: usize, seed: u64) -> Vec<Outcome> {
    let mut bed = Bed::new(paper_link(case));
    for flow in 0..3 {
        let controller = build(name, &paper_config(3 * seed + flow)).unwrap();
        let loss = LossDetection::GapImmediate;
        bed = bed.flow(controller, Source::Greedy, loss, secs(40 * flow), secs(300));
    }
    bed.run(secs(300))
}

#[test]
fn quic_fills_a_path_without_losses_once_started() {
    for (queue_bdps, seed) in [(1.0, 1), (1.0, 2), (5.0, 1)] {
        let flows =
            greedy(Bed::new(bed_link(queue_bdps)), &[("bbr-quic", 0)], 60, seed).run(secs(60));
        let used = utilisation(&flows, 20, 60);
        assert!(used >= 0.95, "{queue_bdps}, seed {seed}: {used}");
        assert_eq!(flows[0].dropped_between(20, 60), 0);
        let queue = queueing_millis(&flows[0], 20, 60);
        assert!(queue < 5.0, "drained again and again: {queue} ms");
    }
}

#[test]
fn quic_reaches_the_capacity_in_log2_of_the_product_rounds_and_four() {
    let flows = greedy(
        Bed::new(bed_link(1.0)),
        &[("bbr-quic:initial-window=4", 0)],
        2,
        1,
    );
    let flow = &flows.run(secs(2))[0];
    // log2(62.5 kB / 5.84 kB) + 4 < 8 rounds of 50 ms.
    let reached = flow.delivered_bytes[4..6].iter().sum::<u64>() as f64;
    assert!(reached >= 0.95 * 250_000.0, "{reached} B in 0.2 s");
}

#[test]
fn quic_does_not_mind_random_loss() {
    for (loss_ratio, least) in [(0.01, 0.9), (0.05, 0.8)] {
        for seed in 1..=2 {
            let bed = Bed::new(bed_link(1.0)).random_loss(loss_ratio, Seed(seed));
            let flows = greedy(bed, &[("bbr-quic", 0)], 60, seed).run(secs(60));
            let used = utilisation(&flows, 20, 60);
            assert!(used >= least, "{loss_ratio}, seed {seed}: {used}");
        }
    }
}

#[test]
fn quic_two_flows_share_a_deep_queue_and_keep_it_at_a_product() {
    for seed in 1..=2 {
        let bed = Bed::new(bed_link(5.0));
        let flows = greedy(bed, &[("bbr-quic", 0), ("bbr-quic", 10)], 120, seed).run(secs(120));
        let queue = queueing_millis(&flows[0], 60, 120);
        assert!(queue <= 1.1 * 50.0, "seed {seed}: {queue} ms");
        let shares = flows
            .iter()
            .map(|flow| flow.delivered_between(60, 120) as f64);
        let jain = jain(&shares.collect::<Vec<_>>());
        assert!(jain >= 0.95, "seed {seed}: {jain}");
    }
}

#[test]
fn quic_probes_the_round_trip_time_every_ten_seconds() {
    let bed = greedy(
        Bed::new(bed_link(1.0)),
        &[("bbr-quic", 0), ("bbr-quic", 1)],
        60,
        1,
    );
    let mut entries = Vec::new();
    let mut state = "";
    bed.run_observed(secs(60), |now, flow, controller| {
        if flow == 0 && controller.state() == "PROBE_RTT" && state != "PROBE_RTT" {
            entries.push(now);
        }
        if flow == 0 {
            state = controller.state();
        }
    });
    assert!((4..=6).contains(&entries.len()), "{entries:?}");
    for pair in entries.windows(2) {
        let gap = (pair[1] - pair[0]).as_secs_f64();
        assert!((10.0..11.5).contains(&gap), "{entries:?}");
    }
}

/// Expected, of a simulation made for comparison whose seeds and reports are not known: one-way
/// delay 272 to 297 ms, utilisation 0.97, losses 1 to 2 % and mostly at the starts, Jain 0.95 to
/// 0.997, variation 0.14 to 0.16. Here: 290 to 318 ms, 0.967 to 0.971, 0.2 to 4.7 %, 0.94 to 0.993,
/// 0.134 to 0.19. Once all have started, the delay is 303 to 310 ms whatever the queue, and half of
/// the round trip and a product are 300. The excess, and all but a twentieth of the losses, come
/// from three starts with windows of 2.885 products.
#[test]
fn quic_zhang_lei_three_flows_fill_a_product_of_queue_and_swing() {
    for case in 1..=9 {
        let flows = three_flows("bbr-quic", case, 1);
        let run = measure(CASES[case - 1].0, &flows);
        let delay = run.one_way_delay_millis;
        assert!((285.0..=322.0).contains(&delay), "case {case}: {run:?}");
        assert!(run.utilisation >= 0.965, "case {case}: {run:?}");
        assert!(run.jain >= 0.93, "case {case}: {run:?}");
        assert!(run.loss_ratio <= 0.05, "case {case}: {run:?}");
        assert!(
            (0.13..=0.2).contains(&run.variation),
            "case {case}: {run:?}"
        );
        let delays = flows
            .iter()
            .map(|flow| flow.one_way_delay_between(100, 300));
        let later = delays.map(Duration::as_millis_f64).sum::<f64>() / 3.0;
        assert!((300.0..=312.0).contains(&later), "case {case}: {later}");
        let [all, late] = [0, 100].map(|from| {
            let dropped = flows.iter().map(|flow| flow.dropped_between(from, 300));
            dropped.sum::<u64>()
        });
        assert!(late * 20 <= all, "case {case}: {late} of {all}");
    }
}

#[test]
fn webrtc_zhang_lei_three_flows_fill_the_queue_lose_and_starve_one_another() {
    for name in ["bbr-webrtc", "bbr-webrtc:enforce-cwnd=on"] {
        for case in [1, 4, 7] {
            let run = measure(CASES[case - 1].0, &three_flows(name, case, 1));
            // Table 2 has 355 to 370 ms, and 10 to 12 %.
            let delay = run.one_way_delay_millis;
            assert!((330.0..=390.0).contains(&delay), "{name}, {case}: {run:?}");
            assert!(run.loss_ratio >= 0.04, "{name}, {case}: {run:?}");
            assert!(run.jain < 0.9, "{name}, {case}: {run:?}");
        }
    }
}

#[test]
fn linux_fills_a_path_shares_it_and_does_not_mind_random_loss() {
    for name in ["bbr-linux", "bbr-linux-4.9"] {
        let alone = greedy(Bed::new(bed_link(1.0)), &[(name, 0)], 60, 1).run(secs(60));
        let used = utilisation(&alone, 20, 60);
        assert!(used >= 0.95, "{name}: {used}");
        assert_eq!(alone[0].dropped_between(20, 60), 0);
        let bed = Bed::new(bed_link(5.0));
        let flows = greedy(bed, &[(name, 0), (name, 10)], 120, 1).run(secs(120));
        let shares = flows
            .iter()
            .map(|flow| flow.delivered_between(60, 120) as f64);
        let jain = jain(&shares.collect::<Vec<_>>());
        assert!(jain >= 0.95, "{name}: {jain}");
        // A product, the segments of two flows (12 packets, 10 ms) and, today, bursts.
        let queue = queueing_millis(&flows[0], 60, 120);
        assert!(queue <= 1.3 * 50.0, "{name}: {queue} ms");
        for (loss_ratio, least) in [(0.01, 0.9), (0.05, 0.8)] {
            let bed = Bed::new(bed_link(1.0)).random_loss(loss_ratio, Seed(1));
            let flows = greedy(bed, &[(name, 0)], 60, 1).run(secs(60));
            let used = utilisation(&flows, 20, 60);
            assert!(used >= least, "{name}, {loss_ratio}: {used}");
        }
    }
}

#[test]
fn linux_behind_a_token_bucket_policer_loses_less_than_5_percent_after_two_intervals() {
    let rate = DataRate::from_megabits_per_second(5);
    for (name, seed) in [("bbr-linux", 1), ("bbr-linux", 2), ("bbr-linux-4.9", 1)] {
        let bed = Bed::new(bed_link(1.0)).policer(rate, 20_000);
        let flows = greedy(bed, &[(name, 0)], 60, seed).run(secs(60));
        let lost = loss_ratio(&flows[0], 2, 60);
        assert!(lost < 0.05, "{name}, seed {seed}: {lost}");
        let used = utilisation(&flows, 2, 60);
        assert!(used > 0.47, "{name}, seed {seed}: {used} of 0.5");
    }
}

/// Runs a flow while the delay grows by 60 ms in every second half of the period. The packets are
/// 1030/1500 of Kondo et al.'s, and so is the rate. Returns the utilisation, and the 90th
/// percentile of the window in packets.
fn over_a_delay_wave(name: &str, base_millis: u64, period_secs: u64) -> (f64, u64) {
    let rate = DataRate::from_megabits_per_second(3).mul_f64(1_030.0 / 1_500.0);
    // With 4 ms for a packet to be transmitted.
    let link = Link::new(
        rate,
        Duration::from_millis((base_millis - 4) / 2),
        Duration::from_millis(100),
    );
    let wave = (Duration::from_millis(60), Duration::from_secs(period_secs));
    let bed = greedy(
        Bed::new(link).delay_wave(wave.0, wave.1),
        &[(name, 0)],
        180,
        1,
    );
    let mut windows = Vec::new();
    let flows = bed.run_observed(secs(180), |now, _, controller| {
        if now > secs(30) {
            let window = controller.control().congestion_window;
            windows.extend(window.map(|bytes| bytes / u64::from(PACKET_BYTES)));
        }
    });
    windows.sort_unstable();
    let delivered = flows[0].rate_between(30, 180).megabits_per_second();
    let share = delivered / rate.megabits_per_second();
    (share, windows[windows.len() * 9 / 10])
}

#[test]
fn linux_window_sticks_to_the_low_delay_of_a_wave_no_longer_than_its_filter() {
    let (used, window) = over_a_delay_wave("bbr-linux-4.9", 20, 10);
    assert!(
        (13..=16).contains(&window),
        "two products and six: {window}"
    );
    assert!(used < 0.85, "{used}");
    for (base_millis, period_secs) in [(20, 20), (20, 60), (40, 10)] {
        let (used, window) = over_a_delay_wave("bbr-linux-4.9", base_millis, period_secs);
        assert!(
            used > 0.92 && window >= 24,
            "{period_secs} s: {used}, {window}"
        );
    }
    // Room for acknowledgements in bursts is room for the delay too.
    let (today, _) = over_a_delay_wave("bbr-linux", 20, 10);
    assert!(today > used + 0.05, "{today} and {used}");
}

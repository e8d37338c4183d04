use std::slice;

use anabranch_core::recovery::LossDetection;
use anabranch_units::Seed;

use super::super::testing::{
    self, Bed, Link, Outcome, PACKET_BYTES, Report, SILENCE, Source, jain,
};
use super::*;
use crate::testing::build;

const SEGMENT: u32 = 1_000;
const RTT: Duration = Duration::from_millis(100);

type Rig = testing::Rig<Arc>;

impl Rig {
    /// Returns a rig after a first report, 100 ms after the first packet.
    fn start() -> Self {
        let config = ControllerConfig {
            max_packet_bytes: SEGMENT,
            min_rate: DataRate::from_bits_per_second(1),
            ..Default::default()
        };
        let mut rig = Rig::new(Arc::new(&config), SEGMENT);
        rig.send(1);
        rig.ack_all_after(RTT);
        rig
    }

    /// Returns the same with this much bandwidth in use and a window as large.
    fn using(bandwidth: f64, window: f64) -> Self {
        let mut rig = Rig::start();
        rig.controller.used_bandwidth.filtered = bandwidth;
        rig.controller.used_bandwidth.sample = bandwidth;
        rig.controller.window = window;
        rig
    }

    /// Reports the oldest packets as lost, the next oldest as arrived with this round-trip time.
    fn feed(&mut self, lost: usize, acked: usize, rtt: Duration) {
        self.report(Report {
            lost,
            acked,
            rtt: Some(rtt),
            ..Report::default()
        });
    }
}

fn assert_near(value: f64, expected: f64) {
    let error = (value - expected).abs();
    assert!(
        error <= 1e-6 * expected.abs().max(1.0),
        "{value} is not {expected}"
    );
}

#[test]
fn eq_1_the_rate_is_what_window_less_backlog_and_outstanding_gives() {
    let mut rig = Rig::using(50.0, 200.0);
    rig.now += RTT;
    rig.send(10);
    let rtt = Duration::from_millis(180);
    rig.now += Duration::from_millis(10);
    // The smoothed round trip becomes 110 ms: all ten packets are still outstanding.
    rig.feed(0, 1, rtt);
    let arc = &rig.controller;
    let backlog = arc.used_bandwidth.filtered * 0.08;
    assert_near(arc.backlog(), backlog);
    assert_near(arc.outstanding(), 10.0);
    assert_near(arc.rate, 0.5 * (arc.window - backlog - 10.0));
    rig.send(1);
    rig.now += RTT * 2;
    rig.controller.update_rate(rig.now);
    assert_near(rig.controller.outstanding(), 0.0);
}

#[test]
fn eq_1_without_room_a_packet_leaves_per_round_trip() {
    let mut rig = Rig::using(50.0, 1.0);
    rig.send(5);
    rig.now += Duration::from_millis(50);
    rig.feed(0, 1, RTT);
    assert_near(rig.controller.rate, 10.0);
    let two_a_second = DataRate::from_bits_per_second(2 * 8 * u64::from(SEGMENT));
    let config = ControllerConfig {
        max_packet_bytes: SEGMENT,
        min_rate: DataRate::from_bits_per_second(1),
        ..Default::default()
    };
    let before = Arc::new(&config).control().pacing_rate;
    assert_eq!(before, Some(two_a_second), "before any report");
}

#[test]
fn eq_2_a_loss_sets_the_window_that_leaves_no_queue() {
    let mut rig = Rig::using(50.0, 500.0);
    rig.send(9);
    rig.now += Duration::from_millis(10);
    rig.feed(1, 1, RTT);
    assert_near(rig.controller.window, 50.0 * (0.1 + 2.0));
    assert_eq!(rig.controller.state(), "Loss");
    rig.controller.window = 20.0;
    rig.feed(1, 1, RTT);
    assert_near(rig.controller.window, 105.0);
    rig.controller.window = 20.0;
    rig.controller.is_clamped_down = true;
    rig.feed(1, 1, RTT);
    assert_near(rig.controller.window, 20.0);
}

/// B (mRTT + 1/k), with the least round trip of 100 ms while packets wait for 80: a window with the
/// latest one would keep that queue.
#[test]
fn eq_2_takes_the_least_round_trip_though_there_is_a_queue() {
    let mut rig = Rig::using(50.0, 500.0);
    rig.send(2);
    rig.now += Duration::from_millis(10);
    rig.feed(1, 1, RTT + Duration::from_millis(80));
    assert_near(rig.controller.backlog(), 50.0 * 0.08);
    assert_near(rig.controller.window, 50.0 * (0.1 + 2.0));
    rig.controller.window = 500.0;
    rig.controller.on_timeout(rig.now, SILENCE);
    assert_near(rig.controller.window, 105.0);
}

#[test]
fn eq_3_the_window_grows_by_a_packet_every_300_ms_below_the_threshold() {
    fn window_after(
        backlog_millis: u64,
        is_used: bool,
        rig: &mut testing::Rig<Arc>,
    ) -> (f64, &str) {
        let before = rig.controller.window;
        for _ in 0..3 {
            rig.send(if is_used { 2 } else { 0 });
            rig.now += RTT;
            rig.send(1);
            let rtt = RTT + Duration::from_millis(backlog_millis);
            let count = rig.flying.len();
            rig.feed(0, count, rtt);
        }
        // The used bandwidth has changed with the arrivals.
        rig.controller.used_bandwidth.filtered = 50.0;
        rig.controller.used_bandwidth.sample = 50.0;
        (rig.controller.window - before, rig.controller.state())
    }

    let mut rig = Rig::using(50.0, 20.0);
    let (grown, state) = window_after(0, true, &mut rig);
    assert_near(grown, 1.0);
    assert_eq!(state, "Increase");
    let (grown, state) = window_after(400, true, &mut rig);
    assert_near(grown, 0.0);
    assert_eq!(state, "Constant", "20 packets of backlog");
    // A source that sends a tenth of its allowance.
    let mut rest = Rig::using(50.0, 400.0);
    rest.controller.update_rate(rest.now);
    rest.now += RTT;
    rest.send(1);
    rest.now += RTT;
    rest.feed(0, 1, RTT);
    assert_near(rest.controller.window, 400.0);
}

#[test]
fn section_3_1_3_two_round_trips_of_silence_set_the_window_by_eq_2() {
    let mut rig = Rig::using(50.0, 500.0);
    rig.send(1);
    let at = rig.controller.next_timeout().unwrap();
    assert_eq!(at, rig.now + RTT * 2);
    rig.now = at;
    rig.controller.on_timeout(at, Timeout::Own);
    assert_near(rig.controller.window, 105.0);
    assert_eq!(rig.controller.state(), "Timeout");
    assert_eq!(rig.controller.next_timeout(), Some(at + RTT * 2));
}

#[test]
fn silence_with_nothing_in_flight_is_no_timeout() {
    let mut rig = Rig::using(50.0, 500.0);
    let at = rig.controller.next_timeout().unwrap();
    rig.controller.on_timeout(at, Timeout::Own);
    assert_near(rig.controller.window, 500.0);
    rig.controller.on_timeout(at, SILENCE);
    assert_near(rig.controller.window, 105.0);
}

#[test]
fn section_3_2_the_receiver_reports_every_round_trip_and_at_once_on_a_hole() {
    let config = ControllerConfig::default();
    assert_eq!(
        Arc::new(&config).feedback_schedule(),
        FeedbackSchedule::EVERY_PACKET
    );
    let schedule = Rig::start().controller.feedback_schedule();
    assert_eq!(schedule.interval, Some(RTT));
    assert_eq!(schedule.on_hole, Some(HoleReports::AT_ONCE));
}

#[test]
fn section_3_2_a_sample_is_the_data_of_a_round_trip() {
    let mut used = UsedBandwidth::default();
    let at = Instant::from_millis;
    used.on_report(at(0), RTT, 1_000.0);
    for report in 1..=4 {
        used.on_received(5_000);
        used.on_report(at(25 * report), RTT, 1_000.0);
        let expected = if report == 4 { 200.0 } else { 0.0 };
        assert_near(used.sample, expected);
    }
    // (2 τ − T) 0 + T (200 + 0) over 2 τ + T.
    assert_near(used.filtered, 0.1 * 200.0 / 1.1);
}

#[test]
fn the_bilinear_filter_passes_a_step_with_its_time_constant() {
    let mut used = UsedBandwidth::default();
    for _ in 0..50 {
        used.filter(100.0, 0.01);
    }
    let expected = 100.0 * (1.0 - libm::exp(-1.0));
    assert!(
        (used.filtered / expected - 1.0).abs() < 0.01,
        "{}",
        used.filtered
    );
    used.filter(0.0, 3.0);
    assert!((0.0..2.0).contains(&used.filtered), "{}", used.filtered);
}

/// Eq. 1 in fluid form: the flow alone, a fixed window of eq. 2, feedback after `RTT`.
#[test]
fn fig_1_the_window_of_eq_2_brings_the_rate_to_the_bandwidth_and_the_queue_to_zero() {
    let (bandwidth, gain, rtt, step) = (100.0, 0.5, 0.25, 0.001);
    let window = bandwidth * (rtt + 1.0 / gain);
    let mut rates: VecDeque<f64> = vec![0.0; 250].into();
    let mut queue = 50.0_f64;
    for _ in 0..30_000 {
        let outstanding: f64 = rates.iter().sum::<f64>() * step;
        let rate = gain * (window - queue - outstanding).max(0.0);
        assert!(outstanding <= window);
        rates.push_back(rate);
        let arriving = rates.pop_front().unwrap();
        queue = (queue + (arriving - bandwidth) * step).max(0.0);
    }
    let rate = *rates.back().unwrap();
    assert!(
        (rate - bandwidth).abs() < 0.1 && queue < 0.1,
        "{rate}, {queue}"
    );
}

fn arc(seed: u64) -> Box<dyn CongestionController> {
    let config = ControllerConfig {
        max_packet_bytes: PACKET_BYTES,
        min_rate: DataRate::from_bits_per_second(1),
        seed: Seed(seed),
        ..ControllerConfig::default()
    };
    build("arc", &config).unwrap()
}

const MBPS: fn(u64) -> DataRate = DataRate::from_megabits_per_second;

/// Runs the ten flows of §4.1.1, with round-trip times of 25 to 250 ms over 10 Mbit/s, less 5
/// Mbit/s that a UDP source takes until 200 s and from 400 s on.
fn ten_flows() -> Vec<Outcome> {
    let mut link = Link::new(MBPS(5), Duration::from_millis(5), Duration::ZERO)
        .then(Instant::from_secs(200), MBPS(10))
        .then(Instant::from_secs(400), MBPS(5));
    link.queue_bytes = MBPS(10).bytes_in(Duration::from_millis(250));
    let mut bed = Bed::new(link);
    for flow in 1..=10 {
        let (from, to) = (Instant::from_millis(170 * flow), Instant::from_secs(500));
        let extra = Duration::from_micros(12_500 * flow - 5_000);
        bed = bed
            .flow(
                arc(flow),
                Source::Greedy,
                LossDetection::PerPacket,
                from,
                to,
            )
            .extra_delay(extra);
    }
    bed.run(Instant::from_secs(500))
}

fn sum_between(flows: &[Outcome], from: usize, to: usize) -> f64 {
    let rates = flows.iter().map(|flow| flow.rate_between(from, to));
    rates.map(DataRate::megabits_per_second).sum()
}

/// Returns standard deviation over mean of rates of a second each.
fn cov(flows: &[Outcome], from: usize, to: usize) -> f64 {
    let rates: Vec<f64> = (from..to)
        .map(|second| sum_between(flows, second, second + 1))
        .collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let variance = rates
        .iter()
        .map(|rate| (rate - mean) * (rate - mean))
        .sum::<f64>();
    (variance / rates.len() as f64).sqrt() / mean
}

#[test]
fn section_4_1_1_ten_flows_share_evenly_and_follow_the_free_capacity() {
    let flows = ten_flows();
    for (until, least) in [(60, 0.965), (100, 0.98), (200, 0.996)] {
        let shares: Vec<f64> = flows
            .iter()
            .map(|flow| flow.delivered_between(0, until) as f64)
            .collect();
        let jain = jain(&shares);
        assert!(jain >= least, "{jain} at {until} s");
    }
    // Down at once, up within 40 s.
    for (from, to, capacity) in [(100, 200, 5.0), (240, 400, 10.0), (405, 500, 5.0)] {
        let sum = sum_between(&flows, from, to);
        assert!((sum / capacity - 1.0).abs() < 0.01, "{from}: {sum}");
        let cov = cov(&flows, from, to);
        assert!(cov < 0.005, "{from}: {cov}");
        let each = flows
            .iter()
            .map(|flow| self::cov(slice::from_ref(flow), from, to));
        let mean = each.sum::<f64>() / 10.0;
        assert!(mean < 0.02, "{from}: {mean}");
        let dropped: u64 = flows
            .iter()
            .map(|flow| flow.dropped_between(from, to))
            .sum();
        assert_eq!(dropped, 0, "{from}");
    }
    // Ten packets of each flow wait, and one is in service.
    let queuing = flows[0].one_way_delay_between(300, 400) - Duration::from_micros(12_500);
    let queued = MBPS(10).bytes_in(queuing) / u64::from(PACKET_BYTES);
    assert!((100..=122).contains(&queued), "{queued}");
}

fn alone(name: &str, link: Link, loss_ratio: f64, seconds: u64) -> Outcome {
    let config = ControllerConfig {
        max_packet_bytes: PACKET_BYTES,
        min_rate: DataRate::from_bits_per_second(1),
        ..ControllerConfig::default()
    };
    let (from, to) = (Instant::ZERO, Instant::from_secs(seconds));
    let controller = build(name, &config).unwrap();
    Bed::new(link)
        .random_loss(loss_ratio, Seed(1))
        .flow(
            controller,
            Source::Greedy,
            LossDetection::PerPacket,
            from,
            to,
        )
        .run(to)
        .remove(0)
}

#[test]
fn section_3_1_2_the_rate_grows_by_k_over_alpha_1_plus_k_rtt() {
    fn packets(second: usize, flow: &Outcome) -> f64 {
        flow.delivered_between(second, second + 10) as f64 / f64::from(10 * PACKET_BYTES)
    }

    let link = Link::new(
        MBPS(10),
        Duration::from_millis(125),
        Duration::from_millis(250),
    );
    let flow = alone("arc", link, 0.0, 60);
    let slope = (packets(50, &flow) - packets(20, &flow)) / 30.0;
    assert!((slope / 1.48 - 1.0).abs() < 0.05, "{slope}");
}

/// Eq. 2 gives up the share p of the rate for every packet lost, so the rate settles near
/// 1.2/p packets/s: RTT/√p times Reno's. The paper's factor of 14 is that of ten hops full of Reno.
#[test]
fn section_4_2_random_loss_costs_arc_less_than_reno_on_long_paths() {
    for (loss_ratio, least) in [(0.005, 1.8), (0.01, 1.6), (0.02, 1.4)] {
        let (delay, queue) = (Duration::from_millis(125), Duration::from_millis(250));
        let [arc, reno] = ["arc", "new-reno"].map(|name| {
            let flow = alone(name, Link::new(MBPS(2), delay, queue), loss_ratio, 300);
            flow.rate_between(100, 300).megabits_per_second()
        });
        assert!(arc > least * reno, "{loss_ratio}: {arc}, {reno}");
    }
}

/// The purpose of eq. 1: if the flow is paced by its rate and gets one report per round trip, its
/// outstanding packets never exceed its window.
#[test]
fn section_2_outstanding_packets_fit_the_window() {
    let mut rig = Rig::using(50.0, 300.0);
    for round in 0..400 {
        let (start, rate) = (rig.now, rig.controller.rate);
        rig.controller.window *= if round % 40 == 39 { 0.95 } else { 1.0 };
        let window = rig.controller.window;
        let count = (rate * RTT.as_secs_f64()) as u64;
        for packet in 0..count {
            rig.now = start + RTT * packet / count.max(1);
            rig.send(1);
        }
        rig.now = start + RTT;
        rig.controller.update_rate(rig.now);
        let outstanding = rig.controller.outstanding();
        assert!(
            outstanding <= window,
            "round {round}: {outstanding}, {window}"
        );
        let arrived = rig.flying.len() - count as usize;
        rig.feed(0, arrived, RTT);
    }
    assert!(rig.controller.rate > 60.0, "{}", rig.controller.rate);
}

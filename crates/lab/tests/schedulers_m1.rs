//! Schedulers through whole simulated sessions over two paths of equal rates and unequal delays.

use anabranch_lab::metrics::{Distribution, FlowStatistics, FragmentStatistics, PathStatistics};
use anabranch_lab::{RunOptions, Scenario, run};

/// Round-trip times of 20 and 100 ms, queues of one bandwidth-delay product, and pacers just slow
/// enough to leave these empty: round-trip times are constant.
const BED: &str = r#"
duration = "20 s"
statistics = { from = "10 s" }
[links.near]
rate = "10 Mbit/s"
delay = "10 ms"
queue = "20 ms"
[links.far]
rate = "10 Mbit/s"
delay = "50 ms"
queue = "100 ms"
[links.near-return]
delay = "10 ms"
[links.far-return]
delay = "50 ms"
[routes.near]
forward = ["near"]
reverse = ["near-return"]
[routes.far]
forward = ["far"]
reverse = ["far-return"]
[[flows]]
name = "camera"
controller = "fixed"
fixed-rate = "9500 kbit/s"
paths = ["near", "far"]
"#;
const PACED: f64 = 9.5e6;
const WINDOW_SECONDS: f64 = 10.0;
/// Size and transmission time of a full packet, of 1316 bytes of media and 42 of headers.
const PACKET_BYTES: f64 = 1358.0;
const PACKET_MS: f64 = PACKET_BYTES * 8e3 / PACED;
const DELAYS_MS: [f64; 2] = [10.0, 50.0];

/// Runs a camera of `rate` Mbit/s and `fps` frames per second over the paths of [`BED`].
fn camera(scheduler: &str, rate: u64, fps: u64, settings: &[&str]) -> FlowStatistics {
    let scheduler = format!("flows.0.scheduler={scheduler}");
    let source =
        format!("flows.0.source={{ kind = \"cbr\", rate = \"{rate} Mbit/s\", fps = {fps} }}");
    let settings: Vec<String> = settings
        .iter()
        .map(|text| (*text).to_owned())
        .chain([scheduler, source])
        .collect();
    let scenario =
        Scenario::parse("test.toml", BED, &settings).unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::seeds(1), &|_| ()).unwrap();
    report.runs[0].statistics.flows[0].clone()
}

fn fragments(flow: &FlowStatistics) -> FragmentStatistics {
    flow.fragments.expect("it is media")
}

fn out_of_order(flow: &FlowStatistics) -> f64 {
    fragments(flow).out_of_order_ratio.expect("there are some")
}

fn far_share(flow: &FlowStatistics) -> f64 {
    flow.paths[1].media_ratio.expect("it is media")
}

fn delay(flow: &FlowStatistics) -> Distribution {
    flow.frames.delay_ms.expect("frames have arrived")
}

#[track_caller]
fn assert_near(measured: f64, expected: f64, tolerance: f64) {
    let is_near = (measured - expected).abs() <= tolerance;
    assert!(is_near, "{measured}, expected {expected} ± {tolerance}");
}

#[test]
fn daps_brings_at_least_98_percent_in_order() {
    // A frame per horizon, which needs both paths.
    for rate in [10, 12, 14] {
        let daps = camera("daps", rate, 10, &[]);
        assert!(out_of_order(&daps) <= 0.02, "{}", out_of_order(&daps));
        assert!(far_share(&daps) > 0.3, "{}", far_share(&daps));
        let round_robin = out_of_order(&camera("round-robin", rate, 10, &[]));
        assert!(round_robin > 0.4, "{round_robin}");
    }
}

// While the near path is busy without a pause, its pacer is ahead of the list by a packet or two
// (packets turn out a little smaller than planned), so that neighbours on the two paths change
// places. The receiver holds about a packet for them.
#[test]
fn daps_without_pauses_parts_neighbours_by_no_more_than_a_packet() {
    fn gap(scheduler: &str, rate: u64, fps: u64) -> f64 {
        let flow = camera(scheduler, rate, fps, &[]);
        fragments(&flow).gap_mean_ms.expect("there are frames")
    }

    for (rate, fps) in [(12, 25), (16, 25), (18, 25), (12, 60)] {
        let (daps, round_robin) = (gap("daps", rate, fps), gap("round-robin", rate, fps));
        assert!(daps <= 1.2 * PACKET_MS, "{daps} ms");
        // The difference of the delays.
        assert_near(round_robin, 40.0, 1.0);
    }
}

#[test]
fn daps_has_rate_times_horizon_packets_of_the_near_path_in_each_and_the_rest_of_the_far() {
    fn packets(path: usize, horizons: f64, paths: &[PathStatistics]) -> f64 {
        paths[path].traffic.packets_delivered as f64 / horizons
    }

    // The least common multiple of 20 and 100 ms.
    let horizons = WINDOW_SECONDS / 0.1;
    let places = PACED * 0.1 / 8.0 / PACKET_BYTES;
    for (rate, frame_packets) in [(12, 46.0), (16, 61.0), (18, 69.0)] {
        let flow = camera("daps", rate, 25, &[]);
        // The last packet of each frame is a short one.
        assert_near(packets(0, horizons, &flow.paths), places, 0.01 * places);
        let all = frame_packets * 25.0 * WINDOW_SECONDS / horizons;
        assert_near(
            packets(1, horizons, &flow.paths),
            all - packets(0, horizons, &flow.paths),
            0.1,
        );
    }
}

#[test]
fn stms_finds_the_gap_that_the_one_way_delays_ask_for_within_20_round_trips() {
    let warm = "statistics={ from = \"2 s\" }";
    // The parts of the round trip of 100 ms make no difference.
    for there in [50, 80, 30] {
        let far = format!("links.far.delay={there} ms");
        let back = format!("links.far-return.delay={} ms", 100 - there);
        let flow = camera("stms", 10, 10, &[warm, &far, &back]);
        // As long as more than the gap waits both paths send alike: the far one sends half of a
        // frame's packets beyond the gap. Here everything is in packets.
        let frame = 95.0;
        let gap = frame * (1.0 - 2.0 * far_share(&flow));
        let expected = (there as f64 - DELAYS_MS[0]) / PACKET_MS;
        assert_near(gap, expected, 0.2 * expected);
    }
}

#[test]
fn stms_has_no_gap_over_equal_paths() {
    let settings = ["links.far.delay=10 ms", "links.far-return.delay=10 ms"];
    let flow = camera("stms", 10, 10, &settings);
    assert_near(far_share(&flow), 0.5, 0.01);
    // 48 of 95 packets.
    assert_near(delay(&flow).mean, DELAYS_MS[0] + 48.0 * PACKET_MS, 0.5);
}

// minRTT is none of the media's schedulers; the comparison is with one that fills both paths as
// they have room.
#[test]
fn stms_brings_more_in_order_and_frames_earlier_than_filling_both_paths() {
    for rate in [10, 12, 14] {
        let stms = camera("stms", rate, 10, &[]);
        let round_robin = camera("round-robin", rate, 10, &[]);
        assert!(2.0 * out_of_order(&stms) <= out_of_order(&round_robin));
        assert!(delay(&stms).mean + 10.0 <= delay(&round_robin).mean);
    }
}

/// Returns the arrival of a frame of `bytes` on the wire if both paths finish together.
fn common_finish_ms(bytes: f64) -> f64 {
    (bytes * 8e3 / PACED + DELAYS_MS.iter().sum::<f64>()) / 2.0
}

#[test]
fn dems_finishes_a_chunk_of_a_megabyte_on_both_paths_within_a_round_trip_of_the_nearer() {
    let flow = camera("dems", 8, 1, &[]);
    let finish = common_finish_ms(760.0 * PACKET_BYTES);
    // Of equal paths one is late by the time by which the other is early.
    let late = delay(&flow).max - finish;
    assert!(late <= 20.0 / 2.0, "{late} ms");
    let shares = [1.0 - far_share(&flow), far_share(&flow)];
    let expected = (finish - DELAYS_MS[0]) / (finish - DELAYS_MS[1]);
    assert_near(shares[0] / shares[1], expected, 0.05 * expected);
    // Turns keep both paths busy equally long, so the far one is late by the difference.
    // That leaves too little of half a second to begin with.
    let turns = camera("round-robin", 8, 1, &["flows.0.deadline=1 s"]);
    let turns = delay(&turns).max - finish;
    assert_near(turns, 40.0 / 2.0, 2.0);
}

#[test]
fn wrr_frames_take_the_slowest_path_delay() {
    fn delays(scheduler: &str, far_ms: u64) -> f64 {
        let far = format!("links.far.delay={far_ms} ms");
        delay(&camera(scheduler, 1, 25, &[&far])).mean
    }
    // Two of a frame's four packets: one waits for the other at the pacer, and is sent.
    let expected = DELAYS_MS[1] + 2.0 * PACKET_MS;
    assert_near(delays("wrr", 50), expected, 0.5);
    assert_near(delays("wrr", 150), expected + 100.0, 0.5);
    // All four on the near path.
    let least = DELAYS_MS[0] + 4.0 * PACKET_MS;
    assert_near(delays("min-cost", 50), least, 0.5);
    assert_near(delays("min-cost", 150), least, 0.5);
}

#[test]
fn oms_splits_by_the_rates_within_2_percent() {
    for rate in [1, 6, 12, 18] {
        assert_near(far_share(&camera("oms", rate, 25, &[])), 0.5, 0.02);
    }
}

#[test]
fn mdp_has_less_mean_frame_delay_than_wrr() {
    fn mean(scheduler: &str, rate: u64, fps: u64) -> f64 {
        delay(&camera(scheduler, rate, fps, &[])).mean
    }

    for (rate, fps) in [(1, 25), (6, 25), (12, 25), (16, 25), (18, 25), (12, 10)] {
        let (mdp, wrr) = (mean("mdp", rate, fps), mean("wrr", rate, fps));
        assert!(mdp < wrr, "{rate} Mbit/s, {fps}/s: {mdp} {wrr}");
    }
}

#[test]
fn redundant_frames_take_the_near_path_delay() {
    for rate in [1, 3, 6] {
        let alone = "flows.0.paths=[\"near\"]";
        let alone = delay(&camera("min-cost", rate, 25, &[alone]));
        let both = delay(&camera("redundant", rate, 25, &[]));
        assert_near(both.mean, alone.mean, 0.1);
        assert_near(both.max, alone.max, 0.1);
    }
}

//! Reinjection of packets that would be late over a path that has slowed down, and rebinding of
//! those behind a queue on a path that others have overtaken.

use anabranch_core::{Config, MediaConfig, SourceLimits};
use anabranch_units::{DataRate, Duration, Instant};

use crate::support::{self, Network, TestPath};

const DEADLINE: Duration = Duration::from_millis(500);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn config(source: SourceLimits, deadline: Duration) -> Config {
    Config {
        media: MediaConfig {
            deadline,
            // The receiver gives up nothing by itself.
            reassembly_wait: deadline * 2,
            source,
            ..MediaConfig::default()
        },
        ..support::usual()
    }
}

fn adaptive() -> Config {
    let source = SourceLimits::Adaptive {
        min: DataRate::from_kilobits_per_second(300),
        max: DataRate::from_megabits_per_second(3),
    };
    config(source, DEADLINE)
}

/// Sends frames of `bytes` bytes, one every `every_millis`.
fn stream(network: &mut Network, until: Instant, bytes: usize, every_millis: u64) {
    while network.now < until {
        network.send(bytes, false);
        network.run_until(network.now + Duration::from_millis(every_millis));
    }
}

/// Returns the longest time without a frame from `from` on.
fn longest_gap(network: &Network, from: Instant) -> Duration {
    let received: Vec<Instant> = network
        .received
        .iter()
        .map(|(at, _)| *at)
        .filter(|at| *at >= from)
        .collect();
    let gaps = received.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap()
}

#[test]
fn packets_on_a_slowing_path_are_copied_in_time() {
    let slow = TestPath {
        queue: Duration::from_secs(10),
        ..TestPath::new(3, 15)
    };
    let mut network = Network::new(adaptive(), vec![slow, TestPath::new(4, 45)]);
    network.stream_until(at(5_000));
    network.paths[0].rate = DataRate::from_kilobits_per_second(200);
    network.stream_until(at(9_000));
    let gap = longest_gap(&network, at(4_900));
    assert!(gap < Duration::from_millis(500), "{gap:?}");
    // The path answers all the while, so it is not silence that shows the congestion.
    let in_time = network
        .frame_delays()
        .iter()
        .filter(|delay| **delay <= DEADLINE)
        .count();
    assert!(in_time >= 223, "{in_time} of 225");
}

#[test]
fn target_falls_to_the_outflow_before_the_estimate() {
    let slow = TestPath {
        queue: Duration::from_secs(10),
        ..TestPath::new(4, 15)
    };
    let mut network = Network::new(adaptive(), vec![slow, TestPath::new(1, 45)]);
    network.stream_until(at(5_000));
    let before = network.sender.target_bitrate();
    network.paths[0].rate = DataRate::from_megabits_per_second(1);
    network.stream_until(at(5_180));
    let estimate = network.sender.paths(at(5_180))[0].bandwidth;
    let target = network.sender.target_bitrate();
    let asked = format!("{before}, then {target}; believed: {estimate}");
    assert!(estimate > DataRate::from_megabits_per_second(3), "{asked}");
    assert!(target < before.mul_f64(0.75), "{asked}");
}

#[test]
fn bloated_path_takes_nothing_from_the_other() {
    let near = TestPath {
        rate: DataRate::from_kilobits_per_second(400),
        queue: Duration::from_secs(3),
        ..TestPath::new(1, 5)
    };
    let mut network = Network::new(adaptive(), vec![near, TestPath::new(4, 50)]);
    network.stream_until(at(2_500));
    let in_flight = network.sender.paths(at(2_500))[0].bytes_in_flight;
    assert!(in_flight > 100_000, "{in_flight} B");
    let target = network.sender.target_bitrate();
    assert!(target > DataRate::from_megabits_per_second(2), "{target}");
}

#[test]
fn recovered_path_takes_withheld_packets_again() {
    // The count depends on the wide path's phase when it narrows: 64 in all, and 228 if packets
    // bound to the thin path meanwhile stay there.
    const MOMENTS: u64 = 24;
    let late: usize = (0..MOMENTS)
        .map(|moment| late_when_narrow_from(at(5_000 + 25 * moment)))
        .sum();
    assert!(late <= 80, "{late} in {MOMENTS} runs");
}

/// Counts late frames of 2.4 Mbit/s over a wide path, which is narrow for 200 ms, and a thin one.
fn late_when_narrow_from(moment: Instant) -> usize {
    let thin = TestPath {
        rate: DataRate::from_kilobits_per_second(600),
        ..TestPath::new(1, 45)
    };
    let wide = TestPath {
        queue: Duration::from_secs(10),
        ..TestPath::new(4, 15)
    };
    let fixed = config(SourceLimits::Fixed, DEADLINE);
    let mut network = Network::new(fixed, vec![wide, thin]);
    stream(&mut network, moment, 12_000, 40);
    network.paths[0].rate = DataRate::from_kilobits_per_second(700);
    stream(
        &mut network,
        moment + Duration::from_millis(200),
        12_000,
        40,
    );
    network.paths[0].rate = DataRate::from_megabits_per_second(4);
    stream(&mut network, moment + Duration::from_secs(3), 12_000, 40);
    network.dropped.len()
}

#[test]
fn no_copies_are_made_while_paths_are_as_they_were() {
    let mut network = Network::new(adaptive(), vec![TestPath::new(3, 15), TestPath::new(4, 45)]);
    network.stream_until(at(10_000));
    for path in network.sender.paths(at(10_000)).to_vec() {
        let counters = network.sender.path_counters(path.id).unwrap();
        assert_eq!(counters.retransmitted_packets, 0, "{}", path.id);
    }
}

#[test]
fn backlog_moves_to_the_path_that_became_faster() {
    // How soon the capacity is found depends on where in their cycles the paths are: a mean of 819
    // arrives, and of 792 if each stays where it was bound.
    const MOMENTS: u64 = 24;
    let arrived: usize = (0..MOMENTS)
        .map(|moment| arrived_when_faster_from(at(6_000 + 25 * moment)))
        .sum();
    let mean = arrived as f64 / MOMENTS as f64;
    assert!(mean >= 805.0, "{mean}");
}

/// Sends 2.7 Mbit/s of media over two paths of 1 Mbit/s, of which one then carries four. Returns
/// the number of arrived frames of the 867 captured since a queue's length before.
fn arrived_when_faster_from(moment: Instant) -> usize {
    let mut network = Network::new(
        config(SourceLimits::Fixed, Duration::from_secs(1)),
        vec![TestPath::new(1, 30), TestPath::new(1, 30)],
    );
    stream(&mut network, moment, 1_000, 3);
    network.paths[0].rate = DataRate::from_megabits_per_second(4);
    stream(&mut network, moment + Duration::from_secs(2), 1_000, 3);
    let queued_since = moment.saturating_sub(Duration::from_millis(600));
    let frames = network.received.iter();
    frames
        .filter(|(_, frame)| frame.captured_at > queued_since)
        .count()
}

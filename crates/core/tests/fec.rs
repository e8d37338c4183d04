//! Forward error correction as the drivers of two endpoints see it.

use anabranch_core::{Config, Laboratory, MediaConfig, PathId, SourceLimits};
use anabranch_fec::repair_weight;
use anabranch_units::{DataRate, Duration, Importance, Instant};

use crate::support::{self, Network, TestPath};

const MBIT: fn(u64) -> DataRate = DataRate::from_megabits_per_second;

fn config(fec: &str, rate: u64) -> Config {
    Config {
        controller: support::controller("fixed"),
        laboratory: Laboratory {
            fixed_rate: MBIT(rate),
            ..Laboratory::default()
        },
        media: MediaConfig {
            fec: support::fec(fec),
            ..MediaConfig::default()
        },
        ..support::usual()
    }
}

/// Sends frames of `bytes` bytes every `every_millis`, every fiftieth a key frame.
fn stream(network: &mut Network, frames: u64, bytes: usize, every_millis: u64) {
    for index in 0..frames {
        network.send(bytes, index % 50 == 0);
        network.run_until(network.now + Duration::from_millis(every_millis));
    }
}

fn assert_intact(network: &Network) {
    for (_, frame) in &network.received {
        let mut bytes = frame.bytes.iter().zip(0_u32..);
        assert!(
            bytes.all(|(&byte, index)| byte == index as u8),
            "{}",
            frame.id
        );
    }
}

#[test]
fn fec_recovered_frames_are_byte_identical() {
    for (bytes, window) in [(9_000, 5), (700, 20), (200, 3)] {
        let path = TestPath {
            loss: 0.05,
            ..TestPath::new(8, 300)
        };
        let fec = format!("fixed:overhead=0.5,window={window}");
        let mut network = Network::new(config(&fec, 6), vec![path]);
        stream(&mut network, 500, bytes, 20);
        network.run_until(network.now + Duration::from_secs(3));
        assert_intact(&network);
        let counters = *network.receiver.counters();
        assert!(counters.recovered_fragments > 10, "{counters:?}");
        let complete = network.received.len();
        assert!(complete >= 495, "{complete} of 500: {counters:?}");
    }
}

#[test]
fn fec_repairs_whose_sources_have_arrived_are_not_sent() {
    // The pacer lets a packet go every 8 ms, and an acknowledgement takes 2 ms.
    let mut config = config("fixed:overhead=1:window=1", 1);
    let every_packet = anabranch_core::recovery::FeedbackSchedule::EVERY_PACKET;
    config.laboratory.feedback = Some(every_packet);
    let mut network = Network::new(config, vec![TestPath::new(8, 0)]);
    stream(&mut network, 10, 1_000, 40);
    network.run_until(network.now + Duration::from_secs(1));
    let sent = network.sender.path_counters(PathId(0)).unwrap();
    // The pacer lets the first two packets go at once.
    assert_eq!((sent.sent_packets, sent.repair_packets), (11, 1));
}

/// A session whose frames come every 40 ms.
struct Trial {
    network: Network,
}

impl Trial {
    fn new(fec: &str, paths: Vec<TestPath>) -> Self {
        let config = config(fec, 6);
        Trial {
            network: Network::new(config, paths),
        }
    }

    fn run(&mut self, seconds: u64, bytes: usize) {
        stream(&mut self.network, seconds * 25, bytes, 40);
    }

    /// Returns the repairs sent per packet of media, on all paths.
    fn overhead(&self) -> f64 {
        let (mut repairs, mut sources) = (0, 0);
        for path in 0..self.network.paths.len() {
            let counters = self
                .network
                .sender
                .path_counters(PathId(path as u8))
                .unwrap();
            repairs += counters.repair_packets;
            sources += counters.sent_packets - counters.repair_packets;
        }
        repairs as f64 / sources as f64
    }

    /// Returns the share of frames captured from `since` on that have not come within 500 ms.
    fn residual(&mut self, since: Instant, count: u64) -> f64 {
        self.network
            .run_until(self.network.now + Duration::from_secs(3));
        assert_intact(&self.network);
        // Completion counts: delivery in order waits for earlier frames, which would hide the
        // losses.
        let in_time = self.network.received.iter().filter(|(_, frame)| {
            let delay = frame.completed_at - frame.captured_at;
            frame.captured_at >= since && delay <= Duration::from_millis(500)
        });
        count.saturating_sub(in_time.count() as u64) as f64 / count as f64
    }
}

fn lossy(loss: f64, delay_millis: u64) -> TestPath {
    TestPath {
        loss,
        ..TestPath::new(8, delay_millis)
    }
}

#[test]
fn fec_after_a_step_to_five_percent_one_frame_in_a_hundred_is_lost() {
    for (fec, bytes) in [
        ("frame", 12_000),
        ("adaptive", 12_000),
        ("adaptive", 1_200),
        ("window", 1_200),
    ] {
        // The round trip is longer than the deadline.
        let mut trial = Trial::new(fec, vec![lossy(0.0, 300)]);
        trial.run(5, bytes);
        assert_eq!(trial.overhead(), 0.0, "{fec}");
        trial.network.paths[0].loss = 0.05;
        trial.run(2, bytes);
        let since = trial.network.now;
        trial.run(24, bytes);
        let (residual, overhead) = (trial.residual(since, 600), trial.overhead());
        assert!(residual <= 0.01, "{fec} {bytes}: {residual}");
        assert!(overhead <= 0.5, "{fec} {bytes}: {overhead}");
    }
}

#[test]
fn fec_overhead_is_monotone_in_loss_and_zero_without() {
    for fec in ["frame", "adaptive", "window"] {
        let mut last = 0.0;
        for loss in [0.0, 0.02, 0.1] {
            let mut trial = Trial::new(fec, vec![lossy(loss, 300)]);
            trial.run(8, 12_000);
            let overhead = trial.overhead();
            assert!(overhead >= last, "{fec} {loss}: {overhead} after {last}");
            assert_eq!(overhead == 0.0, loss == 0.0, "{fec} {loss}: {overhead}");
            last = overhead;
        }
    }
}

#[test]
fn fec_ends_within_ten_seconds_of_the_last_loss() {
    for fec in ["frame", "adaptive", "window"] {
        let mut trial = Trial::new(fec, vec![lossy(0.05, 300)]);
        trial.run(5, 12_000);
        trial.network.paths[0].loss = 0.0;
        trial.run(11, 12_000);
        let before = trial
            .network
            .sender
            .path_counters(PathId(0))
            .unwrap()
            .repair_packets;
        trial.run(10, 12_000);
        let after = trial
            .network
            .sender
            .path_counters(PathId(0))
            .unwrap()
            .repair_packets;
        assert!(before > 0 && before == after, "{fec}: {before}, {after}");
    }
}

/// Returns the number of repairs on both paths.
fn repairs(trial: &Trial) -> u64 {
    repairs_on(&trial.network, 0) + repairs_on(&trial.network, 1)
}

fn repairs_on(network: &Network, path: usize) -> u64 {
    let counters = network.sender.path_counters(PathId(path as u8)).unwrap();
    counters.repair_packets
}

#[test]
fn fec_a_far_path_held_in_reserve_asks_for_no_repairs() {
    // A round trip of 40 ms leaves time for retransmissions, one of 600 ms does not.
    let reserve = TestPath {
        is_metered: true,
        ..TestPath::new(8, 300)
    };
    let mut trial = Trial::new("adaptive", vec![lossy(0.02, 20), reserve]);
    trial.run(20, 12_000);
    let sent = *trial.network.sender.path_counters(PathId(0)).unwrap();
    assert!(sent.lost_packets > 50, "{sent:?}");
    assert_eq!(trial.overhead(), 0.0);
}

#[test]
fn fec_ends_though_a_path_out_of_use_was_lossy() {
    for fec in ["frame", "adaptive", "window", "webrtc"] {
        let mut trial = Trial::new(fec, vec![lossy(0.0, 20), lossy(0.1, 150)]);
        trial.run(2, 12_000);
        let from = trial.network.now;
        trial.network.paths[0].outage = Some((from, from + Duration::from_secs(4)));
        trial.run(4, 12_000);
        let during = repairs(&trial);
        assert!(during > 20, "{fec}: {during}");
        // The path comes back when a challenge is answered, a second after the outage at most.
        trial.run(11, 12_000);
        let (before, carried) = (repairs(&trial), trial.network.sent_on[1]);
        trial.run(10, 12_000);
        let carried = trial.network.sent_on[1] - carried;
        assert_eq!(repairs(&trial), before, "{fec}");
        // It is asked for a sign of life every two seconds, the first and the last included, and
        // once more where that or the answer is lost: one of ten.
        assert!(carried <= 2 * 6, "{fec}: {carried}");
    }
}

#[test]
fn fec_repairs_are_split_over_the_other_paths_inversely_to_their_losses() {
    let paths = vec![lossy(0.0, 5), lossy(0.005, 90), lossy(0.1, 90)];
    let mut network = Network::new(config("fixed:overhead=0.8", 6), paths);
    let (mut before, mut expected) = ([0; 3], 0.0);
    for second in 0..28 {
        if second == 8 {
            before = [0, 1, 2].map(|path| repairs_on(&network, path));
        }
        for _ in 0..5 {
            let views = network.sender.paths(network.now);
            let [one, other] =
                [1, 2].map(|path| repair_weight(0.0, views[path].risk.recent_loss()));
            let share = other / (one + other);
            expected += share * f64::from(u8::from(second >= 8)) / 100.0;
            network.send(40_000, false);
            network.run_until(network.now + Duration::from_millis(200));
        }
    }
    let repairs = [0, 1, 2].map(|path| repairs_on(&network, path) - before[path]);
    let total: u64 = repairs.iter().sum();
    assert!(total > 1_500, "{repairs:?}");
    assert_eq!(repairs[0], 0, "all sources take the first path");
    // 1 / 1 % to 1 / 10 % is ten to one, but the losses of a hundred packets vary.
    let share = repairs[2] as f64 / total as f64;
    let of = format!("{repairs:?}: {share}, by the losses as they were {expected}");
    assert!((share - expected).abs() <= 0.015, "{of}");
    assert!((0.06..0.13).contains(&share), "{of}");
}

#[test]
fn fec_short_round_trips_need_retransmissions_only() {
    for (delay_millis, bytes) in [(10, 12_000), (10, 1_200), (25, 12_000)] {
        let mut trial = Trial::new("adaptive", vec![lossy(0.05, delay_millis)]);
        trial.run(40, bytes);
        assert_eq!(trial.overhead(), 0.0);
        let residual = trial.residual(Instant::ZERO, 1_000);
        assert!(residual <= 0.001, "{delay_millis} {bytes}: {residual}");
    }
}

#[test]
fn fec_a_burst_on_one_of_two_paths_is_recovered_by_repairs_on_the_other() {
    let mut trial = Trial::new(
        "fixed:overhead=1:window=1",
        vec![lossy(0.0, 300), lossy(0.0, 310)],
    );
    trial.run(2, 12_000);
    // Each of these takes a whole frame's packets on one path. For a second or two after the first,
    // repairs go away from where packets were lost, rather than from their sources alone.
    for path in [0, 1] {
        let from = trial.network.now;
        trial.network.paths[path].outage = Some((from, from + Duration::from_millis(30)));
        trial.run(3, 12_000);
    }
    let residual = trial.residual(Instant::ZERO, 200);
    let counters = trial.network.receiver.counters();
    assert!(counters.recovered_fragments >= 8, "{counters:?}");
    assert_eq!(residual, 0.0);
    for path in 0..2 {
        let counters = trial.network.sender.path_counters(PathId(path)).unwrap();
        assert_eq!(counters.retransmitted_packets, 0, "{path}");
    }
}

#[test]
fn arq_retransmitted_bytes_are_at_most_three_times_the_lost() {
    for (fec, loss, delay_millis) in [
        ("off", 0.05, 25),
        ("off", 0.2, 25),
        ("off", 0.2, 120),
        ("adaptive", 0.2, 80),
        ("adaptive", 0.05, 120),
    ] {
        let mut trial = Trial::new(fec, vec![lossy(loss, delay_millis)]);
        trial.run(20, 9_000);
        trial.residual(Instant::ZERO, 500);
        let sent = trial.network.sender.path_counters(PathId(0)).unwrap();
        let lost_bytes = sent.lost_packets * sent.sent_bytes / sent.sent_packets;
        let share = sent.retransmitted_bytes as f64 / lost_bytes as f64;
        assert!(share <= 3.0, "{fec} {loss} {delay_millis}: {share}");
    }
}

/// Returns the most bits in any second from the fifth on, by the departures of datagrams.
fn busiest_second(network: &Network) -> f64 {
    let seconds = network.now.as_micros() / 1_000_000;
    let mut bits = vec![0.0; seconds as usize + 1];
    for (at, bytes) in &network.sent {
        bits[at.as_micros() as usize / 1_000_000] += *bytes as f64 * 8.0;
    }
    bits[5..].iter().copied().fold(0.0, f64::max)
}

#[test]
fn fec_media_repairs_and_retransmissions_stay_below_the_target() {
    for (loss, delay_millis) in [(0.03, 300), (0.1, 100)] {
        let mut config = config("adaptive", 6);
        config.media.source = SourceLimits::Adaptive {
            min: DataRate::from_kilobits_per_second(300),
            max: MBIT(20),
        };
        let mut network = Network::new(config, vec![lossy(loss, delay_millis)]);
        network.stream_until(Instant::from_secs(12));
        assert_intact(&network);
        let sent = network.sender.path_counters(PathId(0)).unwrap();
        let share = sent.repair_bytes as f64 / sent.sent_bytes as f64;
        assert!(share > 0.05, "{sent:?}");
        // 0.8 of 6 Mbit/s, and 4 % of headers.
        let target = 4.8e6 * 1.04;
        let busiest = busiest_second(&network);
        assert!(busiest <= target * 1.1, "{loss} {delay_millis}: {busiest}");
    }
}

/// Runs a source that follows its target over paths of 2.5 Mbit/s each. Returns the bits per second
/// on the wire and the encoder's mean target, both from the fifth second to the thirtieth.
fn sent_rate(fec: &str, losses: &[f64]) -> (f64, f64) {
    let mut config = config(fec, 0);
    config.laboratory.fixed_rate = DataRate::from_kilobits_per_second(2_500);
    config.media.source = SourceLimits::Adaptive {
        min: DataRate::from_kilobits_per_second(300),
        max: MBIT(20),
    };
    let delays = [20, 30];
    let paths = losses
        .iter()
        .zip(delays)
        .map(|(loss, delay)| lossy(*loss, delay))
        .collect();
    let mut network = Network::new(config, paths);
    let (mut asked, mut seconds) = (0.0, 0.0);
    for second in 1..=30 {
        network.stream_until(Instant::from_secs(second));
        if second > 5 {
            asked += network.sender.target_bitrate().bits_per_second() as f64;
            seconds += 1.0;
        }
    }
    let sent = network
        .sent
        .iter()
        .filter(|(at, _)| *at >= Instant::from_secs(5));
    let sent_bits: u64 = sent.map(|(_, bytes)| bytes * 8).sum();
    (sent_bits as f64 / seconds, asked / seconds)
}

#[test]
fn arq_retransmissions_are_taken_from_the_encoders_share_with_fec_and_without() {
    for fec in ["off", "adaptive"] {
        for path_count in [1, 2] {
            let target = 2e6 * path_count as f64;
            let (lossless, asked) = sent_rate(fec, &[0.0, 0.0][..path_count]);
            assert_eq!(asked, target, "{fec}: without loss nothing is taken");
            for loss in [0.02, 0.05, 0.1, 0.2] {
                let (sent, asked) = sent_rate(fec, &[loss, loss][..path_count]);
                let change = sent / lossless - 1.0;
                let of = format!("{fec}, {path_count} paths, {loss}: {change}, asked {asked}");
                assert!(change.abs() <= 0.03, "{of}");
                // Each loss is sent again; each fifth of these, too.
                let share = 1.0 - loss;
                assert!((asked / target - share).abs() <= 0.03, "{of}");
            }
        }
    }
}

#[test]
fn fec_repairs_of_a_source_that_does_not_follow_stop_at_the_bandwidth() {
    // 5.5 Mbit/s of media, headers included, over 6 Mbit/s: there is room for 8 % of repairs.
    let mut trial = Trial::new("frame", vec![lossy(0.1, 300)]);
    trial.run(15, 26_400);
    let overhead = trial.overhead();
    assert!((0.02..0.1).contains(&overhead), "{overhead}");
    let counters = trial.network.sender.counters();
    assert_eq!(counters.frames_late, 0, "media had to wait for repairs");
}

#[test]
fn arq_a_last_try_takes_two_paths_unless_the_first_loses_nothing() {
    // A loss is known after 200 ms, and another try would take 310 more.
    for (other_loss, is_doubled) in [(0.05, true), (0.0, false)] {
        let mut trial = Trial::new("off", vec![lossy(0.1, 100), lossy(other_loss, 102)]);
        trial.run(20, 9_000);
        let [on_lossy, on_other] =
            [0, 1].map(|path| *trial.network.sender.path_counters(PathId(path)).unwrap());
        let lost_packets = on_lossy.lost_packets + on_other.lost_packets;
        assert!(lost_packets > 50);
        let copies = on_lossy.retransmitted_packets + on_other.retransmitted_packets;
        if is_doubled {
            let fewer = on_lossy
                .retransmitted_packets
                .min(on_other.retransmitted_packets);
            assert!(fewer >= copies * 2 / 5, "{fewer} of {copies}");
            assert!(
                copies >= lost_packets * 3 / 2,
                "{copies}, {lost_packets} lost"
            );
        } else {
            // Few that are overdue, but not known to be lost.
            assert!(on_lossy.retransmitted_packets * 50 <= copies);
        }
        // A lost packet has at most three copies: their own losses are reported too late.
        assert!(copies <= 3 * lost_packets, "{copies}, {lost_packets} lost");
    }
}

#[test]
fn arq_frames_that_no_other_needs_are_dropped_before_references() {
    // 6 Mbit/s over a path of 4: 2 of them have to go.
    let mut network = Network::new(config("off", 4), vec![TestPath::new(8, 20)]);
    for index in 0..300_u64 {
        let importance = match index % 2 {
            0 => Importance::Reference,
            _ => Importance::Disposable,
        };
        network.send_frame(30_000, importance);
        network.run_until(network.now + Duration::from_millis(40));
    }
    network.run_until(network.now + Duration::from_secs(2));
    let [references, disposable] =
        [Importance::Reference, Importance::Disposable].map(|importance| {
            let frames = network.received.iter();
            frames
                .filter(|(_, frame)| frame.importance == importance)
                .count()
        });
    assert_eq!(references, 150);
    assert!((20..120).contains(&disposable));
}

#[test]
fn fec_no_repair_leaves_before_a_scheduler_has_let_its_frame_go() {
    let config = Config {
        scheduler: support::scheduler("round-robin"),
        ..config("fixed:overhead=0.3", 4)
    };
    let mut network = Network::new(config, vec![TestPath::new(8, 20), TestPath::new(8, 20)]);
    stream(&mut network, 200, 12_000, 40);
    let counters = *network.receiver.counters();
    assert_eq!(network.received.len(), 200);
    assert_eq!(counters.recovered_fragments, 0, "{counters:?}");
}

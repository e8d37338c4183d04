//! XLINK's reinjection in whole sessions: which packets are copied, when, and how often.

use anabranch_core::recovery::LossDetection;
use anabranch_core::{Config, PathId, Reinjection, SendReason, Session, Stream, StreamConfig};
use anabranch_units::{Duration, Instant};

use crate::support::{self, TestPath};

type Network = support::Network<Stream>;

/// Segments of 1000 bytes.
const SEGMENT: u16 = 1_000;

fn network(reinjection: Reinjection, paths: Vec<TestPath>) -> Network {
    let mut config = Config {
        controller: support::controller("cubic"),
        fragment_bytes: SEGMENT,
        scheduler: support::scheduler("round-robin"),
        stream: StreamConfig {
            reinjection,
            ..StreamConfig::default()
        },
        ..support::usual()
    };
    config.laboratory.loss_detection = Some(LossDetection::PerPacket);
    Network::of_stream_over(config, paths)
}

/// Returns two paths, one of them slow, the other far.
fn unequal() -> Vec<TestPath> {
    vec![TestPath::new(2, 10), TestPath::new(8, 300)]
}

fn send(network: &mut Network, bytes: usize, at_most: Duration) -> Duration {
    let began_at = network.now;
    let bytes: Vec<u8> = (0..bytes).map(|index| (index / 7) as u8).collect();
    network.transfer(&bytes, began_at + at_most);
    assert!(network.stream == bytes[..network.stream.len()]);
    network.now - began_at
}

fn copies(network: &Network) -> u64 {
    fn copies_of(path: u8, sender: &Session<Stream>) -> u64 {
        let counters = sender.path_counters(PathId(path)).unwrap();
        counters.reasons.of(SendReason::Reinjection).packets
    }
    copies_of(0, &network.sender) + copies_of(1, &network.sender)
}

fn packets_sent(network: &Network) -> u64 {
    fn sent_by(path: u8, sender: &Session<Stream>) -> u64 {
        sender.path_counters(PathId(path)).unwrap().sent_packets
    }
    sent_by(0, &network.sender) + sent_by(1, &network.sender)
}

const MINUTE: Duration = Duration::from_secs(60);

/// Objects whose end is on the far path arrive earlier, and none arrives later.
#[test]
fn idle_near_path_copies_the_tail_of_the_far_one() {
    fn took(reinjection: Reinjection, bytes: usize) -> (Duration, u64) {
        let paths = vec![TestPath::new(8, 10), TestPath::new(2, 300)];
        let mut network = network(reinjection, paths);
        // It is below T1 from 700 ms on.
        let left = Duration::from_millis(1_200);
        network.sender.on_play_time_left(Instant::ZERO, left);
        let took = send(&mut network, bytes, MINUTE);
        assert!(network.is_stream_finished);
        (took, copies(&network))
    }
    let mut saved = Duration::ZERO;
    for bytes in (1_200_000..=2_200_000).step_by(200_000) {
        let (without, none) = took(Reinjection::Off, bytes);
        let (with, some) = took(anabranch_schedulers::xlink_reinjection(), bytes);
        assert!(none == 0 && some > 0 && with <= without, "{bytes}");
        saved += without - with;
    }
    assert!(saved > Duration::from_secs(1), "{saved}");
}

#[test]
fn above_t2_nothing_is_copied() {
    let mut network = network(anabranch_schedulers::xlink_reinjection(), unequal());
    let has_to = network.sender.on_play_time_left(Instant::ZERO, MINUTE * 10);
    assert!(!has_to);
    send(&mut network, 3_000_000, MINUTE);
    assert!(network.is_stream_finished);
    assert_eq!(copies(&network), 0);
}

#[test]
fn low_play_time_copies_packets_in_flight() {
    fn reinjects(network: &mut Network, left: Duration) -> bool {
        let now = network.now;
        network.sender.on_play_time_left(now, left)
    }

    let mut network = network(anabranch_schedulers::xlink_reinjection(), unequal());
    assert!(!reinjects(&mut network, MINUTE));
    send(&mut network, 3_000_000, Duration::from_millis(1_500));
    let mut sent = (0, packets_sent(&network));
    while sent.0 != sent.1 {
        let next_at = network.now + Duration::from_millis(50);
        network.run_until(next_at);
        sent = (sent.1, packets_sent(&network));
    }
    // All is sent, and some of it is in flight on the far path.
    assert!(!network.sender.is_drained());
    assert_eq!(copies(&network), 0);
    assert!(reinjects(&mut network, Duration::ZERO));
    network.settle();
    assert!(copies(&network) > 0);
}

/// The start is 128 KiB: later data waits until all segments of the start in flight have been
/// copied.
#[test]
fn only_the_start_is_copied_before_later_data() {
    let paths = vec![TestPath::new(1, 40), TestPath::new(1, 150)];
    let mut network = network(anabranch_schedulers::xlink_reinjection(), paths);
    network.checks_invariants = true;
    send(&mut network, 4_000_000, Duration::from_secs(3));
    assert!(!network.sender.is_drained());
    let start = (128 << 10) / u64::from(SEGMENT) + 1;
    let copies = copies(&network);
    assert!((1..=start).contains(&copies), "{copies}");
}

#[test]
fn other_reinjections_do_not_listen() {
    for reinjection in [Reinjection::Off, anabranch_schedulers::linux_reinjection()] {
        let mut network = network(reinjection, unequal());
        let has_to = network
            .sender
            .on_play_time_left(Instant::ZERO, Duration::ZERO);
        assert!(!has_to);
        send(&mut network, 3_000_000, MINUTE);
        assert_eq!(copies(&network), 0);
    }
}

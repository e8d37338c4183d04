//! Streams over paths that do not carry 1500 B, or do not any more: packets fit them, grow where
//! possible, and every byte arrives.

use anabranch_core::recovery::LossDetection;
use anabranch_core::{Config, ConfigError, MtuDiscovery, PathId, Stream, StreamSession};
use anabranch_units::{Duration, Instant, Rng, Seed};

use crate::support::{self, Network, TestPath};

const BASE: u64 = 1_228;
/// Tracked header, type and offset, below IP and UDP.
const HEADER_BYTES: u16 = 28 + 10;

fn config() -> Config {
    Config {
        mtu: Some(MtuDiscovery {
            unit_bytes: 1,
            ..MtuDiscovery::of_internet(28)
        }),
        fragment_bytes: 1_500 - HEADER_BYTES,
        controller: support::controller("cubic"),
        scheduler: support::scheduler("earliest-completion"),
        ..support::usual()
    }
}

fn with_mtu(mtu: u64, since_millis: u64) -> TestPath {
    TestPath {
        mtu: Some((Instant::from_millis(since_millis), mtu)),
        ..TestPath::new(8, 20)
    }
}

fn bytes(count: usize) -> Vec<u8> {
    let mut rng = Seed(5).rng();
    (0..count).map(|_| rng.next_u64() as u8).collect()
}

fn network(paths: Vec<TestPath>) -> Network<Stream> {
    let mut network = Network::of_stream_over(config(), paths);
    network.checks_invariants = true;
    network
}

/// Transfers `count` bytes, all of which must arrive. Returns the time taken.
fn transferred(network: &mut Network<Stream>, count: usize) -> Duration {
    let bytes = bytes(count);
    let start = network.now;
    network.transfer(&bytes, start + Duration::from_secs(120));
    assert!(network.sender.is_drained(), "all is acknowledged");
    assert!(network.stream == bytes, "every byte is there");
    network.now - start
}

fn mtu(network: &mut Network<Stream>, path: usize) -> Option<u32> {
    let now = network.now;
    network.sender.paths(now)[path].mtu
}

#[test]
fn segments_grow_to_each_path_mtu() {
    for path_mtu in [1_228, 1_280, 1_492, 1_500] {
        let mut network = network(vec![with_mtu(path_mtu, 0)]);
        transferred(&mut network, 6_000_000);
        assert_eq!(mtu(&mut network, 0).map(u64::from), Some(path_mtu));
        let late = network.now.saturating_sub(Duration::from_secs(1));
        let sent = network.sent.iter().filter(|(at, _)| *at > late);
        let full = sent.clone().filter(|(_, bytes)| *bytes == path_mtu);
        assert!(full.count() > sent.count() * 9 / 10, "{path_mtu}");
        // Queues overflow in slow start; probes are no losses of that kind.
        let first = network.sent[0].1;
        assert!(first <= BASE, "the first packet is no probe: {first}");
    }
}

#[test]
fn a_search_that_fails_costs_a_transfer_nothing() {
    fn taken(mtu: u64) -> Duration {
        transferred(&mut network(vec![with_mtu(mtu, 0)]), 2_000_000)
    }
    let (refusing, without) = (taken(1_228), {
        let config = Config {
            mtu: None,
            fragment_bytes: BASE as u16 - HEADER_BYTES,
            ..config()
        };
        let mut network = Network::of_stream(config, with_mtu(1_228, 0));
        transferred(&mut network, 2_000_000)
    });
    assert!(refusing < without.mul_f64(1.03), "{refusing} {without}");
}

#[test]
fn a_lost_probe_behind_the_last_byte_is_no_timeout() {
    for count in [100, 30_000, 31_000, 40_000] {
        let mut network = network(vec![with_mtu(1_280, 0)]);
        transferred(&mut network, count);
        network.run_until(network.now + Duration::from_secs(20));
        let counters = network.sender.path_counters(PathId(0)).unwrap();
        assert_eq!(counters.retransmission_timeouts, 0, "{count}");
        assert_eq!(counters.lost_packets, 0, "{count}");
    }
}

#[test]
fn the_least_path_in_use_decides_and_one_at_rest_is_searched_too() {
    let mut far = with_mtu(1_400, 0);
    far.delay = Duration::from_millis(150);
    let mut network = network(vec![TestPath::new(8, 20), far]);
    network.run_until(Instant::from_secs(10));
    assert_eq!(mtu(&mut network, 1), Some(1_400));
    assert_eq!(
        network.sent_on[0] + network.sent_on[1],
        network.sent.len() as u64
    );
    assert!(network.sent.len() < 50, "{}", network.sent.len());
    let before = network.sent.len();
    transferred(&mut network, 2_000_000);
    let sent = &network.sent[before..];
    let full = sent.iter().filter(|(_, bytes)| *bytes == 1_400).count();
    assert!(full > 1_300, "{full} of {}", sent.len());
}

#[test]
fn an_mtu_that_falls_without_a_word_loses_no_byte_and_little_time() {
    for paths in 1..=2 {
        for mtu_after in [1_228, 1_280, 1_400] {
            let mut network = network(vec![with_mtu(mtu_after, 1_500); paths]);
            let count = 2_000_000 * paths;
            let taken = transferred(&mut network, count);
            let least = transferred(&mut self::network(vec![TestPath::new(8, 20); paths]), count);
            let limit = least + Duration::from_millis(2_500);
            assert!(taken < limit, "{mtu_after} over {paths}: {taken}, {least}");
            network.run_until(network.now + Duration::from_secs(20));
            assert_eq!(mtu(&mut network, 0), Some(mtu_after as u32), "over {paths}");
        }
    }
}

#[test]
fn an_interface_whose_mtu_falls_loses_no_byte() {
    let mut network = network(vec![TestPath::new(8, 20)]);
    let bytes = bytes(3_000_000);
    network
        .sender
        .write(network.now, &bytes[..200_000])
        .unwrap();
    network.run_until(Instant::from_secs(1));
    assert_eq!(mtu(&mut network, 0), Some(1_500));
    network.paths[0].interface_mtu = Some(1_300);
    network.transfer(&bytes[200_000..], Instant::from_secs(60));
    assert!(network.stream == bytes);
    assert_eq!(mtu(&mut network, 0), Some(1_300));
}

#[test]
fn a_search_needs_reports_about_packets() {
    let mut config = config();
    config.laboratory.loss_detection = Some(LossDetection::TcpCumulative);
    let refused = StreamSession::new(config, Seed(1), Instant::ZERO).map(|_| ());
    assert_eq!(refused, Err(ConfigError::LossDetection));
}

/// Messages of any length up to the longest, as many as fit, over paths whose MTU changes: each
/// arrives once and whole.
fn messages_arrive_whole(seed: u64) {
    fn read(network: &mut Network<Stream>, received: &mut Vec<Vec<u8>>) {
        received.extend(core::iter::from_fn(|| network.receiver.read_bytes()).map(Vec::from));
    }

    let rng = &mut Seed(seed).rng();
    let mut config = config();
    config.stream.carries_messages = true;
    let paths = (0..1 + rng.below(3)).map(|_| {
        let mut path = TestPath::new(2 + rng.below(20), 5 + rng.below(60));
        path.jitter = Duration::from_millis(rng.below(2) * rng.below(30));
        path.loss = rng.below(3) as f64 / 100.0;
        path.duplication = rng.below(2) as f64 / 50.0;
        path
    });
    let mut network = Network::of_stream_over(config, paths.collect());
    network.reseed(Seed(seed));
    network.checks_invariants = true;
    network.is_reading = false;
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    while sent.len() < 1_500 {
        change_mtus(&mut network, rng);
        for _ in 0..rng.below(200) {
            let message = message(&network, sent.len() as u32, rng);
            if network.sender.write(network.now, &message).unwrap() == 0 {
                break;
            }
            sent.push(message);
        }
        network.run_until(network.now + Duration::from_millis(rng.below(300)));
        read(&mut network, &mut received);
    }
    network.run_until(network.now + Duration::from_secs(100));
    read(&mut network, &mut received);
    assert!(network.sender.is_drained(), "seed {seed}");
    received.sort();
    sent.sort();
    assert!(
        received == sent,
        "seed {seed}: {} of {}",
        received.len(),
        sent.len()
    );
}

fn message(network: &Network<Stream>, number: u32, rng: &mut Rng) -> Vec<u8> {
    let most = match rng.below(4) {
        0 => usize::from(1_500 - HEADER_BYTES),
        _ => network.sender.max_message_bytes(),
    };
    let length = match rng.below(2) {
        0 => most,
        _ => 4 + rng.below(most as u64 - 4) as usize,
    };
    let mut message = number.to_be_bytes().to_vec();
    message.resize(length, number as u8);
    message
}

fn change_mtus(network: &mut Network<Stream>, rng: &mut Rng) {
    const SIZES: [u64; 5] = [1_228, 1_280, 1_400, 1_492, 1_500];
    let now = network.now;
    for path in &mut network.paths {
        if rng.below(8) == 0 {
            path.mtu = Some((now, SIZES[rng.below(5) as usize]));
        }
        if rng.below(8) == 0 {
            path.interface_mtu = Some(SIZES[rng.below(5) as usize]);
        }
    }
}

#[test]
fn messages_arrive_once_and_whole_over_paths_whose_mtu_changes() {
    (0..24).for_each(messages_arrive_whole);
}

/// The same for a stream.
#[test]
fn a_stream_arrives_byte_by_byte_over_paths_whose_mtu_changes() {
    for seed in 0..12 {
        let rng = &mut Seed(seed).derive("stream").rng();
        let paths = (0..1 + rng.below(3)).map(|_| {
            let mut path = TestPath::new(2 + rng.below(20), 5 + rng.below(60));
            path.loss = rng.below(3) as f64 / 100.0;
            path
        });
        let mut network = network(paths.collect());
        network.reseed(Seed(seed));
        let bytes = bytes(1_500_000);
        let mut rest = &bytes[..];
        while network.now < Instant::from_secs(200) && network.stream.len() < bytes.len() {
            if network.now < Instant::from_secs(20) {
                change_mtus(&mut network, rng);
            }
            let taken = network.sender.write(network.now, rest).unwrap();
            rest = &rest[taken..];
            network.run_until(network.now + Duration::from_millis(rng.below(300)));
        }
        assert!(
            network.stream == bytes,
            "seed {seed}: {}",
            network.stream.len()
        );
    }
}

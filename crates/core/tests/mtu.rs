//! Paths that do not carry 1500 B: packets fit them, and none is lost for its size.

use anabranch_core::{Config, MtuDiscovery, PathCounters, PathId, PathState};
use anabranch_units::{DataRate, Duration, Instant};

use crate::support::{self, Network, TestPath};

const BASE: u64 = 1_228;

fn config() -> Config {
    Config {
        mtu: Some(MtuDiscovery::of_internet(28)),
        initial_rate: DataRate::from_megabits_per_second(4),
        ..support::usual()
    }
}

fn with_mtu(mtu: u64, since_millis: u64) -> TestPath {
    TestPath {
        mtu: Some((Instant::from_millis(since_millis), mtu)),
        ..TestPath::new(8, 20)
    }
}

/// Sends frames of these sizes, 25 a second, for `seconds` seconds, with time for the last. Returns
/// the number of frames.
fn stream(network: &mut Network, bytes: &[usize], seconds: u64) -> usize {
    let count = seconds as usize * 25;
    for index in 0..count {
        network.send(bytes[index % bytes.len()], index % 50 == 0);
        network.run_until(network.now + Duration::from_millis(40));
    }
    network.run_until(network.now + Duration::from_secs(1));
    count
}

fn mtu(network: &mut Network, path: u8) -> Option<u32> {
    let now = network.now;
    network.sender.paths(now)[usize::from(path)].mtu
}

fn counters(network: &Network, path: u8) -> &PathCounters {
    network.sender.path_counters(PathId(path)).unwrap()
}

#[test]
fn frames_pass_paths_of_every_mtu_and_each_is_found() {
    for path_mtu in [1_228, 1_280, 1_492, 1_500] {
        let mut network = Network::new(config(), vec![with_mtu(path_mtu, 0)]);
        let count = stream(&mut network, &[10_000], 10);
        assert_eq!(network.received.len(), count, "{path_mtu}");
        assert_eq!(mtu(&mut network, 0).map(u64::from), Some(path_mtu));
        // Probes are no losses, and nothing else was lost.
        assert_eq!(counters(&network, 0).lost_packets, 0, "{path_mtu}");
        let states = network.path_states.iter();
        let suspected = states.filter(|(_, _, state)| *state != PathState::Active);
        assert_eq!(suspected.count(), 0, "{path_mtu}");
    }
}

#[test]
fn fragments_are_whole_packets_of_mpeg_ts_and_grow_with_the_mtu() {
    let mut network = Network::new(config(), vec![with_mtu(1_500, 0)]);
    stream(&mut network, &[188 * 42], 1);
    // Six packets of MPEG-TS fit the base and seven fit 1500 B, with 42 to 59 B of headers.
    let sizes = network.sent.iter().map(|(_, bytes)| *bytes);
    let (base, large): (Vec<_>, Vec<_>) = sizes
        .filter(|bytes| (1_100..1_450).contains(bytes))
        .partition(|bytes| *bytes <= BASE);
    assert!(base.iter().all(|bytes| (1_128 + 42..=BASE).contains(bytes)));
    assert!(
        large
            .iter()
            .all(|bytes| (1_316 + 42..=1_400).contains(bytes))
    );
    // Of 25 frames two leave before the base is confirmed, and two until the probe is acknowledged.
    assert_eq!((base.len() / 7, large.len() / 6), (4, 21));
    assert!(network.sent[0].1 <= BASE, "the first packet is no probe");
}

#[test]
fn the_least_path_in_use_decides_how_frames_are_cut() {
    let paths = vec![TestPath::new(3, 20), with_mtu(1_280, 0)];
    let mut network = Network::new(config(), paths);
    let count = stream(&mut network, &[20_000], 10);
    assert_eq!(network.received.len(), count);
    assert_eq!(
        (mtu(&mut network, 0), mtu(&mut network, 1)),
        (Some(1_500), Some(1_280))
    );
    let late = Instant::from_secs(5);
    let sent = network.sent.iter().filter(|(at, _)| *at > late);
    assert!(sent.clone().all(|(_, bytes)| *bytes <= 1_280));
    assert!(network.sent_on[1] > 1_000, "the narrow path is used");
    assert_eq!(counters(&network, 1).lost_packets, 0);
}

/// A path that nothing is sent on is asked for a sign of life every 2 s, and probed before.
#[test]
fn an_idle_path_is_searched_without_being_doubted() {
    let mut idle = with_mtu(1_280, 0);
    idle.delay = Duration::from_millis(150);
    let mut network = Network::new(config(), vec![TestPath::new(8, 20), idle]);
    let count = stream(&mut network, &[5_000], 45);
    assert_eq!(network.received.len(), count);
    assert!(network.sent_on[1] < 100, "{}", network.sent_on[1]);
    assert_eq!(mtu(&mut network, 1), Some(1_280));
    assert_eq!(counters(&network, 1).lost_packets, 0);
    let states = network.path_states.iter();
    let suspected = states.filter(|(_, _, state)| *state != PathState::Active);
    assert_eq!(suspected.count(), 0);
}

#[test]
fn an_interface_that_refuses_large_packets_costs_nothing() {
    let mut path = TestPath::new(8, 20);
    path.interface_mtu = Some(1_280);
    let mut network = Network::new(config(), vec![path]);
    let count = stream(&mut network, &[10_000], 5);
    assert_eq!(network.received.len(), count);
    assert_eq!(mtu(&mut network, 0), Some(1_280));
    assert!(network.refused_count <= 6, "{}", network.refused_count);
}

#[test]
fn an_interface_whose_mtu_falls_loses_no_frame() {
    let mut network = Network::new(config(), vec![TestPath::new(8, 20)]);
    stream(&mut network, &[10_000], 2);
    assert_eq!(mtu(&mut network, 0), Some(1_500));
    network.paths[0].interface_mtu = Some(1_300);
    let before = network.received.len();
    let count = stream(&mut network, &[10_000], 5);
    assert_eq!(network.received.len(), before + count);
    assert_eq!(mtu(&mut network, 0), Some(1_300));
}

/// Packets cut for 1500 B that have not arrived are resent in halves, which fit the base.
#[test]
fn an_mtu_that_falls_without_a_word_loses_no_frame() {
    // Of full-size packets alone, too: then nothing but challenges shows that the path lives.
    for bytes in [&[20_000, 7_000][..], &[13_160], &[1_316]] {
        for paths in 1..=2 {
            let mut network = Network::new(config(), vec![with_mtu(1_280, 3_010); paths]);
            let count = stream(&mut network, bytes, 8);
            assert_eq!(network.received.len(), count, "{bytes:?} over {paths}");
            assert_eq!(mtu(&mut network, 0), Some(1_280), "{bytes:?} over {paths}");
        }
    }
}

#[test]
fn repairs_fit_paths_whose_mtu_differs() {
    let mut config = config();
    config.media.fec = support::fec("fixed:overhead=0.3");
    let mut paths = vec![TestPath::new(8, 20), with_mtu(1_280, 3_010)];
    paths.iter_mut().for_each(|path| path.loss = 0.02);
    let mut network = Network::new(config, paths);
    let count = stream(&mut network, &[20_000], 8);
    assert_eq!(network.received.len(), count);
    assert!(network.receiver.counters().recovered_fragments > 0);
    assert_eq!(network.receiver.counters().malformed_datagrams, 0);
    assert_eq!(network.receiver.counters().contradictory_fragments, 0);
}

#[test]
fn a_burst_of_losses_does_not_make_a_path_small() {
    let mut path = TestPath::new(8, 20);
    path.outage = Some((Instant::from_millis(3_000), Instant::from_millis(3_020)));
    path.loss = 0.05;
    let mut network = Network::new(config(), vec![path]);
    stream(&mut network, &[20_000], 8);
    assert_eq!(mtu(&mut network, 0), Some(1_500));
    let late = Instant::from_secs(4);
    let sent = network.sent.iter().filter(|(at, _)| *at > late);
    let base = sent
        .clone()
        .filter(|(_, bytes)| (1_128..=BASE).contains(bytes));
    assert!(base.count() * 10 < sent.count());
}

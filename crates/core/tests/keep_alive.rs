//! A session without anything to send.

use anabranch_core::{Config, MediaConfig, PathId, PathState, SourceLimits, Stream};
use anabranch_units::{DataRate, Duration, Instant};

use crate::support::{self, Network, TestPath};

const ONLY: PathId = PathId(0);

fn run_for(network: &mut Network, span: Duration) {
    let until = network.now + span;
    network.run_until(until);
}

/// NATs commonly forget a mapping after 30 s, and a receiver gives up a sender after 60 s.
#[test]
fn a_single_idle_path_is_asked_every_15_seconds() {
    fn count(network: &Network) -> u64 {
        let counters = network.receiver.path_counters(ONLY).unwrap();
        counters.received_packets
    }

    let mut network = Network::new(support::usual(), vec![TestPath::new(4, 20)]);
    network.stream_until(Instant::from_secs(2));
    run_for(&mut network, Duration::from_secs(3));
    let before = count(&network);
    run_for(&mut network, Duration::from_secs(60));
    let heard = count(&network) - before;
    assert!((3..=5).contains(&heard), "{heard} packets in a minute");
}

/// Before its first frame, too, once its driver asks for it; at once for the first time, so that
/// the round-trip time is known.
#[test]
fn a_session_that_has_sent_nothing_is_kept_alive_if_asked() {
    for is_kept_alive in [false, true] {
        let mut network = Network::new(support::usual(), vec![TestPath::new(4, 20)]);
        if is_kept_alive {
            network.sender.keep_alive();
        }
        run_for(&mut network, Duration::from_secs(61));
        let counters = network.receiver.path_counters(ONLY).unwrap();
        let expected = if is_kept_alive { 5 } else { 0 };
        assert_eq!(counters.received_packets, expected);
    }
}

/// All paths of a stream session are asked, since each has a place in a NAT of its own.
#[test]
fn idle_paths_of_streams_are_asked_every_15_seconds_if_wished() {
    for is_kept_alive in [false, true] {
        let paths = vec![TestPath::new(4, 20), TestPath::new(4, 40)];
        let mut network = support::Network::<Stream>::of_stream_over(support::usual(), paths);
        if is_kept_alive {
            network.sender.keep_alive();
        }
        let until = network.now + Duration::from_secs(121);
        network.run_until(until);
        for path in [PathId(0), PathId(1)] {
            let counters = network.receiver.path_counters(path).unwrap();
            let count = counters.received_packets;
            // Both are asked at the start, one of them maybe twice.
            let expected = if is_kept_alive { 8..=10 } else { 1..=2 };
            assert!(expected.contains(&count), "{count} on {path:?}");
        }
    }
}

/// A path that died in the pause is known to be dead when there is something to send again.
#[test]
fn a_path_that_dies_while_idle_is_noticed() {
    let dies_at = Instant::from_secs(5);
    let path = TestPath {
        outage: Some((dies_at, Instant::from_secs(500))),
        ..TestPath::new(4, 20)
    };
    let mut network = Network::new(support::usual(), vec![path]);
    network.stream_until(Instant::from_secs(2));
    run_for(&mut network, Duration::from_secs(20));
    assert_eq!(network.sender.paths(network.now)[0].state, PathState::Out);
}

/// Its controller hears nothing of probes, so that none is missed: `gcc` halved its rate for each
/// silence.
#[test]
fn idle_probes_cost_no_controller_its_rate() {
    fn megabits(controller: &str, idle: Duration) -> f64 {
        let source = SourceLimits::Adaptive {
            min: DataRate::from_kilobits_per_second(300),
            max: DataRate::from_kilobits_per_second(3_000),
        };
        let config = Config {
            controller: support::controller(controller),
            media: MediaConfig {
                source,
                ..MediaConfig::default()
            },
            ..support::usual()
        };
        let mut network = Network::new(config, vec![TestPath::new(6, 20)]);
        network.sender.keep_alive();
        run_for(&mut network, idle);
        network.stream_until(network.now + Duration::from_secs(12));
        network.sender.target_bitrate().bits_per_second() as f64 / 1e6
    }
    for controller in ["gcc", "gcc-kalman", "nada", "scream", "tfrc", "live-bbr"] {
        let at_once = megabits(controller, Duration::ZERO);
        let later = megabits(controller, Duration::from_secs(20));
        assert!(later > 0.95 * at_once, "{controller}: {later}, {at_once}");
    }
}

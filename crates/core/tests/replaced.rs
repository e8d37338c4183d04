//! Paths that take the number of one that is gone.

use anabranch_core::{Event, Laboratory, PathId, PathOptions, PathState};
use anabranch_units::{DataRate, Duration, Instant};

use crate::support::{self, Network, TestPath};

const SECOND: PathId = PathId(1);

/// Returns a network with a source of 4 Mbit/s, for which either path suffices.
fn network(delays: [u64; 2]) -> Network {
    let config = anabranch_core::Config {
        controller: support::controller("fixed"),
        laboratory: Laboratory {
            fixed_rate: DataRate::from_megabits_per_second(8),
            ..Laboratory::default()
        },
        ..support::usual()
    };
    Network::new(config, delays.map(|delay| TestPath::new(8, delay)).into())
}

/// Sends 25 frames a second of 20 kB until `end`.
fn stream_until(network: &mut Network, end: u64) {
    while network.now < Instant::from_millis(end) {
        network.send(20_000, false);
        let next_at = network.now + Duration::from_millis(40);
        network.run_until(next_at);
    }
}

/// Replaces the second path after it failed, whereupon it works, with this delay.
fn replace(network: &mut Network, delay: u64) {
    network.paths[1].outage = None;
    network.paths[1].delay = Duration::from_millis(delay);
    let now = network.now;
    network.sender.suspend_path(now, SECOND);
    network
        .sender
        .replace_path(now, SECOND, PathOptions::default());
    network.settle();
}

#[test]
fn a_number_serves_400_paths_one_after_the_other() {
    let mut network = network([20, 30]);
    for turn in 0..400 {
        let begins_at = turn * 200;
        stream_until(&mut network, begins_at + 120);
        let fails_at = network.now;
        network.paths[1].outage = Some((fails_at, Instant::FAR_FUTURE));
        stream_until(&mut network, begins_at + 200);
        replace(&mut network, 10 + turn % 50);
        let counters = network.sender.path_counters(SECOND).unwrap();
        assert_eq!(counters.received_packets, 0, "turn {turn}");
    }
    stream_until(&mut network, 81_000);
    network.run_until(Instant::from_secs(82));
    let now = network.now;
    assert_eq!(network.sender.paths(now)[1].state, PathState::Active);
    let sent = network.sender.counters().frames_sent;
    assert_eq!(network.received.len() as u64, sent, "every frame arrives");
}

#[test]
fn a_replaced_path_begins_without_the_estimates_and_counts_of_the_old_one() {
    let mut network = network([20, 200]);
    stream_until(&mut network, 2_000);
    let now = network.now;
    let old = network.sender.paths(now)[1];
    assert!(old.rtt.least.unwrap() >= Duration::from_millis(400));
    replace(&mut network, 5);
    let now = network.now;
    let view = network.sender.paths(now)[1];
    assert_eq!((view.state, view.rtt.least), (PathState::Active, None));
    assert!(view.bytes_in_flight < 100, "nothing but the first probe");
    // Reports about the old path's packets are still under way.
    stream_until(&mut network, 2_400);
    network.run_until(Instant::from_millis(3_000));
    let now = network.now;
    let view = network.sender.paths(now)[1];
    let latest = view.rtt.latest.expect("it is heard");
    assert!(latest < Duration::from_millis(100), "{latest}");
    let mut events = core::iter::from_fn(|| network.sender.poll_event());
    assert!(!events.any(|event| event == Event::PeerLies));
    let counters = network.sender.path_counters(SECOND).unwrap();
    assert!(counters.acked_packets > 0);
    assert!(counters.acked_packets <= counters.sent_packets);
}

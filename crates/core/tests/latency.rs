//! A latency that is agreed on after the paths were added has the effect of one that a session was
//! made with.

use anabranch_core::{Config, MediaConfig, PathId, PathState};
use anabranch_units::{Duration, Instant};

use crate::support::{self, Network, TestPath};

const FAILS_AT: Instant = Instant::from_secs(3);
const END: Instant = Instant::from_secs(5);

/// Moment from which the latency holds.
#[derive(Clone, Copy)]
enum Agreed {
    Before,
    AfterPathsWereAdded,
}

/// Returns a session of two paths, the first of which fails. Its round-trip times vary, so that the
/// probe timeout alone would be longer than the deadline allows.
fn run(latency: Duration, agreed: Agreed) -> Network {
    let mut media = MediaConfig::default();
    if let Agreed::Before = agreed {
        media.deadline = latency;
    }
    let fails = TestPath {
        jitter: Duration::from_millis(150),
        outage: Some((FAILS_AT, END)),
        ..TestPath::new(4, 10)
    };
    let config = Config {
        media,
        // Both paths carry packets whatever their delays.
        scheduler: support::scheduler("round-robin"),
        ..support::usual()
    };
    let mut network = Network::new(config, vec![fails, TestPath::new(4, 10)]);
    if let Agreed::AfterPathsWereAdded = agreed {
        network.sender.set_latency(latency);
    }
    for index in 0..125 {
        network.send(8_000, index % 50 == 0);
        network.run_until(network.now + Duration::from_millis(40));
    }
    network
}

/// Returns the silence after which the failed path was suspected.
fn silence_timeout(network: &Network) -> Duration {
    let suspicion = network
        .path_states
        .iter()
        .find(|(at, id, state)| *at > FAILS_AT && *id == PathId(0) && *state == PathState::Suspect);
    suspicion
        .unwrap_or_else(|| panic!("it is suspected: {:?}", network.path_states))
        .0
        - FAILS_AT
}

#[test]
fn the_silence_timeout_is_that_of_a_session_made_with_this_latency() {
    let [short, long] = [100, 2_000].map(|millis| {
        let latency = Duration::from_millis(millis);
        let made = run(latency, Agreed::Before);
        let set = run(latency, Agreed::AfterPathsWereAdded);
        assert_eq!(silence_timeout(&made), silence_timeout(&set), "{millis} ms");
        assert_eq!(made.path_states, set.path_states, "{millis} ms");
        assert!(made.left == set.left, "{millis} ms: the same datagrams");
        silence_timeout(&set)
    });
    assert!(short < long, "{short}, {long}");
}

//! Contract of the pacer's timer.

use anabranch_core::{Config, MediaConfig};
use anabranch_units::{Duration, Instant};

use crate::support::{self, Network, TestPath};

/// Sends frames over two lossy paths, of which one fails for a while.
fn run(spares_pacing: bool) -> Network {
    let config = Config {
        media: MediaConfig {
            fec: support::fec("adaptive"),
            ..MediaConfig::default()
        },
        ..support::usual()
    };
    let paths = vec![
        TestPath {
            loss: 0.03,
            outage: Some((Instant::from_secs(3), Instant::from_secs(5))),
            ..TestPath::new(4, 20)
        },
        TestPath {
            loss: 0.01,
            ..TestPath::new(3, 50)
        },
    ];
    let mut network = Network::new(config, paths);
    network.spares_pacing = spares_pacing;
    for index in 0..200 {
        network.send(10_000, index % 50 == 0);
        network.run_until(network.now + Duration::from_millis(40));
    }
    network
}

#[test]
fn when_the_pacer_lets_go_nothing_else_is_due() {
    let [all, spared] = [false, true].map(run);
    assert!(spared.spared_count > 2_000, "{}", spared.spared_count);
    assert!(all.sent.len() > 1_500, "{}", all.sent.len());
    assert_eq!(spared.sent, all.sent);
    assert_eq!(spared.answered, all.answered);
    assert_eq!(spared.received, all.received);
}

//! Target bitrate of the encoder.

use anabranch_core::{Config, Laboratory};
use anabranch_units::{DataRate, Duration, Instant};

use crate::support::{self, Network, TestPath};

const MBIT: fn(u64) -> DataRate = DataRate::from_megabits_per_second;

fn fixed(rate: DataRate) -> Config {
    Config {
        controller: support::controller("fixed"),
        laboratory: Laboratory {
            fixed_rate: rate,
            ..Laboratory::default()
        },
        ..support::usual()
    }
}

#[test]
fn encoder_gets_the_target_fraction() {
    fn target(controller: &str, target_fraction: Option<f64>) -> f64 {
        let mut config = Config {
            controller: support::controller(controller),
            ..fixed(MBIT(4))
        };
        config.media.target_fraction = target_fraction;
        let mut network = Network::new(config, vec![TestPath::new(8, 20)]);
        network.send(1_000, true);
        network.run_until(Instant::from_secs(1));
        let bandwidth = network.sender.paths(Instant::from_secs(1))[0].bandwidth;
        let target = network.sender.target_bitrate().bits_per_second() as f64;
        target / bandwidth.bits_per_second() as f64
    }
    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 0.01, "{found} for {expected}");
    }
    for name in ["live-bbr", "cubic", "fixed"] {
        near(target(name, None), 0.8);
    }
    // Theirs is a media rate: only headers come on top.
    for name in [
        "gcc",
        "gcc-kalman",
        "nada:xref=20",
        "scream",
        "scream-v1",
        "zhu",
    ] {
        let share = target(name, None);
        assert!((0.92..0.97).contains(&share), "{name}: {share}");
        near(target(name, Some(0.5)), 0.5);
    }
}

#[test]
fn congested_single_path_targets_its_outflow() {
    fn target(megabits: u64) -> u64 {
        let path = TestPath {
            queue: Duration::from_secs(2),
            ..TestPath::new(megabits, 20)
        };
        let mut network = Network::new(fixed(MBIT(4)), vec![path]);
        for index in 0..15 {
            // 3 Mbit/s.
            network.send(15_000, index == 0);
            network.run_until(Instant::from_millis(40 * (index + 1)));
        }
        network.sender.target_bitrate().bits_per_second() / 1_000
    }
    assert_eq!(target(8), 3_200);
    // 2 Mbit/s come out, of which the encoder gets 0.8 of 1.1.
    let congested = target(2);
    assert!((1_600..1_900).contains(&congested), "{congested} kbit/s");
}

//! After `handle_timeout` and `poll_transmit` until `None`, no timer is due: a driver that is
//! called when it asks to be is not called twice for one moment. [`support::Network`] asserts that
//! in all tests; here it is asked of random sessions with every scheduler.

mod support;

use anabranch_core::{Config, MediaConfig, PaddingPolicy};
use anabranch_schedulers::SCHEDULERS;
use anabranch_units::{Duration, Importance, Instant, Rng, Seed};
use support::{Network, TestPath};

fn any_path(rng: &mut Rng) -> TestPath {
    let second = Instant::from_millis(rng.below(3_000));
    let outage = second + Duration::from_millis(rng.below(1_500));
    TestPath {
        queue: Duration::from_millis(20 + rng.below(300)),
        loss: [0.0, 0.02, 0.2][rng.below(3) as usize],
        duplication: [0.0, 0.05][rng.below(2) as usize],
        jitter: Duration::from_millis([0, 5, 60][rng.below(3) as usize]),
        outage: rng.chance(0.3).then_some((second, outage)),
        outage_back: rng.chance(0.2).then_some((second, outage)),
        is_metered: rng.chance(0.2),
        ..TestPath::new(1 + rng.below(8), rng.below(150))
    }
}

fn any_config(rng: &mut Rng, scheduler: &str) -> Config {
    let controllers = ["live-bbr", "live-bbr", "cubic", "gcc", "bbr3"];
    let fec = ["off", "off", "adaptive", "fixed:overhead=0.5:window=4"];
    let media = MediaConfig {
        deadline: Duration::from_millis([60, 200, 500][rng.below(3) as usize]),
        fec: fec[rng.below(fec.len() as u64) as usize].into(),
        ..MediaConfig::default()
    };
    Config {
        scheduler: support::scheduler(scheduler),
        controller: support::controller(controllers[rng.below(controllers.len() as u64) as usize]),
        padding: match rng.below(4) {
            0 => PaddingPolicy::Always,
            1 => PaddingPolicy::Never,
            _ => PaddingPolicy::WhileProbing,
        },
        media,
        ..support::usual()
    }
}

/// Runs four seconds of one to three paths and frames of any size, importance and spacing.
fn live_through(seed: u64, scheduler: &str) {
    let mut rng = Seed(seed).derive(scheduler).rng();
    let paths = (0..1 + rng.below(3)).map(|_| any_path(&mut rng)).collect();
    let config = any_config(&mut rng, scheduler);
    let mut network = Network::new(config, paths);
    network.reseed(Seed(seed));
    let largest = [2_000, 20_000, 60_000][rng.below(3) as usize];
    while network.now < Instant::from_secs(4) {
        let importance = match rng.below(10) {
            0 => Importance::Key,
            1..4 => Importance::Disposable,
            _ => Importance::Reference,
        };
        network.send_frame(1 + rng.below(largest) as usize, importance);
        network.run_until(network.now + Duration::from_millis(1 + rng.below(80)));
    }
}

#[test]
fn no_timer_is_in_the_past_with_any_scheduler() {
    for entry in SCHEDULERS {
        for seed in 0..20 {
            live_through(seed, entry.name);
        }
    }
}

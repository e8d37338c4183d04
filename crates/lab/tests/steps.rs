//! A run has the same results in whatever steps it advances, though packets of several links arrive
//! at the same instant, as over links with traces.

use std::path::Path;

use anabranch_lab::{LiveRun, RunHooks, Scenario};
use anabranch_units::{Duration, Instant};

fn hash(scenario: &Scenario, seed: u64, step: Duration) -> String {
    let mut run = LiveRun::new(scenario, seed, RunHooks::default()).expect("it is valid");
    let mut at = Instant::ZERO;
    while !run.is_over() {
        at += step;
        run.advance(at, &mut ()).expect("no trace is written");
    }
    run.trace_hash().to_string()
}

#[test]
fn steps_change_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/multipath");
    let scenario = Scenario::load(&folder.join("cellular.toml"), &[]).expect("it is valid");
    for seed in 1..=3 {
        let whole = hash(&scenario, seed, scenario.duration);
        for step_micros in [100_000, 333_300, 1_234_567] {
            let stepped = hash(&scenario, seed, Duration::from_micros(step_micros));
            assert_eq!(whole, stepped, "seed {seed}, steps of {step_micros} µs");
        }
    }
}

//! Senders of SRTLA before a model of libsrt's receiver, over simulated links.
//!
//! `SRTLA_SEEDS=200 cargo test --release -p anabranch-srtla --test tests judge -- --nocapture`
//! prints the table of `docs/decisions/0246-a-sender-of-srtla.md`. Its seeds begin with
//! `SRTLA_FIRST=10000`: rules were chosen by lower ones.

pub mod bond;
pub mod cases;
pub mod classic;
pub mod libsrt;
pub mod network;
pub mod run;

use anabranch_units::Seed;
use bond::{Bond, Ours};
use cases::{CASES, Case};
use classic::Classic;
use run::{Outcome, run};

/// Returns the seeds.
fn seeds() -> std::ops::Range<u64> {
    fn given(name: &str, default: u64) -> u64 {
        let text = std::env::var(name).ok();
        text.map_or(default, |text: String| {
            text.parse().expect("a number of seeds")
        })
    }
    let first = given("SRTLA_FIRST", 1);
    first..first + given("SRTLA_SEEDS", 4)
}

fn outcomes<B: Bond>(case: &Case) -> Outcome {
    seeds()
        .map(|seed| run::<B>(case, Seed(seed)))
        .fold(Outcome::default(), Outcome::plus)
}

#[test]
fn every_case_keeps_its_bars_and_a_window_algorithm_does_not() {
    println!("case | ours: missing / again | windows: missing / again");
    let mut misses = Vec::new();
    let mut classic_misses = 0;
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for case in CASES {
            let run = scope.spawn(move || (outcomes::<Ours>(case), outcomes::<Classic>(case)));
            running.push(run);
        }
        for (case, run) in CASES.iter().zip(running) {
            let (ours, classic) = run.join().expect("a run");
            println!("{} | {ours} | {classic}", case.name);
            if let Some(miss) = case.miss(&ours) {
                misses.push(format!("{}: {miss}", case.name));
            }
            classic_misses += usize::from(case.miss(&classic).is_some());
        }
    });
    assert!(misses.is_empty(), "{misses:#?}");
    assert!(classic_misses >= 4, "the model tells no algorithms apart");
}

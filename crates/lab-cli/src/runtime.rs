//! `anabranch-lab run --runtime`: the library's sender and receiver over a scenario's links, in
//! virtual time.
//!
//! Each path of the flow is a line of a camera, with the route's two links; a studio receives at a
//! perfect line. The session is opened before the scenario begins, whose schedules are postponed by
//! that time.

mod carried;
mod ends;
mod meter;

use anabranch_lab::{Outcome, Progress, Recording, Report, RunOptions, Scenario};
use anabranch_net::testing::World;
use anabranch_units::{Duration, Instant, Seed};
use anyhow::bail;

use carried::Carried;
use ends::Ends;

/// Times before the scenario in which the session is opened, tried one after the other: a link may
/// lose the handshake several times.
const PREPARATIONS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(16),
];

/// Runs a scenario once per seed.
pub(crate) fn run(
    scenario: &Scenario,
    options: &RunOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> anyhow::Result<Report> {
    Carried::of(scenario)?;
    let outcomes: Vec<Outcome> =
        anabranch_lab::in_parallel(&options.seeds, options.threads, |seed| {
            run_once(scenario, *seed, progress)
        })
        .into_iter()
        .collect::<anyhow::Result<_>>()?;
    Ok(anabranch_lab::report(scenario, &outcomes))
}

fn run_once(
    scenario: &Scenario,
    seed: u64,
    progress: &(dyn Fn(Progress) + Sync),
) -> anyhow::Result<Outcome> {
    for preparation in PREPARATIONS {
        let recording = Recording::new(scenario, seed);
        // With the starts that this seed draws.
        let scenario = recording.scenario().clone();
        let carried = Carried::of(&scenario)?;
        let world = World::new(seed);
        let connected = Ends::connect(&world, &carried, recording, preparation, Seed(seed))?;
        let Some(mut ends) = connected else {
            continue;
        };
        let mut before = Instant::ZERO;
        while let Some(stop) = ends.advance()? {
            progress(Progress {
                seed,
                simulated: stop - before,
            });
            before = stop;
        }
        return Ok(ends.finish());
    }
    bail!(
        "seed {seed}: no session within {} s: with these losses, the links carry no handshake",
        PREPARATIONS[PREPARATIONS.len() - 1].as_secs_f64()
    )
}

//! The same films in the simulator.

use anabranch_lab::{RunOptions, run_outcomes};

use super::films::{Film, World};
use super::networks::Network;
use super::rows::Row;

/// Plays films with a row's controller in the simulator, one for each seed.
///
/// # Errors
/// The scenario cannot be run.
pub(super) fn films(
    network: &Network,
    row: &Row,
    seconds: u64,
    count: u64,
) -> anyhow::Result<Vec<Film>> {
    fn rate(bits_per_second: f64, run_seconds: f64, seconds: u64) -> f64 {
        bits_per_second * run_seconds / seconds as f64 * 1e-6
    }

    let Some(controller) = row.simulated() else {
        return Ok(Vec::new());
    };
    let scenario = network.scenario(&controller, seconds)?;
    let run_seconds = scenario.duration.as_secs_f64();
    let outcomes = run_outcomes(&scenario, &RunOptions::seeds(count), &|_progress| ())?;
    let mut films = Vec::new();
    for outcome in outcomes {
        let Some(flow) = outcome.statistics.flows.first() else {
            continue;
        };
        let download = flow.download.unwrap_or_default();
        let stalled = download.stall_time_ms / 1e3;
        let lasted = download.start_up_ms.unwrap_or_default() / 1e3 + seconds as f64 + stalled;
        // Bits of the whole run, over the film's length as in the kernel.
        let paths = flow.paths.iter();
        let megabits = paths.map(|path| {
            rate(
                path.traffic.throughput_bits_per_second,
                run_seconds,
                seconds,
            )
        });
        films.push(Film {
            world: World::Simulator,
            network: network.name.to_owned(),
            row: row.to_string(),
            number: outcome.seed,
            underflows: download.underflows.saturating_sub(1),
            stalled_seconds: stalled,
            discards: download.discarded,
            path_megabits: megabits.collect(),
            resent: flow.traffic.packets_retransmitted,
            dropped: flow.traffic.packets_dropped,
            lasted_seconds: lasted.min(run_seconds),
            void: None,
        });
    }
    Ok(films)
}

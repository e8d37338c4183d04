//! `anabranch-lab parity`: a scenario in the simulator, and over links in real time with the
//! kernel's TCP and MPTCP.

mod plan;
mod real;
mod verdict;

use std::path::PathBuf;

use anabranch_emu::namespace::obtain_rights;
use anabranch_lab as lab;
use anabranch_terminal::exit::Failure;
use anabranch_terminal::print;
use anabranch_units::Seed;

use crate::progress::Progress;
use plan::Plan;
use verdict::Comparison;

/// Compare the simulator with this kernel's TCP and MPTCP over the same links.
///
/// Simulates a scenario, runs it over links in real time, and compares the goodput of each flow.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Flows are of kind bulk, without end. Their controllers are cubic, new-reno or bbr-linux, which the
kernel calls cubic, reno and bbr. A flow of one path is a TCP connection; one of all paths is a
connection of MPTCP. Both medians of a flow's goodput differ by at most 5 %, or the exit code is 4.
A run whose packets left late is void. It needs Linux, and keeps time better as root.

  anabranch-lab parity scenarios/parity/two-paths.toml")]
pub(crate) struct Arguments {
    /// The scenario file.
    scenario: PathBuf,
    /// Number of simulated runs.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Number of runs in real time.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100))]
    runs: u64,
    /// Set a value of the scenario: `duration="20 s"`. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let scenario = lab::Scenario::load(&arguments.scenario, &arguments.settings)?;
    let plan = Plan::of(&scenario)?;
    // Before any thread.
    obtain_rights()?;
    let mut real = Vec::new();
    for number in 1..=arguments.runs {
        let seconds = scenario.duration.as_secs_f64();
        let count = arguments.runs;
        print::note(format_args!(
            "run {number} of {count} in real time takes {seconds} s"
        ));
        real.push(real::run(&plan, Seed(number))?);
    }
    let simulated = simulate(&scenario, arguments.seeds)?;
    let comparison = Comparison::new(&plan, &simulated, &real);
    print::text(comparison.table())?;
    match comparison.failure() {
        None => Ok(()),
        Some(failure) => Err(Failure::Unmet(failure).into()),
    }
}

/// Returns the goodput of each flow in each run, in bits per second.
fn simulate(scenario: &lab::Scenario, seeds: u64) -> anyhow::Result<Vec<Vec<f64>>> {
    let progress = Progress::new(scenario.duration * seeds);
    let options = lab::RunOptions::seeds(seeds);
    let outcomes = lab::run_outcomes(scenario, &options, &|part| progress.add(part.simulated))?;
    progress.finish();
    let goodputs = outcomes.iter().map(|outcome| {
        let flows = outcome.statistics.flows.iter();
        flows.map(|flow| flow.goodput_bits_per_second).collect()
    });
    Ok(goodputs.collect())
}

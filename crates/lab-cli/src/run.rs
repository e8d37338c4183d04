//! `anabranch-lab run`: a scenario in the simulator.

use std::path::PathBuf;

use anabranch_lab as lab;
use anabranch_terminal::exit::Failure;
use anabranch_terminal::files::check_writable;
use anabranch_terminal::print;
use anabranch_units::Duration;
use anyhow::{Context, ensure};
use clap::ValueEnum;

use crate::progress::Progress;
use crate::{rows, runtime};

/// Run a scenario in the simulator and print the measurements.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The same scenario and seed give the same trace hash, on any machine. Scenario files are explained in
docs/scenarios.md.

  anabranch-lab run scenarios/two-paths.toml
  anabranch-lab run scenarios/two-paths.toml --seeds 10 --set flows.0.scheduler=wrr
  anabranch-lab run scenarios/two-paths.toml --trace out && anabranch-lab plot out
  anabranch-lab run scenarios/two-paths.toml --runtime

With --runtime the library's sender and receiver meet over the scenario's links, with handshake,
encryption, sockets and timers as in `anabranch send` and `recv`, but in a world in memory: a minute
takes seconds. The table is the same. The scenario needs one flow of media, and one link each way
for each of its paths; a part that the runtime does not carry is named.

A large sweep in parts, on any number of machines, and their join (docs/cluster.md):

  anabranch-lab run grid.toml --seeds 100 --shard 3/40 --output part-3.jsonl
  anabranch-lab merge part-*.jsonl --output all.jsonl

A command with --output that was interrupted continues when it is repeated. Its exit code is 0 also
if runs failed or expectations were not met: the rows say it.")]
pub(crate) struct Arguments {
    /// Scenario file; `-` is standard input.
    scenario: PathBuf,
    /// Number of seeds to run, starting with --first-seed, on all cores.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=lab::MAX_SEEDS))]
    seeds: u64,
    /// First seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    first_seed: u64,
    /// Set a value of the scenario: `links.wifi.rate="2 Mbit/s"`, `flows.0.controller=fixed`; or a
    /// list of its sweep: `sweep.links.wifi.rate=["1 Mbit/s", "2 Mbit/s"]`. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Output format: a table, or the JSON report.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write traces as CSV into this folder, for `anabranch-lab plot` or your own tools.
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Trace every datagram too, with about 100 bytes each.
    #[arg(long, requires = "trace")]
    trace_packets: bool,
    /// Draw a sweep over its numeric key into this SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write a line of JSON for each run into this file, instead of a report.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "trace", "plot"])]
    output: Option<PathBuf>,
    /// Run only a part of all points and seeds: 3/40 is the third of forty equal parts.
    #[arg(long, value_name = "K/N", requires = "output", default_value_t = lab::Shard::WHOLE)]
    shard: lab::Shard,
    /// Run the library's sender and receiver instead of the simulator, in virtual time.
    #[arg(long, conflicts_with_all = ["trace", "plot", "output"])]
    runtime: bool,
    /// Number of parallel runs; 0 means one per core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

/// Value of `--format`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    /// A table for people.
    #[default]
    Table,
    /// JSON for programs; a stable contract (docs/scenarios.md).
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let last_seed = arguments
        .first_seed
        .checked_add(arguments.seeds - 1)
        .context("--first-seed is too large for --seeds")?;
    if let Some(output) = &arguments.output {
        let swept = lab::Swept::load(&arguments.scenario, &arguments.settings)?;
        let header = rows::header(&swept, arguments.first_seed..=last_seed, arguments.shard);
        return rows::run(&swept, &header, output, arguments.threads);
    }
    let points = lab::Point::load(&arguments.scenario, &arguments.settings)?;
    let options = lab::RunOptions {
        seeds: (arguments.first_seed..=last_seed).collect(),
        threads: arguments.threads,
        trace: arguments.trace.clone().map(|folder| {
            (
                folder,
                lab::TraceOptions {
                    has_packets: arguments.trace_packets,
                },
            )
        }),
        series_interval: None,
    };
    match &points[..] {
        [point] if point.settings.is_empty() => {
            ensure!(
                arguments.plot.is_none(),
                "--plot draws a sweep, and the scenario has none"
            );
            run_one(&point.scenario, &options, arguments)
        }
        points => {
            ensure!(
                !arguments.runtime,
                "--runtime runs one network, and the scenario sweeps {} points: choose one by \
                 --set sweep={{}} and --set KEY=VALUE",
                points.len()
            );
            if let Some(path) = &arguments.plot {
                check_writable(path)?;
            }
            run_sweep(points, &options, arguments)
        }
    }
}

fn run_sweep(
    points: &[lab::Point],
    options: &lab::RunOptions,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    let durations = points.iter().map(|point| point.scenario.duration);
    let simulated = durations.fold(Duration::ZERO, |sum, duration| sum + duration);
    let progress = Progress::new(simulated * arguments.seeds);
    let report = lab::run_sweep(points, options, &|part| progress.add(part.simulated))?;
    progress.finish();
    match arguments.format {
        Format::Table => print::text(lab::sweep_table(&report))?,
        Format::Json => print::text(lab::sweep_json(&report))?,
    }
    if let Some(path) = &arguments.plot {
        lab::plot_sweep(&report, path)?;
    }
    if report.is_as_expected {
        return Ok(());
    }
    let broken = report
        .points
        .iter()
        .filter(|point| !point.report.is_as_expected);
    let text = format!(
        "expectations are not met at {} of {} points",
        broken.count(),
        report.points.len()
    );
    Err(Failure::Unmet(text).into())
}

fn run_one(
    scenario: &lab::Scenario,
    options: &lab::RunOptions,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    let progress = Progress::new(scenario.duration * options.seeds.len() as u64);
    let add = |part: lab::Progress| progress.add(part.simulated);
    let report = if arguments.runtime {
        runtime::run(scenario, options, &add)?
    } else {
        lab::run(scenario, options, &add)?
    };
    progress.finish();
    match arguments.format {
        Format::Table => print::text(lab::table(&report))?,
        Format::Json => print::line(lab::json(&report))?,
    }
    if report.is_as_expected {
        return Ok(());
    }
    let broken = report
        .expectations
        .iter()
        .filter(|expectation| !expectation.is_met);
    Err(Failure::Unmet(format!(
        "{} of the scenario's {} expectations not met",
        broken.count(),
        report.expectations.len()
    ))
    .into())
}

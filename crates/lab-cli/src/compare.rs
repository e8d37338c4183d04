//! `anabranch-lab compare`: controllers, schedulers or settings side by side.

use std::path::PathBuf;

use anabranch_lab as lab;
use anabranch_lab::compare::{
    Column, USUAL_METRICS, Vary, compare, comparison_csv, comparison_json, comparison_svg,
    comparison_table,
};
use anabranch_terminal::files::check_writable;
use anabranch_terminal::print;
use anabranch_units::Duration;
use anyhow::{Context, ensure};
use clap::ValueEnum;

use crate::progress::Progress;

/// Run scenarios with several controllers, schedulers or settings, side by side.
///
/// Prints means with 95 % confidence intervals. Each candidate replaces the controller (or
/// scheduler) of the first flow, and of every flow with the same one; other flows keep theirs.
/// Every point of a scenario's `[sweep]` has rows of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
  anabranch-lab compare --controllers live-bbr,new-reno scenarios/two-paths.toml
  anabranch-lab compare --controllers live-bbr,new-reno \\
      --metrics delay-p95,utilisation.bottleneck \\
      scenarios/zhang-delay-bbr/case-1.toml scenarios/zhang-delay-bbr/case-4.toml --plot bars.svg
  anabranch-lab compare --controllers all-media --metrics convergence-time-mean,oscillations \\
      scenarios/rmcat/5.1*.toml
  anabranch-lab compare --schedulers min-cost,wrr scenarios/multipath/*.toml --format csv
  anabranch-lab compare --vary scheduler=min-cost,wrr --vary padding=never,always \\
      scenarios/two-paths.toml")]
pub(crate) struct Arguments {
    /// Scenario files.
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Controllers, with any options: `live-bbr,live-bbr:cycle=bbr`. `all` stands for every
    /// controller in `anabranch-lab list controllers`, `all-media` for all except TCP's windows and
    /// `fixed`.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    controllers: Vec<String>,
    /// Schedulers; `all` stands for every scheduler in `anabranch-lab list schedulers`. With
    /// --controllers, all combinations are run.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    schedulers: Vec<String>,
    /// A key and its values: a key of the first flow (`padding=never,always`), or with dots any key
    /// of the scenario (`links.lte.loss=0,2 %`). Repeat the option to run all combinations.
    #[arg(long, value_name = "KEY=VALUE,…")]
    vary: Vec<Vary>,
    /// Metrics from docs/scenarios.md, of all flows together, or of one flow or link
    /// (`throughput.camera`). Without a name, a link's metric covers every link that has a rate,
    /// and a single flow's metric covers every adaptive media flow.
    #[arg(
        long,
        visible_alias = "metric",
        value_name = "NAME,…",
        value_delimiter = ','
    )]
    #[arg(default_values = USUAL_METRICS)]
    metrics: Vec<String>,
    /// Number of seeds.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Set a value of all scenarios: `flow-defaults.padding=always`. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Draw the means and intervals as bars into this file.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Number of parallel runs; 0 means one per core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// A table for people.
    #[default]
    Text,
    /// One line per cell.
    Csv,
    /// JSON with every seed's value; a stable contract (docs/scenarios.md).
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let columns = Column::product(&arguments.controllers, &arguments.schedulers);
    let varies = arguments.vary.iter();
    let columns = varies.fold(columns, |columns, vary| vary.over(&columns));
    ensure!(
        columns.iter().all(|column| *column != Column::default()),
        "name the candidates: --controllers, --schedulers, --vary"
    );
    let scenarios = arguments
        .scenarios
        .iter()
        .map(|path| {
            Column::points(&columns, |settings| {
                lab::Point::load(path, &[&arguments.settings[..], settings].concat())
            })
        })
        .collect::<Result<Vec<_>, _>>()?
        .concat();
    if let Some(path) = &arguments.plot {
        check_writable(path)?;
    }
    let spans = scenarios.iter().flatten().map(|scenario| scenario.duration);
    let simulated = spans.fold(Duration::ZERO, |sum, span| sum + span);
    let progress = Progress::new(simulated * arguments.seeds);
    let comparison = compare(
        &scenarios,
        &columns,
        &arguments.metrics,
        arguments.seeds,
        arguments.threads,
        &|part| progress.add(part.simulated),
    )?;
    progress.finish();
    if let Some(path) = &arguments.plot {
        std::fs::write(path, comparison_svg(&comparison))
            .with_context(|| path.display().to_string())?;
    }
    match arguments.format {
        Format::Text => print::text(comparison_table(&comparison)),
        Format::Csv => print::text(comparison_csv(&comparison)),
        Format::Json => print::text(comparison_json(&comparison)),
    }
}

//! `anabranch-lab dominance`: random networks in which a path more must not cost a frame.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;

use anabranch_lab as lab;
use anabranch_lab::dominance::{Figures, PROPERTIES, TOLERANCE, Variant, Verdict, judge, measure};
use anabranch_terminal::exit::Failure;
use anabranch_terminal::print;
use anabranch_units::Duration;
use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use crate::progress::Progress;

/// Duration of each run.
const SPAN: Duration = Duration::from_secs(45);
/// Number of violations that are listed.
const LISTED: usize = 20;

/// Run random networks in which a path more, or less of what harms, must not cost a frame.
///
/// Each network is drawn from its number: two or three paths with random rates, delays, queues,
/// losses, jitter, outages and schedules, and a source of fixed rate. It runs with all paths, with
/// each path alone, with a bare endpoint, and with one thing better: latency, capacity, loss,
/// jitter, queues. The measure is the share of frames that are decodable in time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The table names what should not be better, in how many networks it is by more than 0.5 points, and
the mean shortfall in points. The list below it begins with the worst network. Compare settings over
the same networks and seeds, and choose networks that a setting was not developed on.

  anabranch-lab dominance
  anabranch-lab dominance --first 2001 --count 100 --set flow-defaults.scheduler=sfl
  anabranch-lab dominance --count 500 --only all,p0,p1,p2,bare --out rows.jsonl
  anabranch-lab dominance --count 300 --set 'flow-defaults.without-rules=[\"rebinding\"]'
  anabranch-lab dominance --print 17 > network-17.toml
  anabranch-lab dominance --count 2000 --mean-budget 0.2 --largest 5")]
pub(crate) struct Arguments {
    /// Number of the first network.
    #[arg(long, value_name = "N", default_value_t = 1)]
    first: u64,
    /// Number of networks.
    #[arg(long, value_name = "N", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    count: u64,
    /// Number of seeds of each network.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Run only these variants: all, p0, p1, p2, bare, later, faster, less-loss, less-jitter,
    /// longer-queue, two-flows. Properties of other variants are not judged.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Set a value of all variants: `flow-defaults.scheduler=sfl`. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Print the scenario of this network, or of its first variant with --only, and run nothing.
    #[arg(long, value_name = "N")]
    print: Option<u64>,
    /// Write the percentages of each network as a line of JSON into this file.
    #[arg(long, value_name = "FILE.jsonl")]
    out: Option<PathBuf>,
    /// Largest mean shortfall of a property in points; with more, the exit code is 4.
    #[arg(long, value_name = "POINTS")]
    mean_budget: Option<f64>,
    /// Largest shortfall of a single network in points; with more, the exit code is 4.
    #[arg(long, value_name = "POINTS")]
    largest: Option<f64>,
    /// Number of parallel networks; 0 means one per core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

impl Arguments {
    /// Returns the variants of a network to be run.
    fn variants(&self, number: u64) -> Vec<Variant> {
        Variant::of(number)
            .into_iter()
            .filter(|variant| self.only.is_empty() || self.only.contains(&variant.name()))
            .collect()
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(number) = arguments.print {
        let Some(variant) = arguments.variants(number).first().copied() else {
            bail!("network {number} has no such variant");
        };
        return print::text(variant.scenario(number));
    }
    let out = arguments
        .out
        .as_ref()
        .map(|path| File::create(path).with_context(|| path.display().to_string()));
    let out = Mutex::new(out.transpose()?);
    let end = arguments.first.saturating_add(arguments.count);
    let numbers: Vec<u64> = (arguments.first..end).collect();
    let variant_count: usize = numbers
        .iter()
        .map(|number| arguments.variants(*number).len())
        .sum();
    let progress = Progress::new(SPAN * arguments.seeds * variant_count as u64);
    let networks = lab::in_parallel(&numbers, arguments.threads, |number| {
        let variants = arguments.variants(*number);
        let figures = measure(*number, &variants, arguments.seeds, &arguments.settings)?;
        progress.add(SPAN * arguments.seeds * variants.len() as u64);
        if let Some(file) = &mut *out.lock().expect("no thread has panicked") {
            writeln!(file, "{}", row(&figures))?;
        }
        Ok(figures)
    });
    let networks: Vec<Figures> = networks.into_iter().collect::<anyhow::Result<_>>()?;
    progress.finish();
    let verdicts = judge(&networks);
    print::text(table(&networks, &verdicts))?;
    match missed(arguments, &verdicts) {
        Some(missed) => Err(Failure::Unmet(missed).into()),
        None => Ok(()),
    }
}

/// Returns the percentages of a network as JSON.
fn row(figures: &Figures) -> Value {
    let mut row = Map::from_iter([("network".to_owned(), json!(figures.number))]);
    row.extend(
        figures
            .percent
            .iter()
            .map(|(variant, percent)| (variant.name(), json!(percent))),
    );
    Value::Object(row)
}

fn table(networks: &[Figures], verdicts: &[Verdict]) -> String {
    let all: Vec<f64> = networks
        .iter()
        .filter_map(|one| one.of(Variant::All))
        .collect();
    let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
    let mut text = format!(
        "{} networks, {mean:.2} % decodable in time over all paths\n",
        all.len()
    );
    text += &format!(
        "\n{:<15} {:>9} {:>7} {:>7}  network\n",
        "better", "networks", "mean", "worst"
    );
    for verdict in verdicts.iter().filter(|verdict| verdict.count > 0) {
        let networks = format!("{} of {}", verdict.violations, verdict.count);
        text += &format!(
            "{:<15} {networks:>9} {:>7.2}",
            verdict.property.name, verdict.mean
        );
        if let Some((points, number)) = verdict.worst {
            text += &format!(" {points:>7.2}  {number}");
        }
        text += "\n";
    }
    text + &violations(networks)
}

/// Returns the list of the largest shortfalls.
fn violations(networks: &[Figures]) -> String {
    let mut found = Vec::new();
    for figures in networks {
        for property in PROPERTIES {
            let shortfall = property.shortfall(figures).unwrap_or(0.0);
            if shortfall > TOLERANCE {
                found.push((shortfall, property.name, figures));
            }
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let lines: String = found
        .iter()
        .take(LISTED)
        .map(|(shortfall, name, figures)| {
            let shares: Vec<String> = figures
                .percent
                .iter()
                .map(|(variant, percent)| format!("{} {percent:.1}", variant.name()))
                .collect();
            format!(
                "{shortfall:>6.2}  network {:>5}  {name:<14} {}\n",
                figures.number,
                shares.join("  ")
            )
        })
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\n{lines}")
}

/// Returns the properties that miss the budgets, if any.
fn missed(arguments: &Arguments, verdicts: &[Verdict]) -> Option<String> {
    let mut missed = Vec::new();
    for verdict in verdicts {
        let name = verdict.property.name;
        if arguments
            .mean_budget
            .is_some_and(|budget| verdict.mean > budget)
        {
            missed.push(format!("{name}: {:.2} points on average", verdict.mean));
        }
        if let Some((points, number)) = verdict.worst
            && arguments.largest.is_some_and(|largest| points > largest)
        {
            missed.push(format!("{name}: {points:.2} points in network {number}"));
        }
    }
    (!missed.is_empty()).then(|| missed.join("; "))
}

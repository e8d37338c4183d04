//! `anabranch-lab reproduce`: published results compared with ours.

use std::path::PathBuf;

use anabranch_papers::{
    Cache, Claim, Columns, Finding, PageOptions, Study, StudyOptions, Swap, claims, findings_html,
    findings_json, findings_table, selected, try_others,
};
use anabranch_terminal::files::check_writable;
use anabranch_terminal::print;
use anabranch_units::nearest_name;
use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::progress::Progress;

/// Run the experiments of papers in the simulator, and report which claims hold.
///
/// Judges each figure, table and claim, with the paper's algorithm as published and with this
/// project's form of it. Writes an HTML report with pictures and prints a summary. A claim that
/// differs is a result, not a failure.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
WHAT is a paper (zhang-delay-bbr), a claim (S0-F3) or the beginning of claims (S0, S0-F); without
it, everything is reproduced. Runs are kept by scenario, seed and the code that they execute. An
interrupted command continues; runs that a change concerns are repeated.

  anabranch-lab reproduce
  anabranch-lab reproduce S0-F7 --seeds 3
  anabranch-lab reproduce --list
  anabranch-lab reproduce zhang-delay-bbr --swap fixed # a claim must not hold for any controller")]
pub(crate) struct Arguments {
    /// Papers, claims, or beginnings of claims.
    what: Vec<String>,
    /// List the claims without running them.
    #[arg(long)]
    list: bool,
    /// Maximum number of seeds; medians and ranges are reported. A claim is run with 4 seeds. If
    /// its verdict is within a margin that depends on the spread of the runs, 7 and then all seeds
    /// follow.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// Run all seeds for every claim, even if its verdict is clear.
    #[arg(long)]
    all_seeds: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Output file of the report.
    #[arg(long, value_name = "FILE", default_value = "anabranch-report.html")]
    output: PathBuf,
    /// Address of the site of the documents (`make site`), relative to the report or absolute: the
    /// report then links each scenario to its playground.
    #[arg(long, value_name = "URL")]
    site: Option<String>,
    /// Folder in which runs are kept [default: `anabranch` in the user's cache folder].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Run everything again, and keep no runs.
    #[arg(long, conflicts_with = "cache")]
    no_cache: bool,
    /// Negative control: test every claim about a controller with this one in its place.
    #[arg(long, value_name = "CONTROLLER")]
    swap: Option<String>,
    /// Negative control: test every claim about a scheduler with this one in its place.
    #[arg(long, value_name = "SCHEDULER")]
    swap_scheduler: Option<String>,
    /// Try other controllers and schedulers in each claim, and report which of them pass it as
    /// well.
    #[arg(long, conflicts_with_all = ["swap", "swap_scheduler"])]
    others: bool,
    /// Number of parallel runs; 0 means one per core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// A summary for people.
    #[default]
    Text,
    /// JSON for programs; a stable contract (docs/scenarios.md).
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let claims = match selected(&arguments.what) {
        Ok(claims) => claims,
        Err(unknown) => bail!(
            "no paper or claim is called {unknown:?}: {}; `anabranch-lab reproduce --list` lists \
             all",
            match nearest_name(unknown, &known()) {
                Some(name) => format!("did you mean {name:?}?"),
                None => format!("the papers are {}", papers().join(", ")),
            }
        ),
    };
    if arguments.list {
        return print::text(list(&claims));
    }
    check_writable(&arguments.output)?;
    let findings = findings(&claims, arguments)?;
    let program = concat!("Anabranch ", env!("CARGO_PKG_VERSION"));
    let options = PageOptions {
        seed_count: arguments.seeds,
        program,
        site: arguments.site.as_deref(),
    };
    let page = findings_html(&findings, &options);
    std::fs::write(&arguments.output, page)
        .with_context(|| arguments.output.display().to_string())?;
    match arguments.format {
        Format::Text => {
            print::text(findings_table(&findings, arguments.seeds))?;
            let pictures = arguments.output.display();
            print::line(format_args!("\nwith pictures: {pictures}"))
        }
        Format::Json => print::text(findings_json(&findings, arguments.seeds)),
    }
}

fn findings(claims: &[&'static Claim], arguments: &Arguments) -> anyhow::Result<Vec<Finding>> {
    let swap = Swap {
        controller: arguments.swap.as_deref(),
        scheduler: arguments.swap_scheduler.as_deref(),
    };
    // A swapped-in algorithm has no published form.
    let columns = match (swap.controller, swap.scheduler) {
        (None, None) => Columns::Both,
        _ => Columns::AsNamed,
    };
    let study = Study::new(claims, swap, columns)?;
    let root = arguments.cache.clone().unwrap_or_else(Cache::usual_root);
    let cache = if arguments.no_cache {
        None
    } else {
        Some(Cache::open(&root).with_context(|| root.display().to_string())?)
    };
    let options = StudyOptions {
        seed_count: arguments.seeds,
        takes_all_seeds: arguments.all_seeds,
        threads: arguments.threads,
        cache,
    };
    let progress = Progress::new(study.simulated() * arguments.seeds);
    let mut findings = study.findings(&options, &|part| progress.add(part.simulated))?;
    progress.finish();
    if arguments.others {
        try_others(&mut findings, &options, &|_| ())?;
    }
    Ok(findings)
}

/// Returns a list of all claims.
pub(crate) fn claim_list() -> String {
    list(&claims().collect::<Vec<_>>())
}

fn list(claims: &[&Claim]) -> String {
    claims
        .iter()
        .map(|claim| format!("{:<16} {:<20} {}\n", claim.id, claim.figure, claim.claim))
        .collect()
}

fn papers() -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for key in claims().map(|claim| claim.paper.key) {
        if !names.contains(&key) {
            names.push(key);
        }
    }
    names
}

/// Returns the keys of papers, then the IDs of claims.
fn known() -> Vec<&'static str> {
    let mut names = papers();
    names.extend(claims().map(|claim| claim.id));
    names
}

//! `anabranch-lab testbed`: the testbeds of two papers, rebuilt with this kernel, nginx and VLC.

mod batch;
mod claims;
mod film;
mod films;
mod needs;
mod networks;
mod player;
mod programs;
mod report;
mod rows;
mod simulated;

use std::fs;
use std::path::PathBuf;

use anabranch_terminal::print;
use anyhow::{Context, ensure};

use batch::Batches;
use networks::Testbed;
use rows::Row;

/// Rebuild a paper's testbed: films by HTTP over kernel MPTCP, played by VLC.
///
/// nginx serves a film over emulated links by MPTCP, and VLC plays it without a screen. The
/// simulator plays the same films. A report compares the paper's claims with both.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It needs root, and programs that `scripts/testbed-packages.sh` installs. Rows are kernel MPTCP with
cubic, bbr or a controller of `anabranch-lab kernel load`, and `proxy:NAME`: this project's proxy
with a scheduler. An underflow is `Stream buffering done` in VLC's log, after the first one. A film
whose links were late, or whose control from disk lost more than 3 % of its pictures, is void.

  anabranch-lab testbed kondo --films 5 --output kondo.md
  anabranch-lab testbed matsufuji --network 100/200 --row cubic --row bpf_lia --seconds 60

Five films of all rows take hours: nothing else should run then.")]
pub(crate) struct Arguments {
    /// The paper.
    #[arg(value_enum)]
    paper: Testbed,
    /// Films of each row in each network.
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100))]
    films: u64,
    /// Length of the film [default: that of the paper].
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(10..=7_200))]
    seconds: Option<u64>,
    /// Only this row: cubic, bbr, bpf_lia, proxy:lpc. May be repeated.
    #[arg(long = "row", value_name = "NAME")]
    rows: Vec<Row>,
    /// Only this network: A, B or C; 100/100, 100/200 or 200/100. May be repeated.
    #[arg(long = "network", value_name = "NAME")]
    networks: Vec<String>,
    /// Films at the same time, each with links of its own. More than one disturb each other on a
    /// machine of few processors.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=8))]
    beside: u64,
    /// Write the report as Markdown to this file; it is printed otherwise.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write all films as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write all films as CSV to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Folder for the film, and logs of all programs [default: a temporary one]. A film of this
    /// length is used again.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let rows = if arguments.rows.is_empty() {
        Row::all()
    } else {
        arguments.rows.clone()
    };
    let mut networks = arguments.paper.networks();
    let known: Vec<&str> = networks.iter().map(|network| network.name).collect();
    for name in &arguments.networks {
        ensure!(
            known.contains(&name.as_str()),
            "{name} is no network of this paper: use {}",
            known.join(", ")
        );
    }
    if !arguments.networks.is_empty() {
        networks.retain(|network| arguments.networks.iter().any(|name| name == network.name));
    }
    needs::require(&rows)?;
    let temporary = tempfile::tempdir().context("cannot make a folder")?;
    let folder = arguments.folder.as_deref().unwrap_or(temporary.path());
    let seconds = arguments.seconds.unwrap_or(arguments.paper.film_seconds());
    let batches = Batches {
        networks: &networks,
        rows: &rows,
        film_count: arguments.films,
        beside: arguments.beside as usize,
        seconds,
        folder,
    };
    let films = batches.run()?;
    if let Some(path) = &arguments.json {
        write(path, &report::json(&films)?)?;
    }
    if let Some(path) = &arguments.csv {
        write(path, &report::csv(&films))?;
    }
    let page = report::markdown(arguments.paper, seconds, &films);
    match &arguments.output {
        Some(path) => write(path, &page),
        None => print::text(page),
    }
}

fn write(path: &std::path::Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

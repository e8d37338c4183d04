//! `anabranch-lab contest`: this transport compared with its alternatives.

mod real;
#[cfg(target_os = "linux")]
mod rivals;
mod table;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_lab as lab;
use anabranch_lab::contest::{ROWS, Row};
use anabranch_terminal::exit::Failure;
use anabranch_terminal::print;
use anabranch_units::{Duration, Seed, known_names};
use anyhow::{Context, bail};

use crate::progress::Progress;
use table::{Figures, Judged};

/// Number of parallel rows in real time; more rows would compete for processors.
const ROWS_AT_A_TIME: usize = 2;

/// Number of seeds of simulated rows.
const DEFAULT_SEEDS: u64 = 10;
/// Number of seeds of each transport over emulated links.
#[cfg(target_os = "linux")]
const DEFAULT_SEEDS_OF_RIVALS: u64 = 3;

/// Compare this transport with SRT, RIST, SRTLA and noq: frames in time, and overhead.
///
/// Runs the cases in which those transports were measured, and prints their figures beside this
/// transport's. All rows have the same settings, except links, stream and latency budget.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The cases are scenarios/contest/*.toml. With --real the runtimes of `send` and `recv` meet over real
sockets, encrypted, with the same links in a relay between them, for a minute a row. A row holds if
every seed meets its bar; if one does not, the exit code is 4. Bars are for a minute: shorter rows
(--quick, --set duration=…) are not judged.

With --rivals the alternatives run, too, each by its own programs, over the same emulated links
between two network namespaces. Debian's packages are srt-tools, rist-tools, socat and mptcpize;
SRT's groups need srt-test-live. Programs that are missing are named, and left out. It needs Linux,
and root to keep time. Its rows are those above (without 6a) and those of the weather. A row takes
as long as its scenario, for each transport and seed.

  anabranch-lab contest
  anabranch-lab contest --real --quick
  anabranch-lab contest --row 4 --set flows.0.scheduler=wrr
  anabranch-lab contest --rivals --row 4 --row jitter-one-40 --seeds 3 --format markdown")]
pub(crate) struct Arguments {
    /// Run in real time, over real sockets.
    #[arg(long)]
    real: bool,
    /// With --real, run each row for 10 s. That is too short for verdicts: failures begin at 3 s
    /// and last 4 s.
    #[arg(long, requires = "real")]
    quick: bool,
    /// Run only the rows whose names begin with this: `4`, `6a`. May be repeated.
    #[arg(long = "row", value_name = "NAME")]
    rows: Vec<String>,
    /// Number of seeds; --real has one [default: 10, with --rivals 3].
    #[arg(long, value_name = "N", conflicts_with = "real")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,
    /// Set a value in every row: `flows.0.fec=adaptive`. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    rivals: RivalArguments,
}

/// Options of `--rivals`.
#[cfg(target_os = "linux")]
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Beside other transports")]
struct RivalArguments {
    /// Run SRT, RIST, SRTLA, kernel MPTCP and Anabranch in turn, by their own programs, over
    /// emulated links.
    #[arg(long, conflicts_with_all = ["real", "settings"])]
    rivals: bool,
    /// Run only this transport. May be repeated.
    #[arg(long = "transport", value_name = "NAME", requires = "rivals")]
    transports: Vec<rivals::Transport>,
    /// Longest time of a row's stream. Events of its network that come later are left out.
    #[arg(long, value_name = "N", requires = "rivals")]
    #[arg(value_parser = clap::value_parser!(u64).range(5..=3_600))]
    seconds: Option<u64>,
    /// Number of runs at a time. More than one share the machine's processors.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rivals")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=64))]
    at_a_time: u64,
    /// Format of the results.
    #[arg(long, value_enum, default_value_t, requires = "rivals")]
    format: rivals::Format,
    /// The program `anabranch` [default: the one beside this program].
    #[arg(long, value_name = "FILE", requires = "rivals")]
    program: Option<std::path::PathBuf>,
}

/// Returns the names and cases of all rows.
pub(crate) fn row_list() -> String {
    let rows: String = ROWS
        .iter()
        .map(|row| format!("{:<4} {}\n", row.name, row.case))
        .collect();
    #[cfg(target_os = "linux")]
    return rows + "\nwith --rivals:\n" + &rivals::row_list();
    #[cfg(not(target_os = "linux"))]
    rows
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    if arguments.rivals.rivals {
        return run_rivals(arguments);
    }
    for name in &arguments.rows {
        let known = ROWS.iter().map(|row| row.name);
        if !known.clone().any(|known| known.starts_with(name.as_str())) {
            bail!("--row {name}: known are {}", known_names(name, known));
        }
    }
    let rows: Vec<(&Row, lab::Scenario)> = ROWS
        .iter()
        .filter(|row| {
            let mut names = arguments.rows.iter();
            arguments.rows.is_empty() || names.any(|name| row.name.starts_with(name.as_str()))
        })
        .map(|row| {
            let mut settings = arguments.settings.clone();
            if arguments.quick {
                settings.extend(row.quick.iter().map(|text| (*text).to_owned()));
            }
            let scenario = lab::Scenario::parse(row.name, row.scenario, &settings)?;
            Ok((row, scenario))
        })
        .collect::<anyhow::Result<_>>()?;
    let judged = if arguments.real {
        in_real_time(&rows)?
    } else {
        simulated(&rows, arguments.seeds.unwrap_or(DEFAULT_SEEDS))?
    };
    print::text(table::table(&judged, arguments.real))?;
    match table::missed(&judged) {
        None => Ok(()),
        Some(missed) => Err(Failure::Unmet(missed).into()),
    }
}

#[cfg(target_os = "linux")]
fn run_rivals(arguments: &Arguments) -> anyhow::Result<()> {
    let options = &arguments.rivals;
    rivals::run(&rivals::Wanted {
        rows: &arguments.rows,
        transports: &options.transports,
        seeds: arguments.seeds.unwrap_or(DEFAULT_SEEDS_OF_RIVALS),
        longest: options.seconds.map(Duration::from_secs),
        at_a_time: options.at_a_time as usize,
        format: options.format,
        program: options.program.as_deref(),
    })
}

fn simulated<'a>(rows: &[(&'a Row, lab::Scenario)], seeds: u64) -> anyhow::Result<Vec<Judged<'a>>> {
    let spans = rows.iter().map(|(_, scenario)| scenario.duration);
    let simulated = spans.fold(Duration::ZERO, |sum, span| sum + span);
    let progress = Progress::new(simulated * seeds);
    let options = lab::RunOptions::seeds(seeds);
    let judged = rows
        .iter()
        .map(|(row, scenario)| {
            let report = lab::run(scenario, &options, &|part| progress.add(part.simulated))?;
            let of_runs = report.runs.iter().map(|run| {
                let flow = &run.statistics.total;
                let delivered = if table::counts_decodable(scenario) {
                    flow.frames.decodable_on_time_ratio
                } else {
                    flow.frames.complete_on_time_ratio
                };
                Some(Figures {
                    delivered: delivered?,
                    decodable: flow.frames.decodable_on_time_ratio?,
                    overhead: flow.overhead_ratio?,
                })
            });
            let figures: Option<Vec<Figures>> = of_runs.collect();
            Ok(Judged::new(
                row,
                scenario,
                figures.context("a row sent nothing")?,
            ))
        })
        .collect::<anyhow::Result<_>>()?;
    progress.finish();
    Ok(judged)
}

fn in_real_time<'a>(rows: &[(&'a Row, lab::Scenario)]) -> anyhow::Result<Vec<Judged<'a>>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..ROWS_AT_A_TIME.min(rows.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((row, scenario)) = rows.get(index) else {
                        return;
                    };
                    let seconds = scenario.duration.as_secs_f64();
                    print::note(format_args!("row {} runs for {seconds} s", row.name));
                    let figures = real::run(scenario, Seed(1));
                    let mut done = done.lock().expect("no thread has panicked");
                    done.push((index, figures));
                    print::note(format_args!("{} of {} rows done", done.len(), rows.len()));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread has panicked");
    done.sort_by_key(|(index, _)| *index);
    let judged = done.into_iter().map(|(index, figures)| {
        let (row, scenario) = &rows[index];
        Ok(Judged::new(row, scenario, vec![figures?]))
    });
    judged.collect()
}

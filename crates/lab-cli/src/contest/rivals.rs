//! `contest --rivals`: this transport and its alternatives, each by its own programs, over the same
//! links with the same stream.

mod rows;
mod run;
mod summary;
mod table;
mod transport;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_emu::namespace::obtain_rights;
use anabranch_terminal::print;
use anabranch_units::{Duration, Seed, known_names};
use anyhow::{Context, bail, ensure};

use crate::over_link::anabranch;
use rows::Row;
use summary::Run;
use table::{Results, Skipped};
use transport::{Equipment, TRANSPORTS};

pub(super) use transport::Transport;

/// Settings of `contest --rivals`.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// Beginnings of rows' names; all rows if there are none.
    pub(super) rows: &'a [String],
    /// Transports; all if there are none.
    pub(super) transports: &'a [Transport],
    pub(super) seeds: u64,
    /// Longest time of a row; `None`: its own.
    pub(super) longest: Option<Duration>,
    /// Number of runs at a time.
    pub(super) at_a_time: usize,
    pub(super) format: Format,
    /// The program `anabranch`; `None`: the one beside this program.
    pub(super) program: Option<&'a Path>,
}

/// Format of the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// A table for people.
    #[default]
    Text,
    /// One line per run.
    Csv,
    /// JSON with every run.
    Json,
    /// Tables for a document.
    Markdown,
}

/// Returns the names and cases of all rows.
pub(super) fn row_list() -> String {
    let rows = rows::all().unwrap_or_default();
    rows.iter()
        .map(|row| format!("{:<20} {}\n", row.name, row.case))
        .collect()
}

/// Runs the transports in turn.
///
/// # Errors
/// An unknown row, no rights to make namespaces, or no program `anabranch`.
pub(super) fn run(wanted: &Wanted<'_>) -> anyhow::Result<()> {
    let rows = selected(wanted.rows)?;
    let program = anabranch::program(wanted.program)?;
    // Before any thread.
    if obtain_rights()? {
        print::warn(
            "without root this machine may run other programs before the links: runs in which \
             packets leave late are not judged",
        );
    }
    let folder = tempfile::tempdir().context("cannot make a folder for keys and logs")?;
    let equipment = equipment(program, folder.path())?;
    let (tasks, skipped) = plan(&rows, wanted);
    for Skipped {
        row,
        transport,
        reason,
    } in &skipped
    {
        print::note(format_args!(
            "row {row} leaves out {}: {reason}",
            transport.name()
        ));
    }
    ensure!(!tasks.is_empty(), "no transport can run on these rows");
    let before = load();
    let runs = run_all(&tasks, &rows, wanted, &equipment);
    if runs.iter().any(|run| run.outcome.is_err()) {
        let kept = folder.keep();
        print::note(format_args!("logs are in {}", kept.display()));
    }
    let results = Results {
        command: command_line(std::env::args().skip(1)),
        versions: versions(&equipment),
        runs,
        skipped,
        machine: machine(&before, wanted.at_a_time),
        rows,
    };
    print::text(match wanted.format {
        Format::Text => results.text(),
        Format::Csv => results.csv(),
        Format::Json => results.json(),
        Format::Markdown => results.markdown(),
    })
}

/// Returns the rows whose names begin with one of these.
fn selected(names: &[String]) -> anyhow::Result<Vec<Row>> {
    let rows = rows::all()?;
    for name in names {
        let known = rows.iter().map(|row| row.name);
        if !known.clone().any(|known| known.starts_with(name.as_str())) {
            bail!("--row {name}: known are {}", known_names(name, known));
        }
    }
    Ok(rows
        .into_iter()
        .filter(|row| {
            let mut wanted = names.iter();
            names.is_empty() || wanted.any(|name| row.name.starts_with(name.as_str()))
        })
        .collect())
}

/// Makes keys and lists of addresses in a folder.
fn equipment(program: PathBuf, folder: &Path) -> anyhow::Result<Equipment> {
    let keys = [
        anabranch::make_key(&program, folder, "sender")?,
        anabranch::make_key(&program, folder, "receiver")?,
    ];
    for path_count in 1..=2 {
        let path = transport::address_file(folder, path_count);
        fs::write(&path, transport::addresses(path_count))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Equipment {
        anabranch: program,
        folder: folder.to_owned(),
        keys,
        has_srtla_send: anabranch::find("srtla_send").is_some(),
    })
}

/// A run to be made.
#[derive(Clone, Copy, Debug)]
struct Task {
    row_index: usize,
    transport: Transport,
    seed: Seed,
}

/// Returns the runs, and the transports that cannot run on a row. Transports take turns, so that
/// a machine's busy time concerns all of them.
fn plan(rows: &[Row], wanted: &Wanted<'_>) -> (Vec<Task>, Vec<Skipped>) {
    let (mut tasks, mut skipped) = (Vec::new(), Vec::new());
    let transports: Vec<Transport> = TRANSPORTS
        .iter()
        .filter(|transport| wanted.transports.is_empty() || wanted.transports.contains(transport))
        .copied()
        .collect();
    for (row_index, row) in rows.iter().enumerate() {
        let mut able = Vec::new();
        for &transport in &transports {
            // One path needs no backup.
            if transport == Transport::SrtBackup && row.routes.len() == 1 {
                continue;
            }
            match transport.obstacle(row) {
                None => able.push(transport),
                Some(reason) => skipped.push(Skipped {
                    row: row.name,
                    transport,
                    reason,
                }),
            }
        }
        for seed in (1..=wanted.seeds).map(Seed) {
            let of_seed = able.iter().map(|&transport| Task {
                row_index,
                transport,
                seed,
            });
            tasks.extend(of_seed);
        }
    }
    (tasks, skipped)
}

fn run_all(tasks: &[Task], rows: &[Row], wanted: &Wanted<'_>, equipment: &Equipment) -> Vec<Run> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..wanted.at_a_time.min(tasks.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(index) else {
                        return;
                    };
                    let run = run_task(*task, &rows[task.row_index], wanted, equipment);
                    let mut done = done.lock().expect("no thread has panicked");
                    done.push((index, run));
                    let (_, run) = done.last().expect("it was pushed");
                    print::note(progress(run, rows, done.len(), tasks.len()));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread has panicked");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, run)| run).collect()
}

fn run_task(task: Task, row: &Row, wanted: &Wanted<'_>, equipment: &Equipment) -> Run {
    let Task {
        row_index,
        transport,
        seed,
    } = task;
    let longest = wanted.longest.unwrap_or(row.duration);
    let duration = row.duration.min(longest);
    let outcome = run::run(row, transport, seed, duration, equipment);
    Run {
        row_index,
        transport,
        seed,
        outcome: outcome.map_err(|error| format!("{error:#}")),
    }
}

fn progress(run: &Run, rows: &[Row], done: usize, of: usize) -> String {
    let (row, name, seed) = (rows[run.row_index].name, run.transport.name(), run.seed.0);
    let result = match &run.outcome {
        Err(reason) => reason.clone(),
        Ok(outcome) => {
            let decodable = outcome.figures.decodable * 100.0;
            let overhead = (outcome.overhead_there + outcome.overhead_back) * 100.0;
            let note = outcome
                .not_judged
                .as_ref()
                .map(|reason| format!("; not judged: {reason}"))
                .unwrap_or_default();
            format!("{decodable:.2} % decodable, overhead {overhead:.1} %{note}")
        }
    };
    format!("{done} of {of}: row {row}, {name}, seed {seed}: {result}")
}

/// Returns the programs' versions.
fn versions(equipment: &Equipment) -> Vec<(String, String)> {
    let own = transport::version(&equipment.anabranch, "--version");
    let mut versions = vec![("anabranch", own)];
    for (name, option) in [
        ("srt-live-transmit", "-version"),
        ("srt-test-live", "--version"),
        ("ristsender", "--help"),
        ("srtla_send", "-v"),
        ("socat", "-V"),
    ] {
        if let Some(program) = anabranch::find(name) {
            versions.push((name, transport::version(&program, option)));
        }
    }
    if !equipment.has_srtla_send {
        let stand_in = "anabranch send, as there is no srtla_send".to_owned();
        versions.push(("SRTLA's sender", Some(stand_in)));
    }
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    versions.push(("kernel", kernel.map(|kernel| kernel.trim().to_owned())));
    versions
        .into_iter()
        .map(|(name, version)| {
            let version = version.unwrap_or_else(|| "says no version".to_owned());
            (name.to_owned(), version)
        })
        .collect()
}

/// Returns the load of the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn machine(before: &str, at_a_time: usize) -> String {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{processors} processors, {at_a_time} runs at a time; load of the last minute {before} \
         before and {} after",
        load()
    )
}

/// Returns the command line that repeats this run, without the place of the program.
fn command_line(words: impl Iterator<Item = String>) -> String {
    let mut line = "anabranch-lab".to_owned();
    let mut is_place = false;
    for word in words {
        if is_place {
            is_place = false;
        } else if word == "--program" {
            is_place = true;
        } else if !word.starts_with("--program=") {
            line.push(' ');
            line.push_str(&word);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_take_turns_and_backups_need_spare_paths() {
        let rows = selected(&["1".to_owned(), "5".to_owned()]).unwrap();
        let wanted = Wanted {
            rows: &[],
            transports: &[Transport::Anabranch, Transport::SrtBackup],
            seeds: 2,
            longest: None,
            at_a_time: 1,
            format: Format::Text,
            program: None,
        };
        let (tasks, skipped) = plan(&rows, &wanted);
        let seeds: Vec<(usize, u64)> = tasks
            .iter()
            .map(|task| (task.row_index, task.seed.0))
            .collect();
        assert_eq!(seeds, [(0, 1), (0, 2), (1, 1), (1, 2)]);
        assert_eq!(skipped.len(), 1);
        assert_eq!(
            (skipped[0].row, skipped[0].transport),
            ("5", Transport::SrtBackup)
        );
    }

    #[test]
    fn a_command_line_names_no_place() {
        let words = [
            "contest",
            "--rivals",
            "--program",
            "/opt/a",
            "--row",
            "1",
            "--program=/b",
        ];
        let line = command_line(words.map(str::to_owned).into_iter());
        assert_eq!(line, "anabranch-lab contest --rivals --row 1");
    }

    #[test]
    fn unknown_rows_are_refused() {
        let error = selected(&["jiter".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("jitter-one-10"), "{error}");
    }
}

//! `anabranch-lab run --output`: a line of JSON for each run, in parts if asked for.

mod staged;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::{ControlFlow, RangeInclusive};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anabranch_lab::{self as lab, RowError, RowReader, RowsHeader, RunHooks, RunRow, Shard, Swept};
use anabranch_terminal::print;
use anabranch_units::Duration;
use anyhow::{Context, bail};

use crate::progress::Progress;
pub(crate) use staged::Staged;

/// Returns the first line of a file of these runs.
pub(crate) fn header(swept: &Swept, seeds: RangeInclusive<u64>, shard: Shard) -> RowsHeader {
    RowsHeader {
        schema: lab::ROWS_SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        code: anabranch_papers::RUN_CODE.to_owned(),
        scenario: swept.name.clone(),
        scenario_hash: swept.hash.clone(),
        point_count: swept.points.len() as u64,
        first_seed: *seeds.start(),
        seed_count: seeds.end() - seeds.start() + 1,
        shard,
    }
}

/// Numbers of rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// All.
    pub(crate) rows: u64,
    /// Runs that failed.
    pub(crate) failed: u64,
    /// Runs that did not meet an expectation.
    pub(crate) unmet: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, row: &RunRow) {
        self.rows += 1;
        self.failed += u64::from(row.error.is_some());
        let is_unmet = row
            .expectations
            .iter()
            .any(|expectation| !expectation.is_met);
        self.unmet += u64::from(is_unmet);
    }

    /// Reads the rows of all runs of the header.
    ///
    /// # Errors
    /// One is missing, or more follow.
    fn all<R: BufRead>(reader: &mut RowReader<R>, header: &RowsHeader) -> Result<Self, RowError> {
        let mut counts = Counts::default();
        for run in header.runs() {
            counts.add(&reader.row(header, run)?);
        }
        reader.end()?;
        Ok(counts)
    }

    /// Returns the counts in words, for a message about a file.
    pub(crate) fn in_words(self) -> String {
        let mut text = format!("{} runs", self.rows);
        for (count, what) in [
            (self.failed, "failed"),
            (self.unmet, "did not meet expectations"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        text
    }
}

/// Makes the runs of the header's shard that `output` does not hold yet.
pub(crate) fn run(
    swept: &Swept,
    header: &RowsHeader,
    output: &Path,
    threads: usize,
) -> anyhow::Result<()> {
    warn_of_impossible_points(swept);
    if output.exists() {
        let counts = checked(output, header)?.in_words();
        print::note(format_args!(
            "{} is complete already: {counts}",
            output.display()
        ));
        return Ok(());
    }
    let mut staged = Staged::open(output)?;
    let counts = kept(&mut staged, header)?;
    let runs: Vec<u64> = header.runs().skip(counts.rows as usize).collect();
    let work = Work {
        swept,
        header,
        run_threads: if runs.len() == 1 { threads } else { 1 },
        is_ended: AtomicBool::new(false),
        progress: Progress::new(simulated(swept, header, &runs)),
    };
    let ordered = Mutex::new(Ordered {
        next: 0,
        waiting: BTreeMap::new(),
        staged,
        counts,
        failure: None,
    });
    let places: Vec<(usize, u64)> = runs.into_iter().enumerate().collect();
    lab::in_parallel(&places, threads, |(place, run)| {
        let Some(row) = work.row(*run) else { return };
        let mut ordered = ordered.lock().unwrap_or_else(PoisonError::into_inner);
        if !ordered.push(*place, row) {
            work.is_ended.store(true, Ordering::Relaxed);
        }
    });
    work.progress.finish();
    let ordered = ordered.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = ordered.failure {
        return Err(error);
    }
    ordered.staged.finish()?;
    let counts = ordered.counts.in_words();
    print::note(format_args!("{}: {counts}", output.display()));
    Ok(())
}

fn warn_of_impossible_points(swept: &Swept) {
    let mistakes: Vec<&lab::ScenarioError> = swept
        .points
        .iter()
        .filter_map(|point| point.scenario.as_ref().err())
        .collect();
    if let Some(first) = mistakes.first() {
        let (count, of) = (mistakes.len(), swept.points.len());
        print::warn(format_args!(
            "{count} of {of} points are impossible, and become rows with an error: {first}"
        ));
    }
}

/// Returns the simulated time of some runs.
fn simulated(swept: &Swept, header: &RowsHeader, runs: &[u64]) -> Duration {
    let mut sum = Duration::ZERO;
    for run in runs {
        let (point, _) = header.point_and_seed(*run);
        if let Ok(scenario) = &swept.points[point as usize].scenario {
            sum += scenario.duration;
        }
    }
    sum
}

/// Counts the rows of a file that exists already.
///
/// # Errors
/// It is not the whole file of this header.
fn checked(output: &Path, header: &RowsHeader) -> anyhow::Result<Counts> {
    let remedy = format!(
        "{} exists: remove it, or choose another --output",
        output.display()
    );
    let mut reader = RowReader::open(output).context(remedy.clone())?;
    let found = reader.header().context(remedy)?;
    if let Some(difference) = found.difference(header) {
        bail!(
            "{} is of {difference}; remove it, or choose another --output",
            output.display()
        );
    }
    if found.shard != header.shard {
        let (own, other) = (header.shard, found.shard);
        bail!(
            "{} is shard {other}, not {own}; choose another --output",
            output.display()
        );
    }
    let counts = Counts::all(&mut reader, header);
    counts.with_context(|| format!("{} exists: remove it, to make it again", output.display()))
}

/// Returns the rows of an interrupted command that stay in the file, and removes everything behind
/// them. Without such rows, writes the header.
fn kept(staged: &mut Staged, header: &RowsHeader) -> anyhow::Result<Counts> {
    let (mut counts, mut end) = (Counts::default(), 0);
    {
        let mut reader = RowReader::new(staged.reader()?, staged.name());
        if reader.header().is_ok_and(|found| found == *header) {
            end = reader.offset();
            for run in header.runs() {
                let Ok(row) = reader.row(header, run) else {
                    break;
                };
                counts.add(&row);
                end = reader.offset();
            }
        }
    }
    staged.cut(end)?;
    if end == 0 {
        staged.append(header.line().as_bytes())?;
    } else {
        print::note(format_args!(
            "{} is continued after {} runs",
            staged.name(),
            counts.rows
        ));
    }
    Ok(counts)
}

/// Rows that are written in order, whatever the order in which runs end.
struct Ordered {
    /// Place of the row that is written next.
    next: usize,
    /// Rows behind it.
    waiting: BTreeMap<usize, RunRow>,
    staged: Staged,
    counts: Counts,
    failure: Option<anyhow::Error>,
}

impl Ordered {
    /// Writes the rows that are due. Returns whether more can be written.
    fn push(&mut self, place: usize, row: RunRow) -> bool {
        self.waiting.insert(place, row);
        while self.failure.is_none()
            && let Some(row) = self.waiting.remove(&self.next)
        {
            self.next += 1;
            self.counts.add(&row);
            self.failure = self.staged.append(row.line().as_bytes()).err();
        }
        self.failure.is_none()
    }
}

/// Runs under way.
struct Work<'a> {
    swept: &'a Swept,
    header: &'a RowsHeader,
    run_threads: usize,
    /// Whether the rows can no longer be written.
    is_ended: AtomicBool,
    progress: Progress,
}

impl Work<'_> {
    /// Makes a run. Returns none if the work has ended meanwhile.
    fn row(&self, run: u64) -> Option<RunRow> {
        if self.is_ended.load(Ordering::Relaxed) {
            return None;
        }
        let (point, seed) = self.header.point_and_seed(run);
        let point = &self.swept.points[point as usize];
        let row = |made| RunRow::new(self.header, run, &point.settings, made);
        let scenario = match &point.scenario {
            Ok(scenario) => scenario,
            Err(mistake) => return Some(row(Err(mistake.to_string()))),
        };
        let hooks = RunHooks {
            threads: self.run_threads,
            ..RunHooks::default()
        };
        let on_progress = |part: lab::Progress| {
            self.progress.add(part.simulated);
            if self.is_ended.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let made = AssertUnwindSafe(|| lab::run_with(scenario, seed, hooks, &on_progress));
        match catch_unwind(made) {
            Ok(Ok(outcome)) => Some(row(Ok((scenario, &outcome)))),
            Ok(Err(lab::RunError::Interrupted)) => None,
            Ok(Err(error)) => Some(row(Err(error.to_string()))),
            Err(panic) => Some(row(Err(format!(
                "the simulator panicked: {}",
                text(&*panic)
            )))),
        }
    }
}

/// Returns the text of a panic.
fn text(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    let text = owned.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message")
}

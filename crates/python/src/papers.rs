//! Claims of papers, and the runs that test them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anabranch_papers::{
    Cache, Columns, Study, StudyOptions, Swap, claims as all_claims, findings_json, selected,
};
use anabranch_units::nearest_name;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::builder::{Builder, Kind};
use crate::errors;
use crate::table::NativeTable;

/// Interval of questions for signals and of reports of progress.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns a table of all claims: id, paper, figure, claim.
#[pyfunction]
pub(crate) fn claims() -> NativeTable {
    let names = ["id", "paper", "figure", "claim"];
    let mut builder = Builder::new(names.map(|name| (name.to_owned(), Kind::Text)));
    for claim in all_claims() {
        let cells = [claim.id, claim.paper.key, claim.figure, claim.claim];
        builder.push(cells.map(Into::into));
    }
    builder.finish()
}

/// Tests the claims that `selections` name, and returns the findings as the program's JSON.
/// `cache`: a folder for runs, the user's own if it is empty; None keeps no runs.
#[pyfunction]
#[pyo3(signature = (selections, seeds, swap, swap_scheduler, threads, cache, progress))]
#[expect(clippy::too_many_arguments, reason = "options of one command")]
pub(crate) fn reproduce(
    py: Python<'_>,
    selections: Vec<String>,
    seeds: u64,
    swap: Option<String>,
    swap_scheduler: Option<String>,
    threads: usize,
    cache: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let claims = selected(&selections).map_err(|unknown| {
        let mut known: Vec<&str> = all_claims().map(|claim| claim.paper.key).collect();
        known.extend(all_claims().map(|claim| claim.id));
        let hint = nearest_name(unknown, &known)
            .map_or(String::new(), |name| format!("; did you mean {name:?}?"));
        errors::unknown_name(
            py,
            &format!("no paper or claim is called {unknown:?}{hint}"),
        )
    })?;
    let swapped = Swap {
        controller: swap.as_deref(),
        scheduler: swap_scheduler.as_deref(),
    };
    let columns = match (&swap, &swap_scheduler) {
        (None, None) => Columns::Both,
        _ => Columns::AsNamed,
    };
    let interrupt = Arc::new(AtomicBool::new(false));
    let study = py
        .detach(|| Study::new(&claims, swapped, columns))
        .map_err(|error| errors::text(py, &error.to_string()))?
        .interrupted_by(interrupt.clone());
    let root = cache.map(|folder| {
        if folder.as_os_str().is_empty() {
            Cache::usual_root()
        } else {
            folder
        }
    });
    let cache = root.map(|root| Cache::open(&root)).transpose();
    let options = StudyOptions {
        seed_count: seeds,
        takes_all_seeds: false,
        threads,
        cache: cache.map_err(|error| PyOSError::new_err(error.to_string()))?,
    };
    let findings = watched(py, &study, &options, &interrupt, progress.as_ref())?;
    Ok(findings_json(&findings, seeds))
}

/// Passes the time simulated since the last call to Python, unless it has a signal.
fn report(py: Python<'_>, nanos: &AtomicU64, progress: Option<&Py<PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    let passed = nanos.swap(0, Ordering::Relaxed);
    match progress {
        Some(progress) => progress.call1(py, (passed as f64 / 1e9,)).map(drop),
        None => Ok(()),
    }
}

/// Makes the runs on other threads, and meanwhile lets Python handle signals.
fn watched(
    py: Python<'_>,
    study: &Study,
    options: &StudyOptions,
    interrupt: &AtomicBool,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Vec<anabranch_papers::Finding>> {
    let (done, is_done) = mpsc::channel::<()>();
    let nanos = AtomicU64::new(0);
    let mut error = None;
    let findings = py.detach(|| {
        // Moved: only one thread may receive.
        let is_done = is_done;
        std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                // Moved: dropped at the end of this thread, also by a panic.
                let _done = done;
                study.findings(options, &|part| {
                    nanos.fetch_add(part.simulated.as_nanos(), Ordering::Relaxed);
                })
            });
            while let Err(mpsc::RecvTimeoutError::Timeout) = is_done.recv_timeout(POLL_INTERVAL) {
                if error.is_none()
                    && let Err(raised) = Python::attach(|py| report(py, &nanos, progress))
                {
                    interrupt.store(true, Ordering::Relaxed);
                    error = Some(raised);
                }
            }
            made.join()
        })
    });
    match (error, findings) {
        (Some(error), _) => Err(error),
        (None, Ok(findings)) => findings.map_err(|error| errors::text(py, &error.to_string())),
        (None, Err(panic)) => Err(errors::text(py, &crate::runs::panic_message(&*panic))),
    }
}

/// Returns the simulated seconds of one seed of the claims that `selections` name.
#[pyfunction]
pub(crate) fn study_seconds(py: Python<'_>, selections: Vec<String>) -> f64 {
    let claims = selected(&selections).unwrap_or_default();
    let study = py.detach(|| Study::new(&claims, Swap::default(), Columns::Both));
    study.map_or(0.0, |study| study.simulated().as_secs_f64())
}

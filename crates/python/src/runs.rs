//! Runs of scenarios on all cores, which Python may interrupt.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use anabranch_lab::trace::TraceSink;
use anabranch_lab::{Outcome, RunError, RunHooks, in_parallel, run_with};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::builder::Builder;
use crate::columns::TABLES;
use crate::errors::{self, Failure};
use crate::failures::{has_failed, take_failure};
use crate::measured::{Measured, OneRun};
use crate::recording::{Recording, Traces};
use crate::scenario::NativeScenario;
use crate::settings::{Index, names};
use crate::table::{NativeTable, Tables};

/// Interval of questions for signals and of reports of progress.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Reason for which a run has no outcome.
#[derive(Debug)]
enum Unfinished {
    Interrupted,
    Algorithm(Failure),
    Run(RunError),
    Panic(String),
}

type Made = (Outcome, BTreeMap<&'static str, Builder>);

/// Runs of a scenario: tables, and whether all have been made.
#[pyclass(frozen, get_all, module = "anabranch._native")]
#[derive(Debug)]
pub(crate) struct NativeRuns {
    /// The tables by name.
    tables: Py<PyDict>,
    /// Number of runs that were made.
    finished: usize,
    /// Number of runs asked for.
    asked: usize,
    /// The exception that ended the runs, if they were interrupted.
    interrupt: Option<Py<PyAny>>,
}

/// Runs every point of a scenario with every seed. `progress` gets the simulated seconds since its
/// last call. An exception that it raises, or a signal's handler, ends the runs.
#[pyfunction]
#[pyo3(signature = (scenario, seeds, threads, traces, progress))]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &NativeScenario,
    seeds: Vec<u64>,
    threads: usize,
    traces: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<NativeRuns> {
    let traces = Traces::of(&traces).map_err(|error| errors::unknown_name(py, &error))?;
    if seeds.is_empty() {
        return Err(PyValueError::new_err("seeds: at least one is needed"));
    }
    let columns = names(&scenario.settings);
    let jobs = scenario.points.iter().enumerate().flat_map(|(point, _)| {
        seeds
            .iter()
            .map(|seed| Index {
                point,
                seed: *seed,
                settings: &scenario.settings[point],
                names: &columns,
            })
            .collect::<Vec<_>>()
    });
    let jobs: Vec<Index<'_>> = jobs.collect();
    let work = Work {
        scenario,
        traces,
        threads,
        job_count: jobs.len(),
        is_ended: AtomicBool::new(false),
        simulated_nanos: AtomicU64::new(0),
    };
    let (results, interrupt) = work.all(py, &jobs, progress)?;
    let mut tables = Gathered::new(&jobs[0], traces);
    let mut finished = 0;
    for (index, result) in jobs.iter().zip(results) {
        match result {
            Ok(made) => {
                finished += 1;
                tables.push(index, scenario, made);
            }
            Err(Unfinished::Interrupted) => {}
            Err(Unfinished::Algorithm(failure)) => {
                return Err(errors::algorithm(py, &failure, index.seed));
            }
            Err(Unfinished::Run(error)) => return Err(errors::run(py, &error)),
            Err(Unfinished::Panic(message)) => {
                return Err(errors::panic(py, index.seed, &message));
            }
        }
    }
    Ok(NativeRuns {
        tables: tables.finish().into_dict(py)?.unbind(),
        finished,
        asked: jobs.len(),
        interrupt: interrupt.map(|error| error.into_value(py).into_any()),
    })
}

/// Runs under way.
struct Work<'a> {
    scenario: &'a NativeScenario,
    traces: Traces,
    threads: usize,
    job_count: usize,
    is_ended: AtomicBool,
    simulated_nanos: AtomicU64,
}

type Results = Vec<Result<Made, Unfinished>>;

impl Work<'_> {
    /// Makes all runs on other threads, and meanwhile lets Python handle signals.
    fn all(
        &self,
        py: Python<'_>,
        jobs: &[Index<'_>],
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Results, Option<PyErr>)> {
        let (done, is_done) = mpsc::channel::<()>();
        let interrupt = Mutex::new(None);
        let results = py.detach(|| {
            // Moved: only one thread may receive.
            let is_done = is_done;
            std::thread::scope(|scope| {
                let made = scope.spawn(|| {
                    // Moved: dropped at the end of this thread, also by a panic.
                    let _done = done;
                    in_parallel(jobs, self.threads, |index| self.one(index))
                });
                while let Err(mpsc::RecvTimeoutError::Timeout) = is_done.recv_timeout(POLL_INTERVAL)
                {
                    let asked = Python::attach(|py| self.ask(py, progress.as_ref()));
                    if let Err(error) = asked {
                        self.is_ended.store(true, Ordering::Relaxed);
                        interrupt.lock().expect("no panic").get_or_insert(error);
                    }
                }
                made.join()
            })
        });
        if let Some(progress) = &progress {
            self.report(py, progress)?;
        }
        let results = results.map_err(|_| PyValueError::new_err("a thread panicked"))?;
        Ok((results, interrupt.into_inner().expect("no panic")))
    }

    fn ask(&self, py: Python<'_>, progress: Option<&Py<PyAny>>) -> PyResult<()> {
        py.check_signals()?;
        match progress {
            Some(progress) if !self.is_ended.load(Ordering::Relaxed) => self.report(py, progress),
            _ => Ok(()),
        }
    }

    /// Reports the simulated time since the last report.
    fn report(&self, py: Python<'_>, progress: &Py<PyAny>) -> PyResult<()> {
        let nanos = self.simulated_nanos.swap(0, Ordering::Relaxed);
        progress.call1(py, (nanos as f64 / 1e9,))?;
        Ok(())
    }

    /// Makes one run.
    fn one(&self, index: &Index<'_>) -> Result<Made, Unfinished> {
        if self.is_ended.load(Ordering::Relaxed) {
            return Err(Unfinished::Interrupted);
        }
        // Python's threads exclude each other, and algorithms note failures by thread.
        let run_threads = if self.scenario.has_python || self.job_count > 1 {
            1
        } else {
            self.threads
        };
        let mut recording = self
            .traces
            .any()
            .then(|| Recording::new(self.traces, index.clone()));
        let hooks = RunHooks {
            sink: recording.as_mut().map(|sink| sink as &mut dyn TraceSink),
            threads: run_threads,
            ..RunHooks::default()
        };
        let on_progress = |part: anabranch_lab::Progress| {
            let nanos = part.simulated.as_nanos();
            self.simulated_nanos.fetch_add(nanos, Ordering::Relaxed);
            if has_failed() || self.is_ended.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let scenario = &self.scenario.points[index.point].scenario;
        let run = || run_with(scenario, index.seed, hooks, &on_progress);
        let made = catch_unwind(AssertUnwindSafe(|| {
            if self.scenario.has_python {
                // A thread that is known to Python is attached again at a tenth of the cost.
                Python::attach(|py| py.detach(run))
            } else {
                run()
            }
        }));
        if let Some(failure) = take_failure() {
            self.is_ended.store(true, Ordering::Relaxed);
            return Err(Unfinished::Algorithm(failure));
        }
        match made {
            Ok(Ok(outcome)) => {
                let traced = recording.map(Recording::into_tables).unwrap_or_default();
                Ok((outcome, traced))
            }
            Ok(Err(RunError::Interrupted)) => Err(Unfinished::Interrupted),
            Ok(Err(error)) => {
                self.is_ended.store(true, Ordering::Relaxed);
                Err(Unfinished::Run(error))
            }
            Err(panic) => {
                self.is_ended.store(true, Ordering::Relaxed);
                Err(Unfinished::Panic(panic_message(&*panic)))
            }
        }
    }
}

/// Returns the text of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "without a message".to_owned())
}

/// Tables of all runs, under construction.
struct Gathered {
    measured: Measured,
    traced: BTreeMap<&'static str, Builder>,
}

impl Gathered {
    fn new(index: &Index<'_>, traces: Traces) -> Gathered {
        Gathered {
            measured: Measured::new(index),
            traced: Recording::new(traces, index.clone()).into_tables(),
        }
    }

    fn push(&mut self, index: &Index<'_>, scenario: &NativeScenario, (outcome, traced): Made) {
        let scenario = &scenario.points[index.point].scenario;
        let made = OneRun::of_outcome(scenario, &outcome);
        self.measured.push(index, &made);
        for (name, rows) in traced {
            let all = self
                .traced
                .get_mut(name)
                .expect("all runs have the same tables");
            all.append(rows);
        }
    }

    fn finish(self) -> Tables {
        let mut tables = self.measured.into_tables();
        tables.extend(self.traced);
        let in_order = TABLES.into_iter().filter_map(|name| {
            let table: NativeTable = tables.remove(name)?.finish();
            Some((name, table))
        });
        Tables(in_order.collect())
    }
}

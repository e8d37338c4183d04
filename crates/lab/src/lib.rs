//! Experiments: scenario files, runs, measurements, expectations and reports.
//!
//! ```no_run
//! use anabranch_lab as lab;
//!
//! let overrides = ["flow-defaults.controller=new-reno".to_owned()];
//! let scenario = lab::Scenario::load("scenarios/two-paths.toml".as_ref(), &overrides)?;
//! let report = lab::run(&scenario, &lab::RunOptions::seeds(10), &|_progress| ())?;
//! print!("{}", lab::table(&report));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The files and the JSON report are documented in `docs/scenarios.md`. The experiments
//! that reproduce published results are a crate of their own, `anabranch-papers`.

mod chart;
pub mod compare;
pub mod frame_bound;
pub mod metrics;
mod plot;
mod report;
mod run;
mod scenario;
mod sweep;
mod trace;

pub use anabranch_sim::ORACLE;
pub use chart::{Bar, BarKind, Bars, Chart, Line, Lines, Mark, Shade, escape, page, playing_page};
pub use plot::{PlotError, plot};
pub use report::{
    ExpectationReport, MetricReport, Report, RunReport, SCHEMA, ScenarioReport, Spread, cell, grid,
    json, report, run, subject_name, table, written,
};
pub use run::{Outcome, Progress, RunError, RunOptions, in_parallel, run_outcomes};
pub use scenario::{
    AdaptiveSpec, BulkSpec, DownloadSpec, Expectation, FlowKind, FlowSpec, LinkSpec, MediaSpec,
    PathSpec, Point, RawSpec, RouteSpec, Scenario, ScenarioError, Setting, ShortSpec, schema,
};
pub use sweep::{
    PointReport, SWEEP_SCHEMA, SettingReport, SweepReport, plot_sweep, run_sweep, sweep_json,
    sweep_table,
};
pub use trace::{TraceError, TraceOptions};

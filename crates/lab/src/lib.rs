//! Experiments: scenario files, runs, measurements, expectations and reports.
//!
//! ```
//! use anabranch_lab as lab;
//!
//! let text = r#"
//! title = "A camera over one link"
//! duration = "4 s"
//! links.uplink = { rate = "3 Mbit/s", delay = "30 ms", queue = "200 ms" }
//! routes.uplink = { forward = ["uplink"], reverse = ["uplink"] }
//!
//! [[flows]]
//! name = "camera"
//! paths = ["uplink"]
//! source = { kind = "ideal", min = "300 kbit/s", max = "1 Mbit/s" }
//! "#;
//! // A file is read by Scenario::load. Overrides change any key.
//! let overrides = ["flows.0.controller=new-reno".to_owned()];
//! let scenario = lab::Scenario::parse("camera.toml", text, &overrides)?;
//! let report = lab::run(&scenario, &lab::RunOptions::seeds(2), &|_progress| ())?;
//! print!("{}", lab::table(&report));
//! assert_eq!(report.runs.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The files and the JSON report are documented in `docs/scenarios.md`. The experiments
//! that reproduce published results are a crate of their own, `anabranch-papers`.

mod chart;
pub mod compare;
pub mod contest;
pub mod dominance;
pub mod episode;
pub mod frame_bound;
pub mod frontier;
mod live;
pub mod metrics;
mod plot;
mod report;
mod rows;
mod run;
mod scenario;
mod sweep;
pub mod trace;

pub use anabranch_sim::ORACLE;
pub use chart::{Bar, BarKind, Bars, Chart, Line, Lines, Mark, Shade, escape, page, playing_page};
pub use live::LiveRun;
pub use plot::{PlotError, plot, plot_texts};
pub use report::{
    ExpectationReport, MetricReport, Report, RunReport, SCHEMA, ScenarioReport, Spread, cell, grid,
    json, report, run, subject_name, table, written,
};
pub use rows::{
    MAX_SEEDS, ROWS_SCHEMA, RowError, RowReader, RowsHeader, RunExpectation, RunRow, SettingValue,
    Shard,
};
pub use run::{
    Outcome, Progress, Recording, RunError, RunHooks, RunOptions, in_parallel, run_outcomes,
    run_with,
};
pub use scenario::{
    AdaptiveSpec, Algorithms, BARE_SENDER, BulkSpec, DownloadSpec, EmulatedRoute, Expectation,
    FlowKind, FlowSpec, LinkSpec, MediaSpec, NetworkText, NotEmulated, NotOneLink, PathSpec, Point,
    RawSpec, RouteSpec, SENDER_RULES, Scenario, ScenarioError, SenderRuleEntry, Setting, ShortSpec,
    Swept, SweptPoint, merged_text, network_text, schema,
};
pub use sweep::{
    PointReport, SWEEP_SCHEMA, SettingReport, SweepReport, plot_sweep, run_sweep, sweep_json,
    sweep_table,
};
pub use trace::{TraceError, TraceOptions};

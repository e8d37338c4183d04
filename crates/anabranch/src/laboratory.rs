//! The laboratory: the same transport over simulated networks, with measurements.
//!
//! A [`Scenario`] is a text that describes links, routes and flows. The same scenario and seed give
//! the same result on every machine.
//!
//! ```
//! use anabranch::laboratory::{RunOptions, Scenario, run};
//!
//! let text = r#"
//! title = "A camera over two links"
//! duration = "5 s"
//!
//! [links.wifi]
//! rate = "4 Mbit/s"
//! delay = "20 ms"
//! queue = "200 ms"
//!
//! [links.lte]
//! rate = "3 Mbit/s"
//! delay = "50 ms"
//! queue = "300 ms"
//!
//! [routes.wifi]
//! forward = ["wifi"]
//! reverse = ["wifi"]
//!
//! [routes.lte]
//! forward = ["lte"]
//! reverse = ["lte"]
//!
//! [[flows]]
//! name = "camera"
//! paths = ["wifi", "lte"]
//! source = { kind = "gop", fps = 25, min = "300 kbit/s", max = "4 Mbit/s", key-interval = "2 s" }
//!
//! [expect]
//! frames-decodable-on-time = { min = "95 %" }
//! "#;
//! let scenario = Scenario::parse("camera.toml", text, &[])?;
//! let report = run(&scenario, &RunOptions::seeds(1), &|_progress| ())?;
//! assert!(report.is_as_expected, "{report:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`simulator`] and [`link`] are the parts beneath: flows of any [`Scheduler`] and any link in
//! virtual time.
//!
//! [`Scheduler`]: crate::scheduler::Scheduler

pub use anabranch_lab::{
    AdaptiveSpec, Algorithms, Bar, BarKind, Bars, BulkSpec, Chart, DownloadSpec, Expectation,
    ExpectationReport, FlowKind, FlowSpec, Line, Lines, LinkSpec, Mark, MediaSpec, MetricReport,
    NotOneLink, Outcome, PathSpec, PlotError, Point, PointReport, Progress, RawSpec, Report,
    RouteSpec, RunError, RunOptions, RunReport, Scenario, ScenarioError, ScenarioReport, Setting,
    SettingReport, Shade, ShortSpec, Spread, SweepReport, TraceError, TraceOptions, compare,
    frame_bound, grid, json, metrics, plot, plot_sweep, report, run, run_outcomes, run_sweep,
    schema, sweep_json, sweep_table, table,
};

/// Queues, delays, losses and outages of links.
pub use anabranch_link as link;

/// Routes and flows in virtual time.
pub use anabranch_sim as simulator;

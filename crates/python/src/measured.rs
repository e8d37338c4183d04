//! Tables of measurements: a row for each run, flow, path, link and expectation.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anabranch_lab::metrics::{
    FlowStatistics, METRICS, Metric, PathStatistics, Statistics, Subject, Traffic, Unit,
};
use anabranch_lab::{Outcome, RunExpectation, RunRow, Scenario};

use crate::builder::{Builder, Cell};
use crate::columns::{self, metrics_of, unit_name};
use crate::settings::Index;

/// Version of the package, which every run names.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Tables of measurements, in the order of [`columns::TABLES`].
pub(crate) const MEASURED: [&str; 7] = [
    "runs",
    "flows",
    "paths",
    "links",
    "phases",
    "reasons",
    "expectations",
];

/// Measurements of one run.
#[derive(Debug)]
pub(crate) struct OneRun<'a> {
    version: &'a str,
    trace_hash: Cow<'a, str>,
    /// Datagrams sent, delivered and dropped.
    packets: [u64; 3],
    statistics: &'a Statistics,
    expectations: Cow<'a, [RunExpectation]>,
}

impl<'a> OneRun<'a> {
    /// Returns the measurements of a run of this program.
    pub(crate) fn of_outcome(scenario: &Scenario, outcome: &'a Outcome) -> OneRun<'a> {
        OneRun {
            version: VERSION,
            trace_hash: outcome.trace_hash.to_string().into(),
            packets: [
                outcome.packets.sent,
                outcome.packets.delivered,
                outcome.packets.dropped,
            ],
            statistics: &outcome.statistics,
            expectations: RunExpectation::all(scenario, outcome).into(),
        }
    }

    /// Returns the measurements in a row that a program of this version has written; `None`: the
    /// run has failed.
    pub(crate) fn of_row(version: &'a str, row: &'a RunRow) -> Option<OneRun<'a>> {
        let report = row.report.as_ref()?;
        Some(OneRun {
            version,
            trace_hash: report.trace_hash.as_str().into(),
            packets: [
                report.packets_sent,
                report.packets_delivered,
                report.packets_dropped,
            ],
            statistics: &report.statistics,
            expectations: row.expectations.as_slice().into(),
        })
    }
}

/// Measurements of runs, in tables.
#[derive(Debug)]
pub(crate) struct Measured(BTreeMap<&'static str, Builder>);

impl Measured {
    /// Returns empty tables of runs with such an index.
    pub(crate) fn new(index: &Index<'_>) -> Measured {
        let tables = MEASURED.map(|name| (name, index.builder(columns::of_table(name))));
        Measured(tables.into())
    }

    /// Returns the tables.
    pub(crate) fn into_tables(self) -> BTreeMap<&'static str, Builder> {
        self.0
    }

    /// Adds the rows of a run.
    pub(crate) fn push(&mut self, index: &Index<'_>, made: &OneRun<'_>) {
        let run = self.0.get_mut("runs").expect("it is there");
        let own = [made.version.into(), (&*made.trace_hash).into()];
        let packets = made.packets.map(Cell::from);
        let metrics = values("runs", made.statistics, Subject::All);
        run.push(index.cells().chain(own).chain(packets).chain(metrics));
        for (at, flow) in made.statistics.flows.iter().enumerate() {
            let rows = self.0.get_mut("flows").expect("it is there");
            let scheduler = (!flow.scheduler.is_empty()).then_some(flow.scheduler.as_str());
            let own = [
                flow.name.as_str().into(),
                flow.controller.as_str().into(),
                scheduler.into(),
            ];
            let metrics = values("flows", made.statistics, Subject::Flow(at));
            rows.push(index.cells().chain(own).chain(metrics));
            self.push_parts(index, flow);
        }
        for (at, link) in made.statistics.links.iter().enumerate() {
            let rows = self.0.get_mut("links").expect("it is there");
            let own = [link.name.as_str().into(), link.packets_offered.into()];
            let metrics = values("links", made.statistics, Subject::Link(at));
            rows.push(index.cells().chain(own).chain(metrics));
        }
        self.push_expectations(index, &made.expectations);
    }

    /// Adds the rows of a flow's paths, phases and reasons.
    fn push_parts(&mut self, index: &Index<'_>, flow: &FlowStatistics) {
        for (path, statistics) in flow.paths.iter().enumerate() {
            let rows = self.0.get_mut("paths").expect("it is there");
            let cells = path_cells(&flow.name, path, statistics);
            rows.push(index.cells().chain(cells));
            let rows = self.0.get_mut("reasons").expect("it is there");
            for reason in &statistics.traffic.reasons {
                let cells = [
                    flow.name.as_str().into(),
                    (path as u64).into(),
                    reason.reason.as_str().into(),
                    reason.packets.into(),
                    reason.bytes.into(),
                ];
                rows.push(index.cells().chain(cells));
            }
        }
        let rows = self.0.get_mut("phases").expect("it is there");
        for (number, phase) in flow.phases.iter().enumerate() {
            let cells = [
                flow.name.as_str().into(),
                (number as u64).into(),
                phase.from_s.into(),
                phase.to_s.into(),
                phase.convergence_time_ms.into(),
            ];
            rows.push(index.cells().chain(cells));
        }
    }

    fn push_expectations(&mut self, index: &Index<'_>, expectations: &[RunExpectation]) {
        let rows = self.0.get_mut("expectations").expect("it is there");
        for expectation in expectations {
            let metric = METRICS
                .iter()
                .find(|metric| metric.name == expectation.metric);
            let cells = [
                expectation.metric.as_str().into(),
                expectation.subject.as_deref().into(),
                metric.map_or("", unit).into(),
                expectation.min.into(),
                expectation.max.into(),
                expectation.value.into(),
                expectation.from_s.into(),
                expectation.to_s.into(),
                expectation.is_met.into(),
            ];
            rows.push(index.cells().chain(cells));
        }
    }
}

/// Returns the unit of a metric, a share's too.
fn unit(metric: &Metric) -> &'static str {
    match metric.unit {
        Unit::Share => "share",
        unit => unit_name(unit),
    }
}

/// Returns the values of a table's metrics.
fn values<'a>(
    table: &'a str,
    statistics: &'a Statistics,
    subject: Subject,
) -> impl Iterator<Item = Cell<'a>> {
    metrics_of(table).map(move |metric| metric.of(statistics, subject).into())
}

fn path_cells<'a>(flow: &'a str, path: usize, statistics: &'a PathStatistics) -> [Cell<'a>; 23] {
    let traffic: &Traffic = &statistics.traffic;
    let delay = traffic.delay_ms;
    [
        flow.into(),
        (path as u64).into(),
        statistics.route.as_str().into(),
        traffic.throughput_bits_per_second.into(),
        traffic.media_bits_per_second.into(),
        traffic.sent_bits_per_second.into(),
        traffic.feedback_bits_per_second.into(),
        traffic.packets_sent.into(),
        traffic.packets_delivered.into(),
        traffic.packets_dropped.into(),
        traffic.loss_ratio.into(),
        traffic.retransmission_ratio.into(),
        traffic.copy_ratio.into(),
        traffic.repair_ratio.into(),
        traffic.padding_ratio.into(),
        traffic.timeouts.into(),
        delay.map(|delay| delay.mean).into(),
        delay.map(|delay| delay.p50).into(),
        delay.map(|delay| delay.p95).into(),
        delay.map(|delay| delay.p99).into(),
        delay.map(|delay| delay.max).into(),
        statistics.media_ratio.into(),
        statistics.cost_ms.into(),
    ]
}

/// Returns a table of all metrics: name, column, unit, scope, meaning.
pub(crate) fn metric_table() -> Builder {
    use anabranch_lab::metrics::Scope;
    let names = ["metric", "column", "unit", "scope", "meaning"];
    let mut builder = Builder::new(names.map(|name| (name.to_owned(), crate::builder::Kind::Text)));
    for metric in METRICS {
        let scope = match metric.scope {
            Scope::Run => "run",
            Scope::Flow => "flows",
            Scope::EachFlow => "each flow",
            Scope::Link => "links",
        };
        let column = columns::metric_column(metric);
        let about = crate::meanings::meaning(metric.name);
        let cells = [metric.name, column.as_str(), unit(metric), scope, about];
        builder.push(cells.map(Into::into));
    }
    builder
}

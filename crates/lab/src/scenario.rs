//! Scenario files: an experiment, described once. `docs/scenarios.md` is their reference.

mod algorithms;
mod base;
mod discipline;
mod document;
mod emulated;
mod error;
mod expect;
mod files;
mod flow;
mod limits;
mod link;
mod network;
mod node;
mod override_key;
mod reader;
mod replicas;
mod schema;
mod shape;
mod sweep;
mod swept;
#[cfg(test)]
mod tests;
mod trace_format;
mod written;

use std::path::Path;

use anabranch_sim::Limits;
use anabranch_units::Duration;
use error::Mistake;

use crate::metrics::Window;
use document::Document;
use files::{Beside, Files};
use node::Node;
use reader::{Read, Table, text};
use shape::{Key, Shape};

pub use algorithms::Algorithms;
pub(crate) use algorithms::{scheduler_by_name, unknown_scheduler};
pub use emulated::{EmulatedRoute, NotEmulated, NotOneLink};
pub use error::ScenarioError;
pub use expect::Expectation;
pub use flow::{
    AdaptiveSpec, BARE_SENDER, BulkSpec, DownloadSpec, FlowKind, FlowSpec, MediaSpec, PathSpec,
    RawSpec, SENDER_RULES, SenderRuleEntry, ShortSpec,
};
pub use link::{LinkSpec, RouteSpec};
pub use network::{NetworkText, network_text};
pub use schema::schema;
pub(crate) use sweep::MAX_POINTS;
pub use sweep::{Point, Setting};
pub use swept::{Swept, SweptPoint};
pub use written::merged_text;

/// An experiment: a network, flows over it, and expectations of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The file's name without folder and ending.
    pub name: String,
    /// Subject of the scenario, in a line.
    pub title: String,
    /// Its source: a paper's table, an RFC's section.
    pub source: Option<String>,
    /// Purpose of the scenario, in any number of lines.
    pub description: Option<String>,
    /// Duration of a run.
    pub duration: Duration,
    /// Part of the run that the report covers.
    pub statistics: Window,
    /// Its links.
    pub links: Vec<LinkSpec>,
    /// Its routes.
    pub routes: Vec<RouteSpec>,
    /// Its flows.
    pub flows: Vec<FlowSpec>,
    /// Expectations of the measurements.
    pub expectations: Vec<Expectation>,
    /// Limits of a run.
    pub limits: Limits,
}

impl Scenario {
    /// Reads a file, as if it had no `[sweep]`; [`Point::load`] reads that too. Each override,
    /// `KEY=VALUE`, replaces or adds a value as if the file had it:
    /// `links.bottleneck.rate=2 Mbit/s`, `flows.0.controller=fixed`.
    ///
    /// # Errors
    /// A [`ScenarioError`] that names file, line and key of the first mistake.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Scenario, ScenarioError> {
        let (name, text) = named_text(path)?;
        Scenario::parse(&name, &text, overrides)
    }

    /// Reads the text of a file called `file`. The files that it names are searched beside it.
    ///
    /// ```
    /// use anabranch_lab::Scenario;
    ///
    /// let text = "title = \"A typing error\"\nduraton = \"10 s\"\n";
    /// let mistake = Scenario::parse("typing.toml", text, &[]).unwrap_err();
    /// assert!(mistake.to_string().starts_with("typing.toml:2: duraton: "), "{mistake}");
    /// ```
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(file: &str, text: &str, overrides: &[String]) -> Result<Scenario, ScenarioError> {
        Scenario::of(file, text, Files::OnDisk(&Beside::new(file)), overrides)
    }

    /// Reads the text of a file that is part of the program, as are the files that it names, given
    /// by names and texts.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn built_in(
        file: &str,
        text: &str,
        files: &[(&str, &str)],
        overrides: &[String],
    ) -> Result<Scenario, ScenarioError> {
        Scenario::of(file, text, Files::BuiltIn(files), overrides)
    }

    /// Returns the routes in the order of the file; those of its base come first.
    pub fn routes_as_written(&self) -> Vec<&RouteSpec> {
        let mut routes: Vec<&RouteSpec> = self.routes.iter().collect();
        routes.sort_by_key(|route| route.written_at);
        routes
    }

    fn of(
        file: &str,
        text: &str,
        files: Files<'_>,
        overrides: &[String],
    ) -> Result<Scenario, ScenarioError> {
        let document = Document::parse(file, text, files, overrides)?;
        read_document(&document, file, files, Algorithms::NONE)
    }
}

/// The name of standard input where a file is expected.
const STANDARD_INPUT: &str = "-";

/// Returns the name of a file in messages and its text.
fn named_text(path: &Path) -> Result<(String, String), ScenarioError> {
    let is_input = path.as_os_str() == STANDARD_INPUT;
    let text = if is_input {
        files::read_text(std::io::stdin().lock(), files::MAX_SCENARIO_BYTES)
    } else {
        files::text_of(path, files::MAX_SCENARIO_BYTES)
    };
    let name = if is_input {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    match text {
        Ok(text) => Ok((name, text)),
        Err(source) => Err(ScenarioError::Read {
            path: name.into(),
            source,
        }),
    }
}

fn read_document(
    document: &Document,
    file: &str,
    files: Files<'_>,
    algorithms: &Algorithms,
) -> Result<Scenario, ScenarioError> {
    let name = Path::new(file)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    let root = replicas::resolved(document.root());
    let scenario = root.and_then(|root| read(&root, &name, files, algorithms));
    scenario.map_err(|mistake| document.error(mistake))
}

/// The keys of a file.
const KEYS: &[Key] = &[
    Key::new(base::KEY, Shape::Text, "file that this one builds on"),
    Key::new("title", Shape::Text, "subject, in a line"),
    Key::new("source", Shape::Text, "source of the experiment"),
    Key::new("description", Shape::Text, "purpose of the scenario"),
    Key::required("duration", Shape::Duration, "simulated time"),
    Key::new(
        "statistics",
        Shape::Table(expect::STATISTICS_KEYS),
        "part of the run that the report covers",
    ),
    Key::required(
        "links",
        Shape::Named(&Shape::Table(link::LINK_KEYS)),
        "one direction of a link",
    ),
    Key::required(
        "routes",
        Shape::Named(&Shape::Table(link::ROUTE_KEYS)),
        "routes of packets in both directions",
    ),
    Key::new(
        "flow-defaults",
        Shape::Flow { is_default: true },
        "keys for all flows that do not have their own",
    ),
    Key::required(
        "flows",
        Shape::List(&Shape::Flow { is_default: false }),
        "the flows",
    ),
    Key::new("expect", Shape::Expectations, "bounds of metrics"),
    Key::new(
        limits::KEY,
        Shape::Table(limits::KEYS),
        "lower limits of a run",
    ),
    Key::new(
        "sweep",
        Shape::Sweep,
        "lists of values by key: a run for each combination",
    ),
];

fn read(root: &Node, name: &str, files: Files<'_>, algorithms: &Algorithms) -> Read<Scenario> {
    fn owned(node: &Node) -> Result<String, Mistake> {
        text(node).map(str::to_owned)
    }

    let table = Table::of(root, KEYS)?;
    let duration = table.required("duration", limits::duration)?;
    let statistics = expect::statistics(table.node("statistics"), duration)?;
    let links = table.required("links", |node| link::links(node, files))?;
    let routes = table.required("routes", |node| link::routes(node, &links))?;
    let defaults = table.node("flow-defaults");
    let flows = table.required("flows", |node| {
        flow::flows(node, defaults, &routes, (files, algorithms))
    })?;
    Ok(Scenario {
        name: name.to_owned(),
        title: table.or("title", name.to_owned(), owned)?,
        source: table.optional("source", owned)?,
        description: table.optional("description", owned)?,
        duration,
        statistics,
        expectations: table.or("expect", Vec::new(), |node| {
            expect::expectations(node, &links, &flows, statistics, duration)
        })?,
        limits: match files {
            Files::OnDisk(_) => limits::limits(table.node(limits::KEY))?,
            Files::BuiltIn(_) => Limits::NONE,
        },
        links,
        routes,
        flows,
    })
}

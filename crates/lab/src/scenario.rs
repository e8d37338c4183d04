//! Scenario files: an experiment, described once. `docs/scenarios.md` is their reference.

mod document;
mod error;
mod expect;
mod flow;
mod link;
mod reader;
#[cfg(test)]
mod tests;

use std::path::Path;

use anabranch_units::Duration;

use crate::metrics::Window;
use document::{Document, Node};
use reader::{Read, Table, positive_duration, text};

pub use error::ScenarioError;
pub use expect::Expectation;
pub use flow::{BulkSpec, FlowKind, FlowSpec, MediaSpec, PathSpec, ShortSpec};
pub use link::{LinkSpec, RouteSpec};

/// An experiment: a network, flows over it, and what is expected of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The file's name without folder and ending.
    pub name: String,
    /// What it is about, in a line.
    pub title: String,
    /// Where it comes from: a paper's table, an RFC's section.
    pub source: Option<String>,
    /// What it shows, in as many lines as it takes.
    pub description: Option<String>,
    /// How long it runs.
    pub duration: Duration,
    /// The part of the run that the report is about.
    pub statistics: Window,
    /// Its links.
    pub links: Vec<LinkSpec>,
    /// Its routes.
    pub routes: Vec<RouteSpec>,
    /// Its flows.
    pub flows: Vec<FlowSpec>,
    /// What is expected.
    pub expectations: Vec<Expectation>,
}

impl Scenario {
    /// Reads a file. Each override, `KEY=VALUE`, replaces or adds a value as if the file had it:
    /// `links.bottleneck.rate=2 Mbit/s`, `flows.0.controller=fixed`.
    ///
    /// # Errors
    /// A [`ScenarioError`] that names file, line and key of the first mistake.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Scenario, ScenarioError> {
        let text = std::fs::read_to_string(path).map_err(|error| ScenarioError::Read {
            path: path.to_owned(),
            error,
        })?;
        Scenario::parse(&path.display().to_string(), &text, overrides)
    }

    /// Reads the text of a file called `file`.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(file: &str, text: &str, overrides: &[String]) -> Result<Scenario, ScenarioError> {
        let document = Document::parse(file, text, overrides)?;
        let name = Path::new(file)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        read(document.root(), &name).map_err(|mistake| document.error(mistake))
    }
}

fn read(root: &Node, name: &str) -> Read<Scenario> {
    let keys = [
        "title",
        "source",
        "description",
        "duration",
        "statistics",
        "links",
        "routes",
        "flow-defaults",
        "flows",
        "expect",
    ];
    let table = Table::of(root, &keys)?;
    let owned = |node| text(node).map(str::to_owned);
    let duration = table.required("duration", positive_duration)?;
    let statistics = expect::statistics(table.node("statistics"), duration)?;
    let links = table.required("links", link::links)?;
    let routes = table.required("routes", |node| link::routes(node, &links))?;
    let defaults = table.node("flow-defaults");
    let flows = table.required("flows", |node| flow::flows(node, defaults, &routes))?;
    let expectations = |node| expect::expectations(node, &links, &flows, statistics, duration);
    Ok(Scenario {
        name: name.to_owned(),
        title: table.or("title", name.to_owned(), owned)?,
        source: table.optional("source", owned)?,
        description: table.optional("description", owned)?,
        duration,
        statistics,
        expectations: table.or("expect", Vec::new(), expectations)?,
        links,
        routes,
        flows,
    })
}

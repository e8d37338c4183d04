//! Flows as scenarios describe them: what all kinds have in common, and which kinds there are.
//!
//! A kind is one file in `flow/`, one entry of [`KINDS`] and one variant of [`FlowKind`].

mod bulk;
mod media;
mod session;
mod short;
mod stream;

use anabranch_core::{Config, PathId};
use anabranch_units::{Duration, Instant};

use super::document::{Node, Value};
use super::link::{RouteSpec, named_index, weight};
use super::reader::{
    Read, Table, boolean, choice, duration, instant, integer, list, list_of, text,
};

pub use bulk::BulkSpec;
pub use media::MediaSpec;
pub use short::ShortSpec;

/// A flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// Its name in the scenario and in reports.
    pub name: String,
    /// Its paths, in the order of their numbers.
    pub paths: Vec<PathSpec>,
    /// When it begins.
    pub start: Instant,
    /// When it ends; `None`: with the run.
    pub stop: Option<Instant>,
    /// What it carries, and how.
    pub kind: FlowKind,
}

/// What a flow carries, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowKind {
    /// Frames of video or audio over a session.
    Media(MediaSpec),
    /// Bytes of a stream, so many or without end.
    Bulk(BulkSpec),
    /// Streams of few bytes, one after the other.
    Short(ShortSpec),
}

impl FlowSpec {
    /// Set-up of the session's ends; `None`: it is no session.
    pub fn config(&self) -> Option<&Config> {
        match &self.kind {
            FlowKind::Media(media) => Some(&media.config),
            FlowKind::Bulk(bulk) => Some(&bulk.config),
            FlowKind::Short(short) => Some(&short.config),
        }
    }

    /// Its congestion controller; of a flow that has none, its kind.
    pub fn controller(&self) -> &str {
        self.config().map_or("", |config| &config.controller)
    }

    /// Its packet scheduler; empty: it has none.
    pub fn scheduler(&self) -> &str {
        self.config().map_or("", |config| &config.scheduler)
    }

    /// What it carries if that is media.
    pub fn media(&self) -> Option<&MediaSpec> {
        match &self.kind {
            FlowKind::Media(media) => Some(media),
            FlowKind::Bulk(_) | FlowKind::Short(_) => None,
        }
    }
}

/// One path of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathSpec {
    /// Index of its route.
    pub route: usize,
    /// The user's preference, above 0.
    pub weight: f64,
    /// Whether the user pays by volume.
    pub is_metered: bool,
}

/// A kind of flow as the reader knows it.
struct Kind {
    name: &'static str,
    /// The keys that it has besides [`COMMON_KEYS`], in groups.
    keys: &'static [&'static [&'static str]],
    /// Reads what these keys say.
    read: fn(&Table<'_>) -> Read<FlowKind>,
}

/// All kinds; the first is that of a flow that does not say.
const KINDS: &[Kind] = &[media::KIND, bulk::KIND, short::KIND];

/// The keys that a flow of any kind and the defaults of all flows may have.
const COMMON_KEYS: &[&str] = &["kind", "paths", "start", "stop", "stagger"];

const OWN_KEYS: &[&str] = &["name", "count"];

/// All flows: those of `node`, each completed by the defaults and multiplied by its count.
pub(super) fn flows(
    node: &Node,
    defaults: Option<&Node>,
    routes: &[RouteSpec],
) -> Read<Vec<FlowSpec>> {
    if let Some(defaults) = defaults {
        let of_kinds = KINDS.iter().flat_map(|kind| kind.keys.concat());
        let keys: Vec<&str> = COMMON_KEYS.iter().copied().chain(of_kinds).collect();
        Table::of(defaults, &keys)?;
    }
    let mut flows: Vec<FlowSpec> = Vec::new();
    let elements = list(node)?;
    for (index, element) in elements.iter().enumerate() {
        let default_name = match elements.len() {
            1 => "flow".to_owned(),
            _ => format!("flow-{}", index + 1),
        };
        flows.extend(copies(element, defaults, default_name, routes)?);
    }
    for (index, flow) in flows.iter().enumerate() {
        if flows[..index].iter().any(|other| other.name == flow.name) {
            return Err(node.mistake(format!("two flows are called {:?}", flow.name)));
        }
    }
    if flows.is_empty() {
        return Err(node.mistake("a scenario needs a flow"));
    }
    Ok(flows)
}

/// The kind of the flow at `node`.
fn kind_of(node: &Node, defaults: Option<&Node>) -> Read<&'static Kind> {
    let known: Vec<(&str, &Kind)> = KINDS.iter().map(|kind| (kind.name, kind)).collect();
    let written = [Some(node), defaults]
        .into_iter()
        .flatten()
        .find_map(|node| {
            let Value::Table(entries) = &node.value else {
                return None;
            };
            entries.iter().find(|(key, _)| key == "kind")
        });
    written.map_or(Ok(&KINDS[0]), |(_, node)| {
        choice(node, "kind of flow", &known)
    })
}

/// The flow at `node` with those defaults that its kind knows.
fn with_defaults(flow: &Node, defaults: Option<&Node>, keys: &[&str]) -> Node {
    let mut merged = flow.clone();
    if let (Value::Table(entries), Some(Value::Table(defaults))) =
        (&mut merged.value, defaults.map(|node| &node.value))
    {
        for (key, value) in defaults {
            if keys.contains(&key.as_str()) && !entries.iter().any(|(own, _)| own == key) {
                entries.push((key.clone(), value.clone()));
            }
        }
    }
    merged
}

/// The flows that the table at `node` describes.
fn copies(
    node: &Node,
    defaults: Option<&Node>,
    name: String,
    routes: &[RouteSpec],
) -> Read<Vec<FlowSpec>> {
    let kind = kind_of(node, defaults)?;
    let keys = [OWN_KEYS, COMMON_KEYS, &kind.keys.concat()].concat();
    Table::of(node, &keys)?;
    let merged = with_defaults(node, defaults, &keys);
    let table = &Table::of(&merged, &keys)?;
    let count = table.or("count", 1, |node| integer(node, 1..=10_000))?;
    let stagger = table.or("stagger", Duration::ZERO, duration)?;
    let flow = FlowSpec {
        name: table.or("name", name, |node| text(node).map(str::to_owned))?,
        paths: table.required("paths", |node| paths(node, routes))?,
        start: table.or("start", Instant::ZERO, instant)?,
        stop: table.optional("stop", instant)?,
        kind: (kind.read)(table)?,
    };
    let copy = |index: u64| FlowSpec {
        name: if count == 1 {
            flow.name.clone()
        } else {
            format!("{}-{}", flow.name, index + 1)
        },
        start: flow.start + stagger * index,
        ..flow.clone()
    };
    let last = copy(count - 1);
    match (flow.stop, table.node("stop")) {
        (Some(stop), Some(node)) if stop <= last.start => {
            Err(node.mistake(format!("{} would stop before it starts", last.name)))
        }
        _ => Ok((0..count).map(copy).collect()),
    }
}

fn paths(node: &Node, routes: &[RouteSpec]) -> Read<Vec<PathSpec>> {
    let route = |node: &Node| {
        named_index(
            node,
            "route",
            routes.iter().map(|route| route.name.as_str()),
        )
    };
    let path = |node: &Node| match &node.value {
        Value::Text(_) => Ok(PathSpec {
            route: route(node)?,
            weight: 1.0,
            is_metered: false,
        }),
        _ => {
            let table = Table::of(node, &["route", "weight", "metered"])?;
            Ok(PathSpec {
                route: table.required("route", route)?,
                weight: table.or("weight", 1.0, weight)?,
                is_metered: table.or("metered", false, boolean)?,
            })
        }
    };
    let paths = list_of(node, path)?;
    match paths.len() {
        1..=PathId::LIMIT => Ok(paths),
        count => Err(node.mistake(format!(
            "{count} paths: a flow needs 1 to {}",
            PathId::LIMIT
        ))),
    }
}

//! Flows as scenarios describe them: the common part of all kinds, and the list of kinds.
//!
//! A kind is one file in `flow/`, one entry of [`KINDS`] and one variant of [`FlowKind`].

mod adaptive;
mod bulk;
mod download;
mod media;
mod raw;
mod rules;
mod session;
mod short;
mod source;
mod stream;

use std::collections::BTreeSet;

use anabranch_core::{Config, PathId, SourceLimits};
use anabranch_units::{Duration, Instant};

use super::algorithms::Algorithms;
use super::error::Place;
use super::files::Files;
use super::link::{RouteSpec, named_index, weight};
use super::node::{Node, Value};
use super::reader::{
    Read, Table, boolean, choice, duration, instant, integer, list, list_of, named, text,
};
use super::replicas::numbered;

use super::shape::{Key, Shape};

pub use adaptive::AdaptiveSpec;
pub use bulk::BulkSpec;
pub use download::DownloadSpec;
pub use media::MediaSpec;
pub use raw::RawSpec;
pub use rules::{BARE_SENDER, SENDER_RULES, SenderRuleEntry};
pub use short::ShortSpec;

/// A flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// Its name in the scenario and in reports.
    pub name: String,
    /// Its paths, in the order of their numbers.
    pub paths: Vec<PathSpec>,
    /// Its start, or the earliest one: see [`FlowSpec::start_jitter`].
    pub start: Instant,
    /// Bound of the delay of its start, which each run draws by its seed.
    pub start_jitter: Duration,
    /// Bound of the time that each of its packets spends in an end's machine before it leaves; each
    /// packet's is drawn by the run's seed.
    pub noise: Duration,
    /// Its end; `None`: with the run.
    pub stop: Option<Instant>,
    /// Its traffic.
    pub kind: FlowKind,
}

/// Traffic of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowKind {
    /// Frames of video or audio over a session.
    Media(Box<MediaSpec>),
    /// Bytes of a stream, a given number or without end.
    Bulk(Box<BulkSpec>),
    /// Streams of few bytes, one after the other.
    Short(Box<ShortSpec>),
    /// A film that is watched while it comes.
    Download(Box<DownloadSpec>),
    /// Segments of video whose bitrates their viewer chooses.
    Adaptive(Box<AdaptiveSpec>),
    /// Datagrams that nobody answers.
    Raw(RawSpec),
}

impl FlowSpec {
    /// Returns the set-up of the session's ends; `None`: it is no session.
    pub fn config(&self) -> Option<&Config> {
        match &self.kind {
            FlowKind::Media(media) => Some(&media.config),
            FlowKind::Bulk(bulk) => Some(&bulk.config),
            FlowKind::Short(short) => Some(&short.config),
            FlowKind::Download(download) => Some(&download.config),
            FlowKind::Adaptive(adaptive) => Some(&adaptive.config),
            FlowKind::Raw(_) => None,
        }
    }

    /// Returns the same as [`FlowSpec::config`], to be changed.
    pub fn config_mut(&mut self) -> Option<&mut Config> {
        match &mut self.kind {
            FlowKind::Media(media) => Some(&mut media.config),
            FlowKind::Bulk(bulk) => Some(&mut bulk.config),
            FlowKind::Short(short) => Some(&mut short.config),
            FlowKind::Download(download) => Some(&mut download.config),
            FlowKind::Adaptive(adaptive) => Some(&mut adaptive.config),
            FlowKind::Raw(_) => None,
        }
    }

    /// Returns its congestion controller; for a flow that has none, its kind.
    pub fn controller(&self) -> &str {
        match &self.kind {
            FlowKind::Media(media) => media.config.controller.name(),
            FlowKind::Bulk(bulk) => bulk.config.controller.name(),
            FlowKind::Short(short) => short.config.controller.name(),
            FlowKind::Download(download) => download.config.controller.name(),
            FlowKind::Adaptive(adaptive) => adaptive.config.controller.name(),
            FlowKind::Raw(raw) => raw.kind,
        }
    }

    /// Returns its packet scheduler; empty: it has none.
    pub fn scheduler(&self) -> &str {
        self.config().map_or("", |config| config.scheduler.name())
    }

    /// Returns its media, if it carries any.
    pub fn media(&self) -> Option<&MediaSpec> {
        match &self.kind {
            FlowKind::Media(media) => Some(media),
            _ => None,
        }
    }

    /// Whether it is media whose source follows the available rate, so that fairness can be
    /// expected.
    pub fn is_adaptive(&self) -> bool {
        let source = self.media().map(|media| media.config.media.source);
        matches!(source, Some(SourceLimits::Adaptive { .. }))
    }

    /// Returns its start and end, in a run that ends at `end`.
    pub(crate) fn span(&self, end: Instant) -> (Instant, Instant) {
        (self.start, self.stop.unwrap_or(end))
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

/// Kind of flow, for the reader.
struct Kind {
    name: &'static str,
    /// The keys that it has beside [`COMMON_KEYS`], in groups.
    keys: &'static [&'static [Key]],
    /// Reads these keys.
    read: fn(&Table<'_>, &Context<'_>) -> Read<FlowKind>,
}

/// The rest of the scenario, as far as a kind's reader needs it.
struct Context<'a> {
    /// Location of the files that the scenario names.
    files: Files<'a>,
    algorithms: &'a Algorithms,
    paths: &'a [PathSpec],
}

/// All kinds; the first is the default.
const KINDS: &[Kind] = &[
    media::KIND,
    bulk::KIND,
    short::KIND,
    download::KIND,
    adaptive::KIND,
    raw::CBR,
    raw::ON_OFF,
    raw::POISSON,
];

/// The keys that a flow of any kind and the defaults of all flows may have.
const COMMON_KEYS: &[Key] = &[
    Key::new("kind", Shape::Name(kinds), "kind of the flow's traffic"),
    Key::new(
        "paths",
        Shape::List(&PATH),
        "routes, in the order of path numbers",
    ),
    Key::new("start", Shape::Duration, "start of the flow"),
    Key::new(
        "start-jitter",
        Shape::Duration,
        "largest random delay of its start",
    ),
    Key::new(
        "noise",
        Shape::Duration,
        "largest random time that an end takes to send a packet or an acknowledgement",
    ),
    Key::new("stop", Shape::Duration, "end of the flow"),
    Key::new(
        "stagger",
        Shape::Duration,
        "of several alike, time from one start to the next",
    ),
];

const OWN_KEYS: &[Key] = &[
    Key::new("name", Shape::Text, "name in reports"),
    super::replicas::COUNT,
];

const PATH: Shape = Shape::Any(&[Shape::Text, Shape::Table(PATH_KEYS)]);

const PATH_KEYS: &[Key] = &[
    Key::required("route", Shape::Text, "name of a route"),
    Key::new("weight", Shape::Number(0.0, 1e6), "the user's preference"),
    Key::new("metered", Shape::Boolean, "whether the user pays by volume"),
];

fn kinds() -> Vec<String> {
    KINDS.iter().map(|kind| kind.name.to_owned()).collect()
}

/// Returns the keys of flows of any kind, or of their defaults, each kind's after those of all.
pub(super) fn all_keys(is_default: bool) -> Vec<Key> {
    let own = if is_default { &[][..] } else { OWN_KEYS };
    let of_kinds = KINDS.iter().flat_map(|kind| kind.keys.concat());
    own.iter()
        .chain(COMMON_KEYS)
        .copied()
        .chain(of_kinds)
        .collect()
}

/// Largest number of flows of a scenario: a run's memory and time grow with them.
const MAX_FLOWS: usize = 10_000;

/// Reads all flows: those of `node`, each completed by the defaults and multiplied by its count.
pub(super) fn flows(
    node: &Node,
    defaults: Option<&Node>,
    routes: &[RouteSpec],
    (files, algorithms): (Files<'_>, &Algorithms),
) -> Read<Vec<FlowSpec>> {
    let elements = list(node)?;
    if let Some(defaults) = defaults {
        Table::of(defaults, &all_keys(true))?;
        check_overrides(defaults, elements)?;
    }
    let mut flows: Vec<FlowSpec> = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        let default_name = match elements.len() {
            1 => "flow".to_owned(),
            _ => format!("flow-{}", index + 1),
        };
        flows.extend(copies(
            element,
            defaults,
            default_name,
            routes,
            (files, algorithms),
        )?);
        if flows.len() > MAX_FLOWS {
            return Err(node.mistake(format!("more than {MAX_FLOWS} flows in all")));
        }
    }
    let mut names = BTreeSet::new();
    for flow in &flows {
        if !names.insert(&flow.name) {
            return Err(node.mistake(format!("two flows are called {:?}", flow.name)));
        }
    }
    if flows.is_empty() {
        return Err(node.mistake("a scenario needs a flow"));
    }
    Ok(flows)
}

/// Checks that every default set by an override has an effect: it is a mistake if every flow that
/// could have it has its own value.
fn check_overrides(defaults: &Node, flows: &[Node]) -> Read<()> {
    for (key, value) in named(defaults)? {
        if !matches!(value.place, Place::Override(_)) {
            continue;
        }
        let (mut with_own, mut is_taken) = (None, false);
        for (index, flow) in flows.iter().enumerate() {
            let kind = kind_of(flow, Some(defaults))?;
            let mut keys = kind
                .keys
                .concat()
                .into_iter()
                .chain(COMMON_KEYS.iter().copied());
            if !keys.any(|known| known.name == key) {
                continue;
            }
            if named(flow)?.iter().any(|(own, _)| own == key) {
                with_own = with_own.or(Some(index))
            } else {
                is_taken = true
            }
        }
        if let (Some(index), false) = (with_own, is_taken) {
            return Err(value.mistake(format!(
                "every flow has its own, and this changes nothing: set flows.{index}.{key}"
            )));
        }
    }
    Ok(())
}

/// Returns the kind of the flow at `node`.
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

/// Returns the flow at `node` with the defaults that its kind knows.
fn with_defaults(flow: &Node, defaults: Option<&Node>, keys: &[Key]) -> Node {
    let mut merged = flow.clone();
    if let (Value::Table(entries), Some(Value::Table(defaults))) =
        (&mut merged.value, defaults.map(|node| &node.value))
    {
        for (key, value) in defaults {
            if keys.iter().any(|known| known.name == key)
                && !entries.iter().any(|(own, _)| own == key)
            {
                entries.push((key.clone(), value.clone()));
            }
        }
    }
    merged
}

/// Returns the flows that the table at `node` describes.
fn copies(
    node: &Node,
    defaults: Option<&Node>,
    name: String,
    routes: &[RouteSpec],
    (files, algorithms): (Files<'_>, &Algorithms),
) -> Read<Vec<FlowSpec>> {
    let kind = kind_of(node, defaults)?;
    let keys = [OWN_KEYS, COMMON_KEYS, &kind.keys.concat()].concat();
    Table::of(node, &keys)?;
    let merged = with_defaults(node, defaults, &keys);
    let table = &Table::of(&merged, &keys)?;
    let count = table.or("count", 1, |node| integer(node, 1..=10_000))?;
    let stagger = table.or("stagger", Duration::ZERO, duration)?;
    let paths = numbered_paths(table, 1, routes)?;
    let context = Context {
        files,
        algorithms,
        paths: &paths,
    };
    let flow = FlowSpec {
        name: table.or("name", name, |node| text(node).map(str::to_owned))?,
        start: table.or("start", Instant::ZERO, instant)?,
        start_jitter: table.or("start-jitter", Duration::ZERO, duration)?,
        noise: table.or("noise", Duration::ZERO, noise)?,
        stop: table.optional("stop", instant)?,
        kind: (kind.read)(table, &context)?,
        paths,
    };
    let copy = |index: u64| {
        Ok(FlowSpec {
            name: if count == 1 {
                flow.name.clone()
            } else {
                format!("{}-{}", flow.name, index + 1)
            },
            paths: numbered_paths(table, index + 1, routes)?,
            start: flow.start + stagger * index,
            ..flow.clone()
        })
    };
    let last = copy(count - 1)?;
    match (flow.stop, table.node("stop")) {
        (Some(stop), Some(node)) if stop <= last.start + last.start_jitter => {
            Err(node.mistake(format!("{} would stop before it starts", last.name)))
        }
        _ => (0..count).map(copy).collect(),
    }
}

/// Longest noise: a machine that takes longer is no noise.
const MAX_NOISE: Duration = Duration::from_millis(100);

fn noise(node: &Node) -> Read<Duration> {
    match duration(node)? {
        noise if noise > MAX_NOISE => Err(node.mistake("must be at most 100 ms")),
        noise => Ok(noise),
    }
}

/// Reads the paths of the copy with this number, from 1.
fn numbered_paths(table: &Table<'_>, number: u64, routes: &[RouteSpec]) -> Read<Vec<PathSpec>> {
    table.required("paths", |node| paths(&numbered(node, number), routes))
}

fn route(node: &Node, routes: &[RouteSpec]) -> Read<usize> {
    let names = routes.iter().map(|route| route.name.as_str());
    named_index(node, "route", names)
}

fn path(node: &Node, routes: &[RouteSpec]) -> Read<PathSpec> {
    if let Value::Text(_) = node.value {
        return Ok(PathSpec {
            route: route(node, routes)?,
            weight: 1.0,
            is_metered: false,
        });
    }
    let table = Table::of(node, PATH_KEYS)?;
    Ok(PathSpec {
        route: table.required("route", |node| route(node, routes))?,
        weight: table.or("weight", 1.0, weight)?,
        is_metered: table.or("metered", false, boolean)?,
    })
}

fn paths(node: &Node, routes: &[RouteSpec]) -> Read<Vec<PathSpec>> {
    let paths = list_of(node, |node| path(node, routes))?;
    match paths.len() {
        1..=PathId::LIMIT => Ok(paths),
        count => Err(node.mistake(format!(
            "{count} paths: a flow needs 1 to {}",
            PathId::LIMIT
        ))),
    }
}

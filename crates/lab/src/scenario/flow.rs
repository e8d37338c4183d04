//! Flows as scenarios describe them.

use anabranch_core::congestion::{self, FeedbackSchedule, HoleReports};
use anabranch_core::recovery::LossDetection;
use anabranch_core::scheduler::SCHEDULERS;
use anabranch_core::{Config, MediaConfig, PaddingPolicy, PathId, SourceLimits};
use anabranch_units::{ByteCount, Duration, Instant};
use anabranch_video::source::{SourceConfig, SourceConfigError};

use super::document::{Node, Value};
use super::error::Mistake;
use super::link::{RouteSpec, named_index, weight};
use super::reader::{
    Read, Table, boolean, choice, duration, instant, integer, list, list_of, number,
    positive_duration, positive_rate, quantity, share, text,
};

/// A flow of media.
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
    /// Set-up of both its ends.
    pub config: Config,
    /// Where its frames come from.
    pub source: SourceConfig,
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

/// The keys that a flow and the defaults of all flows have in common.
const SHARED_KEYS: [&str; 22] = [
    "kind",
    "controller",
    "scheduler",
    "paths",
    "start",
    "stop",
    "source",
    "padding",
    "feedback",
    "loss-detection",
    "min-rate",
    "max-rate",
    "initial-window",
    "ecn",
    "initial-rate",
    "fixed-rate",
    "packet",
    "overhead",
    "deadline",
    "reassembly-wait",
    "target-fraction",
    "stagger",
];

const OWN_KEYS: [&str; 2] = ["name", "count"];

/// All flows: those of `node`, each completed by the defaults and multiplied by its count.
pub(super) fn flows(
    node: &Node,
    defaults: Option<&Node>,
    routes: &[RouteSpec],
) -> Read<Vec<FlowSpec>> {
    if let Some(defaults) = defaults {
        Table::of(defaults, &SHARED_KEYS)?;
    }
    let mut flows: Vec<FlowSpec> = Vec::new();
    let elements = list(node)?;
    for (index, element) in elements.iter().enumerate() {
        let keys = [&OWN_KEYS[..], &SHARED_KEYS].concat();
        Table::of(element, &keys)?;
        let merged = with_defaults(element, defaults);
        let default_name = match elements.len() {
            1 => "flow".to_owned(),
            _ => format!("flow-{}", index + 1),
        };
        flows.extend(copies(&Table::of(&merged, &keys)?, default_name, routes)?);
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

fn with_defaults(flow: &Node, defaults: Option<&Node>) -> Node {
    let mut merged = flow.clone();
    if let (Value::Table(entries), Some(Value::Table(defaults))) =
        (&mut merged.value, defaults.map(|node| &node.value))
    {
        for (key, value) in defaults {
            if !entries.iter().any(|(own, _)| own == key) {
                entries.push((key.clone(), value.clone()));
            }
        }
    }
    merged
}

fn copies(table: &Table<'_>, name: String, routes: &[RouteSpec]) -> Read<Vec<FlowSpec>> {
    let count = table.or("count", 1, |node| integer(node, 1..=10_000))?;
    let stagger = table.or("stagger", Duration::ZERO, duration)?;
    let name = table.or("name", name, |node| text(node).map(str::to_owned))?;
    let flow = flow(table, name, routes)?;
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

fn flow(table: &Table<'_>, name: String, routes: &[RouteSpec]) -> Read<FlowSpec> {
    table.optional("kind", |node| {
        choice(node, "kind of flow", &[("media", ())])
    })?;
    let source = table.or(
        "source",
        named_source("ideal").expect("it is known"),
        source,
    )?;
    Ok(FlowSpec {
        name,
        paths: table.required("paths", |node| paths(node, routes))?,
        start: table.or("start", Instant::ZERO, instant)?,
        stop: table.optional("stop", instant)?,
        config: config(table, &source)?,
        source,
    })
}

fn config(table: &Table<'_>, source: &SourceConfig) -> Read<Config> {
    let usual = Config::default();
    let schedulers = SCHEDULERS
        .iter()
        .map(|entry| (entry.name, entry.name))
        .collect::<Vec<_>>();
    let controller = |node: &Node| {
        let name = text(node)?;
        let known = congestion::check(name).map_err(|error| node.mistake(error));
        known.map(|_| name.to_owned())
    };
    let scheduler = |node| choice(node, "scheduler", &schedulers).map(str::to_owned);
    let loss_detection = |node| choice(node, "loss detection", &LossDetection::NAMES);
    let padding = |node| choice(node, "padding", &PaddingPolicy::NAMES);
    let media = MediaConfig {
        deadline: table.or("deadline", usual.media.deadline, positive_duration)?,
        reassembly_wait: table.or(
            "reassembly-wait",
            usual.media.reassembly_wait,
            positive_duration,
        )?,
        target_fraction: table.or("target-fraction", usual.media.target_fraction, |node| {
            match share(node)? {
                0.0 => Err(node.mistake("the encoder needs a share above zero")),
                fraction => Ok(fraction),
            }
        })?,
        source: limits(source),
    };
    Ok(Config {
        controller: table.or("controller", usual.controller, controller)?,
        scheduler: table.or("scheduler", usual.scheduler, scheduler)?,
        min_rate: table.or("min-rate", usual.min_rate, positive_rate)?,
        initial_rate: table.or("initial-rate", usual.initial_rate, positive_rate)?,
        max_rate: table.optional("max-rate", positive_rate)?,
        initial_window_packets: table.or(
            "initial-window",
            usual.initial_window_packets,
            |node| integer(node, 1..=1_000_u32),
        )?,
        is_ecn_capable: table.or("ecn", usual.is_ecn_capable, boolean)?,
        fixed_rate: table.or("fixed-rate", usual.fixed_rate, positive_rate)?,
        loss_detection: table.or("loss-detection", usual.loss_detection, loss_detection)?,
        padding: table.or("padding", usual.padding, padding)?,
        feedback: table.or("feedback", usual.feedback, feedback)?,
        overhead_bytes: table.or("overhead", usual.overhead_bytes, |node| {
            bytes(node, 0..=1_000).map(|b| b as u32)
        })?,
        fragment_bytes: table.or("packet", usual.fragment_bytes, |node| {
            bytes(node, 64..=9_000).map(|b| b as u16)
        })?,
        media,
    })
}

fn bytes(node: &Node, range: std::ops::RangeInclusive<u64>) -> Read<u64> {
    let ByteCount(bytes) = quantity(node)?;
    if range.contains(&bytes) {
        return Ok(bytes);
    }
    let (start, end) = (range.start(), range.end());
    Err(node.mistake(format!("{bytes} B: allowed are {start} B to {end} B")))
}

/// What the transport may know of a source.
fn limits(source: &SourceConfig) -> SourceLimits {
    match *source {
        SourceConfig::Ideal {
            min_rate: min,
            max_rate: max,
            ..
        }
        | SourceConfig::Gop {
            min_rate: min,
            max_rate: max,
            ..
        } => SourceLimits::Adaptive { min, max },
        SourceConfig::Cbr { .. } => SourceLimits::Fixed,
    }
}

fn feedback(node: &Node) -> Read<Option<FeedbackSchedule>> {
    if let Value::Text(_) = node.value {
        let known = [
            ("controller", None),
            ("every packet", Some(FeedbackSchedule::EVERY_PACKET)),
        ];
        return choice(node, "feedback", &known);
    }
    let usual = FeedbackSchedule::default();
    let table = Table::of(node, &["every", "max-delay", "interval", "on-hole"])?;
    Ok(Some(FeedbackSchedule {
        every_packets: table.or("every", usual.every_packets, |node| {
            integer(node, 1..=1_000_u32)
        })?,
        max_delay: table.or("max-delay", usual.max_delay, duration)?,
        interval: table.optional("interval", positive_duration)?,
        on_hole: table.or("on-hole", usual.on_hole, |node| {
            Ok(boolean(node)?.then_some(HoleReports::AT_ONCE))
        })?,
        ..usual
    }))
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

fn named_source(name: &str) -> Result<SourceConfig, SourceConfigError> {
    name.parse()
}

fn source(node: &Node) -> Read<SourceConfig> {
    let named = |node: &Node| named_source(text(node)?).map_err(|error| node.mistake(error));
    if let Value::Text(_) = node.value {
        return named(node);
    }
    let all = [
        "kind",
        "fps",
        "min",
        "max",
        "key-interval",
        "key-ratio",
        "rate",
    ];
    let usual = Table::of(node, &all)?.required("kind", named)?;
    let fps = |node| integer(node, 1..=1_000_u32);
    let source = match usual {
        SourceConfig::Ideal {
            frames_per_second,
            min_rate,
            max_rate,
        } => {
            let table = Table::of(node, &["kind", "fps", "min", "max"])?;
            SourceConfig::Ideal {
                frames_per_second: table.or("fps", frames_per_second, fps)?,
                min_rate: table.or("min", min_rate, positive_rate)?,
                max_rate: table.or("max", max_rate, positive_rate)?,
            }
        }
        SourceConfig::Gop {
            frames_per_second,
            min_rate,
            max_rate,
            key_frame_ratio,
            ..
        } => {
            let table = Table::of(
                node,
                &["kind", "fps", "min", "max", "key-interval", "key-ratio"],
            )?;
            let frames_per_second = table.or("fps", frames_per_second, fps)?;
            let interval = Duration::from_secs(2);
            let interval = table.or("key-interval", interval, positive_duration)?;
            SourceConfig::Gop {
                frames_per_second,
                min_rate: table.or("min", min_rate, positive_rate)?,
                max_rate: table.or("max", max_rate, positive_rate)?,
                key_frame_interval: frames_in(interval, frames_per_second),
                key_frame_ratio: table.or("key-ratio", key_frame_ratio, |node| {
                    number(node, 1.0..=1_000.0)
                })?,
            }
        }
        SourceConfig::Cbr {
            frames_per_second,
            rate,
        } => {
            let table = Table::of(node, &["kind", "fps", "rate"])?;
            SourceConfig::Cbr {
                frames_per_second: table.or("fps", frames_per_second, fps)?,
                rate: table.or("rate", rate, positive_rate)?,
            }
        }
    };
    let refused = |error: SourceConfigError| -> Mistake { node.mistake(error) };
    source.build(Instant::ZERO).map_err(refused)?;
    Ok(source)
}

fn frames_in(span: Duration, frames_per_second: u32) -> u32 {
    let frames = span.as_secs_f64() * f64::from(frames_per_second);
    (frames + 0.5).clamp(1.0, f64::from(u32::MAX)) as u32
}

//! Links and routes as scenarios describe them.

use anabranch_link::{
    DetourModel, Discipline, JitterAmount, JitterModel, JitterOrder, JitterShape, LinkConfig,
    LinkConfigError, LossModel, QueueLimit, Trace,
};
use anabranch_units::{DataRate, Duration, Instant, Seed, known_names};

use super::discipline::{self, discipline};
use super::files::Files;
use super::node::{Node, Value};
use super::reader::{
    Read, Table, boolean, bytes, choice, duration, instant, integer, list, list_of, named, number,
    positive_duration, positive_rate, queue_limit, rate, share, text,
};
use super::replicas::{COUNT, DELAY_KEYS, Replica, replicas};
use super::shape::{Key, Shape};
use super::trace_format::{self, TraceFormat};

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Its name in the scenario.
    pub name: String,
    /// The name of the table that describes it, which may describe several alike.
    pub group: String,
    /// Its properties.
    pub config: LinkConfig,
}

/// Route from senders to receivers and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// Its name in the scenario.
    pub name: String,
    /// Indices of the links from sender to receiver, in order.
    pub forward: Vec<usize>,
    /// Indices of the links from receiver to sender, in order.
    pub reverse: Vec<usize>,
    /// Place among the routes in the order of the file.
    pub(super) written_at: usize,
}

/// Reads all links, whose files are `files`.
pub(super) fn links(node: &Node, files: Files<'_>) -> Read<Vec<LinkSpec>> {
    replicas(node)?
        .into_iter()
        .map(|replica| {
            Ok(LinkSpec {
                config: link_config(&replica.node, replica.number, files)?,
                name: replica.name,
                group: replica.group,
            })
        })
        .collect()
}

/// The keys of a link.
pub(super) const LINK_KEYS: &[Key] = &[
    COUNT,
    Key::new("rate", Shape::Rate, "bottleneck's rate"),
    Key::new(
        "burst",
        Shape::Amount,
        "largest burst of a token bucket after a pause",
    ),
    Key::new(
        "frame-time",
        Shape::Duration,
        "time that each packet takes beside its bytes",
    ),
    Key::new(
        "trace",
        Shape::Text,
        "file of delivery opportunities, instead of a rate",
    ),
    Key::new(
        "delay",
        Shape::Any(&[Shape::Duration, Shape::Table(DELAY_KEYS)]),
        "propagation, one way",
    ),
    Key::new(
        "delay-step",
        Shape::Duration,
        "of several alike, increase of the delay from one to the next",
    ),
    Key::new(
        "jitter",
        Shape::Table(JITTER_KEYS),
        "variation of the delay",
    ),
    Key::new(
        "detour",
        Shape::Table(DETOUR_KEYS),
        "packets that take longer and are overtaken",
    ),
    Key::new("queue", Shape::Queue, "capacity of the queue"),
    Key::new(
        "discipline",
        Shape::Any(&[
            Shape::Name(discipline::names),
            Shape::Table(discipline::KEYS),
        ]),
        "discipline by which the queue drops or marks packets",
    ),
    Key::new(
        "loss",
        Shape::Any(&[Shape::Share, Shape::Table(LOSS_KEYS)]),
        "share of packets lost, each on its own or in bursts",
    ),
    Key::new(
        "rate-schedule",
        Shape::List(&Shape::Table(RATE_CHANGE_KEYS)),
        "rates that hold from a moment on",
    ),
    Key::new(
        "delay-schedule",
        Shape::List(&Shape::Table(DELAY_CHANGE_KEYS)),
        "delays that hold from a moment on",
    ),
    Key::new(
        "overtaking",
        Shape::Boolean,
        "when the delay falls, packets overtake those before them",
    ),
    Key::new(
        "outages",
        Shape::List(&Shape::Table(SPAN_KEYS)),
        "spans in which the link loses all packets",
    ),
    Key::new(
        "mtu",
        Shape::Amount,
        "longest packet that passes, headers included",
    ),
    Key::new(
        "mtu-schedule",
        Shape::List(&Shape::Table(MTU_CHANGE_KEYS)),
        "longest packets from a moment on",
    ),
];

const JITTER_KEYS: &[Key] = &[
    Key::new("std", Shape::Duration, "standard deviation"),
    Key::new(
        "max-deviations",
        Shape::Number(0.0, 100.0),
        "where the distribution is cut, in standard deviations",
    ),
    Key::new(
        "shape",
        Shape::Name(|| JITTER_SHAPES.map(|(name, _)| name.to_owned()).into()),
        "how RFC 8868's z is read",
    ),
    Key::new(
        "uniform",
        Shape::Duration,
        "instead of a normal distribution: any delay up to this is as likely",
    ),
    Key::new(
        "order",
        Shape::Name(|| JITTER_ORDERS.map(|(name, _)| name.to_owned()).into()),
        "whether packets stay apart, leave in bunches or overtake each other",
    ),
];

const JITTER_ORDERS: [(&str, JitterOrder); 3] = [
    ("spaced", JitterOrder::Spaced),
    ("bunched", JitterOrder::Bunched),
    ("reordered", JitterOrder::Reordered),
];

const DETOUR_KEYS: &[Key] = &[
    Key::required("share", Shape::Share, "of the packets, each on its own"),
    Key::required("delay", Shape::Duration, "additional delay"),
];

const JITTER_SHAPES: [(&str, JitterShape); 2] = [
    ("zero-mean", JitterShape::ZeroMean),
    ("folded", JitterShape::Folded),
];

const LOSS_KEYS: &[Key] = &[
    Key::required(
        "good-to-bad",
        Shape::Share,
        "chance to turn bad after a packet",
    ),
    Key::required(
        "bad-to-good",
        Shape::Share,
        "chance to turn good after a packet",
    ),
    Key::new("loss-in-good", Shape::Share, "share lost while good"),
    Key::new("loss-in-bad", Shape::Share, "share lost while bad"),
];

const AT: Key = Key::required("at", Shape::Duration, "time since the start of the run");

const EVERY: Key = Key::new("every", Shape::Duration, "period of repetitions");

const TIMES: Key = Key::new(
    "times",
    Shape::Integer(1, MOST_TIMES),
    "number of repetitions, with a period",
);

/// Limit of repetitions; more would exceed every run.
const MOST_TIMES: i64 = 100_000;

pub(super) const RATE_CHANGE_KEYS: &[Key] = &[
    AT,
    Key::required("rate", Shape::Rate, "value from then on"),
    EVERY,
    TIMES,
];

const DELAY_CHANGE_KEYS: &[Key] = &[
    AT,
    Key::required("delay", Shape::Duration, "value from then on"),
    EVERY,
    TIMES,
];

const MTU_CHANGE_KEYS: &[Key] = &[
    AT,
    Key::required("mtu", Shape::Amount, "value from then on"),
    EVERY,
    TIMES,
];

pub(super) const SPAN_KEYS: &[Key] = &[
    AT,
    Key::required("for", Shape::Duration, "length"),
    EVERY,
    TIMES,
];

/// A list of links: names, or all that one table describes.
const HOPS: Shape = Shape::List(&Shape::Any(&[Shape::Text, Shape::Table(EACH_KEYS)]));

const EACH_KEYS: &[Key] = &[
    Key::required("each", Shape::Text, "a table of several alike"),
    Key::new("reversed", Shape::Boolean, "whether in reverse order"),
];

/// The keys of a route.
pub(super) const ROUTE_KEYS: &[Key] = &[
    COUNT,
    Key::required("forward", HOPS, "links from sender to receiver"),
    Key::required("reverse", HOPS, "links from receiver to sender"),
];

/// Reads a link's configuration. `number` is its number among several alike, from 1.
fn link_config(node: &Node, number: u64, files: Files<'_>) -> Read<LinkConfig> {
    let table = Table::of(node, LINK_KEYS)?;
    let config = LinkConfig {
        rate: table.optional("rate", positive_rate)?,
        rate_schedule: table.or("rate-schedule", Vec::new(), |node| {
            repeated(node, rate_change)
        })?,
        frame_time: table.or("frame-time", Duration::ZERO, duration)?,
        burst_bytes: table.or("burst", 0, burst)?,
        trace: table.optional("trace", |node| trace(node, files))?,
        delay: table.or("delay", Duration::ZERO, duration)?
            + table.or("delay-step", Duration::ZERO, duration)? * (number - 1),
        delay_schedule: table.or("delay-schedule", Vec::new(), |node| {
            repeated(node, delay_change)
        })?,
        overtaking: table.or("overtaking", false, boolean)?,
        jitter: table.optional("jitter", jitter)?,
        detour: table.optional("detour", detour)?,
        queue: table.or("queue", QueueLimit::Unlimited, queue_limit)?,
        discipline: table.or("discipline", Discipline::default(), discipline)?,
        loss: table.or("loss", LossModel::None, loss_model)?,
        outages: table.or("outages", Vec::new(), |node| repeated(node, span))?,
        mtu: table.optional("mtu", mtu)?,
        mtu_schedule: table.or("mtu-schedule", Vec::new(), |node| {
            repeated(node, mtu_change)
        })?,
    };
    // Mistakes that the readers above accept and the link refuses, at the key in question.
    config.build(Seed::default()).map_err(|error| {
        let key = match error {
            LinkConfigError::RateAndTrace => "trace",
            LinkConfigError::Burst => "burst",
            LinkConfigError::FrameTime => "frame-time",
            LinkConfigError::OvertakingInOrder => "overtaking",
            LinkConfigError::Discipline(_) => "discipline",
            LinkConfigError::JitterDeviations(_) | LinkConfigError::JitterExceedsDelay { .. } => {
                "jitter"
            }
            _ => "",
        };
        table.node(key).unwrap_or(node).mistake(error)
    })?;
    if config.rate.is_none() && config.trace.is_none() {
        check_without_rate(&table, &config)?;
    }
    Ok(config)
}

fn check_without_rate(table: &Table<'_>, config: &LinkConfig) -> Read<()> {
    if let (QueueLimit::Time(_), Some(queue)) = (config.queue, table.node("queue")) {
        return Err(queue.mistake("a queue given as a time needs a link with a rate or a trace"));
    }
    if let Some(schedule) = table.node("rate-schedule") {
        return Err(schedule.mistake("a rate schedule needs a rate to start with"));
    }
    match table.node("discipline") {
        Some(discipline) => Err(discipline.mistake("without a rate or a trace no queue builds up")),
        None => Ok(()),
    }
}

fn trace(node: &Node, files: Files<'_>) -> Read<Trace> {
    let (path, text) = files.read(node)?;
    text.parse().map_err(|error| {
        let error = trace_format::mistake(&error, &[TraceFormat::Mahimahi], &text);
        node.mistake(format!("{path}: {error}"))
    })
}

fn jitter(node: &Node) -> Read<JitterModel> {
    let table = Table::of(node, JITTER_KEYS)?;
    let usual = JitterModel::default();
    Ok(JitterModel {
        amount: jitter_amount(&table)?,
        order: table.or("order", usual.order, |node| {
            choice(node, "order of packets", &JITTER_ORDERS)
        })?,
    })
}

fn jitter_amount(table: &Table<'_>) -> Read<JitterAmount> {
    if let Some(most) = table.optional("uniform", duration)? {
        let of_normal = ["std", "max-deviations", "shape"];
        if let Some(node) = of_normal.iter().find_map(|key| table.node(key)) {
            return Err(node.mistake("uniform jitter has no use for it"));
        }
        return Ok(JitterAmount::Uniform(most));
    }
    let usual_std = Duration::from_millis(5);
    Ok(JitterAmount::Normal {
        std: table.or("std", usual_std, duration)?,
        max_deviations: table.or("max-deviations", 3.0, |node| number(node, 0.0..=100.0))?,
        shape: table.or("shape", JitterShape::default(), |node| {
            choice(node, "shape of jitter", &JITTER_SHAPES)
        })?,
    })
}

fn detour(node: &Node) -> Read<DetourModel> {
    let table = Table::of(node, DETOUR_KEYS)?;
    Ok(DetourModel {
        share: table.required("share", share)?,
        delay: table.required("delay", duration)?,
    })
}

/// Reads a rate and the time from which it holds.
pub(super) fn rate_change(node: &Node) -> Read<(Instant, DataRate)> {
    let table = Table::of(node, RATE_CHANGE_KEYS)?;
    Ok((
        table.required("at", instant)?,
        table.required("rate", rate)?,
    ))
}

fn delay_change(node: &Node) -> Read<(Instant, Duration)> {
    let table = Table::of(node, DELAY_CHANGE_KEYS)?;
    Ok((
        table.required("at", instant)?,
        table.required("delay", duration)?,
    ))
}

/// Reads the longest packet and the time from which it holds.
fn mtu_change(node: &Node) -> Read<(Instant, u32)> {
    let table = Table::of(node, MTU_CHANGE_KEYS)?;
    Ok((table.required("at", instant)?, table.required("mtu", mtu)?))
}

fn burst(node: &Node) -> Read<u64> {
    bytes(node, 0..=1_000_000_000)
}

/// Reads an MTU, at least the 68 B of IPv4 (RFC 791 §3.2).
fn mtu(node: &Node) -> Read<u32> {
    bytes(node, 68..=65_535).map(|bytes| bytes as u32)
}

/// Returns the events of a list, in order: each entry once, or `times` times, with a period of
/// `every`.
pub(super) fn repeated<T: Copy>(
    node: &Node,
    mut read: impl FnMut(&Node) -> Read<(Instant, T)>,
) -> Read<Vec<(Instant, T)>> {
    let mut all = Vec::new();
    for entry in list(node)? {
        let (at, what) = read(entry)?;
        let entries = named(entry)?;
        let [every, times] = ["every", "times"].map(|name| {
            let found = entries.iter().find(|(key, _)| key == name);
            found.map(|(_, node)| node)
        });
        let every = every.map(positive_duration);
        let times = times.map(|node| integer(node, 1..=MOST_TIMES));
        match (every.transpose()?, times.transpose()?) {
            (None, None) => all.push((at, what)),
            (Some(every), Some(times)) => {
                let instants = (0..times as u64).map(|time| at + every * time);
                all.extend(instants.map(|at| (at, what)));
            }
            _ => return Err(entry.mistake("\"every\" and \"times\" need each other")),
        }
    }
    all.sort_by_key(|&(at, _)| at);
    Ok(all)
}

/// Reads the beginning of a part of the run, and its length.
pub(super) fn span(node: &Node) -> Read<(Instant, Duration)> {
    let table = Table::of(node, SPAN_KEYS)?;
    Ok((
        table.required("at", instant)?,
        table.required("for", positive_duration)?,
    ))
}

fn loss_model(node: &Node) -> Read<LossModel> {
    if !matches!(node.value, Value::Table(_)) {
        return Ok(LossModel::Bernoulli {
            probability: share(node)?,
        });
    }
    let table = Table::of(node, LOSS_KEYS)?;
    Ok(LossModel::GilbertElliott {
        good_to_bad: table.required("good-to-bad", share)?,
        bad_to_good: table.required("bad-to-good", share)?,
        loss_in_good: table.or("loss-in-good", 0.0, share)?,
        loss_in_bad: table.or("loss-in-bad", 1.0, share)?,
    })
}

fn hops(node: &Node, links: &[LinkSpec]) -> Read<Vec<usize>> {
    let hops = list_of(node, |node| hop(node, links))?.concat();
    match hops.len() {
        1..=255 => Ok(hops),
        count => Err(node.mistake(format!("{count} links: a route needs 1 to 255"))),
    }
}

pub(super) fn routes(node: &Node, links: &[LinkSpec]) -> Read<Vec<RouteSpec>> {
    let mut routes = Vec::new();
    for Replica { name, node, .. } in replicas(node)? {
        let table = Table::of(&node, ROUTE_KEYS)?;
        routes.push(RouteSpec {
            name,
            forward: table.required("forward", |node| hops(node, links))?,
            reverse: table.required("reverse", |node| hops(node, links))?,
            written_at: node.at,
        });
    }
    let mut offsets: Vec<usize> = routes.iter().map(|route| route.written_at).collect();
    offsets.sort_unstable();
    for route in &mut routes {
        route.written_at = offsets.partition_point(|offset| *offset < route.written_at);
    }
    Ok(routes)
}

/// Reads a link by its name, or all links that one table describes, as in `{ each = "hop" }`.
fn hop(node: &Node, links: &[LinkSpec]) -> Read<Vec<usize>> {
    if let Value::Text(_) = node.value {
        let names = links.iter().map(|link| link.name.as_str());
        return named_index(node, "link", names).map(|index| vec![index]);
    }
    let table = Table::of(node, EACH_KEYS)?;
    let is_reversed = table.or("reversed", false, boolean)?;
    let mut hops = table.required("each", |node| {
        let groups = links.iter().map(|link| link.group.as_str());
        let first = named_index(node, "table of links", groups.clone())?;
        let group = &links[first].group;
        let alike = groups.enumerate().filter(|(_, other)| other == group);
        Ok(alike.map(|(index, _)| index).collect::<Vec<_>>())
    })?;
    if is_reversed {
        hops.reverse();
    }
    Ok(hops)
}

/// Returns the index of the thing whose name stands at `node` among all such things.
pub(super) fn named_index<'a>(
    node: &Node,
    what: &str,
    mut names: impl Iterator<Item = &'a str> + Clone,
) -> Read<usize> {
    let name = text(node)?;
    let known = names.clone();
    names.position(|known| known == name).ok_or_else(|| {
        node.mistake(format!(
            "no {what} is called {name:?}; known are {}",
            known_names(name, known)
        ))
    })
}

/// Reads a path's weight.
pub(super) fn weight(node: &Node) -> Read<f64> {
    match number(node, 0.0..=1e6)? {
        0.0 => Err(node.mistake("a weight must be above zero")),
        weight => Ok(weight),
    }
}

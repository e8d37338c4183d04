//! Links and routes as scenarios describe them.

use anabranch_link::{LinkConfig, LossModel, QueueLimit};
use anabranch_units::{DataRate, Duration, Instant, Seed};

use super::document::{Node, Value, known_names};
use super::reader::{
    Read, Table, duration, instant, list_of, named, number, positive_duration, positive_rate,
    quantity, rate, share, text,
};
use super::shape::{Key, Shape};

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Its name in the scenario.
    pub name: String,
    /// What it is like.
    pub config: LinkConfig,
}

/// A way from senders to receivers and back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// Its name in the scenario.
    pub name: String,
    /// Indices of the links from sender to receiver, in order.
    pub forward: Vec<usize>,
    /// Indices of the links from receiver to sender, in order.
    pub reverse: Vec<usize>,
}

pub(super) fn links(node: &Node) -> Read<Vec<LinkSpec>> {
    let link = |(name, node): &(String, Node)| {
        Ok(LinkSpec {
            name: name.clone(),
            config: link_config(node)?,
        })
    };
    named(node)?.iter().map(link).collect()
}

/// The keys of a link.
pub(super) const LINK_KEYS: &[Key] = &[
    Key::new("rate", Shape::Rate, "bottleneck's rate"),
    Key::new("delay", Shape::Duration, "propagation, one way"),
    Key::new("queue", Shape::Queue, "what the queue holds"),
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
        "outages",
        Shape::List(&Shape::Table(SPAN_KEYS)),
        "times in which everything is lost",
    ),
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

pub(super) const RATE_CHANGE_KEYS: &[Key] =
    &[AT, Key::required("rate", Shape::Rate, "from then on")];

const DELAY_CHANGE_KEYS: &[Key] = &[AT, Key::required("delay", Shape::Duration, "from then on")];

pub(super) const SPAN_KEYS: &[Key] = &[AT, Key::required("for", Shape::Duration, "how long")];

/// The keys of a route.
pub(super) const ROUTE_KEYS: &[Key] = &[
    Key::required(
        "forward",
        Shape::List(&Shape::Text),
        "links from sender to receiver",
    ),
    Key::required(
        "reverse",
        Shape::List(&Shape::Text),
        "links from receiver to sender",
    ),
];

fn link_config(node: &Node) -> Read<LinkConfig> {
    let table = Table::of(node, LINK_KEYS)?;
    let config = LinkConfig {
        rate: table.optional("rate", positive_rate)?,
        rate_schedule: table.or("rate-schedule", Vec::new(), |node| {
            list_of(node, rate_change)
        })?,
        delay: table.or("delay", Duration::ZERO, duration)?,
        delay_schedule: table.or("delay-schedule", Vec::new(), |node| {
            list_of(node, delay_change)
        })?,
        queue: table.or("queue", QueueLimit::Unlimited, queue_limit)?,
        loss: table.or("loss", LossModel::None, loss_model)?,
        outages: table.or("outages", Vec::new(), |node| list_of(node, span))?,
    };
    if let (None, QueueLimit::Time(_), Some(queue)) =
        (config.rate, config.queue, table.node("queue"))
    {
        return Err(queue.mistake("a queue given as a time needs a link with a rate"));
    }
    if let (None, Some(schedule)) = (config.rate, table.node("rate-schedule")) {
        return Err(schedule.mistake("a rate schedule needs a rate to start with"));
    }
    // What the readers above let pass and the link refuses is a mistake in the link as a whole.
    config
        .build(Seed::default())
        .map_err(|error| node.mistake(error))?;
    Ok(config)
}

/// A rate, and when it comes into force.
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

/// When a part of the run begins, and how long it is.
pub(super) fn span(node: &Node) -> Read<(Instant, Duration)> {
    let table = Table::of(node, SPAN_KEYS)?;
    Ok((
        table.required("at", instant)?,
        table.required("for", positive_duration)?,
    ))
}

fn queue_limit(node: &Node) -> Read<QueueLimit> {
    let limit = quantity(node)?;
    match limit {
        QueueLimit::Bytes(0) | QueueLimit::Packets(0) | QueueLimit::Time(Duration::ZERO) => {
            Err(node.mistake("a queue that holds nothing lets nothing pass"))
        }
        limit => Ok(limit),
    }
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

pub(super) fn routes(node: &Node, links: &[LinkSpec]) -> Read<Vec<RouteSpec>> {
    let hops = |node: &Node| {
        let hops = list_of(node, |node| {
            named_index(node, "link", links.iter().map(|link| link.name.as_str()))
        })?;
        match hops.len() {
            1..=255 => Ok(hops),
            count => Err(node.mistake(format!("{count} links: a route needs 1 to 255"))),
        }
    };
    let route = |(name, node): &(String, Node)| {
        let table = Table::of(node, ROUTE_KEYS)?;
        let forward = table.required("forward", hops)?;
        let reverse = table.required("reverse", hops)?;
        Ok(RouteSpec {
            name: name.clone(),
            forward,
            reverse,
        })
    };
    named(node)?.iter().map(route).collect()
}

/// The place of the thing called by its name at `node` among all such things.
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
            known_names(known)
        ))
    })
}

/// A path's weight.
pub(super) fn weight(node: &Node) -> Read<f64> {
    match number(node, 0.0..=1e6)? {
        0.0 => Err(node.mistake("a weight must be above zero")),
        weight => Ok(weight),
    }
}

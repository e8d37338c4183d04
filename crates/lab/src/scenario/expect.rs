//! Bounds of the measurements of a run.

use anabranch_units::{ByteCount, DataRate, Duration, Instant, known_names};

use super::flow::FlowSpec;
use super::link::LinkSpec;
use super::node::{Node, Value};
use super::reader::{
    Read, Table, instant, list, named, number, positive_duration, quantity, share,
};
use super::shape::{Key, Shape};
use crate::metrics::{METRICS, Metric, Scope, Statistics, Subject, Unit, Window};

/// "This metric of this subject over this window lies between these bounds."
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Expectation {
    /// The metric.
    pub metric: &'static Metric,
    /// Object that it is measured of.
    pub subject: Subject,
    /// Window of the measurement.
    pub window: Window,
    /// Least valid value, in the metric's unit.
    pub min: Option<f64>,
    /// Largest valid value, in the metric's unit.
    pub max: Option<f64>,
}

impl Expectation {
    /// Returns the measured value, by the statistics of its window; `None`: there was nothing to
    /// measure.
    pub fn value(&self, statistics: &Statistics) -> Option<f64> {
        self.metric.of(statistics, self.subject)
    }
}

/// The keys of `[statistics]`.
pub(super) const STATISTICS_KEYS: &[Key] = &[FROM, TO];

const FROM: Key = Key::new("from", Shape::Duration, "begin of the part that counts");
const TO: Key = Key::new("to", Shape::Duration, "its end");

/// The keys of a bound beside `min` and `max`, whose shape depends on the metric.
pub(super) const WINDOW_KEYS: &[Key] = &[
    FROM,
    TO,
    Key::new(
        "outside",
        Shape::Pair(&Shape::Duration),
        "a part that does not count",
    ),
];

const BOUND_KEYS: [&str; 5] = ["min", "max", FROM.name, TO.name, "outside"];

/// Reads the window of `[statistics]`, in a run of `duration`.
pub(super) fn statistics(node: Option<&Node>, duration: Duration) -> Read<Window> {
    let whole = Window::whole(duration);
    let Some(node) = node else { return Ok(whole) };
    window(&Table::of(node, STATISTICS_KEYS)?, node, whole, duration)
}

/// Reads the expectations of `[expect]`; without a window of its own, an expectation takes that of
/// the statistics.
pub(super) fn expectations(
    node: &Node,
    links: &[LinkSpec],
    flows: &[FlowSpec],
    usual: Window,
    duration: Duration,
) -> Read<Vec<Expectation>> {
    let mut expectations = Vec::new();
    for (name, node) in named(node)? {
        let metric = METRICS
            .iter()
            .find(|metric| metric.name == *name)
            .ok_or_else(|| {
                let known = known_names(name, METRICS.iter().map(|metric| metric.name));
                node.mistake(format!("no metric is called {name:?}; known are {known}"))
            })?;
        for (subject, node) in subjects(node, metric, links, flows)? {
            let bounds = match &node.value {
                Value::Array(_) => list(node)?.iter().collect(),
                _ => vec![node],
            };
            for node in bounds {
                expectations.push(expectation(node, metric, subject, usual, duration)?);
            }
        }
    }
    Ok(expectations)
}

/// Returns the subjects of a metric's expectations: the keys below it name links or flows, or are
/// bounds themselves.
fn subjects<'a>(
    node: &'a Node,
    metric: &Metric,
    links: &[LinkSpec],
    flows: &[FlowSpec],
) -> Read<Vec<(Subject, &'a Node)>> {
    let is_bounds = match &node.value {
        Value::Array(_) => true,
        Value::Table(entries) => entries
            .iter()
            .any(|(key, _)| BOUND_KEYS.contains(&key.as_str())),
        _ => return Err(node.mistake("expected bounds, as in { min = 0.95 }")),
    };
    let (what, names): (_, Vec<&str>) = match metric.scope {
        Scope::Link => (
            "link",
            links.iter().map(|link| link.name.as_str()).collect(),
        ),
        Scope::Flow | Scope::EachFlow => (
            "flow",
            flows.iter().map(|flow| flow.name.as_str()).collect(),
        ),
        Scope::Run => ("flow", Vec::new()),
    };
    match metric.scope {
        Scope::EachFlow | Scope::Link if is_bounds => {
            let example = format!("{}.{}", metric.name, names.first().unwrap_or(&what));
            return Err(node.mistake(format!("say of which {what}, as in {example}")));
        }
        Scope::Flow | Scope::Run if is_bounds => return Ok(vec![(Subject::All, node)]),
        Scope::Run => return Err(node.mistake("expected bounds, as in { min = 0.95 }")),
        Scope::Flow | Scope::EachFlow | Scope::Link => {}
    }
    named(node)?
        .iter()
        .map(|(name, node)| {
            let index = names
                .iter()
                .position(|known| known == name)
                .ok_or_else(|| {
                    let known = known_names(name, names.iter().copied());
                    node.mistake(format!("no {what} is called {name:?}; known are {known}"))
                })?;
            Ok((
                if metric.scope == Scope::Link {
                    Subject::Link(index)
                } else {
                    Subject::Flow(index)
                },
                node,
            ))
        })
        .collect()
}

fn expectation(
    node: &Node,
    metric: &'static Metric,
    subject: Subject,
    usual: Window,
    duration: Duration,
) -> Read<Expectation> {
    let table = Table::of(node, &BOUND_KEYS)?;
    let min = table.optional("min", |node| bound(node, metric.unit))?;
    let max = table.optional("max", |node| bound(node, metric.unit))?;
    match (min, max) {
        (None, None) => return Err(node.mistake("a bound is missing: min, max or both")),
        (Some(min), Some(max)) if min > max => {
            return Err(node.mistake("the least value allowed is above the largest"));
        }
        _ => {}
    }
    let mut window = window(&table, node, usual, duration)?;
    window.outside = table.optional("outside", span)?;
    Ok(Expectation {
        metric,
        subject,
        window,
        min,
        max,
    })
}

fn window(table: &Table<'_>, node: &Node, usual: Window, duration: Duration) -> Read<Window> {
    let from = table.or("from", usual.from, instant)?;
    let to = table.or("to", usual.to, instant)?;
    if from >= to || to > Instant::ZERO + duration {
        let message = format!("from {from} to {to}: not a part of a run of {duration}");
        return Err(node.mistake(message));
    }
    Ok(Window {
        from,
        to,
        outside: None,
    })
}

fn span(node: &Node) -> Read<(Instant, Instant)> {
    match list(node)? {
        [from, to] if instant(from)? < instant(to)? => Ok((instant(from)?, instant(to)?)),
        _ => Err(node.mistake("expected two instants in order, as in [\"10 s\", \"15 s\"]")),
    }
}

fn bound(node: &Node, unit: Unit) -> Read<f64> {
    match unit {
        Unit::Share => share(node),
        Unit::Milliseconds => Ok(positive_duration(node)?.as_millis_f64()),
        Unit::BitsPerSecond => Ok(quantity::<DataRate>(node)?.bits_per_second() as f64),
        Unit::Bytes => Ok(quantity::<ByteCount>(node)?.0 as f64),
        Unit::Number => number(node, 0.0..=f64::MAX),
    }
}

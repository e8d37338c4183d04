//! Conversion of values as written to values as meant. Every function returns the value or a
//! [`Mistake`] at the value's place.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use anabranch_link::QueueLimit;
use anabranch_units::{ByteCount, DataRate, Duration, Instant, known_names};

use super::error::Mistake;
use super::node::{Node, Value};

pub(super) type Read<T> = Result<T, Mistake>;

/// A table all of whose keys are known.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    node: &'a Node,
    entries: &'a [(String, Node)],
}

impl<'a> Table<'a> {
    /// Returns the table at `node`; keys other than `known` are mistakes.
    pub(super) fn of(node: &'a Node, known: &[impl AsRef<str>]) -> Read<Table<'a>> {
        let table = Table {
            node,
            entries: named(node)?,
        };
        let unknown = table
            .entries
            .iter()
            .find(|(key, _)| !known.iter().any(|known| known.as_ref() == key));
        match unknown {
            Some((key, value)) => Err(value.mistake(format!(
                "unknown key; known are {}",
                known_names(key, each_once(known))
            ))),
            None => Ok(table),
        }
    }

    pub(super) fn node(&self, key: &str) -> Option<&'a Node> {
        self.entries
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, node)| node)
    }

    /// Returns a mistake at a key, or at the table as a whole if there is no such key.
    pub(super) fn mistake(&self, key: &str, message: impl Display) -> Mistake {
        self.node(key).unwrap_or(self.node).mistake(message)
    }

    pub(super) fn optional<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a Node) -> Read<T>,
    ) -> Read<Option<T>> {
        self.node(key).map(read).transpose()
    }

    pub(super) fn required<T>(&self, key: &str, read: impl FnOnce(&'a Node) -> Read<T>) -> Read<T> {
        read(
            self.node(key)
                .ok_or_else(|| self.node.mistake(format!("the key {key:?} is missing")))?,
        )
    }

    pub(super) fn or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&'a Node) -> Read<T>,
    ) -> Read<T> {
        Ok(self.optional(key, read)?.unwrap_or(default))
    }
}

impl Node {
    pub(super) fn mistake(&self, message: impl Display) -> Mistake {
        Mistake {
            place: self.place,
            key: self.key.clone(),
            message: message.to_string(),
        }
    }
}

/// Returns names in their order, each once: kinds of a table may share keys.
fn each_once(names: &[impl AsRef<str>]) -> Vec<&str> {
    let mut once: Vec<&str> = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    once
}

/// Returns the entries of a table whose keys are names of the writer's choice.
pub(super) fn named(node: &Node) -> Read<&[(String, Node)]> {
    match &node.value {
        Value::Table(entries) => Ok(entries),
        other => Err(node.mistake(format!("expected a table, not {other}"))),
    }
}

pub(super) fn list(node: &Node) -> Read<&[Node]> {
    match &node.value {
        Value::Array(elements) => Ok(elements),
        other => Err(node.mistake(format!("expected a list, not {other}"))),
    }
}

/// Reads every element of a list by `read`.
pub(super) fn list_of<'a, T>(
    node: &'a Node,
    read: impl FnMut(&'a Node) -> Read<T>,
) -> Read<Vec<T>> {
    list(node)?.iter().map(read).collect()
}

pub(super) fn text(node: &Node) -> Read<&str> {
    match &node.value {
        Value::Text(text) => Ok(text),
        other => Err(node.mistake(format!("expected a text in quotes, not {other}"))),
    }
}

pub(super) fn boolean(node: &Node) -> Read<bool> {
    match node.value {
        Value::Boolean(value) => Ok(value),
        ref other => Err(node.mistake(format!("expected true or false, not {other}"))),
    }
}

/// Reads a quantity with its unit, such as "100 ms". A bare 0 needs none.
pub(super) fn quantity<T>(node: &Node) -> Read<T>
where
    T: FromStr,
    T::Err: Display,
{
    let written = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        other => return Err(node.mistake(format!("expected a quantity in quotes, not {other}"))),
    };
    written.parse().map_err(|error| node.mistake(error))
}

pub(super) fn duration(node: &Node) -> Read<Duration> {
    quantity(node)
}

pub(super) fn positive_duration(node: &Node) -> Read<Duration> {
    match duration(node)? {
        Duration::ZERO => Err(node.mistake("must be longer than nothing")),
        span => Ok(span),
    }
}

/// Reads a point in time, written as the time since the start of the run.
pub(super) fn instant(node: &Node) -> Read<Instant> {
    Ok(Instant::ZERO + duration(node)?)
}

pub(super) fn rate(node: &Node) -> Read<DataRate> {
    quantity(node)
}

pub(super) fn positive_rate(node: &Node) -> Read<DataRate> {
    match rate(node)? {
        DataRate::ZERO => Err(node.mistake("a rate must be above zero")),
        rate => Ok(rate),
    }
}

pub(super) fn integer<T>(node: &Node, range: RangeInclusive<T>) -> Read<T>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    if let Value::Integer(number) = node.value
        && let Ok(number) = T::try_from(number)
        && range.contains(&number)
    {
        return Ok(number);
    }
    let (least, most, found) = (range.start(), range.end(), &node.value);
    Err(node.mistake(format!(
        "expected an integer from {least} to {most}, not {found}"
    )))
}

pub(super) fn number(node: &Node, range: RangeInclusive<f64>) -> Read<f64> {
    fn wanted(range: &RangeInclusive<f64>) -> String {
        format!(
            "expected a number from {} to {}",
            range.start(),
            range.end()
        )
    }
    let value = match node.value {
        Value::Integer(number) => number as f64,
        Value::Float(number) => number,
        ref other => return Err(node.mistake(format!("{}, not {other}", wanted(&range)))),
    };
    // A NaN is in no range.
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(node.mistake(format!("{}, not {value}", wanted(&range))))
    }
}

/// Reads a share: "1.5 %", or 0.015.
pub(super) fn share(node: &Node) -> Read<f64> {
    let Value::Text(text) = &node.value else {
        return number(node, 0.0..=1.0);
    };
    let percent = text
        .trim()
        .strip_suffix('%')
        .map(|number| number.trim().parse::<f64>());
    match percent {
        Some(Ok(percent)) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(node.mistake(format!("{text:?} is not a share: write \"1.5 %\" or 0.015"))),
    }
}

/// Reads one of several names.
pub(super) fn choice<T: Copy>(node: &Node, what: &str, choices: &[(&str, T)]) -> Read<T> {
    let name = text(node)?;
    let found = choices.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known = known_names(name, choices.iter().map(|(known, _)| *known));
        node.mistake(format!("no {what} is called {name:?}; known are {known}"))
    })
}

pub(super) fn queue_limit(node: &Node) -> Read<QueueLimit> {
    let limit = quantity(node)?;
    match limit {
        QueueLimit::Bytes(0) | QueueLimit::Packets(0) | QueueLimit::Time(Duration::ZERO) => {
            Err(node.mistake("a queue that holds nothing lets nothing pass"))
        }
        limit => Ok(limit),
    }
}

pub(super) fn bytes(node: &Node, range: RangeInclusive<u64>) -> Read<u64> {
    let ByteCount(bytes) = quantity(node)?;
    if range.contains(&bytes) {
        return Ok(bytes);
    }
    let (start, end) = (range.start(), range.end());
    Err(node.mistake(format!("{bytes} B: allowed are {start} B to {end} B")))
}

//! Values as written, with their lines and keys.

use std::fmt;

use anabranch_units::known_names;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Mistake, Place};

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) place: Place,
    /// Offset of its key in the file, for the order of keys; 0 for those that no file has.
    pub(crate) at: usize,
    /// Its key in the file, such as `flows[0].controller`; empty for the whole file.
    pub(crate) key: String,
}

/// A value of TOML, the kinds that scenarios use.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Array(Vec<Node>),
    /// In the order of keys.
    Table(Vec<(String, Node)>),
    /// A kind that no key takes, by its name.
    Other(&'static str),
}

impl Node {
    /// Returns the node at `keys`. It makes missing tables on the way, except for links and routes,
    /// whose names must exist, and for elements of arrays.
    pub(super) fn descend(&mut self, keys: &[&str], place: Place) -> Result<&mut Node, Mistake> {
        let Some((first, rest)) = keys.split_first() else {
            return Ok(self);
        };
        let parent_key = self.key.clone();
        let mistake = |message: String| Mistake {
            place,
            key: join(&parent_key, first),
            message,
        };
        let next = match &mut self.value {
            Value::Table(entries) => {
                let found = entries.iter().position(|(key, _)| key == first);
                let is_named = matches!(parent_key.as_str(), "links" | "routes");
                if found.is_none() && is_named {
                    let known = known_names(first, entries.iter().map(|(key, _)| key.as_str()));
                    return Err(mistake(format!("there is no such name; known are {known}")));
                }
                let position = found.unwrap_or_else(|| {
                    let key = join(&parent_key, first);
                    let node = Node {
                        value: Value::Table(Vec::new()),
                        place,
                        at: 0,
                        key,
                    };
                    entries.push(((*first).to_owned(), node));
                    entries.len() - 1
                });
                &mut entries[position].1
            }
            Value::Array(elements) => {
                let count = elements.len();
                let index = first.parse().ok().filter(|index: &usize| *index < count);
                match index {
                    Some(index) => &mut elements[index],
                    None => {
                        return Err(mistake(format!(
                            "there are {count} elements, numbered from 0; {first:?} is none of them"
                        )));
                    }
                }
            }
            other => {
                return Err(mistake(format!(
                    "{parent_key} is {other}, and has no keys in it"
                )));
            }
        };
        next.descend(rest, place)
    }
}

impl Value {
    /// Returns the same value at another key.
    pub(super) fn moved(&self, key: &str) -> Value {
        fn node(node: &Node, key: String) -> Node {
            Node {
                value: node.value.moved(&key),
                place: node.place,
                at: node.at,
                key,
            }
        }
        match self {
            Value::Array(elements) => {
                let elements = elements.iter().enumerate();
                Value::Array(
                    elements
                        .map(|(index, element)| node(element, format!("{key}[{index}]")))
                        .collect(),
                )
            }
            Value::Table(entries) => Value::Table(
                entries
                    .iter()
                    .map(|(name, value)| (name.clone(), node(value, join(key, name))))
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    /// Returns the text of the file, without quotes.
    pub(crate) fn written(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(value) => value.to_string(),
            Value::Array(elements) => {
                let elements: Vec<String> = elements
                    .iter()
                    .map(|element| element.value.written())
                    .collect();
                format!("[{}]", elements.join(", "))
            }
            Value::Table(entries) => {
                let entries: Vec<String> = entries
                    .iter()
                    .map(|(key, node)| format!("{key} = {}", node.value.written()))
                    .collect();
                format!("{{ {} }}", entries.join(", "))
            }
            Value::Other(kind) => (*kind).to_owned(),
        }
    }
}

impl fmt::Display for Value {
    /// Describes the value in messages: "a number".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "the text {text:?}"),
            Value::Integer(number) => write!(f, "the number {number}"),
            Value::Float(number) => write!(f, "the number {number}"),
            Value::Boolean(value) => value.fmt(f),
            Value::Array(_) => f.write_str("a list"),
            Value::Table(_) => f.write_str("a table"),
            Value::Other(kind) => f.write_str(kind),
        }
    }
}

pub(super) fn entries(
    table: &DeTable<'_>,
    key: &str,
    place: &dyn Fn(usize) -> Place,
) -> Vec<(String, Node)> {
    table
        .iter()
        .map(|(written, value)| {
            let name: &std::borrow::Cow<'_, str> = written.get_ref();
            let node = Node {
                at: written.span().start,
                ..node_of(value, join(key, name), place)
            };
            (name.to_string(), node)
        })
        .collect()
}

fn node_of(value: &Spanned<DeValue<'_>>, key: String, place: &dyn Fn(usize) -> Place) -> Node {
    let place_here = place(value.span().start);
    Node {
        value: value_of(value.get_ref(), &key, place),
        place: place_here,
        at: value.span().start,
        key,
    }
}

pub(super) fn value_of(value: &DeValue<'_>, key: &str, place: &dyn Fn(usize) -> Place) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Other("an integer beyond 64 bits"),
        },
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(elements) => Value::Array(
            elements
                .iter()
                .enumerate()
                .map(|(index, value)| node_of(value, format!("{key}[{index}]"), place))
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(entries(table, key, place)),
    }
}

fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() {
        key.to_owned()
    } else {
        format!("{parent}.{key}")
    }
}

pub(super) fn line_of(text: &str, offset: usize) -> usize {
    1 + text
        .as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
}

//! A scenario as written: values with their lines and keys.

use std::fmt;

use anabranch_units::known_names;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::base;
use super::error::{Mistake, ScenarioError};
use super::files::Files;
use super::{override_key, sweep};

/// A file and the settings that override it, read but not yet understood.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    file: String,
    /// The file that it builds on, if any.
    base: String,
    overrides: Vec<String>,
    root: Node,
}

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

/// Place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A line of the file, from 1.
    Line(usize),
    /// A line of the file that this one builds on.
    Base(usize),
    /// An override, by its index.
    Override(usize),
}

impl Document {
    /// Reads a file's text and lets the overrides, each `KEY=VALUE`, replace or add values.
    pub(crate) fn parse(
        file: &str,
        text: &str,
        files: Files<'_>,
        overrides: &[String],
    ) -> Result<Document, ScenarioError> {
        let mut document = Document {
            file: file.to_owned(),
            base: String::new(),
            overrides: overrides.to_vec(),
            root: base::parsed(file, text, Place::Line)?,
        };
        let found = base::read(&document.root, files, |mistake| document.error(mistake))?;
        if let Some((path, node)) = found {
            document.base = path;
            document.root = base::merged(node, document.root);
        }
        for index in 0..document.overrides.len() {
            document
                .apply(index)
                .map_err(|mistake| document.error(mistake))?;
        }
        let set = base::of(&document.root).filter(|node| matches!(node.place, Place::Override(_)));
        match set {
            Some(node) => Err(document.error(node.mistake("only a file can name its base"))),
            None => Ok(document),
        }
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// Returns the error of a mistake, with its place spelled out.
    pub(crate) fn error(&self, mistake: Mistake) -> ScenarioError {
        let Mistake {
            place,
            key,
            message,
        } = mistake;
        let place = match place {
            Place::Line(line) => format!("{}:{line}", self.file),
            Place::Base(line) => format!("{}:{line} (base of {})", self.base, self.file),
            Place::Override(index) => format!("--set {}", self.overrides[index]),
        };
        ScenarioError::Mistake {
            place,
            key,
            message,
        }
    }

    /// Copies a value from elsewhere to `keys`.
    pub(crate) fn put(&mut self, keys: &[String], value: &Node) -> Result<(), Mistake> {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let node = self.root.descend(&keys, value.place)?;
        node.value = value.value.moved(&node.key);
        node.place = value.place;
        Ok(())
    }

    /// Whether an override has set the value at `keys`, or one around it.
    pub(crate) fn is_overridden(&self, keys: &[String]) -> bool {
        let mut node = &self.root;
        for key in keys {
            let next = match &node.value {
                Value::Table(entries) => {
                    let entry = entries.iter().find(|(known, _)| known == key);
                    entry.map(|(_, value)| value)
                }
                Value::Array(elements) => key
                    .parse()
                    .ok()
                    .and_then(|index: usize| elements.get(index)),
                _ => None,
            };
            let Some(next) = next else { return false };
            node = next;
            if matches!(node.place, Place::Override(_)) {
                return true;
            }
        }
        false
    }

    fn apply(&mut self, index: usize) -> Result<(), Mistake> {
        let setting = self.overrides[index].clone();
        let place = Place::Override(index);
        let mistake = |key: &str, message: &str| Mistake {
            place,
            key: key.to_owned(),
            message: message.to_owned(),
        };
        let Some((keys, value)) = override_key::parse(&setting) else {
            return Err(mistake(
                "",
                "an override is written KEY=VALUE, with a key as in links.bottleneck.rate",
            ));
        };
        let swept = match keys.split_first() {
            Some((first, rest)) if first == sweep::KEY => sweep::list_mut(&mut self.root, rest),
            _ => None,
        };
        // The list keeps its position, which is that of its axis among the others.
        if let Some(list) = swept {
            list.value = override_value(value, &list.key, place);
            return Ok(());
        }
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let node = self.root.descend(&keys, place)?;
        node.value = override_value(value, &node.key, place);
        node.place = place;
        Ok(())
    }
}

/// Returns the text right of the `=` as a value of TOML, or else as a text without its quotes.
fn override_value(text: &str, key: &str, place: Place) -> Value {
    match DeValue::parse(text) {
        Ok(value) => value_of(value.get_ref(), key, &|_| place),
        Err(_) => Value::Text(text.to_owned()),
    }
}

impl Node {
    /// Returns the node at `keys`. It makes missing tables on the way, except for links and routes,
    /// whose names must exist, and for elements of arrays.
    fn descend(&mut self, keys: &[&str], place: Place) -> Result<&mut Node, Mistake> {
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
    fn moved(&self, key: &str) -> Value {
        let node = |node: &Node, key: String| Node {
            value: node.value.moved(&key),
            place: node.place,
            at: node.at,
            key,
        };
        match self {
            Value::Array(elements) => {
                let elements = elements.iter().enumerate();
                let element = |(index, element)| node(element, format!("{key}[{index}]"));
                Value::Array(elements.map(element).collect())
            }
            Value::Table(entries) => {
                let entry =
                    |(name, value): &(String, Node)| (name.clone(), node(value, join(key, name)));
                Value::Table(entries.iter().map(entry).collect())
            }
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
                let entry =
                    |(key, node): &(String, Node)| format!("{key} = {}", node.value.written());
                let entries: Vec<String> = entries.iter().map(entry).collect();
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
    let entry = |(written, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let name: &std::borrow::Cow<'_, str> = written.get_ref();
        let node = Node {
            at: written.span().start,
            ..node_of(value, join(key, name), place)
        };
        (name.to_string(), node)
    };
    table.iter().map(entry).collect()
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

fn value_of(value: &DeValue<'_>, key: &str, place: &dyn Fn(usize) -> Place) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Other("an integer beyond 64 bits"),
        },
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(elements) => {
            let element = |(index, value)| node_of(value, format!("{key}[{index}]"), place);
            Value::Array(elements.iter().enumerate().map(element).collect())
        }
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

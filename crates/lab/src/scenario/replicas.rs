//! Tables that describe several alike: `count = 3` makes of the link `hop` the links `hop-1` to
//! `hop-3`, and `#` in its texts is the number of each.

use anabranch_units::{Duration, known_names};

use super::node::{Node, Value};
use super::reader::{Read, Table, duration, integer, named, text};
use super::shape::{Key, Shape};

/// One of the things that a table describes.
#[derive(Debug)]
pub(super) struct Replica {
    /// Its own name.
    pub(super) name: String,
    /// The name of the table.
    pub(super) group: String,
    /// Its number, from 1.
    pub(super) number: u64,
    /// The table's contents for it, without the count.
    pub(super) node: Node,
}

/// Largest number of links, or routes, of a scenario. A run's memory and time grow with them.
const MAX_REPLICAS: usize = 4_096;

/// Returns all replicas of the tables at `node`, in their order.
pub(super) fn replicas(node: &Node) -> Read<Vec<Replica>> {
    let mut all = Vec::new();
    for (group, alike) in named(node)? {
        let count = count(alike)?;
        if all.len() as u64 + count.unwrap_or(1) > MAX_REPLICAS as u64 {
            return Err(node.mistake(format!("more than {MAX_REPLICAS} in all")));
        }
        let node = alike;
        let Some(count) = count else {
            all.push(Replica {
                name: group.clone(),
                group: group.clone(),
                number: 1,
                node: node.clone(),
            });
            continue;
        };
        let mut alike = node.clone();
        if let Value::Table(entries) = &mut alike.value {
            entries.retain(|(key, _)| key != "count");
        }
        all.extend((1..=count).map(|number| Replica {
            name: format!("{group}-{number}"),
            group: group.clone(),
            number,
            node: numbered(&alike, number),
        }));
    }
    Ok(all)
}

fn count(node: &Node) -> Read<Option<u64>> {
    let entries = named(node)?;
    let written = entries.iter().find(|(key, _)| key == "count");
    written
        .map(|(_, node)| integer(node, 1..=10_000))
        .transpose()
}

/// Keys of a count that is the number of links of a table: `count = { each = "hop" }`.
const COUNT_KEYS: &[Key] = &[EACH];

const EACH: Key = Key::required("each", Shape::Text, "a table of several links alike");

/// Number of replicas: a number, or that of some links.
pub(super) const COUNT: Key = Key::new(
    "count",
    Shape::Any(&[Shape::Integer(1, 10_000), Shape::Table(COUNT_KEYS)]),
    "number of copies: NAME-1, NAME-2, …",
);

/// Keys of a delay that falls with the number of links of a table: `{ of = "60 ms", less = "5 ms",
/// each = "hop" }`.
pub(super) const DELAY_KEYS: &[Key] = &[
    EACH,
    Key::required("of", Shape::Duration, "value without any of them"),
    Key::required("less", Shape::Duration, "decrease for each of them"),
];

/// Returns the scenario with numbers and times in place of counts and delays that depend on a
/// table's number of links.
pub(super) fn resolved(root: &Node) -> Read<Node> {
    let mut root = root.clone();
    let mut counts = Vec::new();
    for (group, node) in entries_of(&root, "links") {
        if let Value::Table(entries) = &node.value {
            let written = entries.iter().find(|(key, _)| key == "count");
            if let Some(&Value::Integer(count)) = written.map(|(_, node)| &node.value) {
                counts.push((group.clone(), count.max(0) as u64));
            }
        }
    }
    let Value::Table(sections) = &mut root.value else {
        return Ok(root);
    };
    for (section, node) in sections {
        match (section.as_str(), &mut node.value) {
            ("links", Value::Table(tables)) => {
                for (_, node) in tables {
                    resolve(node, "count", &counts, count_of)?;
                    resolve(node, "delay", &counts, delay_of)?;
                }
            }
            ("routes", Value::Table(tables)) => {
                for (_, node) in tables {
                    resolve(node, "count", &counts, count_of)?;
                }
            }
            ("flows", Value::Array(tables)) => {
                for node in tables {
                    resolve(node, "count", &counts, count_of)?;
                }
            }
            _ => {}
        }
    }
    Ok(root)
}

fn entries_of<'a>(root: &'a Node, section: &str) -> &'a [(String, Node)] {
    let Value::Table(sections) = &root.value else {
        return &[];
    };
    let found = sections.iter().find(|(key, _)| key == section);
    match found.map(|(_, node)| &node.value) {
        Some(Value::Table(entries)) => entries,
        _ => &[],
    }
}

/// Tables of links that have a count, with the count.
type Counts = [(String, u64)];

/// Replaces the table at `key` of `node` by the value that `of` finds.
fn resolve(
    node: &mut Node,
    key: &str,
    counts: &Counts,
    of: fn(&Node, &Counts) -> Read<Value>,
) -> Read<()> {
    let Value::Table(entries) = &mut node.value else {
        return Ok(());
    };
    let found = entries.iter_mut().find(|(known, _)| known == key);
    if let Some((_, node)) = found.filter(|(_, node)| matches!(node.value, Value::Table(_))) {
        node.value = of(node, counts)?;
    }
    Ok(())
}

fn each(table: &Table<'_>, counts: &Counts) -> Read<u64> {
    table.required("each", |node| {
        let name = text(node)?;
        let found = counts.iter().find(|(group, _)| group == name);
        let names = counts.iter().map(|(group, _)| group.as_str());
        found.map(|(_, count)| *count).ok_or_else(|| {
            node.mistake(format!(
                "no table of links with a number as its count is called {name:?}; known are {}",
                known_names(name, names)
            ))
        })
    })
}

fn count_of(node: &Node, counts: &Counts) -> Read<Value> {
    let count = each(&Table::of(node, COUNT_KEYS)?, counts)?;
    Ok(Value::Integer(count as i64))
}

fn delay_of(node: &Node, counts: &Counts) -> Read<Value> {
    let table = Table::of(node, DELAY_KEYS)?;
    let of = table.required("of", duration)?;
    let count = each(&table, counts)?;
    let less = table.required("less", duration)?;
    match less.as_nanos().checked_mul(count) {
        Some(less) if less <= of.as_nanos() => {
            let left = of - Duration::from_nanos(less);
            Ok(Value::Text(format!("{} ns", left.as_nanos())))
        }
        _ => Err(node.mistake(format!(
            "less than nothing is left of {of} for {count} links"
        ))),
    }
}

/// Returns `node` with `number` for every `#` in its texts.
pub(super) fn numbered(node: &Node, number: u64) -> Node {
    let value = match &node.value {
        Value::Text(text) => Value::Text(text.replace('#', &number.to_string())),
        Value::Array(elements) => {
            Value::Array(elements.iter().map(|node| numbered(node, number)).collect())
        }
        Value::Table(entries) => Value::Table(
            entries
                .iter()
                .map(|(key, node)| (key.clone(), numbered(node, number)))
                .collect(),
        ),
        other => other.clone(),
    };
    Node {
        value,
        ..node.clone()
    }
}

//! Tables that stand for several alike: `count = 3` makes of the link `hop` the links `hop-1` to
//! `hop-3`, and `#` in its texts is the number of each.

use super::document::{Node, Value};
use super::reader::{Read, integer, named};

/// One of the things that a table describes.
#[derive(Debug)]
pub(super) struct Replica {
    /// Its own name.
    pub(super) name: String,
    /// The name of the table.
    pub(super) group: String,
    /// From 1.
    pub(super) number: u64,
    /// What the table says of it, without the count.
    pub(super) node: Node,
}

/// All that the tables at `node` describe, in their order.
pub(super) fn replicas(node: &Node) -> Read<Vec<Replica>> {
    let mut all = Vec::new();
    for (group, node) in named(node)? {
        let Some(count) = count(node)? else {
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

/// `node` with `number` for every `#` in its texts.
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

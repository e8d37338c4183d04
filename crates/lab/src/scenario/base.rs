//! Scenarios that change another one: `base = "other.toml"`.

use toml::de::DeTable;

use super::error::{Mistake, Place, ScenarioError};
use super::files::Files;
use super::node::{Node, Value, entries, line_of};

/// Added to offsets of keys that the base does not have: they follow those that it has. No file is
/// as long.
const OWN_AT: usize = 1 << 31;

/// The key that names the other file.
pub(super) const KEY: &str = "base";

/// Returns the tables of a file's text; `place` names its lines.
pub(super) fn parsed(
    file: &str,
    text: &str,
    place: fn(usize) -> Place,
) -> Result<Node, ScenarioError> {
    let table = DeTable::parse(text).map_err(|error| ScenarioError::Syntax {
        file: file.to_owned(),
        line: error.span().map_or(1, |span| line_of(text, span.start)),
        message: error.message().to_owned(),
    })?;
    let place_at = &|offset: usize| place(line_of(text, offset));
    Ok(Node {
        value: Value::Table(entries(table.get_ref(), "", place_at)),
        place: place(1),
        at: 0,
        key: String::new(),
    })
}

/// Returns the name and the contents of the file among `files` that `root` names as its base;
/// `None`: it names none. `mistake` makes an error of a mistake at the key.
pub(super) fn read(
    root: &Node,
    files: Files<'_>,
    mistake: impl Fn(Mistake) -> ScenarioError,
) -> Result<Option<(String, Node)>, ScenarioError> {
    let Some(node) = of(root) else {
        return Ok(None);
    };
    let (path_name, text) = files.read(node).map_err(&mistake)?;
    let base = parsed(&path_name, &text, Place::Base)?;
    if of(&base).is_some() {
        let message = format!("{path_name} has a base itself, which a base cannot have");
        return Err(mistake(node.mistake(message)));
    }
    Ok(Some((path_name, base)))
}

/// Returns the entry that names a base.
pub(super) fn of(root: &Node) -> Option<&Node> {
    let Value::Table(entries) = &root.value else {
        return None;
    };
    let entry = entries.iter().find(|(key, _)| key == KEY);
    entry.map(|(_, node)| node)
}

/// Returns `base` with the values of `own` instead. Tables are merged key by key, except empty
/// ones, which stand for themselves; everything else is replaced.
pub(super) fn merged(base: Node, own: Node) -> Node {
    let Node {
        value, place, key, ..
    } = own;
    let at = base.at;
    let value = match (base.value, value) {
        (Value::Table(mut all), Value::Table(changes)) if !changes.is_empty() => {
            for (key, change) in changes {
                match all.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, before)) => *before = merged(before.clone(), change),
                    None => {
                        let at = OWN_AT + change.at;
                        all.push((key, Node { at, ..change }));
                    }
                }
            }
            Value::Table(all)
        }
        (_, value) => value,
    };
    Node {
        value,
        place,
        at,
        key,
    }
}

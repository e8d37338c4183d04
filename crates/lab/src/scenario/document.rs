//! A scenario as written: values with their lines and keys.

use toml::de::DeValue;

use super::base;
use super::error::{Mistake, Place, ScenarioError};
use super::files::Files;
use super::node::{Node, Value, value_of};
use super::override_key;

/// The table of a sweep.
pub(super) const SWEEP_KEY: &str = "sweep";
/// The list of tables in it whose lists advance together.
pub(super) const ZIP: &str = "zip";

/// A file and the settings that override it, read but not yet understood.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    file: String,
    /// The file that it builds on, if any.
    base: String,
    overrides: Vec<String>,
    root: Node,
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
        fn mistake(key: &str, message: &str, place: Place) -> Mistake {
            Mistake {
                place,
                key: key.to_owned(),
                message: message.to_owned(),
            }
        }

        let setting = self.overrides[index].clone();
        let place = Place::Override(index);
        let Some((keys, value)) = override_key::parse(&setting) else {
            return Err(mistake(
                "",
                "an override is written KEY=VALUE, with a key as in links.bottleneck.rate",
                place,
            ));
        };
        let swept = match keys.split_first() {
            Some((first, rest)) if first == SWEEP_KEY => swept_list_mut(&mut self.root, rest),
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

/// Returns the list that a file's sweep has for a key, in any notation of the key.
fn swept_list_mut<'a>(root: &'a mut Node, key: &[String]) -> Option<&'a mut Node> {
    let key: Vec<&str> = key.iter().flat_map(|name| name.split('.')).collect();
    let Value::Table(entries) = &mut root.value else {
        return None;
    };
    let (_, sweep) = entries.iter_mut().find(|(name, _)| name == SWEEP_KEY)?;
    list_below(sweep, &key)
}

fn list_below<'a>(node: &'a mut Node, key: &[&str]) -> Option<&'a mut Node> {
    let Value::Table(entries) = &mut node.value else {
        return None;
    };
    entries.iter_mut().find_map(|(name, child)| {
        if name == ZIP {
            let Value::Array(tables) = &mut child.value else {
                return None;
            };
            return tables.iter_mut().find_map(|table| list_below(table, key));
        }
        let names: Vec<&str> = name.split('.').collect();
        match key.strip_prefix(&names[..])? {
            [] => Some(child),
            rest => list_below(child, rest),
        }
    })
}

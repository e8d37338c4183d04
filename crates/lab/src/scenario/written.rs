//! A scenario as text again: its base and its overrides merged.

use serde::ser::{Error, Serialize, SerializeMap, Serializer};

use super::base;
use super::document::Document;
use super::error::{Place, ScenarioError};
use super::files::{Beside, Files};
use super::node::{Node, Value};

/// Returns the text of a file called `file` as one TOML file: merged with its base and the
/// overrides, without its comments. The files that it names are still looked for beside `file`.
///
/// # Errors
/// A [`ScenarioError`], for a text that is no TOML, a base that cannot be read, an override without
/// a place, or a value of a kind that no key takes.
pub fn merged_text(file: &str, text: &str, overrides: &[String]) -> Result<String, ScenarioError> {
    let document = Document::parse(file, text, Files::OnDisk(&Beside::new(file)), overrides)?;
    text_of(document.root().clone(), file)
}

/// Returns the text of a file called `file` whose base has been merged.
pub(super) fn text_of(mut root: Node, file: &str) -> Result<String, ScenarioError> {
    if let Value::Table(entries) = &mut root.value {
        entries.retain(|(key, _)| key != base::KEY);
    }
    toml::to_string(&root).map_err(|error| ScenarioError::Mistake {
        place: file.to_owned(),
        key: String::new(),
        message: error.to_string(),
    })
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Value::Text(text) => serializer.serialize_str(text),
            Value::Integer(number) => serializer.serialize_i64(*number),
            Value::Float(number) => serializer.serialize_f64(*number),
            Value::Boolean(value) => serializer.serialize_bool(*value),
            Value::Array(elements) => serializer.collect_seq(elements),
            Value::Table(entries) => {
                let mut entries: Vec<&(String, Node)> = entries.iter().collect();
                // In the order of the file; keys that only overrides have come last.
                let is_added =
                    |node: &Node| matches!(node.place, Place::Override(_)) && node.at == 0;
                entries.sort_by_key(|(_, node)| (is_added(node), node.at));
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, node) in entries {
                    map.serialize_entry(key, node)?;
                }
                map.end()
            }
            Value::Other(kind) => Err(S::Error::custom(format!(
                "{}: no key takes {kind}",
                self.key
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    const TEXT: &str = "title = \"one\"\nduration = \"10 s\"\n[links.up]\nrate = \"1 Mbit/s\"\n\
        delay = \"5 ms\"\n[links.down]\n[routes.only]\nforward = [\"up\"]\nreverse = [\"down\"]\n\
        [[flows]]\npaths = [\"only\"]\nsource = { kind = \"ideal\" }\n\
        [expect]\nloss = { max = 0.5 }\n";

    #[test]
    fn a_merged_text_reads_as_the_same_scenario() {
        let overrides = ["links.up.rate=2 Mbit/s", "flows.0.scheduler=wrr"].map(str::to_owned);
        let merged = merged_text("one.toml", TEXT, &overrides).unwrap();
        assert_eq!(
            Scenario::parse("one.toml", &merged, &[]).unwrap(),
            Scenario::parse("one.toml", TEXT, &overrides).unwrap(),
            "{merged}"
        );
        assert!(merged.starts_with("title = \"one\"\nduration"), "{merged}");
    }

    #[test]
    fn a_date_is_a_mistake() {
        let error = merged_text("one.toml", "title = 2026-01-01\n", &[]).unwrap_err();
        assert!(error.to_string().contains("no key takes a date"), "{error}");
    }
}

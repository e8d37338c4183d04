//! The network of a scenario as a file of its own, for the emulator.

use std::path::Path;

use super::document::Document;
use super::error::ScenarioError;
use super::files::{self, Beside, Files};
use super::node::{Node, Value};
use super::written;

/// Keys of a file that describe the network, or that every file needs.
const KEPT: [&str; 5] = ["title", "duration", "links", "routes", "flows"];
/// Keys of a flow that name routes and not algorithms, which only another program may know.
const KEPT_OF_FLOWS: [&str; 3] = ["name", "count", "paths"];

/// The network of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkText {
    /// A scenario that can be read from any folder, without the traces of its links.
    pub text: String,
    /// Overrides that name these traces: only they reach files elsewhere.
    pub overrides: Vec<String>,
}

/// Returns the network of a file called `file`. Its flows have only their paths.
///
/// # Errors
/// As [`merged_text`](super::merged_text).
pub fn network_text(
    file: &str,
    text: &str,
    overrides: &[String],
) -> Result<NetworkText, ScenarioError> {
    let beside = Beside::new(file);
    let document = Document::parse(file, text, Files::OnDisk(&beside), overrides)?;
    let mut traces = Vec::new();
    let mut root = document.root().clone();
    keep(&mut root, &KEPT);
    for (key, node) in entries(&mut root) {
        match (key.as_str(), &mut node.value) {
            ("links", Value::Table(links)) => {
                let moved = links.iter_mut().filter_map(|(name, link)| {
                    let trace = take_trace(link, file)?;
                    Some(format!("links.'{name}'.trace={trace}"))
                });
                traces.extend(moved);
            }
            ("flows", Value::Array(flows)) => {
                flows.iter_mut().for_each(|flow| keep(flow, &KEPT_OF_FLOWS));
            }
            _ => {}
        }
    }
    Ok(NetworkText {
        text: written::text_of(root, file)?,
        overrides: traces,
    })
}

fn entries(node: &mut Node) -> &mut [(String, Node)] {
    match &mut node.value {
        Value::Table(entries) => entries,
        _ => &mut [],
    }
}

fn keep(node: &mut Node, keys: &[&str]) {
    if let Value::Table(entries) = &mut node.value {
        entries.retain(|(key, _)| keys.contains(&key.as_str()));
    }
}

/// Removes a link's trace. Returns the absolute name of its file.
fn take_trace(link: &mut Node, file: &str) -> Option<String> {
    let Value::Table(entries) = &mut link.value else {
        return None;
    };
    let index = entries.iter().position(|(key, _)| key == "trace")?;
    let Value::Text(name) = &entries[index].1.value else {
        return None;
    };
    let path = files::folder_of(file).join(Path::new(name));
    entries.remove(index);
    let path = std::path::absolute(&path).unwrap_or(path);
    Some(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn a_network_is_read_from_another_folder_without_its_algorithms() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("up.trace"), "1\n2\n").unwrap();
        let text = "duration = \"1 s\"\nlinks.up = { trace = \"up.trace\" }\n\
            links.back = { delay = \"5 ms\" }\n\
            routes.only = { forward = [\"up\"], reverse = [\"back\"] }\n\
            flows = [{ name = \"a\", paths = [\"only\"], controller = \"of-python\" }]\n\
            sweep = { \"links.back.loss\" = [0.1, 2] }\n\
            [flow-defaults]\nscheduler = \"of-python\"\n\
            [expect]\nloss.a = { max = 0.5 }\n";
        let file = folder.path().join("one.toml").display().to_string();
        let overrides = ["links.back.delay=7 ms".to_owned()];
        let network = network_text(&file, text, &overrides).unwrap();
        let elsewhere = "elsewhere/network.toml";
        let read = Scenario::parse(elsewhere, &network.text, &network.overrides).unwrap();
        let [up, back] = ["up", "back"].map(|name| {
            let found = read.links.iter().find(|link| link.name == name);
            &found.unwrap().config
        });
        assert!(up.trace.is_some(), "{network:?}");
        assert_eq!(back.delay.as_millis(), 7);
        assert_eq!(read.flows.len(), 1);
        assert!(
            read.expectations.is_empty() && !network.text.contains("of-python"),
            "{network:?}"
        );
    }
}

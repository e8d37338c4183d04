//! `anabranch-lab list`: names in scenarios and on the command line.

use anabranch_lab::SENDER_RULES;
use anabranch_lab::metrics::{METRICS, Metric, Scope, Unit};
use anabranch_terminal::names::{self, ALGORITHMS, Section};
use anabranch_terminal::print;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

use crate::{contest, reproduce};

/// List the names of algorithms, metrics, scenario keys, rules, contest rows and claims.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  anabranch-lab list
  anabranch-lab list schedulers
  anabranch-lab list keys | grep loss")]
pub(crate) struct Arguments {
    /// Kind of names; all kinds by default.
    #[arg(value_parser = kinds())]
    kind: Option<String>,
}

const STUDIES: [Section; 5] = [
    Section {
        name: "metrics",
        about: "measurements of runs: in [expect] of scenarios, in reports and comparisons",
        list: metrics,
    },
    Section {
        name: "keys",
        about: "keys of scenario files",
        list: keys,
    },
    Section {
        name: "rules",
        about: "rules of the sender of media: without-rules of scenarios",
        list: sender_rules,
    },
    Section {
        name: "contest",
        about: "cases in which other transports were measured: contest --row",
        list: contest::row_list,
    },
    Section {
        name: "claims",
        about: "claims of papers: reproduce",
        list: reproduce::claim_list,
    },
];

fn sections() -> Vec<Section> {
    [&ALGORITHMS[..], &STUDIES].concat()
}

fn kinds() -> PossibleValuesParser {
    let names = sections().into_iter().map(|section| section.name);
    names.collect::<Vec<_>>().into()
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    print::text(names::text(&sections(), arguments.kind.as_deref()))
}

fn metrics() -> String {
    fn line(metric: &Metric) -> String {
        let scope = match metric.scope {
            Scope::Run => "the run",
            Scope::Flow => "each flow and all together",
            Scope::EachFlow => "each flow",
            Scope::Link => "each link",
        };
        let unit = match metric.unit {
            Unit::Share => "share, 0 to 1",
            Unit::Milliseconds => "ms",
            Unit::BitsPerSecond => "bit/s",
            Unit::Bytes => "bytes",
            Unit::Number => "number",
        };
        format!("{:<28} {unit:<14} of {scope}\n", metric.name)
    }
    METRICS.iter().map(line).collect()
}

fn sender_rules() -> String {
    SENDER_RULES
        .iter()
        .map(|entry| format!("{:<28} {}\n", entry.name, entry.summary))
        .collect()
}

/// Returns the scenario keys from the schema, each with its path through the tables.
fn keys() -> String {
    let schema = serde_json::from_str(&anabranch_lab::schema()).unwrap_or_default();
    let mut lines = Vec::new();
    add_keys(&schema, "", &mut lines);
    lines.dedup();
    lines.concat()
}

/// Adds the keys under a part of the schema. The expectations of a metric are under `metrics`.
fn add_keys(part: &Value, prefix: &str, lines: &mut Vec<String>) {
    match part {
        Value::Object(object) => {
            for (field, value) in object {
                match (field.as_str(), value) {
                    ("definitions", _) => {}
                    ("properties", Value::Object(keys)) => {
                        for (key, value) in keys {
                            add_key(key, value, prefix, lines);
                        }
                    }
                    _ => add_keys(value, prefix, lines),
                }
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| add_keys(part, prefix, lines)),
        _ => {}
    }
}

fn add_key(key: &str, value: &Value, prefix: &str, lines: &mut Vec<String>) {
    let prefix = match prefix {
        "" => key.to_owned(),
        prefix => format!("{prefix}.{key}"),
    };
    if let Some(about) = value["description"].as_str() {
        lines.push(format!("{prefix:<44} {about}\n"));
    }
    if key != "expect" {
        add_keys(value, &prefix, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(kind: &str) -> String {
        names::text(&sections(), Some(kind))
    }

    #[test]
    fn metrics_and_scenario_keys_are_listed() {
        assert_eq!(listed("metrics").lines().count(), METRICS.len());
        let keys = listed("keys");
        for key in ["duration ", "links.", "expect "] {
            assert!(
                keys.lines().any(|line| line.starts_with(key)),
                "{key}{keys}"
            );
        }
    }

    #[test]
    fn every_kind_has_names() {
        for section in sections() {
            assert!(!(section.list)().is_empty(), "{}", section.name);
        }
    }
}

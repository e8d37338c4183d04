//! `anabranch list`: names of everything that can be chosen.

use core::fmt::Write;

use anabranch_core::SendReason;
use clap::builder::PossibleValuesParser;

use crate::observe::metrics;
use crate::{print, registry};

/// List all names that other commands accept or print: algorithms, reasons, metrics, scenario keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  anabranch list
  anabranch list schedulers
  anabranch list keys | grep loss")]
pub(crate) struct Arguments {
    /// Kind of names; all kinds by default.
    #[arg(value_parser = names())]
    what: Option<String>,
}

/// A kind of names.
struct Section {
    name: &'static str,
    about: &'static str,
    list: fn() -> String,
}

const SECTIONS: &[Section] = &[
    Section {
        name: "controllers",
        about: "congestion controllers, with their options: --controller",
        list: registry::controller_list,
    },
    Section {
        name: "schedulers",
        about: "packet schedulers: --scheduler",
        list: registry::scheduler_list,
    },
    Section {
        name: "fec",
        about: "policies of forward error correction, with their options: --fec",
        list: registry::fec_list,
    },
    Section {
        name: "reasons",
        about: "reasons for sent packets, in summaries, statistics and traces",
        list: reasons,
    },
    Section {
        name: "statistics",
        about: "names at /metrics of --metrics, of streams and of paths",
        list: statistics,
    },
    #[cfg(feature = "laboratory")]
    Section {
        name: "metrics",
        about: "measurements of runs: in [expect] of scenarios, in reports and comparisons",
        list: laboratory::metrics,
    },
    #[cfg(feature = "laboratory")]
    Section {
        name: "keys",
        about: "keys of scenario files",
        list: laboratory::keys,
    },
    #[cfg(feature = "laboratory")]
    Section {
        name: "contest",
        about: "cases in which other transports were measured: contest --row",
        list: crate::contest::row_list,
    },
    #[cfg(feature = "papers")]
    Section {
        name: "claims",
        about: "claims of papers: reproduce",
        list: crate::reproduce::claim_list,
    },
];

fn names() -> PossibleValuesParser {
    SECTIONS
        .iter()
        .map(|section| section.name)
        .collect::<Vec<_>>()
        .into()
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    print::text(text(arguments.what.as_deref()))
}

fn text(what: Option<&str>) -> String {
    let mut text = String::new();
    for Section { name, about, list } in SECTIONS {
        if what == Some(name) {
            return list();
        }
        if what.is_none() {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{gap}## {name}: {about}\n\n{}", list());
        }
    }
    text
}

fn reasons() -> String {
    let kind = |reason: SendReason| match reason {
        _ if reason.is_retransmission() => "sent again by the session",
        _ if reason.is_scheduled_copy() => "a copy for which the scheduler asked",
        SendReason::New => "the first time",
        SendReason::Repair => "forward error correction",
        SendReason::Control => "reports and answers",
        _ => "a probe",
    };
    let line = |reason: SendReason| format!("{:<24} {}\n", reason.name(), kind(reason));
    SendReason::ALL.into_iter().map(line).collect()
}

fn statistics() -> String {
    let of_streams = metrics::OF_STREAMS.iter().map(|of| (of.name, of.help));
    let of_paths = metrics::OF_PATHS.iter().map(|of| (of.name, of.help));
    let others = metrics::OF_REASONS.into_iter().chain([metrics::OF_STATES]);
    let all = of_streams.chain(of_paths).chain(others);
    all.map(|(name, help)| format!("{name:<43} {help}\n"))
        .collect()
}

#[cfg(feature = "laboratory")]
mod laboratory {
    use anabranch_lab::metrics::{METRICS, Metric, Scope, Unit};
    use serde_json::Value;

    pub(super) fn metrics() -> String {
        let line = |metric: &Metric| {
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
        };
        METRICS.iter().map(line).collect()
    }

    /// Returns the scenario keys from the schema, each with its path through the tables.
    pub(super) fn keys() -> String {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_every_registry_is_listed() {
        let all = text(None);
        let schedulers = anabranch_schedulers::SCHEDULERS
            .iter()
            .map(|entry| entry.name);
        let controllers = anabranch_controllers::CONTROLLERS
            .iter()
            .map(|entry| entry.name);
        let reasons = SendReason::ALL.into_iter().map(SendReason::name);
        for name in schedulers.chain(controllers).chain(reasons) {
            assert!(
                all.lines().any(|line| line.split(' ').next() == Some(name)),
                "{name}"
            );
        }
        for section in SECTIONS {
            let head = format!("## {}: ", section.name);
            assert!(all.contains(&head), "{head}");
            let own = text(Some(section.name));
            assert!(!own.is_empty() && all.contains(&own), "{head}");
            assert!(own.lines().all(|line| !line.trim().is_empty()), "{own}");
        }
        assert!(all.contains("anabranch_path_rtt_seconds "));
    }

    #[cfg(feature = "laboratory")]
    #[test]
    fn metrics_and_scenario_keys_are_listed() {
        let metrics = text(Some("metrics"));
        let count = anabranch_lab::metrics::METRICS.len();
        assert_eq!(metrics.lines().count(), count);
        let keys = text(Some("keys"));
        for key in ["duration ", "links.", "expect "] {
            assert!(
                keys.lines().any(|line| line.starts_with(key)),
                "{key}{keys}"
            );
        }
    }
}

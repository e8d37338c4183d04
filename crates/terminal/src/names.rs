//! Lists of names that commands accept or print: the commands `list` of both programs.

use core::fmt::Write;

use anabranch_controllers::CONTROLLERS;
use anabranch_schedulers::{FEC_POLICIES, SCHEDULERS};
use anabranch_units::options::{AlgorithmOption, OptionValues};

/// A kind of names.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The kind, as the user asks for it.
    pub name: &'static str,
    /// The kind in one line, and the option that takes its names.
    pub about: &'static str,
    /// Returns the names, each on its line with a description.
    pub list: fn() -> String,
}

/// The algorithms of sessions.
pub const ALGORITHMS: [Section; 3] = [
    Section {
        name: "controllers",
        about: "congestion controllers, with their options (cubic:hystart=classic:c=0.8)",
        list: controllers,
    },
    Section {
        name: "schedulers",
        about: "packet schedulers",
        list: schedulers,
    },
    Section {
        name: "fec",
        about: "policies of forward error correction, with their options (fixed:overhead=0.25)",
        list: policies,
    },
];

/// Returns the names of one kind, or of all kinds under headings.
pub fn text(sections: &[Section], kind: Option<&str>) -> String {
    let mut text = String::new();
    for Section { name, about, list } in sections {
        if kind == Some(name) {
            return list();
        }
        if kind.is_none() {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{gap}## {name}: {about}\n\n{}", list());
        }
    }
    text
}

fn controllers() -> String {
    let entries = CONTROLLERS
        .iter()
        .map(|entry| algorithm(entry.name, entry.summary, entry.options));
    entries.collect()
}

fn schedulers() -> String {
    let entries = SCHEDULERS
        .iter()
        .map(|entry| algorithm(entry.name, entry.summary, &[]));
    entries.collect()
}

fn policies() -> String {
    let entries = FEC_POLICIES
        .iter()
        .map(|entry| algorithm(entry.name, entry.summary, entry.options));
    entries.collect()
}

/// Returns the lines of an algorithm and its options.
fn algorithm(name: &str, summary: &str, options: &[AlgorithmOption]) -> String {
    let mut lines = format!("{name:<19} {summary}\n");
    for option in options {
        let AlgorithmOption { name, summary, .. } = option;
        let values = match option.values {
            OptionValues::Words(words) => format!("{} (default {})", words.join("|"), words[0]),
            OptionValues::Number { usual, min, max } => format!("{min}..{max} (default {usual})"),
        };
        let _ = writeln!(lines, "    {name}={values}\n        {summary}");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_is_listed_with_its_options_values_and_defaults() {
        let list = controllers();
        for entry in CONTROLLERS {
            assert!(
                list.lines().any(|line| {
                    line.strip_prefix(entry.name)
                        .is_some_and(|rest| rest.starts_with(' ') && rest.ends_with(entry.summary))
                }),
                "{}",
                entry.name
            );
        }
        assert!(list.contains("    hystart=hystart++|classic|off (default hystart++)\n"));
        assert!(
            list.contains("    beta=0.1..0.95 (default 0.7)\n"),
            "{list}"
        );
    }

    #[test]
    fn every_fec_policy_is_listed() {
        let list = policies();
        for entry in FEC_POLICIES {
            assert!(list.contains(entry.summary), "{}", entry.name);
        }
        assert!(list.contains("    overhead=0..1 (default 0.2)\n"), "{list}");
    }

    #[test]
    fn every_scheduler_is_listed() {
        let list = schedulers();
        assert_eq!(list.lines().count(), SCHEDULERS.len());
        assert!(list.contains("min-cost            the path with the least"));
    }

    #[test]
    fn all_kinds_have_headings_and_one_kind_has_none() {
        let all = text(&ALGORITHMS, None);
        for section in ALGORITHMS {
            assert!(all.contains(&format!("## {}: ", section.name)), "{all}");
            let own = text(&ALGORITHMS, Some(section.name));
            assert!(!own.is_empty() && all.contains(&own), "{own}");
            assert!(own.lines().all(|line| !line.trim().is_empty()), "{own}");
        }
    }
}

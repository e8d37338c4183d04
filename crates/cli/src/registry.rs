//! `anabranch controllers`, `anabranch schedulers` and `anabranch fec`: lists of algorithms.

use std::fmt::Write;

use anabranch_controllers::CONTROLLERS;
use anabranch_core::fec::FEC_POLICIES;
use anabranch_core::options::{AlgorithmOption, OptionValues};
use anabranch_schedulers::SCHEDULERS;

use crate::print;

const USE_OF_OPTIONS: &str = "\
A name with options, as in `cubic:hystart=classic:c=0.8`, goes wherever a controller is named:

  anabranch send --controller nada:priority=2 …";
const IN_COMPARISONS: &str = match cfg!(feature = "laboratory") {
    true => {
        "
  anabranch compare --controllers live-bbr,cubic:hystart=classic scenarios/two-paths.toml"
    }
    false => "",
};

/// List the congestion controllers, and the options of each.
#[derive(Debug, clap::Args)]
#[command(after_help = [USE_OF_OPTIONS, IN_COMPARISONS].concat())]
pub(crate) struct ControllerArguments {}

/// List the packet schedulers.
#[derive(Debug, clap::Args)]
pub(crate) struct SchedulerArguments {}

/// List the policies of forward error correction, and the options of each.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A name with options goes wherever a policy is named:

  anabranch send --fec fixed:overhead=0.25:window=20 …")]
pub(crate) struct FecArguments {}

pub(crate) fn controllers(_: &ControllerArguments) -> anyhow::Result<()> {
    print::text(controller_list())
}

pub(crate) fn schedulers(_: &SchedulerArguments) -> anyhow::Result<()> {
    print::text(scheduler_list())
}

pub(crate) fn fec(_: &FecArguments) -> anyhow::Result<()> {
    print::text(fec_list())
}

pub(crate) fn controller_list() -> String {
    let mut list = String::new();
    for entry in CONTROLLERS {
        line(&mut list, entry.name, entry.summary);
        option_lines(&mut list, entry.options);
    }
    list
}

pub(crate) fn fec_list() -> String {
    let mut list = String::new();
    for entry in FEC_POLICIES {
        line(&mut list, entry.name, entry.summary);
        option_lines(&mut list, entry.options);
    }
    list
}

fn option_lines(list: &mut String, options: &[AlgorithmOption]) {
    for option in options {
        let values = values(option);
        let (name, summary) = (option.name, option.summary);
        writeln!(list, "    {name}={values}\n        {summary}").expect("text");
    }
}

pub(crate) fn scheduler_list() -> String {
    let mut list = String::new();
    for entry in SCHEDULERS {
        line(&mut list, entry.name, entry.summary);
    }
    list
}

fn line(list: &mut String, name: &str, summary: &str) {
    writeln!(list, "{name:<19} {summary}").expect("text");
}

fn values(option: &AlgorithmOption) -> String {
    match option.values {
        OptionValues::Words(words) => format!("{} (default {})", words.join("|"), words[0]),
        OptionValues::Number { usual, min, max } => format!("{min}..{max} (default {usual})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_is_listed_with_its_options_values_and_defaults() {
        let list = controller_list();
        for entry in CONTROLLERS {
            let is_listed = |line: &str| {
                line.strip_prefix(entry.name)
                    .is_some_and(|rest| rest.starts_with(' ') && rest.ends_with(entry.summary))
            };
            assert!(list.lines().any(is_listed), "{}", entry.name);
        }
        assert!(list.contains("    hystart=hystart++|classic|off (default hystart++)\n"));
        assert!(
            list.contains("    beta=0.1..0.95 (default 0.7)\n"),
            "{list}"
        );
    }

    #[test]
    fn every_fec_policy_is_listed() {
        let list = fec_list();
        for entry in FEC_POLICIES {
            assert!(list.contains(entry.summary), "{}", entry.name);
        }
        assert!(list.contains("    overhead=0..1 (default 0.2)\n"), "{list}");
    }

    #[test]
    fn every_scheduler_is_listed() {
        let list = scheduler_list();
        assert_eq!(list.lines().count(), SCHEDULERS.len());
        assert!(list.contains("min-cost            the path with the least"));
    }
}

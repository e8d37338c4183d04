//! Mistakes in command lines that clap parses.

use std::process::ExitCode;

use anabranch_net::system::{Feature, ensure_has};
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::print;

/// A command that a program's menu lacks, although users may look for it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The command's name.
    pub name: &'static str,
    /// Where it can be found.
    pub place: Place,
}

/// The place of a missing command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Builds with this cargo feature have it.
    Feature(&'static str),
    /// This other program has it.
    Program(&'static str),
    /// It needs a feature that this operating system lacks.
    System(Feature),
}

impl Missing {
    /// Creates the entry of a command that builds of the program with a cargo feature have.
    pub const fn without(name: &'static str, feature: &'static str) -> Self {
        let place = Place::Feature(feature);
        Missing { name, place }
    }

    /// Creates the entry of a command of another program.
    pub const fn of(name: &'static str, program: &'static str) -> Self {
        let place = Place::Program(program);
        Missing { name, place }
    }

    /// Creates the entry of a command that needs a feature of the operating system.
    pub const fn on_other_systems(name: &'static str, feature: Feature) -> Self {
        let place = Place::System(feature);
        Missing { name, place }
    }
}

/// Returns the message for a command line that names a missing command.
pub fn explained(program: &str, missing: &[Missing], error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(wanted)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let missing = missing.iter().find(|missing| missing.name == wanted)?;
    let name = missing.name;
    Some(match missing.place {
        Place::Feature(feature) => format!(
            "{program}: this build is without `{name}`: it was built without the cargo feature \
             `{feature}`"
        ),
        Place::System(feature) => {
            let refused = ensure_has(feature, format_args!("`{name}`"));
            let reason = refused.err().map(|missing| missing.to_string());
            format!("{program}: {}", reason.unwrap_or_default())
        }
        Place::Program(other) => format!("{program}: `{name}` is a command of {other}"),
    })
}

/// Removes hidden commands from the names that an error suggests.
pub fn suggest_shown(program: &Command, error: &mut clap::Error) {
    fn is_hidden(name: &String, program: &Command) -> bool {
        let command = program.find_subcommand(name);
        command.is_some_and(Command::is_hide_set)
    }
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) {
        let shown: Vec<_> = names
            .iter()
            .filter(|name| !is_hidden(name, program))
            .cloned()
            .collect();
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(shown),
        );
    }
}

/// Prints the error in the command line, or the help that was requested. Returns the exit code.
pub fn refuse(program: &str, missing: &[Missing], error: &clap::Error) -> ExitCode {
    if let Some(message) = explained(program, missing, error) {
        print::note(message);
        return ExitCode::from(2);
    }
    let text = error.to_string();
    match print::without_secrets(&text) {
        clean if clean == text => {
            let _ = error.print();
        }
        // The error repeats a secret key; the message is printed without it and without colours.
        clean => print::note(clean.trim_end()),
    }
    // 0 for help, 2 for mistakes.
    ExitCode::from(error.exit_code() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_commands_are_not_suggested() {
        let hidden = Command::new("send-srtla").hide(true);
        let program = Command::new("river").subcommands([Command::new("send"), hidden]);
        let parsed = program.clone().try_get_matches_from(["river", "sned"]);
        let mut error = parsed.unwrap_err();
        suggest_shown(&program, &mut error);
        let text = error.to_string();
        assert!(text.contains("'send'") && !text.contains("srtla"), "{text}");
    }
}

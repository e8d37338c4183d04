//! Commands that users may look for here, although this build or program lacks them.

use anabranch_terminal::menu::Missing;

const LABORATORY: &str = "anabranch-lab";

pub(crate) const COMMANDS: &[Missing] = &[
    Missing::of("compare", LABORATORY),
    Missing::of("contest", LABORATORY),
    Missing::of("merge", LABORATORY),
    Missing::of("new", LABORATORY),
    Missing::of("parity", LABORATORY),
    Missing::of("plot", LABORATORY),
    Missing::of("reproduce", LABORATORY),
    Missing::of("run", LABORATORY),
    Missing::of("schema", LABORATORY),
    Missing::of("trace", LABORATORY),
    #[cfg(not(feature = "demo"))]
    Missing::without("demo", "demo"),
    #[cfg(not(feature = "emulate"))]
    Missing::without("emulate", "emulate"),
    #[cfg(not(feature = "emulate"))]
    Missing::without("link", "emulate"),
    #[cfg(not(feature = "codec"))]
    Missing::without("quality", "codec"),
    #[cfg(not(feature = "top"))]
    Missing::without("top", "top"),
];

#[cfg(test)]
mod tests {
    use anabranch_terminal::menu::{Place, explained};
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::{Arguments, PROGRAM};

    fn message(command: &str) -> Option<String> {
        let error = Arguments::try_parse_from([PROGRAM, command]).unwrap_err();
        explained(PROGRAM, COMMANDS, &error)
    }

    #[test]
    fn each_missing_command_names_its_program_or_feature() {
        for Missing { name, place } in COMMANDS {
            assert!(Arguments::command().find_subcommand(name).is_none());
            let message = message(name).unwrap();
            let expected = match place {
                Place::Feature(feature) => format!("without the cargo feature `{feature}`"),
                Place::Program(program) => format!("`{name}` is a command of {program}"),
                Place::System(_) => unreachable!("they have their options here, too"),
            };
            assert!(message.ends_with(&expected), "{message}");
        }
        assert_eq!(message("sned"), None);
    }

    #[test]
    fn each_optional_command_exists_or_is_reported_as_missing() {
        for name in ["demo", "emulate", "link", "quality", "top"] {
            let exists = Arguments::command().find_subcommand(name).is_some();
            let is_missing = COMMANDS.iter().any(|missing| missing.name == name);
            assert_ne!(exists, is_missing, "{name}");
        }
    }
}

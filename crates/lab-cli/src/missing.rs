//! Commands that users may look for here, although the other program has them.

use anabranch_terminal::menu::Missing;

const STREAMING: &str = "anabranch";

pub(crate) const COMMANDS: &[Missing] = &[
    Missing::of("config", STREAMING),
    Missing::of("demo", STREAMING),
    Missing::of("emulate", STREAMING),
    Missing::of("keygen", STREAMING),
    Missing::of("link", STREAMING),
    Missing::of("proxy", STREAMING),
    Missing::of("quality", STREAMING),
    Missing::of("recv", STREAMING),
    Missing::of("send", STREAMING),
    Missing::of("serve", STREAMING),
    Missing::of("top", STREAMING),
];

#[cfg(test)]
mod tests {
    use anabranch_terminal::menu::explained;
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::{Arguments, PROGRAM};

    #[test]
    fn a_command_of_the_other_program_names_that_program() {
        for missing in COMMANDS {
            let name = missing.name;
            assert!(Arguments::command().find_subcommand(name).is_none());
            let error = Arguments::try_parse_from([PROGRAM, name]).unwrap_err();
            let message = explained(PROGRAM, COMMANDS, &error).unwrap();
            let expected = format!("anabranch-lab: `{name}` is a command of anabranch");
            assert_eq!(message, expected);
        }
    }
}

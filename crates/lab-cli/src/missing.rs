//! Commands that users may look for here, although the other program has them.

#[cfg(not(target_os = "linux"))]
use anabranch_net::system::Feature;
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
    #[cfg(not(target_os = "linux"))]
    Missing::on_other_systems("kernel", Feature::KernelControllers),
    #[cfg(not(target_os = "linux"))]
    Missing::on_other_systems("parity", Feature::Namespaces),
    #[cfg(not(target_os = "linux"))]
    Missing::on_other_systems("soak", Feature::Namespaces),
    #[cfg(not(target_os = "linux"))]
    Missing::on_other_systems("testbed", Feature::Namespaces),
];

#[cfg(test)]
mod tests {
    use anabranch_terminal::menu::{Place, explained};
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::{Arguments, PROGRAM};

    #[test]
    fn a_command_of_the_other_program_names_that_program() {
        for missing in COMMANDS {
            if missing.place != Place::Program(STREAMING) {
                continue;
            }
            let name = missing.name;
            assert!(Arguments::command().find_subcommand(name).is_none());
            let error = Arguments::try_parse_from([PROGRAM, name]).unwrap_err();
            let message = explained(PROGRAM, COMMANDS, &error).unwrap();
            let expected = format!("anabranch-lab: `{name}` is a command of anabranch");
            assert_eq!(message, expected);
        }
    }
}

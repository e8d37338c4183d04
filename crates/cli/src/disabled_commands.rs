//! Commands that a small build lacks, and the message for their users.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Each command that needs a cargo feature, that feature, and whether this build has it.
const OPTIONAL: &[(&str, &str, bool)] = &[
    ("compare", "laboratory", cfg!(feature = "laboratory")),
    ("contest", "laboratory", cfg!(feature = "laboratory")),
    ("demo", "demo", cfg!(feature = "demo")),
    ("emulate", "laboratory", cfg!(feature = "laboratory")),
    ("new", "laboratory", cfg!(feature = "laboratory")),
    ("plot", "laboratory", cfg!(feature = "laboratory")),
    ("quality", "codec", cfg!(feature = "codec")),
    ("reproduce", "papers", cfg!(feature = "papers")),
    ("run", "laboratory", cfg!(feature = "laboratory")),
    ("schema", "laboratory", cfg!(feature = "laboratory")),
    ("top", "top", cfg!(feature = "top")),
    ("trace", "laboratory", cfg!(feature = "laboratory")),
];

/// Returns the message for a command line that names a missing command.
pub(crate) fn explained(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(asked)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let is_asked = |(name, _, is_here): &&(&str, &str, bool)| name == asked && !is_here;
    let (name, feature, _) = OPTIONAL.iter().find(is_asked)?;
    Some(format!(
        "anabranch: this build is without `{name}`: it was built without the cargo feature \
         `{feature}`"
    ))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[test]
    fn each_optional_command_is_there_or_said_to_be_left_out() {
        let command = crate::Arguments::command();
        for (name, feature, is_here) in OPTIONAL {
            assert_eq!(command.find_subcommand(name).is_some(), *is_here, "{name}");
            if !is_here {
                let error = crate::Arguments::try_parse_from(["anabranch", name]).unwrap_err();
                let said = explained(&error).unwrap();
                assert!(said.contains(name) && said.contains(feature), "{said}");
            }
        }
        let error = crate::Arguments::try_parse_from(["anabranch", "sned"]).unwrap_err();
        assert_eq!(explained(&error), None);
    }
}

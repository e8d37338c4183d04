//! A change that was made, as a record keeps it. It is data: the command that undoes it is written
//! here, so a record never chooses a program to run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::act::Act;
use super::file_content::FileContent;

/// A change to be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Change {
    /// A file's content.
    File {
        path: PathBuf,
        from: FileContent,
        to: FileContent,
    },
    /// An interface that stays without its program.
    Interface { name: String },
    /// Routes of a table of our own.
    Routes { family: Family, table: u32 },
    /// A routing rule.
    Rule {
        family: Family,
        priority: u32,
        rule: String,
    },
    /// A table of nftables, of the family `inet`.
    Filter { table: String },
}

/// Version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// Returns the option of `ip`.
    pub(super) fn option(self) -> &'static str {
        match self {
            Family::V4 => "-4",
            Family::V6 => "-6",
        }
    }
}

impl Change {
    /// Returns the act that undoes the change.
    pub(super) fn undoing(&self) -> Act {
        match self {
            Change::File { path, from, to } => Act::Replace {
                path: path.clone(),
                from: to.clone(),
                to: from.clone(),
            },
            Change::Interface { name } => Act::run(&format!("ip link del {name}")),
            Change::Routes { family, table } => {
                Act::run(&format!("ip {} route flush table {table}", family.option()))
            }
            Change::Rule {
                family,
                priority,
                rule,
            } => Act::run(&format!(
                "ip {} rule del pref {priority} {rule}",
                family.option()
            )),
            // A table is made first so that its removal cannot fail.
            Change::Filter { table } => {
                Act::nft(format!("table inet {table}\ndelete table inet {table}\n"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_chooses_no_program() {
        let commands = r#"[{"Run":{"program":"sh","arguments":["-c","id"],"input":""}}]"#;
        assert!(serde_json::from_str::<Vec<Change>>(commands).is_err());
        let name = "x; id".to_owned();
        let changes = [
            Change::Interface { name: name.clone() },
            Change::Filter { table: name },
        ];
        let programs = changes.map(|change| match change.undoing() {
            Act::Run { program, .. } => program,
            other => panic!("{other:?}"),
        });
        assert_eq!(programs, ["ip", "nft"]);
    }
}

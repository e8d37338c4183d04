//! A file of options that is read again while the program runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use anabranch_observe::control::Refused;
use anabranch_terminal::hangup::Reopen;
use anyhow::{anyhow, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use super::{gist, with_file};
use crate::Command;

/// Values of each argument that is given, by its identifier.
type Given = BTreeMap<String, Vec<OsString>>;

/// The options of the running program, and a way to read them again.
#[derive(Debug)]
pub(crate) struct Reload {
    /// The words with which the program was started.
    words: Vec<OsString>,
    file: Option<String>,
    present: Given,
    hangup: Reopen,
}

/// The options of another reading.
#[derive(Debug)]
pub(crate) struct Reread {
    pub(crate) command: Command,
    given: Given,
    /// Identifiers and names of the arguments that differ.
    changed: Vec<(String, String)>,
}

impl Reload {
    /// Remembers the options with which this program was started.
    ///
    /// # Errors
    /// The system refuses a handler of SIGHUP, or the file has changed and is wrong.
    pub(crate) fn of_program(file: Option<&Path>) -> anyhow::Result<Self> {
        Reload::of(std::env::args_os().collect(), file)
    }

    fn of(words: Vec<OsString>, file: Option<&Path>) -> anyhow::Result<Self> {
        let present = match file {
            Some(_) => given(&matches(&words)?),
            None => Given::new(),
        };
        Ok(Reload {
            words,
            file: file.map(|file| file.display().to_string()),
            present,
            hangup: Reopen::on_signal()?,
        })
    }

    /// Returns whether SIGHUP asks a service for another reading.
    pub(crate) fn is_due(&self) -> bool {
        self.hangup.is_due() && self.file.is_some()
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// There is none, or it has a mistake.
    pub(crate) fn reread(&self) -> anyhow::Result<Reread> {
        if self.file.is_none() {
            bail!("the program was started without --config FILE: there is nothing to read again");
        }
        let matches = matches(&self.words)?;
        let given = given(&matches);
        let parsed = crate::Arguments::from_arg_matches(&matches);
        let command = parsed.map_err(|error| anyhow!("{}", gist(&error)))?.command;
        let name = matches.subcommand_name().unwrap_or_default();
        let changed = names(name)
            .into_iter()
            .filter(|(id, _)| given.get(id) != self.present.get(id));
        Ok(Reread {
            changed: changed.collect(),
            command,
            given,
        })
    }

    /// Takes the options that are `live` for the present ones. Describes the new ones, and those
    /// that need a restart.
    pub(crate) fn adopt(&mut self, reread: Reread, live: &[&str]) -> String {
        let (changed, others): (Vec<_>, Vec<_>) = reread
            .changed
            .into_iter()
            .partition(|(id, _)| live.contains(&&**id));
        for (id, _) in &changed {
            match reread.given.get(id) {
                Some(values) => self.present.insert(id.clone(), values.clone()),
                None => self.present.remove(id),
            };
        }
        let file = self.file.as_deref().unwrap_or_default();
        let mut text = match changed.as_slice() {
            [] => format!("{file} is read again; no option is new"),
            changed => format!("{file} is read again; new: {}", listed(changed)),
        };
        if !others.is_empty() {
            text += &format!("; only a restart changes: {}", listed(&others));
        }
        text
    }
}

impl Reread {
    /// Returns whether an argument differs.
    pub(crate) fn has_changed(&self, id: &str) -> bool {
        self.changed.iter().any(|(changed, _)| changed == id)
    }
}

/// Parses a command line with the file that it names.
fn matches(words: &[OsString]) -> anyhow::Result<ArgMatches> {
    let line = with_file(words.to_vec())?;
    let line = crate::send::srtla::routed(crate::link::expanded(line)?);
    let parsed = crate::Arguments::command().try_get_matches_from(line);
    parsed.map_err(|error| anyhow!("{}", gist(&error)))
}

/// Returns the answer to a request to read the file again that has failed.
pub(crate) fn unchanged(error: anyhow::Error) -> Refused {
    Refused::NotNow(format!("{error:#}; nothing has changed"))
}

/// Returns the names of arguments, with commas between them.
fn listed(arguments: &[(String, String)]) -> String {
    let names: Vec<&str> = arguments.iter().map(|(_, name)| &**name).collect();
    names.join(", ")
}

/// Returns identifiers and names of a command's arguments.
fn names(command: &str) -> Vec<(String, String)> {
    let parser = crate::Arguments::command();
    parser
        .find_subcommand(command)
        .into_iter()
        .flat_map(clap::Command::get_arguments)
        .filter_map(|argument| {
            let name = super::word_of(argument)?;
            Some((argument.get_id().to_string(), name))
        })
        .collect()
}

fn given(matches: &ArgMatches) -> Given {
    let Some((command, given)) = matches.subcommand() else {
        return Given::new();
    };
    let named = names(command)
        .into_iter()
        .filter(|(id, _)| given.value_source(id) == Some(ValueSource::CommandLine));
    let values = named.map(|(id, _)| {
        let values = given
            .get_raw(&id)
            .map(|values| values.map(OsString::from))
            .map(Iterator::collect)
            .unwrap_or_default();
        (id, values)
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const BEFORE: &str = "[recv]\nlisten = \"127.0.0.1:7000\"\nkey = \"a.key\"\n\
                          allow-from = \"senders\"\nkeep-listening = true\noutput = [\"a.ts\"]\n";

    #[test]
    fn reload_lists_changes_and_pending_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("anabranch.toml");
        fs::write(&path, BEFORE).unwrap();
        let file = path.to_str().unwrap();
        let words = ["anabranch", "recv", "--config", file, "--timeout", "9 s"]
            .map(OsString::from)
            .to_vec();
        let mut reload = Reload::of(words, Some(&path)).unwrap();
        let live = ["outputs", "allow"];
        let reread = reload.reread().unwrap();
        assert!(reload.adopt(reread, &live).ends_with("no option is new"));
        let after = BEFORE
            .replace("a.ts", "b.ts")
            .replace(":7000", ":7001")
            .replace("keep-listening = true\n", "timeout = \"3 s\"\n");
        fs::write(&path, after).unwrap();
        let reread = reload.reread().unwrap();
        assert!(reread.has_changed("outputs") && !reread.has_changed("allow"));
        let text = reload.adopt(reread, &live);
        assert!(text.contains("new: output;"), "{text}");
        // The command line takes precedence over the file's timeout.
        let waiting = "only a restart changes: listen, keep-listening";
        assert!(text.ends_with(waiting), "{text}");
        let reread = reload.reread().unwrap();
        let text = reload.adopt(reread, &live);
        assert!(text.contains("no option is new; only a restart"), "{text}");
        for (wrong, part) in [
            ("[recv]\nlisten = 7", "<OUTPUT>"),
            ("x = [", "anabranch.toml"),
        ] {
            fs::write(&path, wrong).unwrap();
            let error = format!("{:#}", reload.reread().unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_program_without_a_file_says_so() {
        let words = ["anabranch", "recv"].map(OsString::from).to_vec();
        let reload = Reload::of(words, None).unwrap();
        assert!(!reload.is_due());
        let error = reload.reread().unwrap_err().to_string();
        assert!(error.contains("without --config FILE"), "{error}");
    }
}

//! Options from a file: `--config FILE`, and `anabranch config`.
//!
//! The words of a file become words of the command line, so that both mean the same.

mod reload;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use anabranch_terminal::print;
use anabranch_units::known_names;
use anyhow::{Context, anyhow, bail, ensure};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory, Parser, Subcommand};
use toml::{Table, Value};

use crate::Command;
pub(crate) use reload::{Reload, Reread, unchanged};

/// Commands that take a file of options.
const COMMANDS: [&str; 4] = ["send", "recv", "serve", "proxy"];

/// Checks and shows files of options, which `send`, `recv`, `serve` and `proxy` take by --config.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file names options as the command line does, in a table for each command, or without a table for
one command:

  [recv]
  listen = \"0.0.0.0:7000\"
  key = \"/etc/anabranch/studio.key\"
  allow = [\"abpub_…=front\", \"abpub_…=roof\"]
  keep-listening = true
  output = [\"front=udp://127.0.0.1:6000\", \"recordings/{name}-{time}.ts\"]

`input` (send) and `output` (recv) name the arguments that have no option on the command line. An
option on the command line replaces the one in the file. Paths are relative to the folder in which
the program is started.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Reports mistakes in a file, without starting a session.
    Check(FileArguments),
    /// Prints the command lines that a file represents.
    Show(FileArguments),
}

#[derive(Debug, clap::Args)]
struct FileArguments {
    /// The command to which a file without tables belongs.
    #[arg(long, value_name = "NAME", value_parser = COMMANDS)]
    command: Option<String>,
    /// The file.
    file: PathBuf,
    /// Further options of the command line, such as `-- --key studio.key`.
    #[arg(last = true, value_name = "OPTIONS")]
    besides: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (Task::Check(chosen) | Task::Show(chosen)) = &arguments.task;
    let file = File::read(&chosen.file)?;
    let tables = match (&chosen.command, file.is_flat()) {
        (Some(command), _) => vec![command.as_str()],
        (None, true) => bail!(
            "{}: it has no table: name its command with --command ({})",
            file.name,
            COMMANDS.join(", ")
        ),
        (None, false) => file.commands(),
    };
    for command in tables {
        let mut words = vec![OsString::from("anabranch"), command.into()];
        words.extend(chosen.besides.iter().cloned());
        let given = given(&words).unwrap_or_default();
        let line = file.completed(words, command, &given)?;
        match &arguments.task {
            Task::Show(_) => print::line(shown(&line))?,
            Task::Check(_) => {
                check(line).with_context(|| format!("{} [{command}]", file.name))?;
                print::line(format_args!("{} [{command}]: fine", file.name))?;
            }
        }
    }
    Ok(())
}

/// Checks a command line.
///
/// # Errors
/// It has a mistake, or the command refuses it.
fn check(line: Vec<OsString>) -> anyhow::Result<()> {
    let line = crate::send::srtla::routed(crate::link::expanded(line)?);
    let arguments = crate::Arguments::try_parse_from(line);
    match arguments
        .map_err(|error| anyhow!("{}", gist(&error)))?
        .command
    {
        Command::Send(arguments) => arguments.check(),
        Command::SendSrtla(arguments) => arguments.check(),
        Command::Recv(arguments) => arguments.check(),
        Command::Serve(arguments) => arguments.check(),
        Command::Proxy(arguments) => arguments.check(),
        _ => Ok(()),
    }
}

/// Returns clap's message about a mistake, without the usage of the command.
fn gist(error: &clap::Error) -> String {
    let text = error.to_string();
    let usage = text.find("\n\nUsage").or(text.find("\n\nFor more"));
    let text = &text[..usage.unwrap_or(text.len())];
    text.trim_start_matches("error: ").trim_end().to_owned()
}

/// Returns a command line as a shell takes it.
fn shown(line: &[OsString]) -> String {
    let words = line.iter().map(|word| {
        let word = word.to_string_lossy();
        if !word.is_empty()
            && word
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_=./:,@%+".contains(&byte))
        {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns whether a word begins `--config FILE` or is `--config=FILE`.
fn names_file(word: &OsStr) -> bool {
    let text = word.to_string_lossy();
    text == "--config" || text.starts_with("--config=")
}

/// Returns a command line with the options of the file that it names by --config, if any.
///
/// # Errors
/// The file cannot be read, or has unknown words.
pub(crate) fn with_file(words: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let command = words
        .get(1)
        .and_then(|word| word.to_str())
        .and_then(|word| COMMANDS.into_iter().find(|known| *known == word));
    let Some(command) = command else {
        return Ok(words);
    };
    if !words.iter().any(|word| names_file(word)) {
        return Ok(words);
    }
    let given = given(&words).unwrap_or_default();
    // The argument does not exist if the line could not be read.
    match given.try_get_one::<PathBuf>("config") {
        Ok(Some(path)) => File::read(path)?.completed(words, command, &given),
        _ => Ok(words),
    }
}

/// Returns the arguments of a command line, as far as it can be read. Missing ones may be in the
/// file.
fn given(words: &[OsString]) -> Option<ArgMatches> {
    let parser = crate::Arguments::command().ignore_errors(true);
    // A request for help is an error here. The final parser answers it.
    let mut matches = parser.try_get_matches_from(words).ok()?;
    matches.remove_subcommand().map(|(_, given)| given)
}

/// A file of options.
#[derive(Debug)]
struct File {
    name: String,
    table: Table,
}

impl File {
    fn read(path: &Path) -> anyhow::Result<File> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        File::of(name, &text)
    }

    /// Reads the text of the file of that name.
    fn of(name: String, text: &str) -> anyhow::Result<File> {
        let file = File {
            table: text.parse().with_context(|| name.clone())?,
            name,
        };
        if !file.is_flat() {
            for (word, value) in &file.table {
                ensure!(
                    COMMANDS.contains(&word.as_str()) && value.is_table(),
                    "{}: there is no table [{word}]: known are {}",
                    file.name,
                    known_names(word, COMMANDS)
                );
            }
        }
        Ok(file)
    }

    /// Returns whether it has no tables, and is for one command.
    fn is_flat(&self) -> bool {
        !self.table.values().any(Value::is_table)
    }

    /// Returns the commands that have tables in it.
    fn commands(&self) -> Vec<&str> {
        self.table.keys().map(String::as_str).collect()
    }

    /// Returns a command line with the options of the file that are not `given` on it.
    fn completed(
        &self,
        mut words: Vec<OsString>,
        command: &str,
        given: &ArgMatches,
    ) -> anyhow::Result<Vec<OsString>> {
        // No argument is known if the line could not be read.
        let options = self.options(command, |id| {
            let is_known = given.ids().any(|known| known == id);
            is_known && given.value_source(id) == Some(ValueSource::CommandLine)
        })?;
        // Positional words follow the others, behind `--`.
        let at = options.iter().position(|word| word == "--");
        let (named, positional) = options.split_at(at.unwrap_or(options.len()));
        words.splice(2..2, named.iter().cloned());
        let has_dashes = words.iter().any(|word| word == "--");
        words.extend(positional.iter().skip(usize::from(has_dashes)).cloned());
        Ok(words)
    }

    /// Returns the words for a command line of `command`, without those that are given there.
    /// Positional ones follow a `--`.
    fn options(
        &self,
        command: &str,
        is_given: impl Fn(&str) -> bool,
    ) -> anyhow::Result<Vec<OsString>> {
        let table = match self.table.get(command) {
            Some(Value::Table(table)) => table,
            _ if self.is_flat() => &self.table,
            _ => bail!("{}: it has no table [{command}]", self.name),
        };
        let parser = crate::Arguments::command();
        let known: Vec<_> = parser
            .find_subcommand(command)
            .into_iter()
            .flat_map(clap::Command::get_arguments)
            .filter_map(|argument| Some((word_of(argument)?, argument)))
            .collect();
        let (mut named, mut positional) = (Vec::new(), Vec::new());
        for (word, value) in table {
            let found = known.iter().find(|(known, argument)| {
                let aliases = argument.get_all_aliases().unwrap_or_default();
                known == word || aliases.contains(&word.as_str())
            });
            let Some((_, argument)) = found else {
                let names = known.iter().map(|(name, _)| name.as_str());
                bail!(
                    "{}: {command} has no {word:?}: known are {}",
                    self.name,
                    known_names(word, names)
                );
            };
            if is_given(argument.get_id().as_str()) {
                continue;
            }
            let options = options_of(word, argument, value)
                .with_context(|| format!("{} [{command}]", self.name))?;
            if argument.is_positional() {
                positional.extend(options)
            } else {
                named.extend(options)
            }
        }
        if !positional.is_empty() {
            named.push("--".to_owned());
            named.append(&mut positional);
        }
        Ok(named.into_iter().map(OsString::from).collect())
    }
}

/// Reads the text of a file and each command line that it represents.
///
/// # Errors
/// The errors of `config check`, except for those of the commands' own checks.
pub(crate) fn read(text: &str) -> anyhow::Result<()> {
    let file = File::of("file".to_owned(), text)?;
    for command in COMMANDS {
        let words = vec![OsString::from("anabranch"), command.into()];
        let line = file.completed(words, command, &ArgMatches::default())?;
        crate::Arguments::try_parse_from(line)?;
    }
    Ok(())
}

/// Returns the name of an option in a file; `None` if a file cannot have it.
fn word_of(argument: &clap::Arg) -> Option<String> {
    if let Some(long) = argument.get_long() {
        return (!["help", "config"].contains(&long)).then(|| long.to_owned());
    }
    let name = argument.get_value_names()?.first()?;
    argument.is_positional().then(|| name.to_lowercase())
}

/// Returns the words of the command line with the same meaning.
fn options_of(word: &str, argument: &clap::Arg, value: &Value) -> anyhow::Result<Vec<String>> {
    let is_flag = matches!(argument.get_action(), ArgAction::SetTrue);
    let takes_several = matches!(argument.get_action(), ArgAction::Append);
    match value {
        Value::Boolean(true) if is_flag => Ok(vec![format!("--{word}")]),
        Value::Boolean(false) if is_flag => Ok(Vec::new()),
        _ if is_flag => bail!("{word} = {value}: expected true or false"),
        Value::Array(values) if takes_several => values
            .iter()
            .map(|value| option_of(word, argument, value))
            .collect(),
        Value::Array(_) => bail!("{word} = {value}: it takes one value"),
        value => Ok(vec![option_of(word, argument, value)?]),
    }
}

/// Returns the word of the command line for one value.
fn option_of(word: &str, argument: &clap::Arg, value: &Value) -> anyhow::Result<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        _ => bail!("{word} = {value}: expected a text or a number"),
    };
    if argument.is_positional() {
        Ok(text)
    } else {
        Ok(format!("--{word}={text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("anabranch.toml");
        fs::write(&path, text).unwrap();
        (folder, path.to_str().unwrap().to_owned())
    }

    fn words(line: &[&str]) -> anyhow::Result<String> {
        let line = line.iter().map(OsString::from).collect();
        let words = with_file(line)?;
        let texts = words.iter().skip(1).map(|word| word.to_str().unwrap());
        Ok(texts.collect::<Vec<_>>().join(" "))
    }

    const BOTH: &str = r#"
        [send]
        to = "192.0.2.1:7000"
        via = ["wlan0", "wwan0,metered"]
        latency = "800 ms"
        metrics = 9797
        ecn = true
        log-time = false
        input = "-"
        [recv]
        output = ["a.ts", "udp://127.0.0.1:6000"]
    "#;

    #[test]
    fn a_file_says_the_same_as_a_command_line_which_wins() {
        let (_folder, path) = file(BOTH);
        let expected = "send --ecn --latency=800 ms --metrics=9797 --to=192.0.2.1:7000 \
                        --via=wlan0 --via=wwan0,metered --config";
        let all = words(&["anabranch", "send", "--config", &path])
            .unwrap()
            .replace(&path, "");
        assert_eq!(all, format!("{expected}  -- -"));
        let line = [
            "anabranch",
            "send",
            "--config",
            &path,
            "--via",
            "eth0",
            "--latency",
            "min",
            "f.ts",
        ];
        let some = words(&line).unwrap();
        for gone in ["wlan0", "800", " -- -"] {
            assert!(!some.contains(gone), "{gone}: {some}");
        }
        assert!(
            some.contains("--metrics=9797") && some.ends_with("f.ts"),
            "{some}"
        );
        let recv = words(&["anabranch", "recv", &format!("--config={path}")]).unwrap();
        assert!(recv.ends_with("-- a.ts udp://127.0.0.1:6000"), "{recv}");
    }

    #[test]
    fn a_line_without_a_file_and_one_that_asks_for_help_stay_as_they_are() {
        assert_eq!(words(&["anabranch", "send", "x"]).unwrap(), "send x");
        let help = ["anabranch", "send", "--config", "nowhere.toml", "--help"];
        assert_eq!(words(&help).unwrap(), help[1..].join(" "));
    }

    #[test]
    fn errors_list_known_names() {
        for (text, part) in [
            ("[sned]\nto = \"a\"", "did you mean \"send\""),
            ("[send]\nlatancy = \"1 s\"", "did you mean \"latency\""),
            ("latancy = \"1 s\"", "did you mean \"latency\""),
            ("[send]\nlatency = [\"1 s\"]", "takes one value"),
            ("[send]\necn = \"yes\"", "true or false"),
            ("[send]\nto = true", "a text or a number"),
            ("[send]\nconfig = \"b.toml\"", "has no \"config\""),
            ("[recv]", "no table [send]"),
            ("x = [", "anabranch.toml"),
        ] {
            let (_folder, path) = file(text);
            let error = words(&["anabranch", "send", "--config", &path]).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(words(&["anabranch", "send", "--config", "no.toml"]).is_err());
    }

    #[test]
    fn a_file_is_checked_as_a_command_line_is() {
        let (_folder, path) = file(BOTH);
        let file = File::read(Path::new(&path)).unwrap();
        assert_eq!(file.commands(), ["recv", "send"]);
        let mut line: Vec<OsString> = vec!["anabranch".into(), "send".into()];
        line.extend(file.options("send", |_| false).unwrap());
        assert!(
            shown(&line).contains("'--latency=800 ms'"),
            "{}",
            shown(&line)
        );
        let error = check(line).unwrap_err().to_string();
        assert!(
            error.contains("--key") && !error.contains("Usage"),
            "{error}"
        );
    }

    /// Returns the error of `config check` for this file and other words.
    fn check_error(path: &str, besides: &[&str]) -> String {
        let words = [&["anabranch", "config", "check", path][..], besides].concat();
        let parsed = crate::Arguments::try_parse_from(words).unwrap();
        let Command::Config(arguments) = parsed.command else {
            panic!("another command");
        };
        format!("{:#}", run(&arguments).unwrap_err())
    }

    /// Units of systemd give the key on the command line.
    #[test]
    fn check_combines_file_and_command_line() {
        let (_folder, path) = file("[send]\nto = \"127.0.0.1:7000\"\ninput = \"a.ts\"");
        let error = check_error(&path, &[]);
        assert!(error.contains("--key"), "{error}");
        // A line that asks for help has no other arguments.
        let error = check_error(&path, &["--", "--help"]);
        assert!(error.contains("Sends live"), "{error}");
        let error = check_error(&path, &["--", "--key", "camera.key"]);
        assert!(
            error.contains("--peer") && !error.contains("--key"),
            "{error}"
        );
    }
}

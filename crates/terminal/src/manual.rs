//! Completions for shells and manual pages of a program, from the definition of its command line.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

use crate::print;

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Debian's package installs them. By hand, for bash, zsh and fish:

  anabranch completions bash > ~/.local/share/bash-completion/completions/anabranch
  anabranch completions zsh > ~/.zfunc/_anabranch        with ~/.zfunc in fpath
  anabranch completions fish > ~/.config/fish/completions/anabranch.fish")]
pub struct CompletionArguments {
    /// Shell whose completions are printed.
    shell: Shell,
}

/// Write manual pages, one for the program and one for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
  anabranch manual ~/.local/share/man/man1; man anabranch-send")]
pub struct ManualArguments {
    /// Folder of the pages. It is made if it does not exist.
    folder: PathBuf,
}

/// Prints the completions of a program for a shell.
///
/// # Errors
/// They cannot be written on standard output.
pub fn print_completions(program: Command, arguments: &CompletionArguments) -> anyhow::Result<()> {
    let completions = completions(program, arguments.shell);
    print::text(String::from_utf8(completions).context("completions")?)
}

fn completions(mut program: Command, shell: Shell) -> Vec<u8> {
    let name = program.get_name().to_owned();
    let mut completions = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut completions);
    completions
}

/// Writes the manual pages of a program: its own, and one for each command that its help shows.
///
/// # Errors
/// The folder or a page cannot be written.
pub fn write_pages(program: Command, arguments: &ManualArguments) -> anyhow::Result<()> {
    let folder = &arguments.folder;
    let written =
        fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(program, folder));
    written.with_context(|| format!("cannot write {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Command {
        let send = Command::new("send").arg(clap::Arg::new("via").long("via").help("A path"));
        let hidden = Command::new("draw").hide(true);
        Command::new("river").subcommands([send, hidden])
    }

    #[test]
    fn each_shown_command_has_a_page_with_its_options() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("man/man1");
        let arguments = ManualArguments {
            folder: inner.clone(),
        };
        write_pages(program(), &arguments).unwrap();
        let files = fs::read_dir(&inner).unwrap().map(Result::unwrap);
        let mut names: Vec<_> = files.map(|file| file.file_name()).collect();
        names.sort();
        assert_eq!(names, ["river-send.1", "river.1"]);
        let text = fs::read_to_string(inner.join("river-send.1")).unwrap();
        assert!(
            text.contains("river\\-send") && text.contains("A path"),
            "{text}"
        );
    }

    #[test]
    fn completions_name_the_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(completions(program(), shell)).unwrap();
            assert!(
                text.contains("via") && text.contains("river"),
                "{shell}: {text}"
            );
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let arguments = ManualArguments {
            folder: file.join("man1"),
        };
        let error = write_pages(program(), &arguments).unwrap_err();
        assert!(format!("{error:#}").contains("file/man1"), "{error:#}");
    }
}

//! The program `anabranch` for runs over links, and its keys.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// Returns the path of a program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(program));
    paths.find(|path| path.is_file())
}

/// Returns the program `anabranch`: the named one, the one beside this program, or an installed
/// one.
///
/// # Errors
/// There is none.
pub(crate) fn program(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name("anabranch"));
    let found = match named {
        Some(named) => Some(named.to_owned()),
        None => beside
            .filter(|path| path.is_file())
            .or_else(|| find("anabranch")),
    };
    let found = found.context(
        "there is no program anabranch beside this one: build it (cargo build -p anabranch-cli), \
         or name it with --program",
    )?;
    found
        .canonicalize()
        .with_context(|| format!("--program {}", found.display()))
}

/// Makes the key NAME.key in a folder, and returns its public key.
///
/// # Errors
/// The program makes none.
pub(crate) fn make_key(program: &Path, folder: &Path, name: &str) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(["keygen", "--output"])
        .arg(folder.join(format!("{name}.key")))
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut words = text.split_whitespace();
    let key = words.find(|word| word.starts_with("abpub_"));
    key.map(str::to_owned)
        .with_context(|| format!("{} keygen: {text}", program.display()))
}

//! Small files beside a list of peers, for the list's owner alone: lines `NAME = VALUE`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use tempfile::NamedTempFile;

use crate::system;

/// Returns a path with `ending` behind its name.
pub(crate) fn beside(list: &Path, ending: &str) -> PathBuf {
    let mut name = list.file_name().map(OsStr::to_owned).unwrap_or_default();
    name.push(OsString::from(ending));
    list.with_file_name(name)
}

/// Returns the files beside a list whose names continue with `middle` behind its name.
pub(super) fn files_beside(list: &Path, middle: &str) -> Vec<PathBuf> {
    let start = beside(list, middle);
    let prefix = start.file_name().unwrap_or_default().to_string_lossy();
    let entries = folder_of(list).read_dir().into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&*prefix)
        })
        .collect();
    files.sort();
    files
}

fn folder_of(list: &Path) -> &Path {
    let folder = list.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// Writes a file beside a list, whose name continues with `middle` behind the list's. Returns its
/// path.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_beside(list: &Path, middle: &str, text: &str) -> anyhow::Result<PathBuf> {
    let start = beside(list, middle);
    let written = written_beside(list, start.file_name().unwrap_or_default(), text);
    let file = written.with_context(|| format!("cannot write beside {}", list.display()))?;
    let (_, path) = file.keep()?;
    Ok(path)
}

/// Writes a file beside a list, with a name of its own behind `prefix`. Only the list's owner may
/// read it.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn written_beside(list: &Path, prefix: &OsStr, text: &str) -> io::Result<NamedTempFile> {
    let owner = list.metadata()?;
    let mut builder = tempfile::Builder::new();
    let mut file = builder.prefix(prefix).tempfile_in(folder_of(list))?;
    system::give_to_owner_of(&owner, file.as_file(), file.path())?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Reads a file of `max_bytes` at most. No error repeats a part of it.
///
/// # Errors
/// It cannot be read, is open to others, or is not whole.
pub(super) fn read_private(path: &Path, max_bytes: u64) -> anyhow::Result<String> {
    let file = File::open(path)?;
    let is_private = system::is_private(&file.metadata()?);
    let mut text = String::new();
    file.take(max_bytes).read_to_string(&mut text)?;
    ensure!(
        is_private && text.ends_with('\n'),
        "the file is open to others, or not whole"
    );
    Ok(text)
}

/// Returns the value of a line `NAME = VALUE`.
pub(super) fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(" = "));
    let found = lines.find(|(word, _)| *word == name);
    found.map(|(_, value)| value)
}

//! Windows.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Stdin};
use std::path::Path;

use crate::secret_kind::SecretKind;

/// A lock, until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    _file: File,
}

/// Opens the file whose lock stands for another one's: nobody can read a file that is locked here.
fn lock_file(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(name)
}

/// Locks a file; `None` if another program has.
pub(crate) fn hold(_file: &File, path: &Path) -> Option<Hold> {
    let file = lock_file(path).ok()?;
    file.try_lock().ok()?;
    Some(Hold { _file: file })
}

/// Returns whether another program has locked a file.
pub(crate) fn is_held(_file: &File, path: &Path) -> bool {
    lock_file(path).is_ok_and(|file| file.try_lock_shared().is_err())
}

/// Does nothing: a file that replaces another one in its folder has the folder's rights.
pub(crate) fn give_to_owner_of(_: &Metadata, _: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns true: the folder's rights decide, which no crate reads.
pub(crate) fn is_private(_: &Metadata) -> bool {
    true
}

/// Returns false: no path in the file system names a pipe.
pub(crate) fn is_fifo(_: &Metadata) -> bool {
    false
}

/// Does nothing: new files have their folder's rights.
pub(crate) fn let_group_read() {}

/// Does nothing: there is no such limit.
pub(crate) fn allow_many_files() {}

/// Returns true: no program waits for its terminal here.
pub(crate) fn wait_for_foreground(_: &Stdin) -> bool {
    true
}

/// Reads standard input to its end.
///
/// # Errors
/// As of the system.
pub(crate) fn read_input(max_bytes: usize) -> io::Result<Vec<u8>> {
    read(io::stdin().lock(), max_bytes)
}

/// Reads a secret file.
///
/// # Errors
/// As of the system.
pub(crate) fn read_file(file: &File, max_bytes: usize) -> io::Result<Vec<u8>> {
    read(file, max_bytes)
}

fn read(source: impl Read, max_bytes: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(max_bytes as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Checks nothing: the folder's rights decide, which no crate reads.
///
/// # Errors
/// None here.
pub(crate) fn check_secret(
    _path: &Path,
    _metadata: &Metadata,
    _is_credential: bool,
    _of: &SecretKind,
) -> anyhow::Result<()> {
    Ok(())
}

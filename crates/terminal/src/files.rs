//! Private folders, and checks of files and installed programs before the work that needs them.

use std::env;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::system;

/// Ending of the file beside a recording that lists its gaps.
pub const GAPS_ENDING: &str = ".gaps.csv";

/// Returns the path of the file that lists a recording's gaps.
pub fn gaps_path(recording: &Path) -> PathBuf {
    let mut path = recording.as_os_str().to_owned();
    path.push(GAPS_ENDING);
    path.into()
}

/// Returns the path of a program that is installed.
pub fn installed(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut files = env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}

/// Refusal of a file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct UnwritableFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

/// Checks that the file can be written.
///
/// # Errors
/// It cannot be opened or created.
pub fn check_writable(path: &Path) -> Result<(), UnwritableFile> {
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|source| UnwritableFile {
        path: path.to_owned(),
        source,
    })?;
    if is_new {
        // The check leaves no new file behind.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Makes a folder that only this user may open, and those above it. An existing folder keeps its
/// mode.
///
/// # Errors
/// The operating system refuses.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    system::make_private_folder(path)
}

/// Checks that no other user can change a file, nor put another one in its place: this user or root
/// owns it and the folders above it, and others may not write them. OpenSSH checks its
/// `authorized_keys` so (`StrictModes`). Pipes and devices are not checked, nor is anything on
/// Windows, where folders have lists of rights instead.
///
/// # Errors
/// Another user can, or the file cannot be found.
pub fn check_unshared(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let real = match path.canonicalize() {
        Ok(real) if real.is_file() => real,
        // A pipe or standard input has no place.
        _ => {
            let found = path.metadata().map(drop);
            return found.with_context(|| format!("cannot read {shown}"));
        }
    };
    system::check_unshared(&real)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_whether_a_file_can_be_written_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plot.svg");
        check_writable(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "old").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let error = check_writable(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("cannot write "), "{error}");
        assert!(check_writable(&folder.path().join("none/plot.svg")).is_err());
    }
}

//! Checks of files and installed programs, before the work that needs them.

use std::env;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Returns the path of a program that is installed.
pub fn installed(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut candidates = env::split_paths(&path).map(|folder| folder.join(program));
    candidates.find(|candidate| candidate.is_file())
}

/// Checks that the file can be written.
///
/// # Errors
/// It cannot be opened or created.
pub fn check_writable(path: &Path) -> anyhow::Result<()> {
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))?;
    if is_new {
        // The check leaves no new file behind.
        let _ = fs::remove_file(path);
    }
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

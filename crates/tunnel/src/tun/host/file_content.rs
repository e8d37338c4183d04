//! The content of a file, or its absence.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// Content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FileContent {
    Absent,
    Text(String),
    /// A symbolic link to this file.
    Link(PathBuf),
}

impl FileContent {
    /// Reads a file.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub(super) fn read(path: &Path) -> anyhow::Result<FileContent> {
        let context = || format!("cannot read {}", path.display());
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => Ok(FileContent::Link(
                fs::read_link(path).with_context(context)?,
            )),
            Ok(_) => Ok(FileContent::Text(
                fs::read_to_string(path).with_context(context)?,
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(FileContent::Absent),
            Err(error) => Err(error).with_context(context),
        }
    }

    /// Writes a file. One that is a regular file stays the same file: it may be mounted by itself.
    pub(super) fn write(&self, path: &Path, current: &FileContent) -> io::Result<()> {
        if let (FileContent::Text(text), FileContent::Text(_)) = (self, current) {
            return fs::write(path, text);
        }
        let mut aside = path.as_os_str().to_owned();
        aside.push(".anabranch");
        let aside = PathBuf::from(aside);
        let _ = fs::remove_file(&aside);
        match self {
            FileContent::Absent => return fs::remove_file(path),
            FileContent::Text(text) => {
                fs::write(&aside, text)?;
                // All users read name servers; a service's umask may forbid it.
                fs::set_permissions(&aside, Permissions::from_mode(0o644))?;
            }
            FileContent::Link(target) => symlink(target, &aside)?,
        }
        fs::rename(&aside, path)
    }
}

//! The content of a file, or its absence.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::tun::HostError;

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
    pub(super) fn read(path: &Path) -> Result<FileContent, HostError> {
        let content = match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => fs::read_link(path).map(FileContent::Link),
            Ok(_) => fs::read_to_string(path).map(FileContent::Text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(FileContent::Absent),
            Err(error) => Err(error),
        };
        content.map_err(|source| HostError::Read {
            path: path.to_owned(),
            source,
        })
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

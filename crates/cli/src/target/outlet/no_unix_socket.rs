//! Sockets with a path in the file system, on systems without them: there can be none.

use std::io;
use std::path::Path;

/// A socket that does not exist.
#[derive(Debug)]
pub(super) enum UnixSocket {}

impl UnixSocket {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub(super) fn connect(_: &Path) -> io::Result<UnixSocket> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub(super) fn write(&mut self, _: &[u8]) -> io::Result<()> {
        match *self {}
    }
}

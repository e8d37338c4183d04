//! Errors of outputs.

use std::io;
use std::path::PathBuf;

use anabranch_terminal::files::UnwritableFile;

use super::address_error::AddressError;
use super::foreign_error::ForeignError;
use super::udp_error::UdpError;

/// Reasons for which an output cannot be used, was not opened, or was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The address is wrong.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A UDP output was not opened.
    #[error(transparent)]
    Udp(#[from] UdpError),
    /// An output by another protocol was not opened.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] UnwritableFile),
    /// The output was not written.
    #[error("cannot write {name}")]
    Write {
        /// Name of the output.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A folder for the files was not made.
    #[error("cannot make the folder {}", folder.display())]
    MakeFolder {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file's folder does not exist.
    #[error(
        "output {}: there is no folder {}: make it (`mkdir -p {}`)",
        path.display(), folder.display(), folder.display()
    )]
    NoFolder {
        /// The file.
        path: PathBuf,
        /// The folder.
        folder: PathBuf,
    },
    /// No file can be made in the folder.
    #[error("output {}: cannot write in the folder {}", path.display(), folder.display())]
    Folder {
        /// The file.
        path: PathBuf,
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Files that follow one another would all have the same name.
    #[error(
        "output {}: with --rotate its name needs {{time}} in it, or each file would take the \
         place of the one before",
        path.display()
    )]
    SameName {
        /// The file.
        path: PathBuf,
    },
    /// The file's name is that of another format.
    #[error(
        "output {given}: the format is MPEG-TS, not .{extension}: name the file {plain}, \
         and run `ffmpeg -i {plain} -c copy {given}` when it is complete",
        given = path.display(), plain = path.with_extension("ts").display()
    )]
    Container {
        /// The file.
        path: PathBuf,
        /// Its extension.
        extension: String,
    },
}

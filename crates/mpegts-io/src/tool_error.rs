//! Errors of helper programs.

use std::io;

use anabranch_net::system::MissingFeature;

/// Reasons for which a helper program does not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// This system cannot hand over sockets.
    #[error(transparent)]
    Feature(#[from] MissingFeature),
    /// The program is not installed.
    #[error("{purpose} needs the program {program}, which is not installed (Debian: {package})")]
    NotInstalled {
        /// Option or address that needs it.
        purpose: String,
        /// Name of the program.
        program: &'static str,
        /// Debian's package of the program.
        package: &'static str,
    },
    /// The program was not started.
    #[error("cannot start {program}")]
    Start {
        /// Name of the program.
        program: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The thread that supervises the program was not started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The sockets between this program and its helper were not opened.
    #[error("cannot open sockets at loopback")]
    Loopback(#[source] io::Error),
    /// The encoder's program refuses the sources.
    #[error("--encode {video}: {said}")]
    Encoder {
        /// Source of the pictures.
        video: String,
        /// The program's last line.
        said: String,
    },
    /// The encoder has ended and does not start again.
    #[error("--encode: the source cannot be encoded, see the encoder's message above")]
    EncoderGaveUp,
}

//! Errors at the beginning of an observation.

use std::io;
use std::net::SocketAddr;

use crate::http::BindError;

/// Reasons for which the files and addresses of an observation were not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Statistics and video would share standard output.
    #[error("--stats -: standard output carries the video; name a file")]
    StatsBesideVideo,
    /// The file of the statistics cannot be written.
    #[error("--stats: cannot write {name}")]
    Stats {
        /// Path of the file.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The log of packets cannot be written.
    #[error("--qlog: cannot write {name}")]
    Qlog {
        /// Path of the file.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system refuses the signal that opens files again.
    #[error("cannot set up signals")]
    Signals(#[source] io::Error),
    /// A token for changes has no address.
    #[error("--control-token is for the address of --dashboard: add --dashboard PORT")]
    NoDashboard,
    /// Other machines could reach the address without a token.
    #[error(
        "{option} {address}: other machines reach this address, so it needs a token: add \
         --dashboard-token-file FILE, which is made if there is none"
    )]
    NoToken {
        /// Option that names the address.
        option: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// An address cannot be used.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system does not report the address of a socket.
    #[error(transparent)]
    LocalAddress(io::Error),
}

/// Reasons for which an observation did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The thread of the commands was not started.
    #[error("cannot start a thread")]
    Commands(#[source] io::Error),
    /// A thread or a server was not started.
    #[error(transparent)]
    System(#[from] io::Error),
}

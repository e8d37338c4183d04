//! Reasons for which an end did not start.

use std::io;
use std::net::SocketAddr;

use anabranch_controllers::UnknownController;
use anabranch_core::{ConfigError, PathId};
use anabranch_schedulers::{UnknownFecPolicy, UnknownScheduler};

use crate::remote::RemoteError;
use crate::via::ViaError;

/// Reasons for which an end did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A builder did not get a required part.
    #[error("{part} is missing: call `{method}`")]
    Missing {
        /// The part.
        part: &'static str,
        /// The builder's method that sets it.
        method: &'static str,
    },
    /// The receiver's location cannot be read.
    #[error("the receiver's location is wrong")]
    Remote(#[source] RemoteError),
    /// The local address cannot be read or resolved.
    #[error("the address to listen at is wrong")]
    ListenAddress(#[source] io::Error),
    /// There is no such scheduler.
    #[error(transparent)]
    Scheduler(#[from] UnknownScheduler),
    /// There is no such congestion controller, or no such option of it.
    #[error(transparent)]
    Controller(#[from] UnknownController),
    /// There is no such policy of forward error correction, or no such option of it.
    #[error(transparent)]
    Fec(UnknownFecPolicy),
    /// There is no path.
    #[error("a session needs a path")]
    NoPath,
    /// More paths than a session may have.
    #[error("{count} paths: a session has at most {}", PathId::LIMIT)]
    TooManyPaths {
        /// The requested number.
        count: usize,
    },
    /// There is no path of this number to be replaced.
    #[error("there is no path {index}")]
    NoSuchPath {
        /// The number.
        index: usize,
    },
    /// A path that joins must not need longer headers than the present ones.
    #[error("{remote} is IPv6, and no path was at the start: name one from the start")]
    Family {
        /// Destination of the path.
        remote: SocketAddr,
    },
    /// The transport's set-up cannot work.
    #[error(transparent)]
    Transport(#[from] ConfigError),
    /// A path cannot leave this machine as asked.
    #[error(transparent)]
    Via(#[from] ViaError),
    /// The address cannot be listened at.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// No TCP connections can be accepted at the address.
    #[error("cannot accept TCP connections at {address}")]
    ListenTcp {
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A socket or the thread could not be set up.
    #[error("cannot set up the runtime")]
    Runtime(#[source] io::Error),
}

impl StartError {
    /// Returns the error of a builder without a part, which `method` sets.
    pub(crate) const fn missing(part: &'static str, method: &'static str) -> Self {
        StartError::Missing { part, method }
    }
}

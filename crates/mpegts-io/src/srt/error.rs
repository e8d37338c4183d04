//! Errors of the ends of SRT and SRTLA.

use std::io;
use std::net::SocketAddr;

use anabranch_net::ViaError;

use crate::address_error::AddressError;

/// Reasons for which an end of SRT or SRTLA was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SrtError {
    /// The address is wrong.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The address cannot be listened at.
    #[error("cannot listen at {name}")]
    Listen {
        /// The address.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system does not report the address of a socket.
    #[error("a socket without an address")]
    LocalAddress(#[source] io::Error),
    /// Another stream at the port has the same stream ID.
    #[error("{name}: two streams at one port need different stream IDs: add streamid=NAME")]
    SameStreamId {
        /// The address, and the stream's name.
        name: String,
    },
    /// No socket was opened for a call.
    #[error("cannot reach {to}")]
    Reach {
        /// The address that is called.
        to: SocketAddr,
        /// The failure.
        source: ViaError,
    },
    /// The end of SRT below SRTLA does not listen.
    #[error("a listener has an address")]
    NoListener,
    /// The system has no pipe between two threads.
    #[error("no pipe is left")]
    Pipe(#[source] io::Error),
    /// The system has no randomness.
    #[error(transparent)]
    Randomness(io::Error),
    /// A thread was not started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

//! Errors of inputs and outputs by other protocols.

use std::io;

use super::address_error::AddressError;
use super::srt::SrtError;
use super::tool_error::ToolError;
use super::udp_error::UdpError;

/// Reasons for which an input or output by another protocol was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// The address is wrong.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// SRT or SRTLA failed.
    #[error(transparent)]
    Srt(#[from] SrtError),
    /// The program that implements the protocol failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The socket to the program failed.
    #[error(transparent)]
    Udp(#[from] UdpError),
    /// No port is free for the program.
    #[error("no port is free")]
    NoPort(#[source] io::Error),
    /// The socket towards the program was not opened.
    #[error("cannot open a socket")]
    Socket(#[source] io::Error),
    /// The system does not report the address of a socket.
    #[error("a socket without an address")]
    LocalAddress(#[source] io::Error),
}

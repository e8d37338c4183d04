//! Errors of addresses: URLs of inputs and outputs, and their parameters.

use core::num::ParseIntError;
use std::env::VarError;
use std::io;
use std::net::IpAddr;

/// Names of SRT's parameters that an error lists.
const KNOWN: &str = "mode, streamid, latency, rcvlatency, peerlatency, passphrase, \
                     passphrase_file, passphrase_env, pbkeylen, maxbw, inputbw, oheadbw, \
                     kmrefreshrate, kmpreannounce, peeridletimeo, conntimeo, fc and mss";

/// Reasons for which an address cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The address has no port.
    #[error("{name}: expected an address and a port, as {protocol}://0.0.0.0:5000")]
    NoPort {
        /// The address.
        name: String,
        /// Its protocol.
        protocol: &'static str,
    },
    /// The port is no number.
    #[error("the port is no number")]
    Port(#[source] ParseIntError),
    /// A UDP address does not name a host and a port that exist.
    #[error("{url}: expected address and port, as udp://127.0.0.1:5000")]
    NoAddress {
        /// The address.
        url: String,
    },
    /// An output has no destination.
    #[error("{url}: where to? An output needs an address, as udp://127.0.0.1:6000")]
    NoDestination {
        /// The address.
        url: String,
    },
    /// Two addresses of one URL are of different families.
    #[error("{url}: of {one} and {other}, one is IPv4 and the other IPv6")]
    Families {
        /// The URL.
        url: String,
        /// One of the addresses.
        one: IpAddr,
        /// The other address.
        other: IpAddr,
    },
    /// The URL has parts that only multicast groups can have.
    #[error(
        "{url}: an address before the @, and sources, are for multicast groups, and {address} is \
         none"
    )]
    NoGroup {
        /// The URL.
        url: String,
        /// Its address.
        address: IpAddr,
    },
    /// The address does not exist.
    #[error("{name}: there is no such address")]
    Unknown {
        /// The address.
        name: String,
    },
    /// The host does not exist.
    #[error("{name}: no such host")]
    NoHost {
        /// The address.
        name: String,
        /// The resolver's error, if it has one.
        source: Option<io::Error>,
    },
    /// A parameter is unknown or has a wrong value.
    #[error("{name}: parameter {parameter}")]
    Parameter {
        /// The address.
        name: String,
        /// Name of the parameter.
        parameter: String,
        /// The mistake.
        source: ParameterError,
    },
    /// The share of retransmissions is out of its range.
    #[error("parameter oheadbw: from 5 to 100 percent")]
    Overhead,
    /// The program that calls sets the parameter.
    #[error("{name}: the program that calls sets {parameter}, as its connection is carried whole")]
    SetByCaller {
        /// The address.
        name: String,
        /// Name of the parameter.
        parameter: String,
    },
}

/// Reasons for which a parameter of SRT cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// There is no such parameter.
    #[error("is not known; there are {KNOWN}")]
    Unknown,
    /// The value is no number.
    #[error("expected a number")]
    NoNumber,
    /// The value is no time.
    #[error("expected milliseconds up to 65535, as 200")]
    NoMilliseconds,
    /// The mode of meeting in the middle.
    #[error("rendezvous is not spoken here: let one end be the listener")]
    Rendezvous,
    /// There is no such mode.
    #[error("is caller or listener")]
    Mode,
    /// The value asks for another mode than that of live streams.
    #[error("only live mode with its defaults is spoken here")]
    NotLive,
    /// The stream ID is too long.
    #[error("a stream ID has 512 bytes at most")]
    StreamId,
    /// Keys have no such length.
    #[error("a key has 16, 24 or 32 bytes")]
    KeyLength,
    /// The window is out of its range.
    #[error("from 32 to {most} packets")]
    FlowWindow {
        /// Largest number of packets in flight.
        most: u32,
    },
    /// The size of packets is out of its range.
    #[error("from 576 to 1500 bytes")]
    PacketSize,
    /// The passphrase is too short or too long.
    #[error("SRT's passphrases have 10 to 79 characters")]
    Passphrase,
    /// There is no such variable for the passphrase.
    #[error("no environment variable {name}")]
    Variable {
        /// Name of the variable.
        name: String,
        /// The system's error.
        source: VarError,
    },
    /// The passphrase's file cannot be read.
    #[error("cannot read {path}")]
    File {
        /// Path of the file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

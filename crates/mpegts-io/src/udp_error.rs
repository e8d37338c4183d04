//! Errors of the sockets of `udp://` and `rtp://` addresses.

use std::io;
use std::net::IpAddr;

use super::address_error::AddressError;
use super::udp_url::NAME_INTERFACE;

/// Reasons for which a UDP input or output was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UdpError {
    /// The address is wrong.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The input's socket was not opened.
    #[error("cannot listen at input {url}")]
    Listen {
        /// The input's address.
        url: String,
        /// The failure.
        source: SocketError,
    },
    /// The output's socket was not opened.
    #[error("cannot open output {url}")]
    Output {
        /// The output's address.
        url: String,
        /// The failure.
        source: SocketError,
    },
    /// The system does not report the size of an output's buffer.
    #[error(transparent)]
    Buffer(io::Error),
    /// The socket for a helper program was not opened.
    #[error("cannot listen at a port of loopback")]
    Loopback(#[source] io::Error),
}

/// Reasons for which a socket does not have the settings that its URL asks for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The system refuses the socket, its address or a setting.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The URL names two local addresses.
    #[error("localaddr={local} names another address than {listen}: one of both suffices")]
    TwoAddresses {
        /// Value of `localaddr`.
        local: IpAddr,
        /// The URL's address.
        listen: IpAddr,
    },
    /// An output has a sender that is not this machine.
    #[error("{sender} is no address of this machine, and an output has no other sources")]
    OtherSender {
        /// Address of the sender.
        sender: IpAddr,
    },
    /// The system does not list its interfaces.
    #[error("cannot list interfaces")]
    Interfaces(#[source] io::Error),
    /// There is no interface of this name.
    #[error("{url}: there is no network interface {name:?}: there are {known}")]
    NoInterface {
        /// The URL.
        url: String,
        /// Name of the interface.
        name: String,
        /// Names and addresses of those that exist.
        known: String,
    },
    /// There is no interface with this address.
    #[error("{url}: there is no interface with the address {address}: there are {known}")]
    NoInterfaceWith {
        /// The URL.
        url: String,
        /// Address of the interface.
        address: IpAddr,
        /// Names and addresses of those that exist.
        known: String,
    },
    /// The interface has no address of IPv4.
    #[error("{url}: {interface} has no IPv4 address")]
    NoIpv4 {
        /// The URL.
        url: String,
        /// Name of the interface.
        interface: String,
    },
    /// A group of IPv6 has chosen sources.
    #[error("{url}: sources are for groups of IPv4")]
    SourcesOfIpv6 {
        /// The URL.
        url: String,
    },
    /// The group cannot be joined at the chosen interface.
    #[error("cannot join the group")]
    Join(#[source] Box<SocketError>),
    /// The group cannot be joined at the default interface.
    #[error("cannot join the group at the default interface: {NAME_INTERFACE}")]
    JoinAtDefault(#[source] Box<SocketError>),
    /// The socket was not bound to its local address.
    #[error("cannot send from {address}, port {port}")]
    Bind {
        /// The local address.
        address: IpAddr,
        /// The local port; 0: any.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
    /// The socket was not bound to an interface.
    #[error("cannot bind to the interface {interface}")]
    Device {
        /// Name of the interface.
        interface: String,
        /// The system's error.
        source: io::Error,
    },
    /// This system does not bind sockets to interfaces.
    #[error(
        "this system binds to no interface by name: give localaddr= instead of iface={interface}"
    )]
    NoDevices {
        /// Name of the interface.
        interface: String,
    },
    /// A time to live that no datagram to another machine survives.
    #[error("ttl=0 is for multicast groups, whose datagrams then stay on this machine")]
    TimeToLive,
}

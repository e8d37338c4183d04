//! The interface or local address by which a path leaves this machine.

use core::fmt;
use core::str::FromStr;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use socket2::{Domain, Protocol, SockAddr, Type};

use crate::own_socket::OwnSocket;
use crate::remote::Remote;
use crate::system;

/// Maximum length of an interface's name: IFNAMSIZ without its zero. Windows has long names, of up
/// to 256 characters (`IF_MAX_STRING_SIZE`).
const MAX_NAME_BYTES: usize = if cfg!(windows) { 3 * 256 } else { 15 };

/// Firewall mark of the sockets of all paths; zero is none.
static MARK: AtomicU32 = AtomicU32::new(0);

/// Marks the sockets that paths of this process open from now on (Linux's `SO_MARK`), so that rules
/// for routes can except them. Opening them then takes the privilege `CAP_NET_ADMIN`.
pub fn mark_sockets(mark: u32) {
    MARK.store(mark, Ordering::Relaxed);
}

/// The local side of a path.
///
/// ```
/// use anabranch_net::Via;
///
/// assert_eq!(Via::from("wlan0"), Via::Interface("wlan0".into()));
/// assert_eq!(Via::from("192.0.2.7"), Via::Address([192, 0, 2, 7].into()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// The routing table's choice.
    #[default]
    DefaultRoute,
    /// A network interface, by name.
    Interface(String),
    /// A local address; the routing table chooses the interface.
    Address(IpAddr),
    /// A socket that the application has made and bound. Such a path has no TCP.
    Socket(OwnSocket),
}

impl From<&str> for Via {
    /// Converts as [`Via::from_str`] does.
    fn from(text: &str) -> Self {
        match text.parse() {
            Ok(address) => Via::Address(address),
            Err(_) => Via::Interface(text.to_owned()),
        }
    }
}

impl From<OwnSocket> for Via {
    fn from(socket: OwnSocket) -> Self {
        Via::Socket(socket)
    }
}

impl From<IpAddr> for Via {
    fn from(address: IpAddr) -> Self {
        Via::Address(address)
    }
}

impl FromStr for Via {
    type Err = Infallible;

    /// Parses an IP address; everything else names an interface.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Via::from(text))
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Via::DefaultRoute => f.pad("default route"),
            Via::Interface(name) => f.pad(name),
            Via::Address(address) => f.pad(&address.to_string()),
            Via::Socket(socket) => f.pad(socket.name()),
        }
    }
}

/// Reasons for which a path cannot leave this machine as requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViaError {
    /// No such interface.
    #[error("there is no network interface {name:?}: the known ones are {known}")]
    UnknownInterface {
        /// The requested name.
        name: String,
        /// The names of interfaces with addresses.
        known: String,
    },
    /// The interface cannot be bound to, and has no address to bind to instead.
    #[error("interface {name} has no {family} address")]
    NoAddress {
        /// The interface.
        name: String,
        /// "IPv4" or "IPv6".
        family: &'static str,
    },
    /// No interface can have this name.
    #[error("no network interface has a name as long as {name:?}: {MAX_NAME_BYTES} bytes at most")]
    ImpossibleName {
        /// The requested name.
        name: String,
    },
    /// A local address of the other family than the peer's.
    #[error("{local} cannot reach {remote}: one is IPv4, the other IPv6")]
    Family {
        /// The local address.
        local: IpAddr,
        /// The peer's.
        remote: SocketAddr,
    },
    /// The operating system refused.
    #[error("cannot open a socket via {via}")]
    Socket {
        /// The path's local side.
        via: Via,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl ViaError {
    /// Returns whether the error may vanish by itself, as the interface or address is absent.
    pub(crate) fn is_absence(&self) -> bool {
        match self {
            ViaError::UnknownInterface { .. } | ViaError::NoAddress { .. } => true,
            ViaError::Family { .. } | ViaError::ImpossibleName { .. } => false,
            ViaError::Socket { source, .. } => system::is_gone(source),
        }
    }
}

impl Via {
    /// Returns the pattern for interfaces' names, if it is one: a name with `*` (any characters) or
    /// `?` (one).
    pub fn pattern(&self) -> Option<&str> {
        match self {
            Via::Interface(name) if name.contains(['*', '?']) => Some(name),
            _ => None,
        }
    }

    /// Checks only the name.
    ///
    /// # Errors
    /// [`ViaError::ImpossibleName`].
    pub(crate) fn check(&self) -> Result<(), ViaError> {
        match self {
            Via::Interface(name) if name.len() > MAX_NAME_BYTES => Err(ViaError::ImpossibleName {
                name: name.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns whether the operating system knows a route to `remote` by this way now. Sends
    /// nothing.
    ///
    /// Without a route, Linux takes IPv4 destinations for neighbours of the interface that a socket
    /// is bound to, even if the interface has no address. So the interface must have an address of
    /// the family, too.
    pub(crate) fn has_route(&self, remote: SocketAddr) -> bool {
        if let Via::Socket(socket) = self {
            return self.open_own(socket, remote).is_ok();
        }
        if let Via::Interface(name) = self {
            let able = interfaces(&Remote::Address(remote)).unwrap_or_default();
            if !able.contains(name) {
                return false;
            }
        }
        // Connecting a UDP socket only looks up a route.
        self.open(remote)
            .is_ok_and(|socket| socket.connect(remote).is_ok())
    }

    /// Opens a socket that reaches `remote` by this way.
    ///
    /// # Errors
    /// The interface or address is absent, or the operating system refuses.
    pub fn open(&self, remote: SocketAddr) -> Result<std::net::UdpSocket, ViaError> {
        if let Via::Socket(socket) = self {
            return self.open_own(socket, remote);
        }
        let socket = self.bound(remote, Type::DGRAM, Protocol::UDP)?;
        Ok(socket.into())
    }

    /// Opens a socket for a TCP connection to `remote` by this way.
    pub(crate) fn open_tcp(&self, remote: SocketAddr) -> Result<socket2::Socket, ViaError> {
        self.bound(remote, Type::STREAM, Protocol::TCP)
    }

    /// Returns another handle of the application's socket.
    fn open_own(
        &self,
        socket: &OwnSocket,
        remote: SocketAddr,
    ) -> Result<std::net::UdpSocket, ViaError> {
        let handle = socket.handle().map_err(|source| self.refused(source))?;
        let local_addr = handle.local_addr();
        let local = local_addr.map_err(|source| self.refused(source))?.ip();
        if local.is_ipv4() == remote.is_ipv4() {
            Ok(handle)
        } else {
            Err(ViaError::Family { local, remote })
        }
    }

    /// Returns the error of a socket that the system refuses.
    pub(crate) fn refused(&self, source: io::Error) -> ViaError {
        ViaError::Socket {
            via: self.clone(),
            source,
        }
    }

    fn bound(
        &self,
        remote: SocketAddr,
        kind: Type,
        protocol: Protocol,
    ) -> Result<socket2::Socket, ViaError> {
        let socket = socket2::Socket::new(Domain::for_address(remote), kind, Some(protocol))
            .map_err(|error| self.refused(error))?;
        self.check()?;
        match MARK.load(Ordering::Relaxed) {
            0 => {}
            mark => system::set_mark(&socket, mark).map_err(|error| self.refused(error))?,
        }
        let local = match self {
            Via::DefaultRoute => unspecified(remote),
            Via::Address(local) if local.is_ipv4() != remote.is_ipv4() => {
                return Err(ViaError::Family {
                    local: *local,
                    remote,
                });
            }
            Via::Address(local) => *local,
            Via::Interface(name) => bind_to_interface(&socket, name, remote)?,
            Via::Socket(_) => return Err(self.refused(io::ErrorKind::Unsupported.into())),
        };
        socket
            .bind(&SockAddr::from(SocketAddr::new(local, 0)))
            .map_err(|error| self.refused(error))?;
        Ok(socket)
    }
}

/// Returns the interfaces by which `remote` may be reached: those with an address of its family; of
/// any, if it is a name.
///
/// # Errors
/// If the operating system does not list them.
pub fn interfaces(remote: &Remote) -> io::Result<Vec<String>> {
    let found =
        if_addrs::get_if_addrs()?
            .into_iter()
            .filter(|interface| match (interface.ip(), remote) {
                (IpAddr::V4(_), Remote::Address(remote)) => remote.is_ipv4(),
                (IpAddr::V6(address), Remote::Address(remote)) => {
                    remote.is_ipv6() && (!address.is_unicast_link_local() || is_link_local(*remote))
                }
                (IpAddr::V4(_), Remote::Name(_)) => true,
                (IpAddr::V6(address), Remote::Name(_)) => !address.is_unicast_link_local(),
            });
    let mut names: Vec<String> = found.map(|interface| interface.name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn is_link_local(remote: SocketAddr) -> bool {
    matches!(remote.ip(), IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Binds to the interface itself. If it is refused, returns the interface's address to bind to.
fn bind_to_interface(
    socket: &socket2::Socket,
    name: &str,
    remote: SocketAddr,
) -> Result<IpAddr, ViaError> {
    let interfaces = if_addrs::get_if_addrs().map_err(|source| ViaError::Socket {
        via: Via::Interface(name.to_owned()),
        source,
    })?;
    // Windows numbers an interface for each family.
    let mut of_family = interfaces
        .iter()
        .filter(|interface| interface.name == name && interface.ip().is_ipv4() == remote.is_ipv4());
    let index = of_family.find_map(|interface| interface.index);
    if system::bind_device(socket, name, index, remote).is_ok() {
        return Ok(unspecified(remote));
    }
    if !interfaces.iter().any(|interface| interface.name == name) {
        let mut known: Vec<_> = interfaces
            .into_iter()
            .map(|interface| interface.name)
            .collect();
        known.sort();
        known.dedup();
        let known = known.join(", ");
        return Err(ViaError::UnknownInterface {
            name: name.to_owned(),
            known,
        });
    }
    interfaces
        .iter()
        .filter(|interface| interface.name == name)
        .map(if_addrs::Interface::ip)
        .find(|address| address.is_ipv4() == remote.is_ipv4())
        .ok_or_else(|| ViaError::NoAddress {
            name: name.to_owned(),
            family: if remote.is_ipv4() { "IPv4" } else { "IPv6" },
        })
}

fn unspecified(remote: SocketAddr) -> IpAddr {
    match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

    fn via(text: &str) -> Via {
        text.parse().expect("every text is a way out")
    }

    #[test]
    fn addresses_differ_from_interfaces() {
        assert_eq!(via("192.0.2.7"), Via::Address([192, 0, 2, 7].into()));
        assert_eq!(via("::1"), Via::Address(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(via("wlan0"), Via::Interface("wlan0".into()));
        assert_eq!(via("wlan0").to_string(), "wlan0");
    }

    #[test]
    fn a_local_address_is_the_sockets() {
        let socket = via("127.0.0.2").open(REMOTE).expect("loopback");
        assert_eq!(
            socket.local_addr().unwrap().ip(),
            IpAddr::from([127, 0, 0, 2])
        );
    }

    #[test]
    fn an_unknown_interface_lists_the_known_ones() {
        let error = via("nowhere9").open(REMOTE).expect_err("no such interface");
        assert!(
            matches!(&error, ViaError::UnknownInterface { known, .. } if known.contains("lo")),
            "{error}"
        );
    }

    #[test]
    fn a_route_needs_an_interface_with_an_address_of_the_family() {
        assert!(via("lo").has_route(REMOTE));
        assert!(Via::DefaultRoute.has_route(REMOTE));
        assert!(!via("nowhere9").has_route(REMOTE));
        // Loopback has only its own address and does not lead to a neighbour by link-local.
        let neighbour = "[fe80::1]:9".parse().expect("an address");
        assert!(!via("lo").has_route(neighbour));
        assert!(!via("127.0.0.1").has_route("[::1]:9".parse().expect("an address")));
    }

    #[test]
    fn a_socket_of_the_application_is_used_until_it_is_closed() {
        let made = std::net::UdpSocket::bind("127.0.0.3:0").expect("a port of loopback");
        let local = made.local_addr().expect("it is bound");
        let socket = OwnSocket::new("wlan0", made);
        let way = Via::from(socket.clone());
        assert_eq!(way.to_string(), "wlan0");
        assert_eq!(way.pattern(), None);
        for _ in 0..2 {
            let opened = way.open(REMOTE).expect("it is open");
            assert_eq!(opened.local_addr().expect("it is bound"), local);
        }
        assert!(way.has_route(REMOTE));
        assert!(!way.has_route("[::1]:9".parse().expect("an address")));
        assert!(way.open_tcp(REMOTE).is_err(), "it is a socket of UDP");
        let other = way.open("[::1]:9".parse().expect("an address"));
        assert!(matches!(other, Err(ViaError::Family { .. })));
        socket.close();
        let closed = way.open(REMOTE).expect_err("it is closed");
        assert!(!closed.is_absence(), "nobody opens it again: {closed}");
        std::net::UdpSocket::bind(local).expect("its port is free again");
    }

    #[test]
    fn families_must_agree() {
        assert!(matches!(
            via("::1").open(REMOTE),
            Err(ViaError::Family { .. })
        ));
    }
}

//! The network of an end: the operating system's, or a world's in memory.
//!
//! Everything above this file (ports, roles, drivers) runs unchanged in both: a role is handed the
//! time, ports and datagrams, and a port asks its [`Network`] for sockets, connections, routes and
//! names. The choice is an enum with a single variant unless the feature `testing` is on, so that
//! a datagram costs no indirect call.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::clock::Clock;
use crate::listen;
use crate::names::{Resolve, SystemResolver};
use crate::remote::Remote;
use crate::socket::{Batch, Socket as SystemSocket};
use crate::start_error::StartError;
use crate::tcp::stream::{Acceptor, Stream};
#[cfg(feature = "testing")]
use crate::testing::host::{Host, VirtualSocket};
use crate::via::{Via, ViaError, interfaces};

/// The network in which an end opens its sockets and resolves names. Default: the operating
/// system's. With the feature `testing`, a host of a world in memory has another one.
#[derive(Clone, Debug, Default)]
pub struct Network(pub(crate) Kind);

#[derive(Clone, Debug, Default)]
pub(crate) enum Kind {
    #[default]
    System,
    #[cfg(feature = "testing")]
    World(Host),
}

/// A socket for datagrams.
#[derive(Debug)]
pub(crate) enum Socket {
    System(SystemSocket),
    #[cfg(feature = "testing")]
    World(VirtualSocket),
}

impl Network {
    /// Opens a socket that reaches `remote` by this way.
    ///
    /// # Errors
    /// The interface or address is absent, or the operating system refuses.
    pub(crate) fn open(&self, via: &Via, remote: SocketAddr) -> Result<Socket, StartError> {
        match &self.0 {
            Kind::System => {
                let socket = SystemSocket::new(via.open(remote)?);
                socket.map(Socket::System).map_err(StartError::Runtime)
            }
            #[cfg(feature = "testing")]
            Kind::World(host) => Ok(Socket::World(host.open(via, remote)?)),
        }
    }

    /// Opens a socket at an address of this machine.
    ///
    /// # Errors
    /// The address is taken, not this machine's, or needs a privilege.
    pub(crate) fn listen(&self, address: SocketAddr) -> Result<Socket, StartError> {
        match &self.0 {
            Kind::System => {
                let bound = listen::udp(address)
                    .map_err(|source| StartError::Listen { address, source })?;
                let socket = SystemSocket::new(bound);
                socket.map(Socket::System).map_err(StartError::Runtime)
            }
            #[cfg(feature = "testing")]
            Kind::World(host) => {
                let socket = host.listen(address).map(Socket::World);
                socket.map_err(|source| StartError::Listen { address, source })
            }
        }
    }

    /// Accepts TCP connections at an address of this machine.
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    pub(crate) fn listen_tcp(&self, address: SocketAddr) -> io::Result<Acceptor> {
        match &self.0 {
            Kind::System => Acceptor::bind(address),
            #[cfg(feature = "testing")]
            Kind::World(host) => host.listen_tcp(address).map(Acceptor::World),
        }
    }

    /// Begins to connect to `peer` by TCP.
    ///
    /// # Errors
    /// If the local side is missing, or there is no route.
    pub(crate) fn dial(&self, via: &Via, peer: SocketAddr) -> Result<Stream, ViaError> {
        match &self.0 {
            Kind::System => Stream::dial(via, peer),
            #[cfg(feature = "testing")]
            Kind::World(host) => host.dial(via, peer).map(Stream::World),
        }
    }

    /// Returns whether there is a route to `remote` by this way now. Sends nothing.
    pub(crate) fn has_route(&self, via: &Via, remote: SocketAddr) -> bool {
        match &self.0 {
            Kind::System => via.has_route(remote),
            #[cfg(feature = "testing")]
            Kind::World(host) => host.has_route(via, remote),
        }
    }

    /// Lists the interfaces by which `remote` may be reached: of the same kind of address, or of
    /// any, if it is a name.
    ///
    /// # Errors
    /// If the operating system does not list them.
    pub(crate) fn interfaces(&self, remote: &Remote) -> io::Result<Vec<String>> {
        match &self.0 {
            Kind::System => interfaces(remote),
            #[cfg(feature = "testing")]
            Kind::World(host) => Ok(host.interfaces(remote)),
        }
    }

    /// Returns the clock of the network's time; of the operating system's, the wished one.
    pub(crate) fn clock(&self, wished: Clock) -> Clock {
        match &self.0 {
            Kind::System => wished,
            #[cfg(feature = "testing")]
            Kind::World(host) => host.clock(),
        }
    }

    /// Returns the resolver of names.
    pub(crate) fn resolver(&self) -> Arc<dyn Resolve> {
        match &self.0 {
            Kind::System => Arc::new(SystemResolver),
            #[cfg(feature = "testing")]
            Kind::World(host) => Arc::new(host.clone()),
        }
    }
}

impl Socket {
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Socket::System(socket) => socket.local_addr(),
            #[cfg(feature = "testing")]
            Socket::World(socket) => Ok(socket.local_addr()),
        }
    }

    /// Allows the hand-over of several datagrams at a time; see [`SystemSocket::coalesce`].
    pub(crate) fn coalesce(&mut self) {
        match self {
            Socket::System(socket) => socket.coalesce(),
            #[cfg(feature = "testing")]
            Socket::World(_) => {}
        }
    }

    /// Returns the maximum number of datagrams in a batch.
    pub(crate) fn max_batch_count(&self) -> usize {
        match self {
            Socket::System(socket) => socket.max_batch_count(),
            #[cfg(feature = "testing")]
            Socket::World(_) => VirtualSocket::MAX_BATCH_COUNT,
        }
    }

    /// Sends a batch; see [`SystemSocket::send`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn send(&self, batch: &Batch<'_>) -> Result<(), (usize, io::Error)> {
        match self {
            Socket::System(socket) => socket.send(batch),
            #[cfg(feature = "testing")]
            Socket::World(socket) => socket.send(batch),
        }
    }

    /// Returns the operating system's socket, to wait for and to read from.
    pub(crate) fn system(&self) -> Option<&SystemSocket> {
        match self {
            Socket::System(socket) => Some(socket),
            #[cfg(feature = "testing")]
            Socket::World(_) => None,
        }
    }
}

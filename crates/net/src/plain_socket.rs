//! Sockets for other protocols than ours: one datagram a call, without batches, marks and stamps.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use socket2::SockRef;

use crate::io::Kind;
use crate::listen;
use crate::surroundings::Surroundings;
use crate::system::LocalAddresses;
#[cfg(feature = "testing")]
use crate::testing::host::VirtualSocket;
use crate::via::{Via, ViaError};

/// Buffer size that is requested from the operating system.
const BUFFER_BYTES: usize = 4 << 20;

/// A UDP socket that does not block: the operating system's, or one of a world in memory. Its
/// copies are the same socket.
#[derive(Clone, Debug)]
pub struct PlainSocket(Arc<Inner>);

#[derive(Debug)]
enum Inner {
    System {
        socket: UdpSocket,
        addresses: LocalAddresses,
    },
    #[cfg(feature = "testing")]
    World(VirtualSocket),
}

impl PlainSocket {
    /// Opens a socket at an address of this machine. If that is unspecified, the socket reports the
    /// local address of each datagram.
    ///
    /// # Errors
    /// The address is taken, not this machine's, or needs a privilege.
    pub fn listen(surroundings: &Surroundings, address: SocketAddr) -> io::Result<Self> {
        PlainSocket::listen_by(surroundings, address, listen::udp)
    }

    /// Opens a socket at an address of this machine. In the operating system's network `bind` does.
    ///
    /// # Errors
    /// As of [`listen`](Self::listen).
    pub fn listen_by(
        surroundings: &Surroundings,
        address: SocketAddr,
        bind: impl FnOnce(SocketAddr) -> io::Result<UdpSocket>,
    ) -> io::Result<Self> {
        match &surroundings.network.0 {
            Kind::System => {
                let socket = bind(address)?;
                let addresses = LocalAddresses::enable(&socket, address)?;
                PlainSocket::of(socket, addresses)
            }
            #[cfg(feature = "testing")]
            Kind::World(host) => Ok(PlainSocket::of_world(host.listen(address)?)),
        }
    }

    /// Opens a socket that reaches `remote` by this way, and takes datagrams from it alone.
    ///
    /// # Errors
    /// The interface or address is absent, there is no route, or the operating system refuses.
    pub fn open(
        surroundings: &Surroundings,
        via: &Via,
        remote: SocketAddr,
    ) -> Result<Self, ViaError> {
        let socket = match &surroundings.network.0 {
            Kind::System => {
                let socket = via.open(remote)?;
                // The peer's datagrams come to the one address that its socket is connected by.
                let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
                LocalAddresses::enable(&socket, any)
                    .and_then(|addresses| PlainSocket::of(socket, addresses))
                    .map_err(|error| via.refused(error))?
            }
            #[cfg(feature = "testing")]
            Kind::World(host) => PlainSocket::of_world(host.open(via, remote)?),
        };
        socket.connect(remote).map_err(|error| via.refused(error))?;
        Ok(socket)
    }

    fn of(socket: UdpSocket, addresses: LocalAddresses) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let options = SockRef::from(&socket);
        // The system may grant less, which is no error.
        let _ = options.set_recv_buffer_size(BUFFER_BYTES);
        let _ = options.set_send_buffer_size(BUFFER_BYTES);
        Ok(PlainSocket(Arc::new(Inner::System { socket, addresses })))
    }

    #[cfg(feature = "testing")]
    fn of_world(socket: VirtualSocket) -> Self {
        PlainSocket(Arc::new(Inner::World(socket)))
    }

    /// Sets the address that the socket sends to, and takes datagrams from alone.
    ///
    /// # Errors
    /// There is no route.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        match &*self.0 {
            Inner::System { socket, .. } => socket.connect(peer),
            #[cfg(feature = "testing")]
            Inner::World(socket) => socket.connect(peer),
        }
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// As of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &*self.0 {
            Inner::System { socket, .. } => socket.local_addr(),
            #[cfg(feature = "testing")]
            Inner::World(socket) => Ok(socket.local_addr()),
        }
    }

    /// Returns the next datagram's length, its source, and its local address if the socket reports
    /// it.
    ///
    /// # Errors
    /// `WouldBlock` if no datagram is waiting. Others stem from earlier datagrams that this socket
    /// has sent.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
        match &*self.0 {
            Inner::System { socket, addresses } => addresses.recv(socket, buffer),
            #[cfg(feature = "testing")]
            Inner::World(socket) => socket.take(buffer),
        }
    }

    /// Sends a datagram to the address that the socket is connected to.
    ///
    /// # Errors
    /// As of the operating system, also if the buffer is full.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match &*self.0 {
            Inner::System { socket, .. } => socket.send(bytes).map(drop),
            #[cfg(feature = "testing")]
            Inner::World(socket) => socket.send_connected(bytes),
        }
    }

    /// Sends a datagram from the local address of an earlier one, or from any if it is unknown.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr, from: Option<IpAddr>) -> io::Result<()> {
        match &*self.0 {
            Inner::System { socket, addresses } => addresses.send(socket, bytes, to, from),
            #[cfg(feature = "testing")]
            Inner::World(socket) => socket.send_one(bytes, to, from),
        }
    }

    /// Returns the operating system's socket.
    pub fn system(&self) -> Option<&UdpSocket> {
        match &*self.0 {
            Inner::System { socket, .. } => Some(socket),
            #[cfg(feature = "testing")]
            Inner::World(_) => None,
        }
    }

    /// Makes arrivals wake a process of a world. Returns whether datagrams are waiting.
    #[cfg(feature = "testing")]
    pub(crate) fn own(&self, process: usize) -> bool {
        match &*self.0 {
            Inner::System { .. } => false,
            Inner::World(socket) => socket.own(process),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    /// A socket at every address knows the address that was asked, and answers from it. Loopback
    /// hands datagrams over while they are sent, so nothing is waited for.
    #[test]
    fn answers_leave_from_the_address_that_was_asked() {
        let system = Surroundings::system(Clock::start());
        for any in ["0.0.0.0:0", "[::]:0"] {
            // Some machines have no IPv6.
            let Ok(server) = PlainSocket::listen(&system, any.parse().unwrap()) else {
                continue;
            };
            let port = server.local_addr().unwrap().port();
            for last in [2, 3] {
                let asked = SocketAddr::from(([127, 0, 0, last], port));
                let client = PlainSocket::open(&system, &Via::DefaultRoute, asked).unwrap();
                client.send(b"question").unwrap();
                let mut buffer = [0; 100];
                let (length, from, to) = server.recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..length], b"question");
                assert_eq!(to.map(|to| to.to_canonical()), Some(asked.ip()));
                server.send_to(b"answer", from, to).unwrap();
                let (length, from, _) = client.recv(&mut buffer).expect("from that address");
                assert_eq!((&buffer[..length], from), (&b"answer"[..], asked));
            }
        }
    }
}

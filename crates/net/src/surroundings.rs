//! The network and the clock of an end, and the randomness and names that belong to them.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::clock::Clock;
use crate::io::{Kind, Network};
use crate::names::ResolveError;
use crate::random;
use crate::remote::Remote;

/// The network and the clock of an end.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub(crate) network: Network,
    pub(crate) clock: Clock,
}

/// Takes the addresses of a name, or the reason for which there are none.
pub type OnAddresses = Box<dyn FnOnce(Result<Vec<SocketAddr>, ResolveError>) + Send>;

impl Surroundings {
    /// Returns the operating system's network, and this clock.
    pub fn system(clock: Clock) -> Self {
        Surroundings::of(&Network::default(), clock)
    }

    /// Returns a network, and the clock of its time: of the operating system's, this one.
    pub fn of(network: &Network, clock: Clock) -> Self {
        Surroundings {
            network: network.clone(),
            clock: network.clock(clock),
        }
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns whether both see the same network: addresses of one are those of the other.
    pub fn is_same_network(&self, other: &Surroundings) -> bool {
        match (&self.network.0, &other.network.0) {
            (Kind::System, Kind::System) => true,
            #[cfg(feature = "testing")]
            (Kind::World(host), Kind::World(other)) => host.is_same(other),
            #[cfg(feature = "testing")]
            _ => false,
        }
    }

    /// Returns bytes that nobody can guess; in a world, they follow from its seed.
    ///
    /// # Errors
    /// The operating system has no randomness.
    pub fn random_bytes<const N: usize>(&self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        random::fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Resolves `HOST:PORT`. May block.
    ///
    /// # Errors
    /// As of the resolver, or the text is neither an address nor a name.
    pub fn resolve(&self, place: &str) -> io::Result<Vec<SocketAddr>> {
        match &self.network.0 {
            Kind::System => Ok(place.to_socket_addrs()?.collect()),
            #[cfg(feature = "testing")]
            Kind::World(_) => match place.parse::<Remote>() {
                Ok(Remote::Address(address)) => Ok(vec![address]),
                Ok(Remote::Name(name)) => {
                    let found = self.network.resolver().resolve(&name);
                    found.map_err(io::Error::other)
                }
                // An address whose port is the system's choice.
                Err(_) => match place.parse() {
                    Ok(address) => Ok(vec![address]),
                    Err(_) => Err(io::ErrorKind::InvalidInput.into()),
                },
            },
        }
    }

    /// Begins to resolve a remote end without blocking: the system's resolver gets a thread of its
    /// own, as it may take seconds. Returns whether it could begin.
    pub fn resolve_beside(&self, remote: &Remote, on_addresses: OnAddresses) -> bool {
        match &self.network.0 {
            Kind::System => {
                let name = remote.to_string();
                let thread = std::thread::Builder::new().name("resolve".to_owned());
                let began = thread.spawn(move || {
                    let found = name.to_socket_addrs().map(Iterator::collect);
                    on_addresses(found.map_err(ResolveError::from));
                });
                began.is_ok()
            }
            #[cfg(feature = "testing")]
            Kind::World(host) => {
                host.resolve_beside(remote, on_addresses);
                true
            }
        }
    }
}

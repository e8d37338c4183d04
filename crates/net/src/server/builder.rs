//! Set-up of an end that waits for sessions, by what its owner wishes.

use core::fmt;
use core::marker::PhantomData;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use anabranch_core::Config;
use anabranch_secure::{PublicKey, SecretKey};
use anabranch_units::Duration;

use super::ServerConfig;
use crate::clock::Clock;
use crate::io::Network;
use crate::start_error::StartError;

/// An end that a [`ServerBuilder`] starts: [`Receiver`](crate::Receiver) or
/// [`StreamServer`](crate::StreamServer).
pub trait Serves: sealed::Serves {}

pub(crate) mod sealed {
    use super::*;

    pub trait Serves {
        /// The end and its queues of arrivals.
        type Started;

        /// Returns the transport's usual set-up; `None`: that of [`ServerConfig::new`].
        fn transport() -> Option<Config>;

        fn start(config: ServerConfig) -> Result<Self::Started, StartError>;
    }
}

type Edit = Box<dyn FnOnce(&mut ServerConfig) + Send>;

/// Builder of an end that waits for sessions: [`Receiver::builder`](crate::Receiver::builder) or
/// [`StreamServer::builder`](crate::StreamServer::builder).
/// [`ClientBuilder`](crate::ClientBuilder) has an example of both ends.
///
/// [`key`](Self::key) and [`listen`](Self::listen) are required. Without an allowed key, only
/// senders with a pairing code are admitted.
pub struct ServerBuilder<T> {
    key: Option<SecretKey>,
    listen: Option<io::Result<SocketAddr>>,
    listen_tcp: Option<io::Result<SocketAddr>>,
    allowed: Vec<PublicKey>,
    edits: Vec<Edit>,
    end: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for ServerBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("listen", &self.listen)
            .field("allowed", &self.allowed)
            .finish_non_exhaustive()
    }
}

impl<T: Serves> ServerBuilder<T> {
    pub(crate) fn new() -> Self {
        ServerBuilder {
            key: None,
            listen: None,
            listen_tcp: None,
            allowed: Vec::new(),
            edits: Vec::new(),
            end: PhantomData,
        }
    }

    /// Sets this end's secret key.
    #[must_use]
    pub fn key(mut self, key: SecretKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Admits the owner of this public key, in addition to those of earlier calls.
    #[must_use]
    pub fn allow(mut self, peer: PublicKey) -> Self {
        self.allowed.push(peer);
        self
    }

    /// Sets the local address, such as `"0.0.0.0:7000"` or `"[::]:7000"`. With port 0 the operating
    /// system chooses one, which `local_addr` of the started end returns.
    #[must_use]
    pub fn listen(mut self, address: impl ToSocketAddrs) -> Self {
        self.listen = Some(first_address(address));
        self
    }

    /// Accepts TCP connections at this address, too, for peers whose networks block UDP.
    #[must_use]
    pub fn listen_tcp(mut self, address: impl ToSocketAddrs) -> Self {
        self.listen_tcp = Some(first_address(address));
        self
    }

    /// Sets the maximum number of sessions at a time, each with another peer. Default: 1.
    #[must_use]
    pub fn max_sessions(self, count: usize) -> Self {
        self.configure(move |config| config.max_sessions = count)
    }

    /// Sets the silence of a peer after which its session is over. Default: 60 s.
    #[must_use]
    pub fn silence_timeout(self, silence: impl Into<Duration>) -> Self {
        let silence = silence.into();
        self.configure(move |config| config.silence_timeout = silence)
    }

    /// Sets the network of the sockets and names, and its clock. Default: the operating system's.
    #[must_use]
    pub fn network(self, network: Network) -> Self {
        self.configure(move |config| {
            config.clock = network.clock(config.clock);
            config.network = network;
        })
    }

    /// Sets the clock of all instants. Default: a clock that starts with the end.
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        self.configure(move |config| config.clock = clock)
    }

    /// Changes any other part of the set-up, after the defaults and in the order of the calls.
    #[must_use]
    pub fn configure(mut self, edit: impl FnOnce(&mut ServerConfig) + Send + 'static) -> Self {
        self.edits.push(Box::new(edit));
        self
    }

    /// Returns the set-up.
    ///
    /// # Errors
    /// [`StartError`] names a missing or wrong part.
    pub fn build(self) -> Result<ServerConfig, StartError> {
        let key = self
            .key
            .ok_or(StartError::missing("this end's key", "key"))?;
        let listen = self
            .listen
            .transpose()
            .map_err(StartError::ListenAddress)?
            .ok_or(StartError::missing("the address to listen at", "listen"))?;
        let tcp = self.listen_tcp.transpose();
        let mut config = ServerConfig::new(listen, key, self.allowed);
        config.listen_tcp = tcp.map_err(StartError::ListenAddress)?;
        if let Some(transport) = T::transport() {
            config.transport = transport;
        }
        for edit in self.edits {
            edit(&mut config);
        }
        Ok(config)
    }

    /// Opens the sockets and starts the thread. Returns the end and its queues: for a
    /// [`Receiver`](crate::Receiver) its [`Receptions`](crate::Receptions), for a
    /// [`StreamServer`](crate::StreamServer) accepted streams and events.
    ///
    /// # Errors
    /// [`StartError`]; no thread remains.
    pub fn start(self) -> Result<T::Started, StartError> {
        T::start(self.build()?)
    }
}

fn first_address(address: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    address
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receiver::Receiver;

    /// Returns the text of the mistake in a set-up.
    fn mistake(builder: ServerBuilder<Receiver>) -> String {
        let built = builder.build().map(|_| ());
        built.expect_err("a mistake").to_string()
    }

    #[test]
    fn mistakes_are_named() {
        let builder = Receiver::builder().key(SecretKey::generate());
        let address = mistake(builder);
        assert!(address.contains("`listen`"), "{address}");
        let builder = Receiver::builder().key(SecretKey::generate());
        let wrong = mistake(builder.listen("nowhere"));
        assert!(wrong.contains("listen"), "{wrong}");
    }

    #[test]
    fn allowed_keys_add_up() {
        let keys = [SecretKey::generate(), SecretKey::generate()].map(|key| key.public_key());
        let builder = Receiver::builder()
            .key(SecretKey::generate())
            .allow(keys[0])
            .allow(keys[1])
            .listen("127.0.0.1:0");
        assert_eq!(builder.build().expect("it is complete").allowed, keys);
    }
}

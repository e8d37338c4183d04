//! Set-up of an end that opens a session, by what its owner wishes.

use core::fmt;
use core::marker::PhantomData;

use anabranch_controllers::{UnknownController, by_name as controller};
use anabranch_core::{Config, PathOptions};
use anabranch_schedulers::{UnknownScheduler, by_name as scheduler};
use anabranch_secure::{PairingCode, PublicKey, SecretKey};
use anabranch_units::Duration;

use super::{ClientConfig, ClientPath};
use crate::clock::Clock;
use crate::event::{Ended, Event};
use crate::event_queue::Events;
use crate::io::Network;
use crate::remote::{Remote, RemoteError};
use crate::start_error::StartError;
use crate::tcp::TcpFallback;
use crate::via::Via;

/// An end that a [`ClientBuilder`] starts: [`Sender`](crate::Sender),
/// [`StreamClient`](crate::StreamClient) or [`DatagramClient`](crate::DatagramClient).
pub trait Opens: sealed::Opens {}

pub(crate) mod sealed {
    use super::*;

    pub trait Opens: Sized {
        /// Returns the transport's usual set-up; `None`: that of [`ClientConfig::new`].
        fn transport() -> Option<Config>;

        fn start(config: ClientConfig) -> Result<(Self, Events), StartError>;
    }
}

/// Reason for which [`ClientBuilder::connect`] returned no session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The set-up cannot work, or the operating system refused it.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The receiver did not answer, or refused.
    #[error(transparent)]
    Ended(#[from] Ended),
}

type Edit = Box<dyn FnOnce(&mut ClientConfig) + Send>;

/// Builder of an end that opens a session: [`Sender::builder`](crate::Sender::builder),
/// [`StreamClient::builder`](crate::StreamClient::builder) or
/// [`DatagramClient::builder`](crate::DatagramClient::builder).
///
/// [`key`](Self::key), [`peer`](Self::peer) and [`to`](Self::to) are required; everything else has
/// a default. Mistakes are reported by [`start`](Self::start) and [`connect`](Self::connect).
///
/// ```
/// use std::time::Duration;
///
/// use anabranch_net::{Receiver, Sender};
/// use anabranch_secure::SecretKey;
/// use anabranch_units::Importance;
///
/// let (camera, studio) = (SecretKey::generate(), SecretKey::generate());
/// let (camera_name, studio_name) = (camera.public_key(), studio.public_key());
/// let (receiver, sessions) = Receiver::builder()
///     .key(studio)
///     .allow(camera_name)
///     .listen("127.0.0.1:0")
///     .start()?;
///
/// let (sender, _events) = Sender::builder()
///     .key(camera)
///     .peer(studio_name)
///     .to(receiver.local_addr())
///     .latency(Duration::from_millis(200))
///     .connect()?;
/// sender.send(b"a picture".as_slice(), Importance::Key)?;
///
/// let session = sessions.recv()?;
/// assert_eq!(session.recv_frame()?.bytes, b"a picture");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ClientBuilder<T> {
    key: Option<SecretKey>,
    peer: Option<PublicKey>,
    remote: Option<Result<Remote, RemoteError>>,
    vias: Vec<(Via, PathOptions)>,
    paths: Vec<ClientPath>,
    pub(crate) mistake: Option<StartError>,
    edits: Vec<Edit>,
    end: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for ClientBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("peer", &self.peer)
            .field("remote", &self.remote)
            .field("vias", &self.vias)
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl<T: Opens> ClientBuilder<T> {
    pub(crate) fn new() -> Self {
        ClientBuilder {
            key: None,
            peer: None,
            remote: None,
            vias: Vec::new(),
            paths: Vec::new(),
            mistake: None,
            edits: Vec::new(),
            end: PhantomData,
        }
    }

    /// Sets this end's secret key. The receiver must allow its public key, unless it accepts a
    /// [`pairing_code`](Self::pairing_code).
    #[must_use]
    pub fn key(mut self, key: SecretKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the receiver's public key, by which the receiver is authenticated.
    #[must_use]
    pub fn peer(mut self, peer: PublicKey) -> Self {
        self.peer = Some(peer);
        self
    }

    /// Sets the receiver's location for all paths: an address, or `"studio.example:7000"`, which is
    /// resolved when it is needed.
    #[must_use]
    pub fn to<R>(mut self, remote: R) -> Self
    where
        R: TryInto<Remote>,
        R::Error: Into<RemoteError>,
    {
        self.remote = Some(remote.try_into().map_err(Into::into));
        self
    }

    /// Adds a path by an interface (`"wlan0"`) or a local address. An absent interface is waited
    /// for. Without paths there is one, by the default route.
    #[must_use]
    pub fn via(self, via: impl Into<Via>) -> Self {
        self.via_with(via, PathOptions::default())
    }

    /// Adds a path by an interface or local address with preferences, such as
    /// [`is_metered`](PathOptions::is_metered).
    #[must_use]
    pub fn via_with(mut self, via: impl Into<Via>, options: PathOptions) -> Self {
        self.vias.push((via.into(), options));
        self
    }

    /// Adds a path that has its own destination at the receiver. It comes after those by
    /// [`via`](Self::via).
    #[must_use]
    pub fn path(mut self, path: ClientPath) -> Self {
        self.paths.push(path);
        self
    }

    /// Sets the scheduler, by a factory: one's own, or from a registry.
    #[must_use]
    pub fn scheduler(self, scheduler: anabranch_core::scheduler::SchedulerFactory) -> Self {
        self.configure(|config| config.transport.scheduler = scheduler)
    }

    /// Sets the scheduler by its name in [`SCHEDULERS`](anabranch_schedulers::SCHEDULERS).
    #[must_use]
    pub fn scheduler_named(mut self, name: &str) -> Self {
        let found: Result<_, UnknownScheduler> = scheduler(name);
        match found {
            Ok(scheduler) => self.scheduler(scheduler),
            Err(unknown) => {
                self.mistake.get_or_insert(unknown.into());
                self
            }
        }
    }

    /// Sets the congestion controller of all paths: one's own, or from a registry.
    #[must_use]
    pub fn controller(self, controller: anabranch_core::control::Controller) -> Self {
        self.configure(|config| config.transport.controller = controller)
    }

    /// Sets the congestion controller by its name in
    /// [`CONTROLLERS`](anabranch_controllers::CONTROLLERS), with any options behind it.
    #[must_use]
    pub fn controller_named(mut self, name: &str) -> Self {
        let found: Result<_, UnknownController> = controller(name);
        match found {
            Ok(controller) => self.controller(controller),
            Err(unknown) => {
                self.mistake.get_or_insert(unknown.into());
                self
            }
        }
    }

    /// Sets the code by which a receiver admits this end although it does not know its key.
    #[must_use]
    pub fn pairing_code(self, code: PairingCode) -> Self {
        self.configure(|config| config.pairing_code = Some(code))
    }

    /// Sets the network of the sockets and names, and its clock. Default: the operating system's.
    #[must_use]
    pub fn network(self, network: Network) -> Self {
        self.configure(move |config| {
            config.clock = network.clock(config.clock);
            config.network = network;
        })
    }

    /// Sets the clock of capture times and events. Default: a clock that starts with the end.
    #[must_use]
    pub fn clock(self, clock: Clock) -> Self {
        self.configure(move |config| config.clock = clock)
    }

    /// Sets the limit for the wait for an answer to the first handshake. Default: 10 s.
    #[must_use]
    pub fn connect_timeout(self, limit: impl Into<Duration>) -> Self {
        let limit = limit.into();
        self.configure(move |config| config.connect_timeout = limit)
    }

    /// Sets the silence of the receiver after which the session ends. Default: no limit, and the
    /// session is resumed when the receiver answers again.
    #[must_use]
    pub fn give_up_after(self, silence: impl Into<Duration>) -> Self {
        let silence = silence.into();
        self.configure(move |config| config.give_up_after = Some(silence))
    }

    /// Sets the use of TCP where networks block UDP. Default: off.
    #[must_use]
    pub fn tcp(self, tcp: TcpFallback) -> Self {
        self.configure(move |config| config.tcp = tcp)
    }

    /// Changes any other part of the set-up, after the defaults and in the order of the calls.
    #[must_use]
    pub fn configure(mut self, edit: impl FnOnce(&mut ClientConfig) + Send + 'static) -> Self {
        self.edits.push(Box::new(edit));
        self
    }

    /// Returns the set-up.
    ///
    /// # Errors
    /// [`StartError`] names a missing or wrong part.
    pub fn build(self) -> Result<ClientConfig, StartError> {
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        let key = self
            .key
            .ok_or(StartError::missing("this end's key", "key"))?;
        let peer = self
            .peer
            .ok_or(StartError::missing("the receiver's key", "peer"))?;
        let remote = self.remote.transpose().map_err(StartError::Remote)?;
        let (mut paths, mut vias) = (Vec::new(), self.vias);
        if vias.is_empty() && self.paths.is_empty() {
            vias.push((Via::DefaultRoute, PathOptions::default()));
        }
        for (via, options) in vias {
            let remote = remote
                .clone()
                .ok_or(StartError::missing("the destination", "to"))?;
            paths.push(ClientPath {
                via,
                remote,
                options,
            });
        }
        paths.extend(self.paths);
        let mut config = ClientConfig::new(key, peer, paths);
        if let Some(transport) = T::transport() {
            config.transport = transport;
        }
        for edit in self.edits {
            edit(&mut config);
        }
        Ok(config)
    }

    /// Starts the end and returns at once. [`Event::Connected`] reports the session,
    /// [`Event::Ended`] the lack of an answer.
    ///
    /// # Errors
    /// [`StartError`]; no thread remains.
    pub fn start(self) -> Result<(T, Events), StartError> {
        T::start(self.build()?)
    }

    /// Starts the end and blocks the thread until the session is up. Events before
    /// [`Event::Connected`] are discarded; [`start`](Self::start) shows them.
    ///
    /// # Errors
    /// [`ConnectError`] with the reason; no thread remains.
    pub fn connect(self) -> Result<(T, Events), ConnectError> {
        let (end, events) = self.start()?;
        loop {
            match events.recv() {
                Ok(Event::Connected { .. }) => return Ok((end, events)),
                Ok(Event::Ended(ended)) => return Err(ended.into()),
                Ok(_) => {}
                Err(over) => return Err(over.ended.unwrap_or(Ended::Closed).into()),
            }
        }
    }

    /// Does the same as [`connect`](Self::connect) in a task, under any asynchronous runtime.
    ///
    /// # Errors
    /// [`ConnectError`] with the reason; no thread remains.
    pub async fn connect_async(self) -> Result<(T, Events), ConnectError> {
        let (end, events) = self.start()?;
        loop {
            match events.recv_async().await {
                Ok(Event::Connected { .. }) => return Ok((end, events)),
                Ok(Event::Ended(ended)) => return Err(ended.into()),
                Ok(_) => {}
                Err(over) => return Err(over.ended.unwrap_or(Ended::Closed).into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::SourceLimits;
    use anabranch_units::DataRate;

    use super::*;
    use crate::sender::Sender;

    fn builder() -> ClientBuilder<Sender> {
        let peer = SecretKey::generate().public_key();
        let key = SecretKey::generate();
        Sender::builder().key(key).peer(peer).to("127.0.0.1:9")
    }

    #[test]
    fn without_paths_there_is_one_by_the_default_route() {
        let config = builder().build().expect("it is complete");
        let vias: Vec<_> = config.paths.iter().map(|path| &path.via).collect();
        assert_eq!(vias, [&Via::DefaultRoute]);
    }

    #[test]
    fn each_via_is_a_path_to_the_destination() {
        let config = builder().via("wlan0").via("wwan0").build();
        let paths = config.expect("it is complete").paths;
        let vias: Vec<_> = paths.iter().map(|path| path.via.to_string()).collect();
        assert_eq!(vias, ["wlan0", "wwan0"]);
        let remote = Remote::try_from("127.0.0.1:9").expect("an address");
        assert!(paths.iter().all(|path| path.remote == remote));
    }

    /// Returns the text of the mistake in a set-up.
    fn mistake(builder: ClientBuilder<Sender>) -> String {
        let built = builder.build().map(|_| ());
        built.expect_err("a mistake").to_string()
    }

    #[test]
    fn mistakes_are_named() {
        let nothing = mistake(Sender::builder());
        assert!(nothing.contains("key"), "{nothing}");
        let remote = mistake(builder().to("studio"));
        assert!(remote.contains("receiver"), "{remote}");
        let scheduler = mistake(builder().scheduler_named("min-cots"));
        assert!(scheduler.contains("min-cost"), "{scheduler}");
        let fec = mistake(builder().fec("no-such"));
        assert!(fec.contains("adaptive"), "{fec}");
    }

    #[test]
    fn wishes_reach_the_set_up() {
        let rate = DataRate::from_megabits_per_second;
        let config = builder()
            .latency(std::time::Duration::from_millis(200))
            .bitrate(rate(1)..=rate(8))
            .fec("adaptive")
            .build()
            .expect("it is complete");
        assert_eq!(config.latency, Some(Duration::from_millis(200)));
        let limits = SourceLimits::Adaptive {
            min: rate(1),
            max: rate(8),
        };
        assert_eq!(config.transport.media.source, limits);
        let fec = config.transport.media.fec.expect("a policy");
        assert_eq!(fec.name(), "adaptive");
    }
}

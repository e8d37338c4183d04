//! The end that opens a session, before, during and between sessions.

mod answers;
mod builder;
mod carriers;
mod changes;
mod fresh_ports;
mod path_manager;

use core::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_controllers::default_controller;
use anabranch_core::{Config, PathId, PathOptions, Session as Endpoint};
use anabranch_schedulers::default_scheduler;
use anabranch_secure::{Agreed, Initiator, Kind, PairingCode, PublicKey, SecretKey, classify};
use anabranch_units::{DataRate, Duration, Instant, Seed};

use crate::clock::Clock;
use crate::driver::{Beginning, Driver};
use crate::event::{Ended, Event};
use crate::event_queue::EventSender;
use crate::handshake::{Handshake, RECONNECT_AFTER};
use crate::io::Network;
use crate::link::LinkCap;
use crate::load::Load;
use crate::observer::PacketObserver;
use crate::peer_sockets::Peer;
use crate::port::Port;
use crate::random;
use crate::runtime::{Next, Role};
use crate::session_parameters::SessionParameters;
use crate::snapshot::{EdgeCounters, Snapshot};
use crate::socket::Arrival;
use crate::start_error::StartError;
use crate::tcp::TcpFallback;
use crate::tcp::fallback::Fallback;
use crate::waker::Waker;
pub(crate) use builder::sealed;
pub use builder::{ClientBuilder, ConnectError, Opens};
pub use path_manager::ClientPath;
use path_manager::{PathManager, prepare};

/// Set-up of the end that opens a session.
#[derive(Debug)]
pub struct ClientConfig {
    /// The transport's set-up; `overhead_bytes` and `mtu` are set here, from the paths' addresses.
    pub transport: Config,
    /// Network of the sockets and names.
    pub network: Network,
    /// Clock of all instants.
    pub clock: Clock,
    /// This end's key.
    pub local_key: SecretKey,
    /// The receiver's public key.
    pub peer_key: PublicKey,
    /// A code that lets this end in at a receiver that does not know its key yet. It is used until
    /// a session begins.
    pub pairing_code: Option<PairingCode>,
    /// The paths, at least one; the index is the path's number. Names are resolved while they are
    /// needed.
    pub paths: Vec<ClientPath>,
    /// Requested delay of media beyond the fastest path's delay. Both ends agree on the larger of
    /// their values, which sets the deadline of frames. `None`: no request.
    pub latency: Option<Duration>,
    /// Whether the program takes requests of the receiver for changes, which sessions announce.
    pub takes_requests: bool,
    /// Whether the transport's deadline holds, independent of the latency agreed on.
    pub keeps_deadline: bool,
    /// Limit for the wait for an answer to the first handshake, once it has left.
    pub connect_timeout: Duration,
    /// Limit for the silence of a peer that is sent data, on all paths; `None`: no limit. New
    /// sessions are requested after a second of silence, and at once after a receiver announced
    /// that it leaves.
    pub give_up_after: Option<Duration>,
    /// Limit for a closing sender's wait for the arrival of its last frames.
    pub drain_timeout: Duration,
    /// Seed of the transport's random numbers; `None`: from the operating system.
    pub seed: Option<Seed>,
    /// Use of TCP where UDP is blocked.
    pub tcp: TcpFallback,
    /// Observer of every packet.
    pub observer: Option<Arc<dyn PacketObserver>>,
}

impl ClientConfig {
    /// Returns the set-up with which `local_key`'s owner sends to `peer_key`'s, with the usual
    /// timeouts.
    pub fn new(local_key: SecretKey, peer_key: PublicKey, paths: Vec<ClientPath>) -> Self {
        ClientConfig {
            transport: Config::new(default_controller(), default_scheduler()),
            network: Network::default(),
            clock: Clock::start(),
            local_key,
            peer_key,
            pairing_code: None,
            paths,
            latency: None,
            takes_requests: false,
            keeps_deadline: false,
            connect_timeout: Duration::from_secs(10),
            give_up_after: None,
            drain_timeout: Duration::from_secs(3),
            seed: None,
            tcp: TcpFallback::Off,
            observer: None,
        }
    }
}

impl ClientConfig {
    /// Opens a socket for each path.
    pub(crate) fn open_ports(&self) -> Result<Vec<Port>, StartError> {
        let ports = self.paths.iter().map(|path| path.open_port(&self.network));
        ports.collect()
    }
}

/// Reason for which no session can accept data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoSession {
    NotYet,
    Closing,
    Ended(Ended),
}

/// Makes the load of a session that begins.
type MakeLoad<L> = Box<dyn FnMut() -> L + Send>;

pub(crate) struct ClientRole<L: Load> {
    config: ClientConfig,
    events: EventSender,
    edge: EdgeCounters,
    /// The handshake for a session: the first, or a replacement of a silent one.
    handshake: Option<Handshake>,
    driver: Option<Driver<L>>,
    fallback: Fallback,
    make_load: MakeLoad<L>,
    /// Counts of earlier sessions.
    past: Option<Snapshot>,
    paths: PathManager,
    /// The path and the address by which the first answer to the handshake arrived.
    answered: Option<(usize, SocketAddr)>,
    closing_at: Option<Instant>,
    /// Whether the owner has gone, so that nothing is waited for.
    is_abandoned: bool,
    ended: Option<Ended>,
}

impl<L: Load + fmt::Debug> fmt::Debug for ClientRole<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientRole")
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}

impl<L: Load> ClientRole<L> {
    /// Returns the session for changes by its owner, unless it is closing.
    pub(crate) fn open_driver(&mut self) -> Result<&mut Driver<L>, NoSession> {
        if let Some(ended) = &self.ended {
            return Err(NoSession::Ended(ended.clone()));
        }
        match &mut self.driver {
            Some(_) if self.closing_at.is_some() => Err(NoSession::Closing),
            Some(driver) => Ok(driver),
            None => Err(NoSession::NotYet),
        }
    }

    /// Closes the session once all data has arrived or been given up.
    pub(crate) fn close(&mut self, now: Instant) {
        self.closing_at.get_or_insert(now);
    }

    /// Records that the owner has gone: further waiting is useless.
    pub(crate) fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// Sets the volume that a path may carry, in later sessions, too.
    pub(crate) fn set_cap(&mut self, index: usize, cap: Option<LinkCap>) {
        if let Some(managed) = self.paths.get_mut(index) {
            managed.cap = cap;
            if let Some(driver) = &mut self.driver {
                driver.set_cap(index, cap);
            }
        }
    }

    pub(crate) fn new(
        mut config: ClientConfig,
        events: EventSender,
        make_load: MakeLoad<L>,
        waker: Arc<Waker>,
    ) -> Result<Self, StartError> {
        let paths = core::mem::take(&mut config.paths);
        let count = paths.len();
        if count > PathId::LIMIT {
            return Err(StartError::TooManyPaths { count });
        }
        let network = config.network.clone();
        let resolver = network.resolver();
        let paths = PathManager::new(paths, network, resolver, waker);
        let headers = paths.header_bytes().ok_or(StartError::NoPath)?;
        prepare::<L>(&mut config.transport, headers);
        let now = config.clock.now();
        // The caller's mistakes are reported at once, not when the peer answers.
        Endpoint::<L::Content>::new(config.transport.clone(), Seed(0), now)?;
        Ok(ClientRole {
            handshake: Some(handshake::<L>(now, &config)),
            fallback: Fallback::new(config.tcp),
            paths,
            answered: None,
            config,
            events,
            edge: EdgeCounters::default(),
            driver: None,
            make_load,
            past: None,
            closing_at: None,
            is_abandoned: false,
            ended: None,
        })
    }

    /// Handles a receiver's notice that it does not know the session.
    fn handle_reset(&mut self, now: Instant, datagram: &[u8]) {
        let Some(driver) = &self.driver else { return };
        if self.closing_at.is_none()
            && driver.is_reset(datagram)
            && (driver.peer_left_at().is_some()
                || Handshake::may_trust_reset(now, driver.heard_at()))
        {
            self.reconnect(now).on_reset();
        }
    }

    /// Requests a session to replace the silent one.
    fn reconnect(&mut self, now: Instant) -> &mut Handshake {
        if self.handshake.is_none() && !self.has_receiver_left() {
            let silent_for = self.silent_for(now);
            self.events.emit(Event::Reconnecting { silent_for });
        }
        if let (None, Some(driver)) = (&self.handshake, &self.driver) {
            self.paths
                .on_silence(now, |index| driver.has_heard_path(index));
        }
        let config = &self.config;
        self.handshake
            .get_or_insert_with(|| handshake::<L>(now, config))
    }

    fn has_receiver_left(&self) -> bool {
        self.driver
            .as_ref()
            .is_some_and(|driver| driver.peer_left_at().is_some())
    }

    fn silent_for(&self, now: Instant) -> Duration {
        self.driver.as_ref().map_or(Duration::ZERO, |driver| {
            now.saturating_since(driver.heard_at())
        })
    }

    fn begin_session(&mut self, now: Instant, agreed: Agreed) {
        self.handshake = None;
        self.config.pairing_code = None;
        self.paths.on_session(now, self.answered.take());
        if let Some(headers) = self.paths.header_bytes()
            && self.paths.has_names()
        {
            prepare::<L>(&mut self.config.transport, headers);
        }
        let config = &self.config;
        let peer = config.peer_key;
        let parameters = SessionParameters::from_block(&agreed.parameters);
        let latency = parameters.and_then(|parameters| parameters.latency);
        let mut transport = config.transport.clone();
        if let Some(latency) = latency {
            // This is about data from the receiver.
            transport.media.reassembly_wait = latency;
        }
        let beginning = Beginning {
            config: transport,
            seed: config.seed.unwrap_or_else(random::seed),
            session: agreed.session,
            peer,
            latency,
            // A server chooses no addresses.
            pads_challenges: false,
            takes_requests: false,
            at: now,
            clock: config.network.clock(config.clock),
            observer: config.observer.clone(),
        };
        let mut driver = Driver::new(beginning, (self.make_load)())
            .expect("the transport's set-up was checked at the start");
        driver.keep_alive();
        if !config.keeps_deadline {
            driver.follow_latency();
        }
        for (port, managed) in self.paths.iter().enumerate() {
            let before = self.driver.as_ref();
            let options = PathOptions {
                initial_rate: before.and_then(|driver| driver.reported_rate(port)),
                ..managed.path.options
            };
            driver.add_path(now, managed.route(port), options);
            driver.set_local_link(port, managed.local_link());
            if managed.is_absent {
                driver.suspend_path(now, port);
            }
        }
        let silent_for = self.silent_for(now);
        let event = match self.driver.replace(driver) {
            None => Event::Connected {
                peer,
                session_kind: L::SESSION_KIND,
            },
            Some(mut before) => {
                if !agreed.had_session
                    && let Some(driver) = self.driver.as_mut()
                {
                    driver.go_on_from(now, &mut before);
                }
                let seen = before.snapshot(now);
                self.past = Some(seen.after(self.past.as_ref()));
                before.end();
                Event::Reconnected { silent_for }
            }
        };
        self.events.emit(event);
    }

    /// Requests the first session when it is due, and gives up in the end.
    fn advance_first_handshake(&mut self, now: Instant, ports: &[Port]) -> Next {
        if self.is_abandoned || self.closing_at.is_some() {
            return self.end(Ended::Closed);
        }
        let Some(handshake) = &mut self.handshake else {
            return Next::Over;
        };
        if let Some(agreed) = handshake.take_session(now, false) {
            self.begin_session(now, agreed);
            return self.advance_session(now, ports);
        }
        if self.follow_names(now) {
            return Next::Wait(Some(now));
        }
        self.initiate(now, ports);
        let (Some(handshake), config) = (&mut self.handshake, &self.config) else {
            return Next::Over;
        };
        // An initiation that has not left cannot be answered.
        let answered_by = handshake
            .first_sent_at
            .map(|at| at + config.connect_timeout);
        let patience = config.give_up_after.unwrap_or(Duration::MAX);
        let give_up_at = answered_by.unwrap_or(handshake.started_at + patience);
        if now >= give_up_at {
            let waited = now.saturating_since(handshake.started_at);
            let ended = match handshake.refused() {
                Some(refused) => Ended::Refused { refused, waited },
                None => Ended::NoAnswer {
                    remotes: self.paths.addresses(),
                    waited,
                    local_key: config.local_key.public_key(),
                },
            };
            return self.end(ended);
        }
        let next = [
            Some(handshake.next_at().min(give_up_at)),
            self.paths.next_at(),
        ];
        Next::Wait(next.into_iter().flatten().min())
    }

    /// Requests another session while the present one does not answer.
    fn advance_reconnection(&mut self, now: Instant, ports: &[Port]) {
        let Some(driver) = &self.driver else { return };
        if self.closing_at.is_some() {
            // The last frames belong to the old session.
            self.handshake = None;
            return;
        }
        let heard_at = driver.heard_at();
        if driver.peer_left_at().is_some() {
            if self.handshake.is_none() {
                self.events.emit(Event::ReceiverLeft);
                // It will not speak again in the old session.
                self.reconnect(now).on_reset();
            }
        } else if driver.unanswered_for(now) >= RECONNECT_AFTER {
            self.reconnect(now);
        } else {
            // A session that speaks need not be replaced.
            self.handshake
                .take_if(|handshake| heard_at > handshake.started_at);
        }
        let Some(handshake) = &mut self.handshake else {
            return;
        };
        match handshake.take_session(now, true) {
            Some(agreed) => self.begin_session(now, agreed),
            None if self.follow_names(now) => {}
            None => self.initiate(now, ports),
        }
    }

    fn advance_session(&mut self, now: Instant, ports: &[Port]) -> Next {
        self.advance_reconnection(now, ports);
        if self.handshake.is_none() && self.closing_at.is_none() {
            self.tend_paths(now);
        }
        let Some(driver) = &mut self.driver else {
            return Next::Over;
        };
        let drain_timeout = self.config.drain_timeout;
        let drained_by = self.closing_at.map(|closing_at| closing_at + drain_timeout);
        let is_late = drained_by.is_some_and(|by| now >= by);
        let left_at = driver.peer_left_at();
        let has_nothing_left = driver.is_drained() || left_at.is_some();
        if self.is_abandoned || is_late || (drained_by.is_some() && has_nothing_left) {
            driver.close(now);
        }
        let waited = driver.unanswered_for(now);
        let is_closing = self.closing_at.is_some() || self.is_abandoned;
        let ended = driver.advance(now, ports, &self.events);
        if ended == Some(Ended::ClosedByPeer) && L::OUTLIVES_SERVER && !is_closing {
            driver.on_peer_left(now);
        } else if let Some(ended) = ended {
            return self.end(match ended {
                // Nobody can be notified, nor could the last frames arrive.
                Ended::Closed if waited >= drain_timeout => peer_lost(waited, left_at, now),
                ended => ended,
            });
        }
        let give_up_after = self.config.give_up_after.unwrap_or(Duration::MAX);
        if waited >= give_up_after {
            let refused = self.handshake.as_ref().and_then(Handshake::refused);
            return self.end(match refused {
                Some(refused) => Ended::Refused { refused, waited },
                None => peer_lost(waited, left_at, now),
            });
        }
        let silent_since = driver.unanswered_since();
        let reconnect_at = match &self.handshake {
            Some(handshake) => [Some(handshake.next_at()), self.paths.next_at()]
                .into_iter()
                .flatten()
                .min(),
            None if self.closing_at.is_none() && driver.peer_left_at().is_none() => {
                let since = silent_since.map(|since| since + RECONNECT_AFTER);
                since.into_iter().chain(self.paths.look_at()).min()
            }
            // The receiver has just announced it.
            None if driver.peer_left_at().is_some() && self.closing_at.is_none() => Some(now),
            // No session follows one that closes.
            None => None,
        };
        let next = [
            driver.next_at(),
            reconnect_at,
            silent_since.map(|since| since + give_up_after),
            drained_by.filter(|by| *by > now),
        ];
        Next::Wait(next.into_iter().flatten().min())
    }

    fn end(&mut self, ended: Ended) -> Next {
        self.ended = Some(ended.clone());
        if let Some(driver) = &mut self.driver {
            driver.end_load();
        }
        self.events.emit(Event::Ended(ended));
        self.events.close();
        Next::Over
    }

    /// Returns the bitrate requested of the encoder; zero before the session.
    pub(crate) fn target_bitrate(&self) -> DataRate {
        self.driver
            .as_ref()
            .map_or(DataRate::ZERO, Driver::target_bitrate)
    }

    pub(crate) fn snapshot(&mut self, now: Instant) -> Snapshot {
        let seen = self.driver.as_mut().map(|driver| {
            let mut seen = driver.snapshot(now).after(self.past.as_ref());
            for (path, managed) in seen.paths.iter_mut().zip(self.paths.iter()) {
                path.succession = managed.succession;
            }
            seen
        });
        Snapshot::with_edge(seen, now, &self.edge, self.events.dropped_count())
    }
}

fn handshake<L: Load>(now: Instant, config: &ClientConfig) -> Handshake {
    Handshake::new(now, initiator::<L>(config), L::OLD_SESSION_GRACE)
}

fn initiator<L: Load>(config: &ClientConfig) -> Initiator {
    let (local, peer) = (&config.local_key, &config.peer_key);
    let requested = SessionParameters {
        reads_padded_challenges: true,
        takes_requests: config.takes_requests,
        ..SessionParameters::of(L::SESSION_KIND).with_latency(config.latency)
    };
    let parameters = requested.to_block();
    let index = random::session_index();
    match &config.pairing_code {
        Some(code) => Initiator::pairing(local, peer, index, parameters, code),
        None => Initiator::new(local, peer, index, parameters),
    }
}

/// Returns the end of a client that received nothing for `waited`.
fn peer_lost(waited: Duration, left_at: Option<Instant>, now: Instant) -> Ended {
    match left_at {
        Some(left_at) => Ended::ReceiverLeft {
            waited: now.saturating_since(left_at),
        },
        None => Ended::PeerSilent { waited },
    }
}

impl<L: Load> Role for ClientRole<L> {
    fn handle_datagram(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &mut [u8],
        ports: &[Port],
    ) {
        match (classify(datagram), &mut self.driver) {
            (Some(Kind::Response), _) => self.handle_response(now, arrival, datagram),
            (Some(Kind::CookieReply), _) => self.handle_cookie_reply(now, arrival, datagram),
            (Some(Kind::VersionNotice), _) => self.handle_version_notice(now, arrival, datagram),
            (Some(Kind::Reset), _) => self.handle_reset(now, datagram),
            (Some(Kind::Data), Some(driver)) => {
                if driver.receive(now, arrival, datagram) {
                    ports[arrival.socket].on_authentic(now, arrival.carrier);
                    self.fallback.on_heard(now, arrival.socket, arrival.carrier);
                }
            }
            _ => self.edge.unknown_datagrams += 1,
        }
    }

    fn advance(&mut self, now: Instant, ports: &[Port]) -> Next {
        if self.ended.is_some() {
            return Next::Over;
        }
        if self.paths.are_ports_due() {
            // No packet must leave by a port that belongs to another path.
            return Next::Wait(Some(now));
        }
        self.freshen_ports(now);
        if self.paths.are_ports_due() {
            return Next::Wait(Some(now));
        }
        self.advance_carriers(now, ports);
        let next = match self.driver {
            Some(_) => self.advance_session(now, ports),
            None => self.advance_first_handshake(now, ports),
        };
        next.by(self.carriers_next_at()).by(self.fresh_port_at())
    }

    fn peers(&self) -> (u64, &[Peer]) {
        (self.paths.version, &[])
    }

    fn take_ports(&mut self, now: Instant, ports: &mut Vec<Port>) {
        self.change_ports(now, ports);
    }

    fn on_port(&mut self, now: Instant, index: usize, absence: Option<String>) {
        if let Some(managed) = self.paths.get_mut(index) {
            managed.is_absent = absence.is_some();
        }
        let path = PathId(index as u8);
        match absence {
            Some(reason) => {
                if let Some(driver) = &mut self.driver {
                    driver.suspend_path(now, index);
                }
                self.events.emit(Event::PathAbsent { path, reason });
            }
            None => self.events.emit(Event::PathPresent { path }),
        }
    }
}

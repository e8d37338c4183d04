//! The end that waits for sessions: it admits peers, and assigns datagrams to sessions.
//!
//! It serves [`ServerConfig::max_sessions`] of each kind at a time. A peer that was restarted
//! opens a newer session, which replaces its old one of the same kind once it is confirmed. Until
//! then the old one continues, so that a replayed handshake disturbs nobody. Without room, another
//! allowed peer gets its turn when a session is over or has been silent for
//! [`ServerConfig::takeover_after`]: an allowed peer has no right to the place of another.

mod builder;
mod initiations;
mod refused_senders;
mod relayed;
mod resets;
mod session_limit;
mod sessions;
mod unconfirmed;
mod watch;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_controllers::default_controller;
use anabranch_core::media::SendFrameError;
use anabranch_core::{Config, Frame, FrameId};
use anabranch_schedulers::default_scheduler;
use anabranch_secure::{
    Kind, PairingCode, PublicKey, Responder, SecretKey, classify, receiver_index,
};
use anabranch_units::{DataRate, Duration, Instant, Limiter, Seed};

use crate::clock::Clock;
use crate::displaced::Displaced;
use crate::driver::{self, Beginning};
use crate::event::{Ended, Event};
use crate::handshake_limiter::HandshakeLimiter;
use crate::io::Network;
use crate::observer::PacketObserver;
use crate::pairing::{Pairing, PairingOutcome};
use crate::peer_sockets::Peer;
use crate::port::Port;
use crate::random;
use crate::relay::{RelayAccess, RelayState};
use crate::route::header_bytes;
use crate::runtime::{Next, Role};
use crate::served::Offer;
use crate::session_parameters::SessionParameters;
use crate::snapshot::{EdgeCounters, Snapshot};
use crate::socket::Arrival;
use crate::start_error::StartError;
use crate::tcp::listener::Listener;
pub(crate) use builder::sealed;
pub use builder::{ServerBuilder, Serves};
pub use refused_senders::RefusedSender;
pub(crate) use refused_senders::RefusedSenders;
pub(crate) use relayed::Relayed;
pub use session_limit::SessionLimit;
use sessions::{Owner, Sessions};
use unconfirmed::{Confirmed, UnconfirmedSessions};
use watch::PathWatch;
pub(crate) use watch::SessionWatcher;
pub use watch::{SessionWatch, WatchedEvent, WatchedEvents};

/// Maximum number of ended sessions that are kept until their owner takes them.
const MAX_ENDED_COUNT: usize = 16;

/// Set-up of the end that waits for sessions.
#[derive(Debug)]
pub struct ServerConfig {
    /// The transport's set-up; `overhead_bytes` is set here, from the peer's address.
    pub transport: Config,
    /// Network of the sockets.
    pub network: Network,
    /// Clock of all instants.
    pub clock: Clock,
    /// Local address; with port 0, the started end reports the port.
    pub listen: SocketAddr,
    /// Local address for TCP connections, for peers whose networks block UDP.
    pub listen_tcp: Option<SocketAddr>,
    /// Relay by which peers also reach this end.
    pub relay: Option<RelayAccess>,
    /// This end's key.
    pub local_key: SecretKey,
    /// Public keys of the allowed peers.
    pub allowed: Vec<PublicKey>,
    /// Maximum number of sessions of the same kind at a time, each with another peer.
    pub max_sessions: usize,
    /// Groups of peers with a limit on their sessions of the same kind at a time.
    pub session_limits: Vec<SessionLimit>,
    /// Silence of a peer after which its session is over.
    pub silence_timeout: Duration,
    /// Silence of a peer after which another peer may take its place. It is longer than the silence
    /// of a sender without input.
    pub takeover_after: Duration,
    /// Requested delay of media beyond the fastest path's delay. Both ends agree on the larger of
    /// their values. `None`: no request.
    pub latency: Option<Duration>,
    /// Time for which an incomplete frame delays those after it, instead of the latency agreed on.
    pub reassembly_wait: Option<Duration>,
    /// Seed of the transport's random numbers; `None`: from the operating system.
    pub seed: Option<Seed>,
    /// Observer of every packet.
    pub observer: Option<Arc<dyn PacketObserver>>,
    /// Watch of all sessions of a [`Receiver`](crate::Receiver) together.
    pub watch: Option<SessionWatch>,
}

impl ServerConfig {
    /// Returns the set-up with which `local_key`'s owner listens for the `allowed`, with the usual
    /// timeout.
    pub fn new(listen: SocketAddr, local_key: SecretKey, allowed: Vec<PublicKey>) -> Self {
        ServerConfig {
            transport: Config::new(default_controller(), default_scheduler()),
            network: Network::default(),
            clock: Clock::start(),
            listen,
            listen_tcp: None,
            relay: None,
            local_key,
            allowed,
            max_sessions: 1,
            session_limits: Vec::new(),
            silence_timeout: Duration::from_secs(60),
            takeover_after: Duration::from_secs(20),
            latency: None,
            reassembly_wait: None,
            seed: None,
            observer: None,
            watch: None,
        }
    }
}

impl ServerConfig {
    /// Opens the sockets.
    pub(crate) fn open(&self) -> Result<(Vec<Port>, LocalAddresses), StartError> {
        let socket = self.network.listen(self.listen)?;
        let udp = socket.local_addr().map_err(StartError::Runtime)?;
        let mut ports = vec![Port::fixed(socket)];
        ports.extend(self.open_relay()?);
        let mut tcp = None;
        if let Some(address) = self.listen_tcp {
            let acceptor = self
                .network
                .listen_tcp(address)
                .map_err(|source| StartError::ListenTcp { address, source })?;
            let listener = Listener::new(acceptor);
            tcp = Some(listener.local_addr().map_err(StartError::Runtime)?);
            ports.push(Port::listening(listener));
        }
        Ok((ports, LocalAddresses { udp, tcp }))
    }
}

/// Local addresses of a server, whose ports are never 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalAddresses {
    pub(crate) udp: SocketAddr,
    pub(crate) tcp: Option<SocketAddr>,
}

#[derive(Debug)]
pub(crate) struct ServerRole {
    clock: Clock,
    observer: Option<Arc<dyn PacketObserver>>,
    seed: Option<Seed>,
    silence_timeout: Duration,
    takeover_after: Duration,
    max_sessions: usize,
    session_limits: Vec<SessionLimit>,
    refused_senders: RefusedSenders,
    watch: Option<PathWatch>,
    offers: Vec<Offer>,
    responder: Responder,
    latency: Option<Duration>,
    pairing: Pairing,
    limiter: HandshakeLimiter,
    unconfirmed: UnconfirmedSessions,
    sessions: Sessions,
    displaced: Displaced,
    resets: Limiter,
    /// Last snapshot of a session that has ended.
    last: Option<Snapshot>,
    /// Ended sessions that were not taken, the oldest first.
    ended: VecDeque<Snapshot>,
    edge: EdgeCounters,
    relayed: Option<Relayed>,
    is_closing: bool,
}

impl ServerRole {
    pub(crate) fn new(config: ServerConfig, relayed: Option<Relayed>, offers: Vec<Offer>) -> Self {
        let peer_count = config.allowed.len();
        let responder = Responder::new(config.local_key, config.allowed);
        ServerRole {
            seed: config.seed,
            clock: config.network.clock(config.clock),
            observer: config.observer,
            silence_timeout: config.silence_timeout,
            takeover_after: config.takeover_after,
            max_sessions: config.max_sessions.max(1),
            session_limits: config.session_limits,
            refused_senders: RefusedSenders::default(),
            watch: config.watch.map(PathWatch::new),
            offers,
            responder,
            latency: config.latency,
            pairing: Pairing::default(),
            limiter: HandshakeLimiter::new(config.clock.now(), peer_count),
            unconfirmed: UnconfirmedSessions::default(),
            sessions: Sessions::default(),
            displaced: Displaced::default(),
            resets: resets::limiter(),
            last: None,
            ended: VecDeque::new(),
            edge: EdgeCounters::default(),
            relayed,
            is_closing: false,
        }
    }

    /// Returns whether a session of `owner` may begin now.
    fn may_enter(&self, now: Instant, owner: Owner) -> bool {
        self.has_room(owner) || self.displaced_by(now, owner).is_some()
    }

    /// Returns whether another session of `owner` displaces none.
    fn has_room(&self, owner: Owner) -> bool {
        let (sessions, limits) = (&self.sessions, &self.session_limits);
        session_limit::has_room(sessions, limits, self.max_sessions, owner)
    }

    /// Returns the session that makes room for one of `owner`: its own, or the longest silent one.
    fn displaced_by(&self, now: Instant, owner: Owner) -> Option<u32> {
        let (sessions, limits) = (&self.sessions, &self.session_limits);
        if let Some((index, _)) = sessions.iter().find(|(_, held)| held.owner() == owner) {
            return Some(index);
        }
        if self.has_room(owner) {
            return None;
        }
        let (index, heard_at) = session_limit::longest_silent(sessions, limits, owner)?;
        (now >= heard_at + self.takeover_after).then_some(index)
    }

    fn handle_protected(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &mut [u8],
        ports: &[Port],
    ) {
        let index = receiver_index(datagram);
        if let Some(held) = index.and_then(|index| self.sessions.touch(index)) {
            if held.session.receive_adopting(now, arrival, datagram) {
                ports[arrival.socket].on_authentic(now, arrival.carrier);
            }
            return;
        }
        let unconfirmed = index.and_then(|index| self.unconfirmed.get_mut(now, index));
        match unconfirmed.map(|(owner, _)| owner) {
            Some(owner) if !self.is_closing && self.may_enter(now, owner) => {
                if self.confirm(now, arrival, datagram) {
                    ports[arrival.socket].on_authentic(now, arrival.carrier);
                }
            }
            // It is not this one's turn.
            Some(_) => self.edge.unknown_datagrams += 1,
            None => {
                self.edge.unknown_datagrams += 1;
                let displaced = &mut self.displaced;
                if !displaced.answer(now, index, arrival, datagram, ports) {
                    self.reset(now, index, arrival, datagram, ports);
                }
            }
        }
    }

    /// Opens the first protected datagram of a session. If it opens, the session becomes the
    /// current one. Returns whether it does.
    fn confirm(&mut self, now: Instant, arrival: &Arrival, datagram: &mut [u8]) -> bool {
        let Some(index) = receiver_index(datagram) else {
            return false;
        };
        // A forged one proves nothing: the true peer may still answer.
        let unconfirmed = self.unconfirmed.get_mut(now, index);
        let opened = unconfirmed.and_then(|(_, session)| driver::open(session, datagram));
        let Some(authentic) = opened else {
            return false;
        };
        let Some(Confirmed {
            owner: owner @ (peer, session_kind),
            answered_at,
            agreed,
        }) = self.unconfirmed.confirm(index)
        else {
            return false;
        };
        let mut offers = self.offers.iter();
        let Some(offer) = offers.position(|offer| offer.session_kind() == session_kind) else {
            return false;
        };
        let parameters = SessionParameters::from_block(&agreed.parameters);
        let latency = parameters.and_then(|parameters| parameters.latency);
        let offer = &mut self.offers[offer];
        let seed = self.seed.unwrap_or_else(random::seed);
        let beginning = Beginning {
            config: offer.transport(header_bytes(arrival.from), latency),
            seed,
            session: agreed.session,
            peer,
            latency,
            pads_challenges: parameters.is_some_and(|agreed| agreed.reads_padded_challenges),
            takes_requests: parameters.is_some_and(|agreed| agreed.takes_requests),
            // As at the client: a session has its length even if there is no data for a long time.
            at: answered_at,
            clock: self.clock,
            observer: self.observer.clone(),
        };
        let (mut session, audience) = offer.begin(beginning);
        session.adopt(now, arrival, &authentic);
        self.limiter.trust(now, arrival.from.ip());
        if let Some(displaced) = self.displaced_by(now, owner) {
            self.end(now, displaced, Ended::Replaced);
        }
        audience
            .events
            .emit(Event::Connected { peer, session_kind });
        self.sessions.add(index, session, audience);
        true
    }

    fn end(&mut self, now: Instant, index: u32, ended: Ended) {
        let Some(held) = self.sessions.remove(index) else {
            return;
        };
        let (mut session, audience) = (held.session, held.audience);
        let seen = Some(session.snapshot(now));
        let dropped_count = audience.events.dropped_count();
        let snapshot = Snapshot::with_edge(seen, now, &self.edge, dropped_count);
        // A session ends only once.
        let _ = audience.last.set(snapshot.clone());
        self.last = Some(snapshot.clone());
        self.ended.push_back(snapshot);
        if self.ended.len() > MAX_ENDED_COUNT {
            self.ended.pop_front();
        }
        let keys = session.end();
        if ended == Ended::Replaced {
            self.displaced.push(keys);
        }
        audience.events.emit(Event::Ended(ended));
    }

    /// Returns the present state of all sessions.
    pub(crate) fn snapshots(&mut self, now: Instant) -> Vec<Snapshot> {
        let sessions = self.sessions.iter_mut();
        sessions.map(|held| held.session.snapshot(now)).collect()
    }

    /// Returns the newest session's present or last state.
    pub(crate) fn snapshot(&mut self, now: Instant) -> Snapshot {
        let Some(held) = self.sessions.newest_mut() else {
            let last = self.last.clone();
            let dropped_count = last.as_ref().map_or(0, |last| last.edge.dropped_events);
            return Snapshot::with_edge(last, now, &self.edge, dropped_count);
        };
        let dropped_count = held.audience.events.dropped_count();
        let seen = Some(held.session.snapshot(now));
        Snapshot::with_edge(seen, now, &self.edge, dropped_count)
    }

    /// Returns the bitrate requested of a session's encoder; `None` if there is no such session.
    pub(crate) fn target_bitrate_of(&mut self, index: u32) -> Option<DataRate> {
        Some(self.sessions.get_mut(index)?.session.target_bitrate())
    }

    /// Returns the present state of one session; `None` once it is over.
    pub(crate) fn snapshot_of(&mut self, index: u32, now: Instant) -> Option<Snapshot> {
        let held = self.sessions.get_mut(index)?;
        let seen = Some(held.session.snapshot(now));
        let dropped_count = held.audience.events.dropped_count();
        Some(Snapshot::with_edge(seen, now, &self.edge, dropped_count))
    }

    /// Takes a frame in for a session's peer; `None` if there is no such session, or it does not
    /// carry frames.
    pub(crate) fn send_frame(
        &mut self,
        index: u32,
        now: Instant,
        frame: &Frame,
    ) -> Option<Result<FrameId, SendFrameError>> {
        let held = self.sessions.touch(index)?;
        Some(held.session.frames()?.send_frame(now, frame))
    }

    /// Changes the latency of a session of frames. Returns whether there is one.
    pub(crate) fn set_latency_of(&mut self, index: u32, latency: Duration) -> bool {
        let held = self.sessions.touch(index);
        let frames = held.and_then(|held| held.session.frames());
        frames.map(|driver| driver.set_latency(latency)).is_some()
    }

    /// Sets the latency that this end requests of later sessions.
    pub(crate) fn set_latency(&mut self, latency: Duration) {
        self.latency = Some(latency);
    }

    /// Closes a session and notifies its peer.
    pub(crate) fn close_session(&mut self, index: u32, now: Instant) {
        if let Some(held) = self.sessions.touch(index) {
            held.session.close(now);
        }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn tables(&self) -> crate::testing::Tables {
        crate::testing::Tables {
            sessions: self.sessions.iter().count(),
            unconfirmed: self.unconfirmed.len(),
            displaced: self.displaced.len(),
            ended: self.ended.len(),
        }
    }

    /// Lets in the first peer that has `code`, until `lasts` is over.
    pub(crate) fn start_pairing(&mut self, now: Instant, code: PairingCode, lasts: Duration) {
        self.pairing.start(&mut self.responder, now, code, lasts);
    }

    /// Takes a code back.
    pub(crate) fn stop_pairing(&mut self, code: &PairingCode) {
        self.pairing.stop(&mut self.responder, code);
    }

    /// Takes the outcomes of codes since the last call. From now on the owner names the peers.
    pub(crate) fn take_pairing_outcomes(&mut self, now: Instant) -> Vec<PairingOutcome> {
        self.pairing.take_outcomes(&mut self.responder, now)
    }

    /// Takes the senders that requested a session since the last call and got none.
    pub(crate) fn take_refused_senders(&mut self) -> Vec<RefusedSender> {
        self.refused_senders.take()
    }

    /// Sets the groups with a common limit. Present sessions stay.
    pub(crate) fn set_session_limits(&mut self, limits: Vec<SessionLimit>) {
        self.session_limits = limits;
    }

    /// Sets the keys whose owners are admitted, and ends the sessions of others.
    pub(crate) fn set_allowed(&mut self, now: Instant, allowed: &[PublicKey]) {
        let allowed = &self.pairing.with_paired(allowed)[..];
        self.responder.set_allowed(allowed);
        self.limiter.set_peer_count(allowed.len());
        self.refused_senders.set_allowed(allowed);
        self.unconfirmed.set_allowed(allowed);
        let sessions = self.sessions.iter();
        let revoked: Vec<u32> = sessions
            .filter(|(_, held)| !allowed.contains(&held.owner().0))
            .map(|(index, _)| index)
            .collect();
        for index in revoked {
            self.close_session(index, now);
        }
    }
}

impl Role for ServerRole {
    fn handle_datagram(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &mut [u8],
        ports: &[Port],
    ) {
        match self
            .relayed
            .as_ref()
            .filter(|relayed| relayed.is_by(arrival))
        {
            Some(relayed) => {
                if let Some((arrival, inner)) = relayed.unwrap(now, arrival, datagram) {
                    self.handle_arrived(now, &arrival, &mut datagram[inner], ports);
                }
            }
            None => self.handle_arrived(now, arrival, datagram, ports),
        }
    }

    fn advance(&mut self, now: Instant, ports: &[Port]) -> Next {
        let of_sessions = self.advance_sessions(now, ports);
        let next = of_sessions.by(self.advance_watch(now));
        let is_over = next == Next::Over;
        let peers = self.sessions.peers();
        let relayed = self.relayed.as_mut();
        next.by(relayed.map(|relayed| relayed.advance(now, peers, is_over, ports)))
    }

    fn peers(&self) -> (u64, &[Peer]) {
        self.sessions.peers()
    }
}

impl ServerRole {
    /// Takes a datagram of a peer, which may have come by the relay.
    fn handle_arrived(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &mut [u8],
        ports: &[Port],
    ) {
        match classify(datagram) {
            // New initiations are for the next receiver.
            Some(Kind::Initiation) if self.is_closing => {}
            Some(Kind::Initiation) => self.handle_initiation(now, arrival, datagram, ports),
            Some(Kind::Data) => self.handle_protected(now, arrival, datagram, ports),
            _ => self.edge.unknown_datagrams += 1,
        }
    }

    fn advance_sessions(&mut self, now: Instant, ports: &[Port]) -> Next {
        self.unconfirmed.forget(now);
        for index in self.sessions.due(now) {
            match self.advance_session(now, index, ports) {
                Ok(at) => self.sessions.put_off(index, at),
                Err(ended) => self.end(now, index, ended),
            }
            self.sessions.check_addresses(index);
        }
        if self.is_closing && self.sessions.is_empty() {
            // Tasks that wait for sessions learn that there will be none.
            self.offers.clear();
            self.watch = None;
            return Next::Over;
        }
        Next::Wait(self.sessions.next_at())
    }

    /// Returns the state of the registration at the relay; `None` without a relay.
    pub(crate) fn relay_state(&self) -> Option<RelayState> {
        self.relayed.as_ref().map(Relayed::state)
    }

    /// Performs due steps of a session. Returns the time of the next ones, or the reason for its
    /// end.
    fn advance_session(
        &mut self,
        now: Instant,
        index: u32,
        ports: &[Port],
    ) -> Result<Instant, Ended> {
        let waited = self.silence_timeout;
        let Some(held) = self.sessions.get_mut(index) else {
            return Ok(now);
        };
        let session = &mut held.session;
        if self.is_closing {
            session.close(now);
        }
        if let Some(ended) = session.advance(now, ports, &held.audience.events) {
            return Err(ended);
        }
        let silent_at = session.heard_at() + waited;
        if now >= silent_at {
            return Err(Ended::PeerSilent { waited });
        }
        Ok(session.next_at().unwrap_or(silent_at).min(silent_at))
    }

    /// Notifies the peers that this end leaves, and ends.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
        self.sessions.touch_all();
    }

    /// Returns the oldest ended session that was not taken.
    pub(crate) fn take_ended(&mut self) -> Option<Snapshot> {
        self.ended.pop_front()
    }
}

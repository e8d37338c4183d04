//! The end that waits for sessions: who is let in, and whose datagram is whose.
//!
//! It serves [`ServerConfig::max_sessions`] of each cargo at a time. A newer one of the same peer,
//! which was restarted, takes the place of that with the same cargo once it is confirmed. Until
//! then the earlier one goes on undisturbed, so that a replayed handshake disturbs nobody. Where
//! there is no room, another allowed peer gets its turn when a session is over or has been silent
//! for [`ServerConfig::takeover_after`]: being allowed is no right to others' place.

use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use anabranch_controllers::default_controller;
use anabranch_core::Config;
use anabranch_schedulers::default_scheduler;
use anabranch_secure::{
    Answer, Cargo, Kind, PublicKey, RESET_BYTES, Responder, SecretKey, Session, classify,
    receiver_index,
};
use anabranch_units::{Duration, Ecn, Instant, Seed};

use crate::client::StartError;
use crate::clock::Clock;
use crate::displaced::Displaced;
use crate::driver::{self, Beginning};
use crate::event::{Ended, Event};
use crate::event_queue::EventSender;
use crate::gate::{Gate, Verdict};
use crate::observer::PacketObserver;
use crate::port::Port;
use crate::random;
use crate::route::{Address, header_bytes};
use crate::runtime::{Next, Role};
use crate::served::{Offer, Served};
use crate::snapshot::{EdgeCounters, Snapshot};
use crate::socket::{Arrival, Batch, Socket};

/// Resets are not sent more often: a flood of datagrams of no session must not double itself.
const RESET_INTERVAL: Duration = Duration::from_millis(10);
/// Sessions that are over and remembered until their owner asks.
const MAX_ENDED_COUNT: usize = 16;

/// What the end that waits for sessions is started with.
#[derive(Debug)]
pub struct ServerConfig {
    /// The transport's set-up; `overhead_bytes` is set here, from the peer's address.
    pub transport: Config,
    /// What all instants count by.
    pub clock: Clock,
    /// Where it listens; with port 0, at a port that the started end tells.
    pub listen: SocketAddr,
    /// This end's key.
    pub local_key: SecretKey,
    /// Who is let in.
    pub allowed: Vec<PublicKey>,
    /// How many sessions of the same cargo there may be at a time, each with another peer.
    pub max_sessions: usize,
    /// For how long a peer may be silent before its session is over.
    pub silence_timeout: Duration,
    /// For how long a peer must be silent before another peer may take its place. Longer than a
    /// sender without input keeps still.
    pub takeover_after: Duration,
    /// Where the transport's chance comes from; `None`: from the operating system.
    pub seed: Option<Seed>,
    /// Hears of every packet.
    pub observer: Option<Arc<dyn PacketObserver>>,
}

impl ServerConfig {
    /// The set-up with which `local_key`'s owner listens for the `allowed`, with the usual timeout.
    pub fn new(listen: SocketAddr, local_key: SecretKey, allowed: Vec<PublicKey>) -> Self {
        ServerConfig {
            transport: Config::new(default_controller(), default_scheduler()),
            clock: Clock::start(),
            listen,
            local_key,
            allowed,
            max_sessions: 1,
            silence_timeout: Duration::from_secs(60),
            takeover_after: Duration::from_secs(20),
            seed: None,
            observer: None,
        }
    }
}

impl ServerConfig {
    /// Opens the socket. Returns where it listens, too.
    pub(crate) fn open(&self) -> Result<(Socket, SocketAddr), StartError> {
        let address = self.listen;
        let listen_error = |source| StartError::Listen { address, source };
        let socket = UdpSocket::bind(address).map_err(listen_error)?;
        let socket = Socket::new(socket).map_err(StartError::Runtime)?;
        let local_addr = socket.local_addr().map_err(StartError::Runtime)?;
        Ok((socket, local_addr))
    }
}

/// Whose session it is, and what it carries: of each, there is one at a time.
type Owner = (PublicKey, Cargo);

#[derive(Debug)]
pub(crate) struct ServerRole {
    observer: Option<Arc<dyn PacketObserver>>,
    seed: Option<Seed>,
    silence_timeout: Duration,
    takeover_after: Duration,
    max_sessions: usize,
    offers: Vec<Offer>,
    responder: Responder,
    gate: Gate,
    /// Sessions that were answered and not confirmed, with when they were answered: at most one for
    /// each allowed peer and cargo.
    unconfirmed: BTreeMap<Owner, (Instant, Session)>,
    /// In the order in which they began.
    sessions: Vec<Box<dyn Served>>,
    displaced: Displaced,
    next_reset_at: Instant,
    /// The last session's, once it is over.
    last: Option<Snapshot>,
    /// The sessions that are over and were not asked for, the oldest first.
    ended: VecDeque<Snapshot>,
    events: EventSender,
    edge: EdgeCounters,
    is_closing: bool,
    /// The addresses that the sessions' peers have proven, and how often they changed.
    peers: Vec<Address>,
    peers_version: u64,
    /// Those that they have proven now, as far as they have been looked for.
    proven: Vec<Address>,
}

impl ServerRole {
    pub(crate) fn new(config: ServerConfig, events: EventSender, offers: Vec<Offer>) -> Self {
        let carried: Vec<Cargo> = offers.iter().map(Offer::cargo).collect();
        ServerRole {
            seed: config.seed,
            observer: config.observer,
            silence_timeout: config.silence_timeout,
            takeover_after: config.takeover_after,
            max_sessions: config.max_sessions.max(1),
            offers,
            responder: Responder::new(config.local_key, config.allowed, &carried),
            gate: Gate::new(config.clock.now()),
            unconfirmed: BTreeMap::new(),
            sessions: Vec::new(),
            displaced: Displaced::default(),
            next_reset_at: Instant::ZERO,
            last: None,
            ended: VecDeque::new(),
            events,
            edge: EdgeCounters::default(),
            is_closing: false,
            peers: Vec::new(),
            peers_version: 0,
            proven: Vec::new(),
        }
    }

    /// Asks what is cheap first: the mark of whoever knows this end's key, then whether it is a
    /// resend, then whether there is room for a handshake.
    fn handle_initiation(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &[u8],
        ports: &[Port],
    ) {
        if self.responder.screen(datagram).is_err() {
            self.edge.refused_handshakes += 1;
            return;
        }
        if self.gate.is_rotation_due(now) {
            self.responder.rotate_cookies();
        }
        let source = arrival.from;
        let answer = match self.responder.resent(datagram) {
            Some(answer) => self.gate.may_answer(now).then_some(answer),
            None => {
                let responder = &self.responder;
                let is_proven = || responder.proves_address(source, datagram);
                let has_session = !self.sessions.is_empty();
                match self.gate.judge(now, source.ip(), has_session, is_proven) {
                    Verdict::Admit => self.shake_hands(now, datagram),
                    Verdict::AskForProof => {
                        self.edge.refused_handshakes += 1;
                        if let Some(reply) = self.responder.cookie_reply(source, datagram) {
                            answer_to(arrival, &reply, ports);
                        }
                        return;
                    }
                    Verdict::Refuse => None,
                }
            }
        };
        match answer {
            Some(answer) if self.may_enter(now, (answer.peer, answer.cargo)) => {
                answer_to(arrival, &answer.response, ports);
            }
            // A peer that may not enter asks again, and is answered when it is its turn.
            Some(_) | None => self.edge.refused_handshakes += 1,
        }
    }

    fn shake_hands(&mut self, now: Instant, datagram: &[u8]) -> Option<Answer> {
        let index = self.new_session_index();
        let mut answer = self.responder.handle_initiation(index, datagram).ok()?;
        if let Some(session) = answer.session.take() {
            let owner = (answer.peer, answer.cargo);
            self.unconfirmed.insert(owner, (now, session));
        }
        Some(answer)
    }

    /// Whether a session of `owner` may begin now.
    fn may_enter(&self, now: Instant, owner: Owner) -> bool {
        self.has_room(owner.1) || self.displaced_by(now, owner).is_some()
    }

    /// Whether another session with this cargo displaces none.
    fn has_room(&self, cargo: Cargo) -> bool {
        let same = self
            .sessions
            .iter()
            .filter(|session| session.cargo() == cargo);
        same.count() < self.max_sessions
    }

    /// Which session has to make room for one of `owner`: its own, or one that has been silent for
    /// long.
    fn displaced_by(&self, now: Instant, owner: Owner) -> Option<usize> {
        let (peer, cargo) = owner;
        let own = self
            .sessions
            .iter()
            .position(|session| (session.peer(), session.cargo()) == (peer, cargo));
        let has_room = self.has_room(cargo);
        let longest_silent = || {
            let sessions = self.sessions.iter().enumerate();
            let same = sessions.filter(|(_, session)| session.cargo() == cargo);
            let silent = same.min_by_key(|(_, session)| session.heard_at())?;
            (now >= silent.1.heard_at() + self.takeover_after).then_some(silent.0)
        };
        own.or_else(|| longest_silent().filter(|_| !has_room))
    }

    fn new_session_index(&self) -> u32 {
        loop {
            let index = random::session_index();
            let is_taken = self
                .unconfirmed
                .values()
                .any(|(_, session)| session.local_index() == index)
                || self
                    .sessions
                    .iter()
                    .any(|session| session.session_index() == index);
            if !is_taken {
                return index;
            }
        }
    }

    fn handle_protected(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &mut [u8],
        ports: &[Port],
    ) {
        let index = receiver_index(datagram);
        let is_its = |session: &&mut Box<dyn Served>| index == Some(session.session_index());
        if let Some(session) = self.sessions.iter_mut().find(is_its) {
            session.receive_adopting(now, arrival, datagram);
            return;
        }
        let owner = self
            .unconfirmed
            .iter()
            .find(|(_, (_, session))| index == Some(session.local_index()))
            .map(|(owner, _)| *owner);
        match owner {
            Some(owner) if !self.is_closing && self.may_enter(now, owner) => {
                self.confirm(owner, now, arrival, datagram)
            }
            // Its turn has not come.
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

    /// Tells whoever has the session `index`, which is none of this end's, that it is over: its
    /// sender asks for a new one at once.
    fn reset(
        &mut self,
        now: Instant,
        index: Option<u32>,
        arrival: &Arrival,
        datagram: &[u8],
        ports: &[Port],
    ) {
        let Some(index) = index else { return };
        if now < self.next_reset_at || datagram.len() <= RESET_BYTES {
            return;
        }
        self.next_reset_at = now + RESET_INTERVAL;
        let reset = self.responder.reset(index);
        let _ = ports[arrival.socket].send(&Batch {
            to: arrival.from,
            from: arrival.to,
            ecn: Ecn::NotEct,
            bytes: &reset,
            datagram_bytes: reset.len(),
        });
    }

    /// The first protected datagram of a session: if it opens, the session is the current one.
    fn confirm(&mut self, owner: Owner, now: Instant, arrival: &Arrival, datagram: &mut [u8]) {
        let (peer, cargo) = owner;
        let is_its = |offer: &Offer| offer.cargo() == cargo;
        let Some(offer) = self.offers.iter().position(is_its) else {
            return;
        };
        let Some((_, session)) = self.unconfirmed.get_mut(&owner) else {
            return;
        };
        // A forged one proves nothing: the true peer may still come.
        let Some(authentic) = driver::open(session, datagram) else {
            return;
        };
        let Some((answered_at, session)) = self.unconfirmed.remove(&owner) else {
            return;
        };
        let offer = &mut self.offers[offer];
        let seed = self.seed.unwrap_or_else(random::seed);
        let beginning = Beginning {
            config: offer.transport(header_bytes(arrival.from)),
            seed,
            session,
            peer,
            // As at the client: a session has its length even if there is nothing to send for long.
            at: answered_at,
            observer: self.observer.clone(),
        };
        let mut session = offer.begin(beginning);
        session.adopt(now, arrival, &authentic);
        if let Some(displaced) = self.displaced_by(now, owner) {
            self.end(now, displaced, Ended::Replaced);
        }
        self.sessions.push(session);
        self.events.tell(Event::Connected { peer, cargo });
    }

    fn end(&mut self, now: Instant, index: usize, ended: Ended) {
        let mut session = self.sessions.remove(index);
        let snapshot = session.snapshot(now);
        let (edge, dropped_count) = (&self.edge, self.events.dropped_count);
        let counted = Snapshot::with_edge(Some(snapshot.clone()), now, edge, dropped_count);
        self.ended.push_back(counted);
        if self.ended.len() > MAX_ENDED_COUNT {
            self.ended.pop_front();
        }
        self.last = Some(snapshot);
        let keys = session.end();
        if ended == Ended::Replaced {
            self.displaced.push(keys);
        }
        self.events.tell(Event::Ended(ended));
    }

    /// Looks whether the peer's addresses are others.
    fn note_peers(&mut self) {
        self.proven.clear();
        for session in &self.sessions {
            session.add_proven_addresses(&mut self.proven);
        }
        if self.proven != self.peers {
            core::mem::swap(&mut self.proven, &mut self.peers);
            self.peers_version += 1;
        }
    }

    /// The sessions as they are.
    pub(crate) fn snapshots(&mut self, now: Instant) -> Vec<Snapshot> {
        let sessions = self.sessions.iter_mut();
        sessions.map(|session| session.snapshot(now)).collect()
    }

    /// The newest session, or the last that was.
    pub(crate) fn snapshot(&mut self, now: Instant) -> Snapshot {
        let newest = self.sessions.last_mut();
        let seen = newest.map(|session| session.snapshot(now));
        let seen = seen.or_else(|| self.last.clone());
        Snapshot::with_edge(seen, now, &self.edge, self.events.dropped_count)
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
        match classify(datagram) {
            // Whoever comes now is for the next receiver.
            Some(Kind::Initiation) if self.is_closing => {}
            Some(Kind::Initiation) => self.handle_initiation(now, arrival, datagram, ports),
            Some(Kind::Data) => self.handle_protected(now, arrival, datagram, ports),
            _ => self.edge.unknown_datagrams += 1,
        }
    }

    fn advance(&mut self, now: Instant, ports: &[Port]) -> Next {
        let next = self.advance_sessions(now, ports);
        self.note_peers();
        next
    }

    fn peers(&self) -> (u64, &[Address]) {
        (self.peers_version, &self.peers)
    }
}

impl ServerRole {
    fn advance_sessions(&mut self, now: Instant, ports: &[Port]) -> Next {
        let mut next_at: Option<Instant> = None;
        let mut index = 0;
        while index < self.sessions.len() {
            match self.advance_session(now, index, ports) {
                Ok(at) => {
                    next_at = next_at.into_iter().chain([at]).min();
                    index += 1;
                }
                Err(ended) => self.end(now, index, ended),
            }
        }
        match self.is_closing && self.sessions.is_empty() {
            true => Next::Over,
            false => Next::Wait(next_at),
        }
    }

    /// When to do it next, or why the session is over.
    fn advance_session(
        &mut self,
        now: Instant,
        index: usize,
        ports: &[Port],
    ) -> Result<Instant, Ended> {
        let session = &mut self.sessions[index];
        if self.is_closing {
            session.close(now);
        }
        if let Some(ended) = session.advance(now, ports, &mut self.events) {
            return Err(ended);
        }
        let waited = self.silence_timeout;
        let silent_at = session.heard_at() + waited;
        if now >= silent_at {
            return Err(Ended::PeerSilent { waited });
        }
        Ok(session.next_at().unwrap_or(silent_at).min(silent_at))
    }

    /// Tells the peers that this end goes away, and ends.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
    }

    /// The oldest of the sessions that are over and were not asked for.
    pub(crate) fn take_ended(&mut self) -> Option<Snapshot> {
        self.ended.pop_front()
    }
}

fn answer_to(arrival: &Arrival, answer: &[u8], ports: &[Port]) {
    // A lost answer is asked for again.
    let _ = ports[arrival.socket].send(&Batch {
        to: arrival.from,
        from: arrival.to,
        ecn: Ecn::NotEct,
        bytes: answer,
        datagram_bytes: answer.len(),
    });
}

//! The end that waits for sessions and receives frames.
//!
//! It serves one session at a time. A newer one of the same peer, which was restarted, takes its
//! place once it is confirmed. Until then the earlier one goes on undisturbed, so that a replayed
//! handshake disturbs nobody. Another allowed peer gets its turn when the session is over or has
//! been silent for [`ReceiverConfig::takeover_after`]: being allowed is no right to others' place.

use core::fmt;
use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};

use anabranch_controllers::default_controller;
use anabranch_core::{Config, MediaSession};
use anabranch_schedulers::default_scheduler;
use anabranch_secure::{
    Answer, Kind, PROTECTION_OVERHEAD_BYTES, PublicKey, RESET_BYTES, Responder, SecretKey, Session,
    classify, receiver_index,
};
use anabranch_units::{Duration, Ecn, Instant, Lateness, Seed};

use crate::clock::Clock;
use crate::displaced::Displaced;
use crate::driver::{self, Beginning, Driver};
use crate::event::{Ended, Event};
use crate::event_queue::{self, EventSender, Events};
use crate::gate::{Gate, Verdict};
use crate::port::Port;
use crate::random;
use crate::route::{Address, header_bytes};
use crate::runtime::{Next, Role, Runtime};
use crate::sender::StartError;
use crate::snapshot::{EdgeCounters, Snapshot};
use crate::socket::{Arrival, Batch, Socket};

/// Resets are not sent more often: a flood of datagrams of no session must not double itself.
const RESET_INTERVAL: Duration = Duration::from_millis(10);
/// Sessions that are over and remembered until their owner asks.
const MAX_ENDED_COUNT: usize = 16;

/// What a receiver is started with.
#[derive(Debug)]
pub struct ReceiverConfig {
    /// The transport's set-up; `overhead_bytes` is set here, from the peer's address.
    pub transport: Config,
    /// What all instants count by.
    pub clock: Clock,
    /// Where it listens; with port 0, at a port that [`Receiver::local_addr`] tells.
    pub listen: SocketAddr,
    /// This end's key.
    pub local_key: SecretKey,
    /// Who is let in.
    pub allowed: Vec<PublicKey>,
    /// For how long a peer may be silent before its session is over.
    pub silence_timeout: Duration,
    /// For how long a peer must be silent before another peer may take its place. Longer than a
    /// sender without input keeps still.
    pub takeover_after: Duration,
    /// Where the transport's chance comes from; `None`: from the operating system.
    pub seed: Option<Seed>,
}

impl ReceiverConfig {
    /// The set-up with which `local_key`'s owner listens for the `allowed`, with the usual timeout.
    pub fn new(listen: SocketAddr, local_key: SecretKey, allowed: Vec<PublicKey>) -> Self {
        ReceiverConfig {
            transport: Config::new(default_controller(), default_scheduler()),
            clock: Clock::start(),
            listen,
            local_key,
            allowed,
            silence_timeout: Duration::from_secs(60),
            takeover_after: Duration::from_secs(20),
            seed: None,
        }
    }
}

/// A running receiver. Dropping it tells the peer that it goes away and waits for the thread.
#[derive(Debug)]
pub struct Receiver {
    runtime: Runtime<ReceiverRole>,
    local_addr: SocketAddr,
}

impl Receiver {
    /// Opens the socket and starts the thread. Each session that comes brings [`Event::Connected`]
    /// first and [`Event::Ended`] last.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(config: ReceiverConfig) -> Result<(Receiver, Events), StartError> {
        let address = config.listen;
        let listen_error = |source| StartError::Listen { address, source };
        let socket = UdpSocket::bind(address).map_err(listen_error)?;
        let socket = Socket::new(socket).map_err(StartError::Runtime)?;
        let local_addr = socket.local_addr().map_err(StartError::Runtime)?;
        MediaSession::new(config.transport.clone(), Seed(0), Instant::ZERO)?;
        let clock = config.clock;
        let (events, receiver) = event_queue::queue();
        let role = ReceiverRole::new(config, events);
        let runtime = Runtime::start("receiver", clock, vec![Port::fixed(socket)], role)
            .map_err(StartError::Runtime)?;
        Ok((
            Receiver {
                runtime,
                local_addr,
            },
            receiver,
        ))
    }

    /// Where it listens, the port never 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The newest session as it is, or was when it ended.
    pub fn snapshot(&self) -> Snapshot {
        self.runtime.look(ReceiverRole::snapshot)
    }

    /// How late the machine let the thread get to its work, in the worse of the last two seconds.
    pub fn lateness(&self) -> Lateness {
        self.runtime.lateness()
    }

    /// The session that [`Event::Ended`] told of, as it was at its end; for each such event, in
    /// their order, once. Of the last 16 that nobody asked for.
    pub fn take_ended(&self) -> Option<Snapshot> {
        self.runtime.look(|role, _| role.ended.pop_front())
    }

    /// Tells the peer that this receiver goes away and stops listening. [`Event::Ended`] tells when
    /// it is done. The sender's stream goes on with the next receiver of the same key and address.
    pub fn close(&self) {
        self.runtime.change(|role, _| role.is_closing = true);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.close();
        let _ = self.runtime.join();
    }
}

struct ReceiverRole {
    transport: Config,
    seed: Option<Seed>,
    silence_timeout: Duration,
    takeover_after: Duration,
    responder: Responder,
    gate: Gate,
    /// Sessions that were answered and not confirmed, with when they were answered: at most one for
    /// each allowed peer.
    unconfirmed: BTreeMap<PublicKey, (Instant, Session)>,
    current: Option<Driver>,
    displaced: Displaced,
    next_reset_at: Instant,
    /// The last session's, once it is over.
    last: Option<Snapshot>,
    /// The sessions that are over and were not asked for, the oldest first.
    ended: VecDeque<Snapshot>,
    events: EventSender,
    edge: EdgeCounters,
    is_closing: bool,
    /// The addresses that the current session's peer has proven, and how often they changed.
    peers: Vec<Address>,
    peers_version: u64,
}

impl fmt::Debug for ReceiverRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiverRole")
            .field("responder", &self.responder)
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

impl ReceiverRole {
    fn new(config: ReceiverConfig, events: EventSender) -> Self {
        ReceiverRole {
            transport: config.transport,
            seed: config.seed,
            silence_timeout: config.silence_timeout,
            takeover_after: config.takeover_after,
            responder: Responder::new(config.local_key, config.allowed),
            gate: Gate::new(config.clock.now()),
            unconfirmed: BTreeMap::new(),
            current: None,
            displaced: Displaced::default(),
            next_reset_at: Instant::ZERO,
            last: None,
            ended: VecDeque::new(),
            events,
            edge: EdgeCounters::default(),
            is_closing: false,
            peers: Vec::new(),
            peers_version: 0,
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
                let has_session = self.current.is_some();
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
            Some(answer) if self.may_enter(now, answer.peer) => {
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
            self.unconfirmed.insert(answer.peer, (now, session));
        }
        Some(answer)
    }

    /// Whether a session of `peer` may begin now.
    fn may_enter(&self, now: Instant, peer: PublicKey) -> bool {
        self.current.as_ref().is_none_or(|current| {
            current.peer() == peer || now >= current.heard_at() + self.takeover_after
        })
    }

    fn new_session_index(&self) -> u32 {
        loop {
            let index = random::session_index();
            let is_taken = self
                .unconfirmed
                .values()
                .any(|(_, session)| session.local_index() == index)
                || self
                    .current
                    .as_ref()
                    .is_some_and(|current| current.session_index() == index);
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
        if let Some(current) = &mut self.current
            && index == Some(current.session_index())
        {
            current.receive_adopting(now, arrival, datagram);
            return;
        }
        let peer = self
            .unconfirmed
            .iter()
            .find(|(_, (_, session))| index == Some(session.local_index()))
            .map(|(peer, _)| *peer);
        match peer {
            Some(peer) if !self.is_closing && self.may_enter(now, peer) => {
                self.confirm(peer, now, arrival, datagram)
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
    fn confirm(&mut self, peer: PublicKey, now: Instant, arrival: &Arrival, datagram: &mut [u8]) {
        let Some((_, session)) = self.unconfirmed.get_mut(&peer) else {
            return;
        };
        // A forged one proves nothing: the true peer may still come.
        let Some(authentic) = driver::open(session, datagram) else {
            return;
        };
        let Some((answered_at, session)) = self.unconfirmed.remove(&peer) else {
            return;
        };
        let mut config = self.transport.clone();
        config.overhead_bytes = header_bytes(arrival.from) + PROTECTION_OVERHEAD_BYTES as u32;
        let seed = self.seed.unwrap_or_else(random::seed);
        let mut driver = Driver::new(Beginning {
            config,
            seed,
            session,
            peer,
            // As at the sender: a session has its length even if there is nothing to send for long.
            at: answered_at,
        })
        .expect("the transport's set-up was checked at the start");
        driver.adopt(now, arrival, &authentic);
        self.end(now, Ended::Replaced);
        self.current = Some(driver);
        self.events.tell(Event::Connected { peer });
    }

    fn end(&mut self, now: Instant, ended: Ended) {
        if let Some(mut current) = self.current.take() {
            let snapshot = current.snapshot(now);
            let (edge, dropped_count) = (&self.edge, self.events.dropped_count);
            let counted = Snapshot::with_edge(Some(snapshot.clone()), now, edge, dropped_count);
            self.ended.push_back(counted);
            if self.ended.len() > MAX_ENDED_COUNT {
                self.ended.pop_front();
            }
            self.last = Some(snapshot);
            if ended == Ended::Replaced {
                self.displaced.push(current.into_session());
            }
            self.events.tell(Event::Ended(ended));
        }
    }

    /// Looks whether the peer's addresses are others.
    fn note_peers(&mut self) {
        let proven = || self.current.iter().flat_map(Driver::proven_addresses);
        if !proven().eq(self.peers.iter().copied()) {
            self.peers = proven().collect();
            self.peers_version += 1;
        }
    }

    fn snapshot(&mut self, now: Instant) -> Snapshot {
        let current = self.current.as_mut().map(|current| current.snapshot(now));
        let seen = current.or_else(|| self.last.clone());
        Snapshot::with_edge(seen, now, &self.edge, self.events.dropped_count)
    }
}

impl Role for ReceiverRole {
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
        let next = self.advance_session(now, ports);
        self.note_peers();
        next
    }

    fn peers(&self) -> (u64, &[Address]) {
        (self.peers_version, &self.peers)
    }
}

impl ReceiverRole {
    fn advance_session(&mut self, now: Instant, ports: &[Port]) -> Next {
        let Some(current) = &mut self.current else {
            return if self.is_closing {
                Next::Over
            } else {
                Next::Wait(None)
            };
        };
        if self.is_closing {
            current.close(now);
        }
        if let Some(ended) = current.advance(now, ports, &mut self.events) {
            self.end(now, ended);
            return if self.is_closing {
                Next::Over
            } else {
                Next::Wait(None)
            };
        }
        let silent_at = current.heard_at() + self.silence_timeout;
        if now >= silent_at {
            self.end(
                now,
                Ended::PeerSilent {
                    waited: self.silence_timeout,
                },
            );
            return Next::Wait(None);
        }
        Next::Wait(Some(current.next_at().unwrap_or(silent_at).min(silent_at)))
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

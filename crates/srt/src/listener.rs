//! The listening end: many callers at one port.

mod request;

use core::net::{IpAddr, SocketAddr};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use anabranch_units::{Duration, Instant, Limiter, Limits, Occupant, Rate, Right, evicted};

use crate::connection::{CloseReason, Connection, SendError};
use crate::cookie::Cookies;
use crate::entropy::Entropy;
use crate::rejection::Rejection;
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::wire::handshake::{Handshake, HandshakeType, MAGIC, VERSION_5};
use crate::wire::{Control, Packet};

use request::{Answer, Conclusion};

/// Most connections of a listener.
pub const MAX_CONNECTIONS: usize = 64;
/// Bytes of payloads that may wait in all connections, in each direction. Beyond, each has an equal
/// share. Plain payloads that are sent are the output's, and do not count.
pub const MAX_BUFFERED_BYTES: usize = 128 << 20;
/// Requests that get a place: a key costs a millisecond to derive (PBKDF2), so that 50 a second
/// take a twentieth of a core. A host has fewer, and more than the callers of one studio need.
const REQUESTS: Limits = Limits {
    total: Rate {
        burst: 64,
        interval: Duration::from_millis(20),
    },
    host: Rate {
        burst: 32,
        interval: Duration::from_millis(50),
    },
};
/// Handshakes that wait to leave.
const MAX_OUTGOING: usize = 256;

/// Identifies a connection of a listener. The default is no connection's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(u32);

/// A caller's wish, before it is admitted. Its address is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Address of the caller.
    pub caller: SocketAddr,
    /// Stream ID, if it gives one.
    pub stream_id: Option<String>,
    /// Whether it encrypts. A passphrase is compared after the admission.
    pub is_encrypted: bool,
}

/// Decides about a request: the settings of the connection, or the reason of a refusal.
pub type Admit<'a> = dyn FnMut(&Request) -> Result<Settings, Rejection> + 'a;

/// Events of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A caller was admitted and is connected.
    Connected(ConnectionId, Request),
    /// A caller with a proven address was refused.
    Refused(Request, Rejection),
    /// A connection is over, and all that had arrived was delivered.
    Closed(ConnectionId, Statistics, CloseReason),
}

/// A listener, sans-IO. It keeps nothing of callers that have not proven their address.
#[derive(Debug)]
pub struct Listener {
    began_at: Instant,
    entropy: Entropy,
    cookies: Cookies,
    limiter: Limiter,
    peers: BTreeMap<ConnectionId, Peer>,
    /// Connections by the caller's address and socket.
    callers: BTreeMap<(SocketAddr, u32), ConnectionId>,
    outgoing: VecDeque<(SocketAddr, Vec<u8>)>,
    events: VecDeque<Event>,
}

/// A connection and the answer that has made it.
#[derive(Debug)]
struct Peer {
    caller: SocketAddr,
    origin: IpAddr,
    caller_id: u32,
    connection: Connection,
    /// Body of the answer, for repeated conclusions.
    answer: Vec<u8>,
}

impl Listener {
    /// Makes a listener without connections.
    pub fn new(now: Instant, mut entropy: Entropy) -> Self {
        Listener {
            began_at: now,
            cookies: Cookies::new(&mut entropy),
            entropy,
            limiter: Limiter::new(REQUESTS),
            peers: BTreeMap::new(),
            callers: BTreeMap::new(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Returns a connection.
    pub fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.peers.get_mut(&id).map(|peer| &mut peer.connection)
    }

    /// Returns all connections.
    pub fn connection_ids(&self) -> Vec<ConnectionId> {
        self.peers.keys().copied().collect()
    }

    /// Returns the number of connections.
    pub fn connection_count(&self) -> usize {
        self.peers.len()
    }

    /// Takes a datagram from `caller`. Requests go to `admit`.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        caller: SocketAddr,
        datagram: &[u8],
        admit: &mut Admit<'_>,
    ) {
        self.handle_relayed(now, (caller, caller.ip()), datagram, admit);
    }

    /// Takes a datagram from `caller` that a relay of this program has taken from `origin`: limits
    /// and places are by the origin.
    pub fn handle_relayed(
        &mut self,
        now: Instant,
        (caller, origin): (SocketAddr, IpAddr),
        datagram: &[u8],
        admit: &mut Admit<'_>,
    ) {
        let Some(packet) = Packet::parse(datagram) else {
            return;
        };
        if let Packet::Control {
            control: Control::Handshake(body),
            timestamp,
            ..
        } = packet
        {
            if let Some(handshake) = Handshake::parse(body) {
                self.on_handshake(now, (caller, origin), &handshake, timestamp, admit);
            }
            return;
        }
        let id = ConnectionId(packet.destination());
        let has_room = self.has_room(id, &packet);
        if let Some(peer) = self.peers.get_mut(&id)
            && peer.caller == caller
            && has_room
        {
            peer.connection.handle_packet(now, packet);
        }
    }

    /// Returns whether the connection's share of memory has room for the packet.
    fn has_room(&self, id: ConnectionId, packet: &Packet<'_>) -> bool {
        fn buffered(peer: &Peer) -> usize {
            peer.connection.buffered_bytes()
        }

        let Packet::Data(..) = packet else {
            return true;
        };
        let all: usize = self.peers.values().map(buffered).sum();
        let its = self.peers.get(&id).map_or(0, buffered);
        all < MAX_BUFFERED_BYTES || its < MAX_BUFFERED_BYTES / self.peers.len().max(1)
    }

    fn on_handshake(
        &mut self,
        now: Instant,
        (caller, origin): (SocketAddr, IpAddr),
        handshake: &Handshake<'_>,
        timestamp: u32,
        admit: &mut Admit<'_>,
    ) {
        match handshake.kind {
            HandshakeType::Induction => self.give_cookie(now, caller, handshake),
            HandshakeType::Conclusion => {
                if !self.cookies.is_valid(now, caller, handshake.cookie) {
                    return;
                }
                let place = (caller, handshake.socket_id);
                match self.callers.get(&place) {
                    Some(&id) => self.answer_again(now, id),
                    None => {
                        self.on_conclusion(now, (caller, origin), handshake, timestamp, admit);
                    }
                }
            }
            HandshakeType::Rendezvous | HandshakeType::Rejected(_) => {}
        }
    }

    /// Answers an induction with a cookie, in as many bytes (§4.3.1.1).
    fn give_cookie(&mut self, now: Instant, caller: SocketAddr, induction: &Handshake<'_>) {
        let answer = Handshake {
            version: VERSION_5,
            encryption: 0,
            extension_field: MAGIC,
            cookie: self.cookies.make(now, caller),
            extensions: &[],
            ..*induction
        };
        let body = answer.to_bytes();
        self.push(now, caller, induction.socket_id, &body);
    }

    fn answer_again(&mut self, now: Instant, id: ConnectionId) {
        if let Some(peer) = self.peers.get(&id) {
            let (caller, caller_id, body) = (peer.caller, peer.caller_id, peer.answer.clone());
            self.push(now, caller, caller_id, &body);
        }
    }

    fn on_conclusion(
        &mut self,
        now: Instant,
        (caller, origin): (SocketAddr, IpAddr),
        handshake: &Handshake<'_>,
        timestamp: u32,
        admit: &mut Admit<'_>,
    ) {
        let conclusion = Conclusion::parse(caller, handshake);
        let request = conclusion.request.clone();
        let settings = conclusion.settings(admit);
        // Others are refused, which costs nothing.
        if settings.is_ok() && !self.limiter.admit(now, origin) {
            // The caller repeats its conclusion.
            return;
        }
        let answered = settings
            .and_then(|its| self.answer(now, (&conclusion, origin), handshake, timestamp, its));
        let event = match answered {
            Ok((answer, connection)) => {
                let id = ConnectionId(connection.local_id());
                if connection.is_encrypted() {
                    self.limiter.trust(now, origin);
                }
                self.push(now, caller, handshake.socket_id, &answer);
                self.callers.insert((caller, handshake.socket_id), id);
                let peer = Peer {
                    caller,
                    origin,
                    caller_id: handshake.socket_id,
                    connection,
                    answer,
                };
                self.peers.insert(id, peer);
                Event::Connected(id, request)
            }
            Err(rejection) => {
                let answer = request::refusal(handshake, rejection);
                self.push(now, caller, handshake.socket_id, &answer);
                Event::Refused(request, rejection)
            }
        };
        if self.events.len() < MAX_OUTGOING || matches!(event, Event::Connected(..)) {
            self.events.push_back(event);
        }
    }

    fn answer(
        &mut self,
        now: Instant,
        (conclusion, origin): (&Conclusion<'_>, IpAddr),
        handshake: &Handshake<'_>,
        timestamp: u32,
        settings: Settings,
    ) -> Result<(Vec<u8>, Connection), Rejection> {
        let answer = Answer {
            now,
            began_at: self.began_at,
            local_id: self.free_id(),
            timestamp,
            settings,
        };
        let (answer, connection) = answer.connect(conclusion, handshake, self.entropy.derive())?;
        let id = ConnectionId(connection.local_id());
        self.make_room(now, &place(id, origin, &connection))?;
        Ok((answer, connection))
    }

    /// Ends a connection for another one, if the listener is full.
    ///
    /// # Errors
    /// All others have a better right to their places.
    fn make_room(
        &mut self,
        now: Instant,
        newcomer: &Occupant<ConnectionId, Instant>,
    ) -> Result<(), Rejection> {
        if self.peers.len() < MAX_CONNECTIONS {
            return Ok(());
        }
        let peers = self.peers.iter();
        let places: Vec<_> = peers
            .map(|(&id, peer)| place(id, peer.origin, &peer.connection))
            .collect();
        let given_up = evicted(&places, newcomer, |_| true).ok_or(Rejection::Resource)?;
        if let Some(peer) = self.peers.get_mut(&given_up) {
            peer.connection.close(now);
        }
        self.remove(now, given_up);
        Ok(())
    }

    /// Sends a payload of an output over a connection, as [`Connection::send_shared`]. Encrypted
    /// payloads of all connections have a total; beyond it, each has an equal share.
    ///
    /// # Errors
    /// As of [`Connection::send_shared`]; also if the connection is over.
    pub fn send(
        &mut self,
        now: Instant,
        id: ConnectionId,
        payload: &Arc<[u8]>,
    ) -> Result<(), SendError> {
        let peers = self.peers.values();
        let all: usize = peers.map(|peer| peer.connection.own_sending_bytes()).sum();
        let share = MAX_BUFFERED_BYTES / self.peers.len().max(1);
        let peer = self.peers.get_mut(&id).ok_or(SendError::Closed)?;
        if all >= MAX_BUFFERED_BYTES && peer.connection.own_sending_bytes() >= share {
            return Err(SendError::Full);
        }
        peer.connection.send_shared(now, payload)
    }

    fn free_id(&mut self) -> u32 {
        loop {
            let id = self.entropy.u32();
            if id != 0 && !self.peers.contains_key(&ConnectionId(id)) {
                return id;
            }
        }
    }

    fn push(&mut self, now: Instant, caller: SocketAddr, caller_id: u32, body: &[u8]) {
        if self.outgoing.len() < MAX_OUTGOING {
            let timestamp = now.saturating_since(self.began_at).as_micros() as u32;
            let packet = Control::Handshake(body).to_packet(timestamp, caller_id);
            self.outgoing.push_back((caller, packet));
        }
    }

    /// Acts on all timers that have expired, and removes connections that are over.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut over = Vec::new();
        for (id, peer) in &mut self.peers {
            peer.connection.handle_timeout(now);
            if peer.connection.is_drained() {
                over.push(*id);
            }
        }
        for id in over {
            self.remove(now, id);
        }
    }

    fn remove(&mut self, now: Instant, id: ConnectionId) {
        let Some(mut peer) = self.peers.remove(&id) else {
            return;
        };
        self.callers.remove(&(peer.caller, peer.caller_id));
        while let Some(packet) = peer.connection.poll_transmit(now) {
            self.outgoing.push_back((peer.caller, packet));
        }
        let reason = peer.connection.closed().unwrap_or(CloseReason::Local);
        self.events
            .push_back(Event::Closed(id, peer.connection.statistics(), reason));
    }

    /// Returns the next packet that leaves now, and its destination.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(SocketAddr, Vec<u8>)> {
        let handshake = self.outgoing.pop_front();
        handshake.or_else(|| {
            let mut peers = self.peers.values_mut();
            peers.find_map(|peer| {
                let packet = peer.connection.poll_transmit(now)?;
                Some((peer.caller, packet))
            })
        })
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the time of the next call, as [`Connection::poll_timeout`].
    pub fn poll_timeout(&self) -> Instant {
        let timeouts = self.peers.values().map(|peer| {
            let is_over = peer.connection.is_drained();
            if is_over {
                Instant::ZERO
            } else {
                peer.connection.poll_timeout()
            }
        });
        timeouts.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Ends all connections.
    pub fn close(&mut self, now: Instant) {
        for peer in self.peers.values_mut() {
            peer.connection.close(now);
        }
        self.handle_timeout(now);
    }
}

/// Returns the place of a connection: inputs keep theirs.
fn place(
    id: ConnectionId,
    address: IpAddr,
    connection: &Connection,
) -> Occupant<ConnectionId, Instant> {
    Occupant {
        id,
        address,
        right: match (connection.keeps_place(), connection.is_encrypted()) {
            (true, _) => Right::Kept,
            (false, true) => Right::Proven,
            (false, false) => Right::Stranger,
        },
        used_at: connection.heard_at(),
    }
}

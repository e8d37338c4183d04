//! A receiver's way to its relay: the registration, and the datagrams of peers within it.
//!
//! The receiver asks the relay for a session as a sender asks a receiver, and keeps it alive. Each
//! datagram of a peer then comes with the peer's address, so that everything above sees peers as if
//! they had called this machine themselves.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_secure::{
    Cookie, HEADER_BYTES, Initiator, Kind, PairingCode, PublicKey, Refusal, Reply, SecretKey,
    Session, TAG_BYTES, classify,
};
use anabranch_units::{Duration, Instant};

use super::message::{Message, write_datagram};
use crate::random;
use crate::session_parameters::SessionParameters;
use crate::socket::{Batch, MAX_BATCH_BYTES};

/// Interval of pings while nothing else is heard. NATs keep mappings for 30 s or longer.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Interval of pings while something that was sent is not answered.
const IMPATIENT_INTERVAL: Duration = Duration::from_secs(1);
/// Number of unanswered pings after which the registration is requested again.
const MAX_UNANSWERED: u32 = 3;
/// An initiation is sent again after this time, then after twice as long, …
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// … and at last at this interval.
const LAST_RETRY: Duration = Duration::from_secs(5);
/// Least time between an initiation and the next one that a reset or the relay's end causes.
const AFTER_RESET: Duration = Duration::from_millis(100);

/// The relay of a receiver.
#[derive(Debug)]
pub struct RelayAccess {
    /// Address of the relay.
    pub address: SocketAddr,
    /// Public key of the relay.
    pub key: PublicKey,
    /// Code of a link, if the relay does not know the receiver's key yet.
    pub code: Option<PairingCode>,
}

/// State of a receiver's registration at its relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayState {
    /// The relay has not answered yet, or no longer answers.
    Waiting,
    /// The relay passes datagrams on.
    Registered,
    /// The relay has refused.
    Refused(Refusal),
}

/// The way to the relay, which a port and its role share.
#[derive(Clone, Debug)]
pub(crate) struct SharedUplink(Arc<Mutex<Uplink>>);

impl SharedUplink {
    pub(crate) fn new(uplink: Uplink) -> Self {
        SharedUplink(Arc::new(Mutex::new(uplink)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Uplink> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request for a session that waits for its answer.
struct Asking {
    initiator: Initiator,
    cookie: Option<Cookie>,
    retry_at: Instant,
    retry_after: Duration,
}

pub(crate) struct Uplink {
    local: SecretKey,
    access: RelayAccess,
    asking: Option<Asking>,
    session: Option<Session>,
    state: RelayState,
    /// Time at which an authentic datagram last came.
    heard_at: Instant,
    /// Whether something has left since it was last looked at.
    has_sent: bool,
    ping_at: Instant,
    ping_number: u64,
    unanswered_count: u32,
    /// Peers that have proven their addresses.
    proven: BTreeSet<SocketAddr>,
    /// Datagrams for the relay that wait for [`take_outgoing`](Self::take_outgoing).
    outgoing: Vec<Vec<u8>>,
    /// Room for the plaintext of a datagram.
    plaintext: Vec<u8>,
}

impl core::fmt::Debug for Uplink {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Uplink")
            .field("access", &self.access)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Uplink {
    pub(crate) fn new(local: SecretKey, access: RelayAccess) -> Self {
        Uplink {
            local,
            access,
            asking: None,
            session: None,
            state: RelayState::Waiting,
            heard_at: Instant::ZERO,
            has_sent: false,
            ping_at: Instant::ZERO,
            ping_number: 0,
            unanswered_count: 0,
            proven: BTreeSet::new(),
            outgoing: Vec::new(),
            plaintext: Vec::new(),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.access.address
    }

    pub(crate) fn state(&self) -> RelayState {
        self.state
    }

    /// Sets the peers that have proven their addresses.
    pub(crate) fn set_proven(&mut self, proven: BTreeSet<SocketAddr>) {
        self.proven = proven;
    }

    /// Takes a datagram that has come to the relay's port. Returns the peer of the datagram within
    /// it, and the position of that datagram, if there is one.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Option<(SocketAddr, core::ops::Range<usize>)> {
        if canonical(from) != canonical(self.access.address) {
            return None;
        }
        match classify(datagram)? {
            Kind::Response => self.handle_response(now, datagram),
            Kind::CookieReply => self.handle_cookie(now, datagram),
            Kind::Reset => self.handle_reset(now, datagram),
            Kind::Data => return self.open(now, datagram),
            Kind::Initiation | Kind::VersionNotice => {}
        }
        None
    }

    fn handle_response(&mut self, now: Instant, datagram: &[u8]) {
        let Some(asking) = &mut self.asking else {
            return;
        };
        match asking.initiator.handle_response(datagram) {
            Ok(Reply::Agreed(agreed)) => {
                self.asking = None;
                self.access.code = None;
                self.session = Some(agreed.session);
                self.state = RelayState::Registered;
                self.heard_at = now;
                self.unanswered_count = 0;
                // The relay believes the session once a datagram of it has come.
                self.ping(now);
            }
            Ok(Reply::Refused(reason)) => {
                self.state = RelayState::Refused(reason);
                self.asking = None;
                self.session = None;
                self.ask(now + LAST_RETRY);
            }
            Err(_) => {}
        }
    }

    fn handle_cookie(&mut self, now: Instant, datagram: &[u8]) {
        let Some(asking) = &mut self.asking else {
            return;
        };
        if let Ok(cookie) = asking.initiator.handle_cookie_reply(datagram)
            && asking.cookie.as_ref() != Some(&cookie)
        {
            let is_first = asking.cookie.replace(cookie).is_none();
            asking.retry_at = if is_first { now } else { now + AFTER_RESET };
        }
    }

    fn handle_reset(&mut self, now: Instant, datagram: &[u8]) {
        if self
            .session
            .as_ref()
            .is_some_and(|session| session.is_reset(datagram))
        {
            self.lose(now);
        }
    }

    /// Gives the session up, and asks for another one.
    fn lose(&mut self, now: Instant) {
        self.session = None;
        self.state = RelayState::Waiting;
        self.ask(now + AFTER_RESET);
    }

    fn ask(&mut self, at: Instant) {
        if self.asking.is_some() {
            return;
        }
        let parameters = SessionParameters::of_registration().to_block();
        let (local, peer) = (&self.local, &self.access.key);
        let index = random::session_index();
        self.asking = Some(Asking {
            initiator: match &self.access.code {
                Some(code) => Initiator::pairing(local, peer, index, parameters, code),
                None => Initiator::new(local, peer, index, parameters),
            },
            cookie: None,
            retry_at: at,
            retry_after: FIRST_RETRY,
        });
    }

    fn open(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
    ) -> Option<(SocketAddr, core::ops::Range<usize>)> {
        let opened = self.session.as_mut()?.open(datagram).ok()?;
        self.heard_at = now;
        self.unanswered_count = 0;
        if self.state == RelayState::Waiting {
            // It was only silent.
            self.state = RelayState::Registered;
            self.asking = None;
        }
        match Message::read(opened.plaintext)? {
            Message::Datagram { peer, bytes, .. } => {
                return Some((peer, HEADER_BYTES + bytes.start..HEADER_BYTES + bytes.end));
            }
            Message::Challenge(number) => self.send(&Message::Answer(number)),
            Message::Bye => self.lose(now),
            Message::Ping(_) | Message::Pong(_) | Message::Answer(_) => {}
        }
        None
    }

    fn send(&mut self, message: &Message) {
        let Some(session) = &mut self.session else {
            return;
        };
        let mut sealed = Vec::new();
        if session
            .seal_append(0, &message.to_bytes(), &mut sealed)
            .is_ok()
        {
            self.outgoing.push(sealed);
        }
    }

    fn ping(&mut self, now: Instant) {
        self.ping_number += 1;
        self.send(&Message::Ping(self.ping_number));
        self.ping_at = now + PING_INTERVAL;
    }

    /// Performs due steps. Returns the time of the next one.
    pub(crate) fn advance(&mut self, now: Instant) -> Instant {
        if self.session.is_none() {
            self.ask(now);
        } else {
            self.keep_alive(now);
        }
        if let Some(asking) = &mut self.asking
            && now >= asking.retry_at
        {
            self.outgoing.push(match &asking.cookie {
                Some(cookie) => asking.initiator.message_with(cookie),
                None => asking.initiator.message().to_vec(),
            });
            asking.retry_at = now + asking.retry_after;
            asking.retry_after = (asking.retry_after * 2).min(LAST_RETRY);
        }
        let asking = self.asking.as_ref().map(|asking| asking.retry_at);
        let ping = self.session.as_ref().map(|_| self.ping_at);
        [asking, ping]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(now + PING_INTERVAL)
    }

    /// Pings a relay that is silent, and asks for another session if it stays so.
    fn keep_alive(&mut self, now: Instant) {
        if core::mem::take(&mut self.has_sent) && now >= self.heard_at + IMPATIENT_INTERVAL {
            // The datagrams that were sent should have had an answer.
            self.ping_at = self
                .ping_at
                .min(self.heard_at.max(now) + IMPATIENT_INTERVAL);
        }
        if now < self.ping_at {
            return;
        }
        if now < self.heard_at + IMPATIENT_INTERVAL {
            self.ping_at = self.heard_at + PING_INTERVAL;
            return;
        }
        self.ping(now);
        self.unanswered_count += 1;
        self.ping_at = now + IMPATIENT_INTERVAL;
        if self.unanswered_count == MAX_UNANSWERED {
            self.state = RelayState::Waiting;
            self.ask(now);
        }
    }

    /// Takes the datagrams that are to be sent to the relay now.
    pub(crate) fn take_outgoing(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.outgoing)
    }

    /// Announces the end of this receiver.
    pub(crate) fn close(&mut self) {
        self.send(&Message::Bye);
    }

    /// Wraps the datagrams of a batch for the relay. Returns batches of a length that can be sent,
    /// each with the length of its datagrams; `None` if there is no session.
    pub(crate) fn wrap(&mut self, batch: &Batch<'_>) -> Option<Vec<(Vec<u8>, usize)>> {
        let session = self.session.as_mut()?;
        let peer = canonical(batch.to);
        let is_proven = self.proven.contains(&peer);
        let mut batches: Vec<(Vec<u8>, usize)> = Vec::new();
        for datagram in batch.bytes.chunks(batch.datagram_bytes) {
            write_datagram(&mut self.plaintext, peer, is_proven, datagram);
            let length = HEADER_BYTES + self.plaintext.len() + TAG_BYTES;
            let bytes = match batches.last_mut() {
                Some((bytes, of_each))
                    if bytes.len() + length <= MAX_BATCH_BYTES && *of_each >= length =>
                {
                    bytes
                }
                _ => {
                    batches.push((Vec::with_capacity(length), length));
                    &mut batches.last_mut()?.0
                }
            };
            session.seal_append(0, &self.plaintext, bytes).ok()?;
        }
        self.has_sent = true;
        Some(batches)
    }
}

/// Returns an address with IPv4 in its own spelling.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

//! An established connection, in both directions.

mod ending;
mod receiving;
mod sending;

use core::fmt;
use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_units::{Duration, Instant};

use crate::crypto::Keys;
use crate::negotiation::Agreed;
use crate::receive_buffer::Delivered;
use crate::rejection::Rejection;
use crate::rtt::Rtt;
use crate::sending_keys::SendingKeys;
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::tsbpd::PeerClock;
use crate::wire::key_material::KeyMaterial;
use crate::wire::{Control, Packet, SequenceNumber};

use receiving::Receiving;
use sending::Sending;

/// Silence after which a keepalive leaves (draft-sharabayko-srt-01, §3.2.3).
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which no packet can be decrypted after which the connection ends. Senders repeat a
/// message with keys every one and a half round trips (§6.1.6).
const UNDECRYPTABLE_TIMEOUT: Duration = Duration::from_secs(3);
/// Least time between two keys that are derived for a peer's messages: each costs a millisecond.
const DERIVATION_INTERVAL: Duration = Duration::from_secs(1);
/// Control packets that wait to leave; later ones are dropped.
const MAX_CONTROLS: usize = 256;

/// Cause of the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer has ended it.
    Peer,
    /// The peer has been silent for too long.
    Silence,
    /// This end has ended it.
    Local,
    /// The peer has not acknowledged a key, and the one in use may encrypt no more packets.
    KeyUsedUp,
    /// No packet of the peer could be decrypted for a while: a new connection brings its keys.
    Undecryptable,
    /// The listener has refused it.
    Refused(Rejection),
    /// No listener has answered.
    NoAnswer,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Peer => f.write_str("the peer has ended the connection"),
            CloseReason::Silence => f.write_str("the peer is silent"),
            CloseReason::Local => f.write_str("this end has ended the connection"),
            CloseReason::KeyUsedUp => f.write_str("the peer has not taken the next key"),
            CloseReason::Undecryptable => {
                f.write_str("its packets cannot be decrypted: a message with keys was lost")
            }
            CloseReason::Refused(rejection) => write!(f, "refused: {rejection}"),
            CloseReason::NoAnswer => f.write_str("no SRT listener has answered"),
        }
    }
}

/// The error that a payload could not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The payload is longer than a packet; [`Connection::max_payload_bytes`] is the limit.
    TooLong,
    /// The buffer is full; older packets leave it when they are acknowledged or too late.
    Full,
    /// The connection is over.
    Closed,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::TooLong => "the payload is longer than a packet: cut it",
            SendError::Full => "the send buffer is full: wait for acknowledgements",
            SendError::Closed => "the connection is over: open another one",
        })
    }
}

impl core::error::Error for SendError {}

/// Result of a handshake.
#[derive(Debug)]
pub(crate) struct Agreement {
    /// Time at which this end's timestamps are 0.
    pub(crate) began_at: Instant,
    pub(crate) local_id: u32,
    pub(crate) peer_id: u32,
    /// First sequence number in both directions.
    pub(crate) initial_sequence: SequenceNumber,
    pub(crate) peer_initial_sequence: SequenceNumber,
    /// Timestamp of the peer's handshake that has arrived now.
    pub(crate) peer_timestamp: u32,
    pub(crate) agreed: Agreed,
    pub(crate) cipher: Option<Cipher>,
}

/// Keys of both directions.
#[derive(Debug)]
pub(crate) struct Cipher {
    pub(crate) sending: SendingKeys,
    pub(crate) receiving: Keys,
}

/// A connection, sans-IO: the driver hands in datagrams and the time, and takes datagrams and
/// payloads. After any call, it asks [`Connection::poll_timeout`] when to call again.
#[derive(Debug)]
pub struct Connection {
    began_at: Instant,
    local_id: u32,
    peer_id: u32,
    settings: Settings,
    sending: Sending,
    receiving: Receiving,
    cipher: Option<Cipher>,
    rtt: Rtt,
    statistics: Statistics,
    /// Delay between a packet's origin here and its delivery at the peer.
    peer_latency: Duration,
    max_payload_bytes: usize,
    heard_at: Instant,
    spoke_at: Instant,
    controls: VecDeque<Vec<u8>>,
    /// Time of the first packet that could not be decrypted since one could.
    undecryptable_since: Option<Instant>,
    /// Time before which no other key is derived.
    derive_at: Instant,
    /// Time of [`Connection::finish`].
    finishing_since: Option<Instant>,
    closed: Option<CloseReason>,
}

impl Connection {
    pub(crate) fn new(now: Instant, agreement: Agreement, settings: Settings) -> Self {
        let clock = PeerClock::new(
            now,
            agreement.peer_timestamp,
            agreement.agreed.receive_latency,
        );
        let window = u64::from(settings.flow_window);
        Connection {
            began_at: agreement.began_at,
            local_id: agreement.local_id,
            peer_id: agreement.peer_id,
            sending: Sending::new(&agreement, &settings, now),
            receiving: Receiving::new(agreement.peer_initial_sequence, clock, window, now),
            cipher: agreement.cipher,
            rtt: Rtt::default(),
            statistics: Statistics::default(),
            peer_latency: agreement.agreed.peer_latency,
            max_payload_bytes: agreement.agreed.max_payload_bytes(),
            heard_at: now,
            spoke_at: now,
            controls: VecDeque::new(),
            undecryptable_since: None,
            derive_at: now,
            finishing_since: None,
            closed: None,
            settings,
        }
    }

    /// Returns this end's socket ID, the destination of the peer's packets.
    pub fn local_id(&self) -> u32 {
        self.local_id
    }

    /// Returns the longest payload of a packet.
    pub fn max_payload_bytes(&self) -> usize {
        self.max_payload_bytes
    }

    /// Returns the delay that both ends agreed on between a payload's origin here and its delivery
    /// at the peer.
    pub fn peer_latency(&self) -> Duration {
        self.peer_latency
    }

    /// Returns whether payloads are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.cipher.is_some()
    }

    /// Returns the cause of the end, if the connection is over.
    pub fn closed(&self) -> Option<CloseReason> {
        self.closed
    }

    /// Returns whether the connection is over and all that has arrived was delivered. The rest of
    /// a connection that this end has ended is of no use.
    pub fn is_drained(&self) -> bool {
        match self.closed {
            None => false,
            Some(CloseReason::Local) => true,
            Some(_) => self.receiving.buffer.next_due_at().is_none(),
        }
    }

    /// Returns the time of the peer's last packet.
    pub fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// Returns the counters.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            rtt: self.rtt.is_measured().then(|| self.rtt.smoothed()),
            rtt_variation: self.rtt.variation(),
            ..self.statistics
        }
    }

    /// Returns the bytes of payloads that wait to be delivered.
    pub fn buffered_bytes(&self) -> usize {
        self.receiving.buffer.bytes()
    }

    /// Returns the bytes of encrypted payloads that are not acknowledged. Plain ones are shared by
    /// the connections of an output.
    pub fn own_sending_bytes(&self) -> usize {
        self.sending.own_bytes()
    }

    /// Returns whether the connection keeps its place at a full listener.
    pub(crate) fn keeps_place(&self) -> bool {
        self.settings.keeps_place
    }

    /// Sends a payload, as a message of one packet.
    ///
    /// # Errors
    /// It is too long, the buffer is full, or the connection is over or ends.
    pub fn send(&mut self, now: Instant, payload: &[u8]) -> Result<(), SendError> {
        self.send_shared(now, &payload.into())
    }

    /// Sends a payload that other connections send too, as [`send`](Self::send). Unless it is
    /// encrypted, all share its memory.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    pub fn send_shared(&mut self, now: Instant, payload: &Arc<[u8]>) -> Result<(), SendError> {
        if self.closed.is_some() || self.finishing_since.is_some() {
            return Err(SendError::Closed);
        }
        if payload.len() > self.max_payload_bytes {
            return Err(SendError::TooLong);
        }
        let keys = self.cipher.as_mut().map(|cipher| &mut cipher.sending);
        if keys.as_ref().is_some_and(|keys| keys.is_used_up()) {
            self.end(now, CloseReason::KeyUsedUp);
            return Err(SendError::Closed);
        }
        let most = self.settings.flow_window as usize;
        self.statistics.send_dropped_packets += self.sending.drop_too_late(now);
        self.sending.push(now, payload, keys, most)
    }

    /// Takes a packet of the peer; packets that are malformed are counted.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) {
        match Packet::parse(datagram) {
            Some(packet) if packet.destination() == self.local_id => {
                self.handle_packet(now, packet);
            }
            _ => self.statistics.refused_packets += 1,
        }
    }

    pub(crate) fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        if self.closed.is_some() {
            return;
        }
        self.heard_at = now;
        match packet {
            Packet::Data(header, payload) => {
                if payload.len() > self.max_payload_bytes {
                    self.statistics.refused_packets += 1;
                    return;
                }
                self.on_data(now, header, payload);
            }
            Packet::Control {
                control, timestamp, ..
            } => self.on_control(now, control, timestamp),
        }
    }

    fn on_control(&mut self, now: Instant, control: Control<'_>, timestamp: u32) {
        match control {
            Control::Ack(ack) => self.on_ack(now, ack),
            Control::AckAck(number) => self.on_ack_ack(now, number, timestamp),
            Control::Nak(list) => self.on_nak(now, list),
            Control::DropRequest { first, last, .. } => {
                self.receiving.forget(first, last);
            }
            Control::Shutdown => self.closed = Some(CloseReason::Peer),
            Control::KeyMaterialRequest(message) => self.on_new_keys(now, message),
            Control::KeyMaterialResponse(message) => {
                if let Some(cipher) = &mut self.cipher {
                    cipher.sending.on_response(message);
                }
            }
            Control::Handshake(_) | Control::Keepalive | Control::Other => {}
        }
    }

    /// Takes new keys and answers with the same message (§6.1.6). A message that cannot be
    /// unwrapped changes nothing and gets no answer.
    fn on_new_keys(&mut self, now: Instant, message: &[u8]) {
        let Some(cipher) = &mut self.cipher else {
            return;
        };
        let Some(parsed) = KeyMaterial::parse(message) else {
            self.statistics.refused_packets += 1;
            return;
        };
        let is_new_salt = cipher.receiving.needs_derivation(&parsed);
        if is_new_salt && now < self.derive_at {
            // The peer repeats its message.
            return;
        }
        if is_new_salt {
            self.derive_at = now + DERIVATION_INTERVAL;
        }
        let is_taken = cipher.receiving.take(&parsed).is_ok();
        if is_taken {
            self.push_control(now, &Control::KeyMaterialResponse(message));
        } else {
            self.statistics.refused_packets += 1;
        }
    }

    fn timestamp(&self, at: Instant) -> u32 {
        at.saturating_since(self.began_at).as_micros() as u32
    }

    fn push_control(&mut self, now: Instant, control: &Control<'_>) {
        if self.controls.len() < MAX_CONTROLS {
            let packet = control.to_packet(self.timestamp(now), self.peer_id);
            self.controls.push_back(packet);
        }
    }

    /// Acts on all timers that have expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.closed.is_some() {
            return;
        }
        if now >= self.heard_at + self.settings.peer_idle_timeout {
            self.end(now, CloseReason::Silence);
            return;
        }
        self.statistics.send_dropped_packets += self.sending.drop_too_late(now);
        self.acknowledge_if_due(now);
        self.report_missing_if_due(now);
        self.sending.probe_if_due(now, &self.rtt);
        self.announce_key_if_due(now);
        if now >= self.spoke_at + KEEPALIVE_INTERVAL && self.controls.is_empty() {
            self.push_control(now, &Control::Keepalive);
        }
        self.close_if_finished(now);
    }

    fn announce_key_if_due(&mut self, now: Instant) {
        let rtt = self.rtt.smoothed();
        let Some(cipher) = &mut self.cipher else {
            return;
        };
        if cipher.sending.announces_at(rtt).is_some_and(|at| now >= at) {
            let message = cipher.sending.announce(now).map(<[u8]>::to_vec);
            if let Some(message) = message {
                self.push_control(now, &Control::KeyMaterialRequest(&message));
            }
        }
    }

    /// Returns the next packet that leaves now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        let packet = match self.controls.pop_front() {
            Some(control) => control,
            None if self.closed.is_some() => return None,
            None => self.next_data(now)?,
        };
        self.spoke_at = now;
        Some(packet)
    }

    /// Returns the next payload, if it is due.
    pub fn poll_payload(&mut self, now: Instant) -> Option<Delivered> {
        let delivered = self.receiving.buffer.pop(now)?;
        self.statistics.dropped_packets += delivered.dropped;
        Some(delivered)
    }

    /// Returns the time of the next call of [`Connection::handle_timeout`],
    /// [`Connection::poll_transmit`] and [`Connection::poll_payload`].
    pub fn poll_timeout(&self) -> Instant {
        if self.closed.is_some() {
            let due_at = self.receiving.buffer.next_due_at();
            return due_at.unwrap_or(Instant::FAR_FUTURE);
        }
        let rtt = self.rtt.smoothed();
        let keys = self.cipher.as_ref();
        let timers = [
            Some(self.heard_at + self.settings.peer_idle_timeout),
            Some(self.spoke_at + KEEPALIVE_INTERVAL),
            keys.and_then(|cipher| cipher.sending.announces_at(rtt)),
            self.sending.next_at(&self.rtt),
            self.receiving.next_at(&self.rtt),
            self.finishes_at(),
        ];
        let earliest = timers.into_iter().flatten().min();
        earliest.unwrap_or(Instant::FAR_FUTURE)
    }

    /// Ends the connection at once; [`Connection::finish`] lets the last payloads arrive. The
    /// shutdown leaves by [`Connection::poll_transmit`]. If it is lost, the peer notices the
    /// silence.
    pub fn close(&mut self, now: Instant) {
        self.end(now, CloseReason::Local);
    }

    fn end(&mut self, now: Instant, reason: CloseReason) {
        if self.closed.is_none() {
            self.push_control(now, &Control::Shutdown);
            self.closed = Some(reason);
        }
    }

    /// Records whether a packet of the peer could be decrypted.
    fn on_decrypted(&mut self, now: Instant, is_readable: bool) {
        if is_readable {
            self.undecryptable_since = None;
            return;
        }
        self.statistics.undecrypted_packets += 1;
        let since = *self.undecryptable_since.get_or_insert(now);
        if now.saturating_since(since) >= UNDECRYPTABLE_TIMEOUT {
            self.end(now, CloseReason::Undecryptable);
        }
    }
}

//! The calling end: induction, conclusion (draft-sharabayko-srt-01, §4.3.1), and the connection.

use core::net::SocketAddr;

use anabranch_units::{Duration, Instant};

use crate::connection::{Agreement, Cipher, CloseReason, Connection};
use crate::crypto::Keys;
use crate::entropy::Entropy;
use crate::negotiation::{self, Agreed};
use crate::rejection::Rejection;
use crate::sending_keys::SendingKeys;
use crate::settings::{KeyLength, Settings};
use crate::wire::handshake::{
    DATAGRAMS, Handshake, HandshakeType, MAGIC, VERSION_4, VERSION_5, address_field,
};
use crate::wire::{Control, Packet, SequenceNumber};

/// Interval at which a handshake is repeated, as libsrt's.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// A caller, sans-IO. Before it is connected, it repeats its handshake.
#[derive(Debug)]
pub struct Caller {
    settings: Settings,
    stream_id: Option<String>,
    began_at: Instant,
    give_up_at: Instant,
    local_id: u32,
    initial_sequence: SequenceNumber,
    peer_address: [u8; 16],
    entropy: Entropy,
    state: State,
}

#[derive(Debug)]
enum State {
    Handshaking(Box<Attempt>),
    Connected(Box<Connection>),
    Over(CloseReason),
}

/// A handshake that waits for its answer.
#[derive(Debug)]
struct Attempt {
    /// Body of the handshake.
    body: Vec<u8>,
    /// Time at which it leaves again.
    leaves_at: Instant,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Induction,
    Conclusion {
        /// Keys, and the message that carries them.
        keys: Option<(Keys, Vec<u8>)>,
    },
}

impl Caller {
    /// Calls a listener at `peer`. A stream ID longer than 512 bytes is left out.
    pub fn new(
        now: Instant,
        peer: SocketAddr,
        stream_id: Option<&str>,
        settings: Settings,
        mut entropy: Entropy,
    ) -> Self {
        let local_id = entropy.u32().max(1);
        let initial_sequence = SequenceNumber::new(entropy.u32());
        let give_up_at = now + settings.connect_timeout;
        let mut caller = Caller {
            settings,
            stream_id: stream_id.map(str::to_owned),
            began_at: now,
            give_up_at,
            local_id,
            initial_sequence,
            peer_address: address_field(peer.ip()),
            entropy,
            state: State::Over(CloseReason::NoAnswer),
        };
        let body = Handshake {
            version: VERSION_4,
            extension_field: DATAGRAMS,
            kind: HandshakeType::Induction,
            ..caller.handshake()
        };
        caller.state = State::Handshaking(Box::new(Attempt {
            body: body.to_bytes(),
            leaves_at: now,
            phase: Phase::Induction,
        }));
        caller
    }

    fn handshake(&self) -> Handshake<'static> {
        Handshake {
            version: VERSION_5,
            encryption: 0,
            extension_field: 0,
            initial_sequence: self.initial_sequence,
            mtu: self.settings.mtu,
            flow_window: self.settings.flow_window,
            kind: HandshakeType::Conclusion,
            socket_id: self.local_id,
            cookie: 0,
            peer_address: self.peer_address,
            extensions: &[],
        }
    }

    /// Sets the number of the first packet, before the conclusion leaves.
    #[cfg(test)]
    pub(crate) fn set_initial_sequence(&mut self, number: u32) {
        self.initial_sequence = SequenceNumber::new(number);
    }

    /// Returns the connection, once there is one.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            State::Connected(connection) => Some(connection),
            _ => None,
        }
    }

    /// Returns the cause of the end, if the connection or its attempt is over.
    pub fn closed(&self) -> Option<CloseReason> {
        match &self.state {
            State::Handshaking(_) => None,
            State::Connected(connection) => connection.closed(),
            State::Over(reason) => Some(*reason),
        }
    }

    /// Returns whether all is over, as [`Connection::is_drained`].
    pub fn is_drained(&self) -> bool {
        match &self.state {
            State::Handshaking(_) => false,
            State::Connected(connection) => connection.is_drained(),
            State::Over(_) => true,
        }
    }

    /// Takes a datagram of the listener.
    pub fn handle_datagram(&mut self, now: Instant, datagram: &[u8]) {
        match &mut self.state {
            State::Connected(connection) => connection.handle_datagram(now, datagram),
            State::Over(_) => {}
            State::Handshaking(_) => {
                let Some(Packet::Control {
                    control: Control::Handshake(body),
                    timestamp,
                    destination,
                }) = Packet::parse(datagram)
                else {
                    return;
                };
                let answer = if destination == self.local_id {
                    Handshake::parse(body)
                } else {
                    None
                };
                if let Some(answer) = answer {
                    self.on_answer(now, &answer, timestamp);
                }
            }
        }
    }

    fn on_answer(&mut self, now: Instant, answer: &Handshake<'_>, timestamp: u32) {
        let State::Handshaking(attempt) = &mut self.state else {
            return;
        };
        match (answer.kind, &mut attempt.phase) {
            (HandshakeType::Induction, Phase::Induction) => self.conclude(now, answer),
            (HandshakeType::Conclusion, Phase::Conclusion { keys }) => {
                let keys = keys.take();
                let connected = self.connect(now, answer, timestamp, keys);
                self.state = match connected {
                    Ok(connection) => State::Connected(Box::new(connection)),
                    Err(rejection) => State::Over(CloseReason::Refused(rejection)),
                };
            }
            (HandshakeType::Rejected(rejection), Phase::Conclusion { .. }) => {
                self.state = State::Over(CloseReason::Refused(rejection));
            }
            // Answers to repeated handshakes.
            _ => {}
        }
    }

    /// Answers a cookie with the conclusion.
    fn conclude(&mut self, now: Instant, answer: &Handshake<'_>) {
        if answer.version != VERSION_5 || answer.extension_field != MAGIC {
            self.state = State::Over(CloseReason::Refused(Rejection::Version));
            return;
        }
        let advertised = KeyLength::of_bytes(8 * usize::from(answer.encryption));
        let length = self
            .settings
            .key_length
            .or(advertised)
            .unwrap_or(KeyLength::Aes128);
        let keys = self.settings.passphrase.as_ref().map(|passphrase| {
            let keys = Keys::generate(passphrase, length, &mut self.entropy);
            let message = keys.message();
            (keys, message)
        });
        let message = keys.as_ref().map(|(_, message)| &message[..]);
        let stream_id = self.stream_id.as_deref();
        let (field, extensions) = negotiation::request(&self.settings, message, stream_id);
        let body = Handshake {
            encryption: message.map_or(0, |_| (length.bytes() / 8) as u16),
            extension_field: field,
            cookie: answer.cookie,
            extensions: &extensions,
            ..self.handshake()
        };
        self.state = State::Handshaking(Box::new(Attempt {
            body: body.to_bytes(),
            leaves_at: now,
            phase: Phase::Conclusion { keys },
        }));
    }

    fn connect(
        &mut self,
        now: Instant,
        answer: &Handshake<'_>,
        timestamp: u32,
        keys: Option<(Keys, Vec<u8>)>,
    ) -> Result<Connection, Rejection> {
        if answer.version != VERSION_5 {
            return Err(Rejection::Version);
        }
        let (peer, found) = negotiation::extensions(answer)?;
        let agreed = Agreed::of(&self.settings, answer, &peer)?;
        let requested = keys.as_ref().map(|(_, message)| &message[..]);
        negotiation::check_response(requested, found.key_material)?;
        let cipher = keys.map(|(keys, _)| {
            let refresh = self.settings.key_refresh;
            Cipher {
                sending: SendingKeys::new(keys.clone(), refresh, self.entropy.derive()),
                receiving: keys,
            }
        });
        let agreement = Agreement {
            began_at: self.began_at,
            local_id: self.local_id,
            peer_id: answer.socket_id,
            initial_sequence: self.initial_sequence,
            peer_initial_sequence: answer.initial_sequence,
            peer_timestamp: timestamp,
            agreed,
            cipher,
        };
        Ok(Connection::new(now, agreement, self.settings.clone()))
    }

    /// Acts on all timers that have expired.
    pub fn handle_timeout(&mut self, now: Instant) {
        match &mut self.state {
            State::Connected(connection) => connection.handle_timeout(now),
            State::Handshaking(_) if now >= self.give_up_at => {
                self.state = State::Over(CloseReason::NoAnswer);
            }
            _ => {}
        }
    }

    /// Returns the next packet that leaves now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        match &mut self.state {
            State::Connected(connection) => connection.poll_transmit(now),
            State::Handshaking(attempt) if now >= attempt.leaves_at => {
                attempt.leaves_at = now + RETRY_INTERVAL;
                let timestamp = now.saturating_since(self.began_at).as_micros() as u32;
                // Handshakes go to the listener, whose socket has the number 0.
                Some(Control::Handshake(&attempt.body).to_packet(timestamp, 0))
            }
            _ => None,
        }
    }

    /// Returns the time of the next call, as [`Connection::poll_timeout`].
    pub fn poll_timeout(&self) -> Instant {
        match &self.state {
            State::Connected(connection) => connection.poll_timeout(),
            State::Handshaking(attempt) => attempt.leaves_at.min(self.give_up_at),
            State::Over(_) => Instant::FAR_FUTURE,
        }
    }

    /// Ends the connection as [`Connection::finish`], or its attempt at once.
    pub fn finish(&mut self, now: Instant) {
        match &mut self.state {
            State::Connected(connection) => connection.finish(now),
            _ => self.close(now),
        }
    }

    /// Ends the connection or its attempt at once.
    pub fn close(&mut self, now: Instant) {
        match &mut self.state {
            State::Connected(connection) => connection.close(now),
            State::Handshaking(_) => self.state = State::Over(CloseReason::Local),
            State::Over(_) => {}
        }
    }
}

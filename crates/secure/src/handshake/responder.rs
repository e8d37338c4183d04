//! The end that accepts sessions, during their handshakes.

use core::fmt;
use core::net::SocketAddr;
use std::collections::BTreeSet;

use snow::HandshakeState;
use zeroize::Zeroizing;

use super::{
    ACCEPTED, ACCEPTED_REPLACEMENT, Agreed, HandshakeError, INDEX_BYTES, INITIATION_NOISE_AT,
    INITIATION_PAYLOAD_BYTES, MARKS_BYTES, ParameterBlock, RESPONSE_BYTES, RESPONSE_NOISE_AT,
    RESPONSE_PAYLOAD_BYTES, Refusal, STATUS_BYTES, VERSION, big_endian_u32, builder, screen,
    screen::Screen, split, write_message,
};
use crate::keys::{PublicKey, SecretKey};
use crate::kind::{Kind, RESPONSE_INDEX_AT};
use crate::mac::{self, COOKIE_REPLY_BYTES, Mac, VERSION_NOTICE_BYTES};
use crate::pairing::{CODE_BYTES, PairingCode};
use crate::reset::{RESET_BYTES, ResetKey, TOKEN_BYTES};

/// The end that accepts sessions. It knows the keys that it admits, and nothing of past handshakes:
/// its memory is bounded by the number of allowed peers.
///
/// The order of calls is that of their cost: [`screen`](Self::screen), then
/// [`read_initiation`](Self::read_initiation), then [`accept`](Self::accept) or
/// [`refuse`](Self::refuse). A replayed initiation passes all three. A driver therefore limits
/// their rate, remembers recent initiations by their [mark](Self::mark), and lets no session
/// replace another before [`Session::is_confirmed`](crate::Session::is_confirmed).
pub struct Responder {
    local: SecretKey,
    screen: Screen,
    reset_key: ResetKey,
    allowed: BTreeSet<PublicKey>,
    /// Codes for each of which it lets in one more peer.
    codes: Vec<PairingCode>,
}

/// An authentic initiation of an allowed peer, to be answered once. It may be a replay.
pub struct Request {
    noise: HandshakeState,
    peer: PublicKey,
    parameters: ParameterBlock,
    remote_index: u32,
    code: Option<PairingCode>,
}

/// A session for a peer, not confirmed yet.
#[derive(Debug)]
pub struct Answer {
    /// The datagram to send back to the initiation's source.
    pub response: [u8; RESPONSE_BYTES],
    /// The new session. [`Session::is_confirmed`](crate::Session::is_confirmed) decides whether it
    /// may replace an older one.
    pub agreed: Agreed,
}

impl Responder {
    /// Creates a responder that admits the holders of the `allowed` keys, and nobody if there are
    /// none.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn new(local: SecretKey, allowed: impl IntoIterator<Item = PublicKey>) -> Self {
        let public = local.public_key();
        Responder {
            screen: Screen::new(&public),
            reset_key: ResetKey::new(&local),
            local,
            allowed: allowed.into_iter().collect(),
            codes: Vec::new(),
        }
    }

    /// Sets the keys whose holders are admitted.
    pub fn set_allowed(&mut self, allowed: &[PublicKey]) {
        self.allowed = allowed.iter().copied().collect();
    }

    /// Lets in the holder of this key, too.
    pub fn allow(&mut self, peer: PublicKey) {
        self.allowed.insert(peer);
    }

    /// Accepts initiations of unknown peers with this code, too, from now on. The driver takes the
    /// code away after its first use and after some time. Each initiation with a code is compared
    /// with all codes, so the driver also limits their number.
    pub fn add_code(&mut self, code: PairingCode) {
        self.codes.push(code);
    }

    /// Takes a code away.
    pub fn remove_code(&mut self, code: &PairingCode) {
        self.codes.retain(|held| held != code);
    }

    /// Checks whether `datagram` looks like an initiation by somebody who knows this end's public
    /// key. It takes a microsecond, where a handshake takes hundreds.
    ///
    /// # Errors
    /// [`HandshakeError::Malformed`], [`HandshakeError::WrongMac`], or
    /// [`HandshakeError::OtherVersion`] with a correct mark.
    pub fn screen(&self, datagram: &[u8]) -> Result<(), HandshakeError> {
        self.screen.check(datagram)
    }

    /// Returns the first mark of an initiation that [`screen`](Self::screen) let pass. Two with the
    /// same mark are the same initiation, with any second marks. `None` for any other length.
    pub fn mark(datagram: &[u8]) -> Option<Mac> {
        screen::mark(datagram)
    }

    /// Returns whether an initiation's maker has the cookie of the address that it came from.
    pub fn proves_address(&self, source: SocketAddr, datagram: &[u8]) -> bool {
        self.screen.proves_address(source, datagram)
    }

    /// Answers an initiation that [`screen`](Self::screen) let pass while under load, with the
    /// means to prove that its maker receives at `source`. `None` for any other datagram. It keeps
    /// no state.
    pub fn cookie_reply(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
    ) -> Option<[u8; COOKIE_REPLY_BYTES]> {
        self.screen.cookie_reply(source, datagram)
    }

    /// Answers an initiation of another version, as reported by [`screen`](Self::screen), with this
    /// end's version. `None` if it has no marks.
    pub fn version_notice(&self, datagram: &[u8]) -> Option<[u8; VERSION_NOTICE_BYTES]> {
        let (_, asked) = screen::marked(datagram)?;
        Some(mac::version_notice(
            &self.local.public_key(),
            asked,
            VERSION,
        ))
    }

    /// Makes cookies of another secret from now on. Earlier ones stay valid until the next call; a
    /// call every two minutes suffices.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn rotate_cookies(&mut self) {
        self.screen.rotate_cookies();
    }

    /// Reads an initiation: half of a handshake's public-key work.
    ///
    /// # Errors
    /// Reason to drop the datagram without an answer.
    pub fn read_initiation(&self, datagram: &[u8]) -> Result<Request, HandshakeError> {
        self.screen(datagram)?;
        let message = &datagram[INITIATION_NOISE_AT..datagram.len() - MARKS_BYTES];
        let mut noise = builder(&self.local)
            .build_responder()
            .expect("every field of Noise IK's responder is set, once");
        let mut payload = Zeroizing::new([0; INITIATION_PAYLOAD_BYTES + CODE_BYTES]);
        let length = noise
            .read_message(message, &mut *payload)
            .map_err(|_| HandshakeError::Forged)?;
        let (payload, code) = payload[..length].split_at(INITIATION_PAYLOAD_BYTES);
        let peer = noise
            .get_remote_static()
            .and_then(|key| key.try_into().ok().map(PublicKey::claimed))
            .ok_or(HandshakeError::Forged)?;
        let is_allowed = self.allowed.contains(&peer);
        if !is_allowed && code.is_empty() {
            return Err(HandshakeError::NotAllowed(peer));
        }
        let used = self.codes.iter().find(|expected| expected.is(code));
        if !is_allowed && used.is_none() {
            return Err(HandshakeError::WrongCode(peer));
        }
        let (index, block) = payload.split_at(INDEX_BYTES);
        Ok(Request {
            noise,
            peer,
            parameters: ParameterBlock::read(block),
            remote_index: big_endian_u32(index),
            code: if is_allowed { None } else { used.cloned() },
        })
    }

    /// Accepts a session. `local_index` names it at this end and must be unique among this end's
    /// sessions, including unconfirmed ones. `had_session` says whether it replaces another one
    /// with the same peer. The initiator gets the `parameters`.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn accept(
        &self,
        mut request: Request,
        local_index: u32,
        had_session: bool,
        parameters: ParameterBlock,
    ) -> Answer {
        let mut payload = [0; RESPONSE_PAYLOAD_BYTES];
        let (status, rest) = payload.split_at_mut(STATUS_BYTES);
        status[0] = if had_session {
            ACCEPTED_REPLACEMENT
        } else {
            ACCEPTED
        };
        let (index, rest) = rest.split_at_mut(INDEX_BYTES);
        let (token, block) = rest.split_at_mut(TOKEN_BYTES);
        index.copy_from_slice(&local_index.to_be_bytes());
        token.copy_from_slice(self.reset_key.token(local_index).as_bytes());
        block.copy_from_slice(parameters.as_bytes());
        let response = request.respond(&payload);
        let session = split(&mut request.noise, local_index, request.remote_index, None);
        Answer {
            response,
            agreed: Agreed {
                session,
                parameters,
                had_session,
            },
        }
    }

    /// Refuses a session. Only the maker of the initiation can read the reason.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn refuse(&self, mut request: Request, reason: Refusal) -> [u8; RESPONSE_BYTES] {
        let mut payload = [0; RESPONSE_PAYLOAD_BYTES];
        payload[0] = reason as u8;
        request.respond(&payload)
    }

    /// Returns the answer to a protected datagram for a session `local_index` that this end does
    /// not have. It proves that to the session's initiator, and to nobody else. The holder of the
    /// key makes the same one before a restart and after.
    ///
    /// It must not be sent for an index in use, nor in answer to datagrams that are not longer, nor
    /// without a rate limit.
    pub fn reset(&self, local_index: u32) -> [u8; RESET_BYTES] {
        self.reset_key.reset(local_index)
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("allowed", &self.allowed)
            .finish_non_exhaustive()
    }
}

impl Request {
    /// Returns the peer's key, authenticated: its owner made the initiation at some time.
    pub fn peer(&self) -> PublicKey {
        self.peer
    }

    /// Returns the initiator's parameters.
    pub fn parameters(&self) -> &ParameterBlock {
        &self.parameters
    }

    /// Returns the code for which alone the peer is let in. The driver takes the code away and
    /// allows the peer. A replay can only register the peer that made the initiation.
    pub fn code(&self) -> Option<&PairingCode> {
        self.code.as_ref()
    }

    fn respond(&mut self, payload: &[u8; RESPONSE_PAYLOAD_BYTES]) -> [u8; RESPONSE_BYTES] {
        let mut response = [0; RESPONSE_BYTES];
        response[0] = Kind::Response as u8;
        let index = &mut response[RESPONSE_INDEX_AT..RESPONSE_NOISE_AT];
        index.copy_from_slice(&self.remote_index.to_be_bytes());
        write_message(&mut self.noise, payload, &mut response[RESPONSE_NOISE_AT..]);
        response
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("peer", &self.peer)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

//! The end that opens a session, during the handshake.

use core::fmt;

use snow::HandshakeState;
use zeroize::Zeroizing;

use super::{
    ACCEPTED, ACCEPTED_REPLACEMENT, Agreed, FIRST_MAC_AT, HandshakeError, INDEX_BYTES,
    INITIATION_BYTES, INITIATION_NOISE_AT, INITIATION_PAYLOAD_BYTES, ParameterBlock,
    RESPONSE_BYTES, RESPONSE_NOISE_AT, RESPONSE_PAYLOAD_BYTES, Refusal, STATUS_BYTES, VERSION,
    VERSION_AT, big_endian_u32, builder, first_mac, split, write_message,
};
use crate::keys::{PublicKey, SecretKey};
use crate::kind::{Kind, RESPONSE_INDEX_AT};
use crate::mac::{self, Cookie, MAC_BYTES};
use crate::pairing::{CODE_BYTES, PairingCode};
use crate::reset::{ResetToken, TOKEN_BYTES};

/// The end that opens a session, during the handshake.
pub struct Initiator {
    /// Noise's state; `None` once the response has arrived.
    noise: Option<HandshakeState>,
    local_index: u32,
    remote: PublicKey,
    /// The initiation without a second mark.
    initiation: Vec<u8>,
}

/// Answer of a responder, authenticated.
#[derive(Debug)]
pub enum Reply {
    /// A session. Its first datagram confirms it to the responder.
    Agreed(Box<Agreed>),
    /// No session now. Only a new [`Initiator`] can request one again.
    Refused(Refusal),
}

impl Initiator {
    /// Starts a handshake from the holder of `local` to the holder of `remote`. The responder gets
    /// the `parameters`.
    ///
    /// `local_index` names the session at this end, and must be unique among this end's sessions.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn new(
        local: &SecretKey,
        remote: &PublicKey,
        local_index: u32,
        parameters: ParameterBlock,
    ) -> Self {
        Initiator::with_code(local, remote, local_index, parameters, None)
    }

    /// Starts a handshake with a responder that does not know `local`, and lets it in for `code`.
    /// Other responders ignore the code.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn pairing(
        local: &SecretKey,
        remote: &PublicKey,
        local_index: u32,
        parameters: ParameterBlock,
        code: &PairingCode,
    ) -> Self {
        Initiator::with_code(local, remote, local_index, parameters, Some(code))
    }

    fn with_code(
        local: &SecretKey,
        remote: &PublicKey,
        local_index: u32,
        parameters: ParameterBlock,
        code: Option<&PairingCode>,
    ) -> Self {
        let mut noise = builder(local)
            .remote_public_key(remote.as_bytes())
            .and_then(snow::Builder::build_initiator)
            .expect("every field of Noise IK's initiator is set, once");
        let mut payload = Zeroizing::new([0; INITIATION_PAYLOAD_BYTES + CODE_BYTES]);
        let (requested, coded) = payload.split_at_mut(INITIATION_PAYLOAD_BYTES);
        let (index, block) = requested.split_at_mut(INDEX_BYTES);
        index.copy_from_slice(&local_index.to_be_bytes());
        block.copy_from_slice(parameters.as_bytes());
        let mut code_bytes = 0;
        if let Some(code) = code {
            coded.copy_from_slice(code.bytes());
            code_bytes = CODE_BYTES;
        }
        let payload = &payload[..INITIATION_PAYLOAD_BYTES + code_bytes];
        let mut initiation = vec![0; INITIATION_BYTES + code_bytes];
        initiation[0] = Kind::Initiation as u8;
        initiation[VERSION_AT] = VERSION;
        let (marked, macs) = initiation.split_at_mut(FIRST_MAC_AT + code_bytes);
        write_message(&mut noise, payload, &mut marked[INITIATION_NOISE_AT..]);
        macs[..MAC_BYTES].copy_from_slice(&mac::mac(&mac::first_key(remote), marked));
        Initiator {
            noise: Some(noise),
            local_index,
            remote: *remote,
            initiation,
        }
    }

    /// Returns the initiation, which is sent unchanged until the response arrives, at times that
    /// the driver chooses.
    pub fn message(&self) -> &[u8] {
        &self.initiation
    }

    /// Returns the same initiation for a responder under load, which answers only with a cookie. A
    /// cookie is valid for the address from which the responder saw the request.
    pub fn message_with(&self, cookie: &Cookie) -> Vec<u8> {
        let mut initiation = self.initiation.clone();
        let (marked, second) = initiation.split_at_mut(self.initiation.len() - MAC_BYTES);
        second.copy_from_slice(&cookie.mac(marked));
        initiation
    }

    /// Returns the cookie of a reply to [`message`](Self::message). Send
    /// [`message_with`](Self::message_with) it from the same address.
    ///
    /// # Errors
    /// [`HandshakeError::Forged`] if the responder did not make it in answer to this initiation.
    pub fn handle_cookie_reply(&self, datagram: &[u8]) -> Result<Cookie, HandshakeError> {
        Cookie::open(&self.remote, first_mac(&self.initiation), datagram)
            .ok_or(HandshakeError::Forged)
    }

    /// Returns the protocol version of a responder that cannot read [`message`](Self::message).
    /// Anybody who sees the initiation and knows the responder's public key can make such a notice.
    /// It explains the lack of a session, and must decide nothing.
    ///
    /// # Errors
    /// [`HandshakeError::Forged`] if it is no answer to this initiation.
    pub fn handle_version_notice(&self, datagram: &[u8]) -> Result<u8, HandshakeError> {
        mac::noticed_version(&self.remote, first_mac(&self.initiation), datagram)
            .ok_or(HandshakeError::Forged)
    }

    /// Returns the index that the response will be addressed to.
    pub fn local_index(&self) -> u32 {
        self.local_index
    }

    /// Returns whether the responder has answered.
    pub fn is_complete(&self) -> bool {
        self.noise.is_none()
    }

    /// Completes the handshake.
    ///
    /// # Errors
    /// The reason to drop the datagram. The handshake continues as if it had not arrived.
    pub fn handle_response(&mut self, datagram: &[u8]) -> Result<Reply, HandshakeError> {
        if datagram.len() != RESPONSE_BYTES || datagram[0] != Kind::Response as u8 {
            return Err(HandshakeError::Malformed);
        }
        let receiver_index = big_endian_u32(&datagram[RESPONSE_INDEX_AT..RESPONSE_NOISE_AT]);
        if receiver_index != self.local_index {
            return Err(HandshakeError::WrongSession);
        }
        let noise = self.noise.as_mut().ok_or(HandshakeError::AlreadyComplete)?;
        let mut payload = [0; RESPONSE_PAYLOAD_BYTES];
        noise
            .read_message(&datagram[RESPONSE_NOISE_AT..], &mut payload)
            .map_err(|_| HandshakeError::Forged)?;
        let (status, rest) = payload.split_at(STATUS_BYTES);
        let (index, rest) = rest.split_at(INDEX_BYTES);
        let (token, block) = rest.split_at(TOKEN_BYTES);
        let token = token.try_into().expect("a token follows the index");
        let token = ResetToken::from_bytes(token);
        let session = split(noise, self.local_index, big_endian_u32(index), Some(token));
        self.noise = None;
        if let status @ (ACCEPTED | ACCEPTED_REPLACEMENT) = status[0] {
            return Ok(Reply::Agreed(Box::new(Agreed {
                session,
                parameters: ParameterBlock::read(block),
                had_session: status == ACCEPTED_REPLACEMENT,
            })));
        }
        let mut reasons = Refusal::ALL.into_iter();
        let reason = reasons.find(|reason| *reason as u8 == status[0]);
        reason.map(Reply::Refused).ok_or(HandshakeError::Malformed)
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator")
            .field("local_index", &self.local_index)
            .field("is_complete", &self.noise.is_none())
            .finish_non_exhaustive()
    }
}

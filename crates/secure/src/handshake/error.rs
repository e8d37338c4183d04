//! Reasons for which a handshake datagram is dropped, and for which a session is refused.

use thiserror::Error;

use crate::keys::PublicKey;

/// Reason to drop a handshake datagram. It may come from chance or from an attacker, and the
/// handshake continues as if it had not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// The datagram is no handshake's: its length, its kind or a field has a value that is never
    /// sent.
    #[error("not a handshake datagram")]
    Malformed,
    /// Made by or for another key, or changed on the path.
    #[error("made for another key, or changed on its way")]
    Forged,
    /// Initiation of another protocol version, by somebody who knows this end's public key.
    #[error("of protocol version {0}, where this end speaks version {own}", own = super::VERSION)]
    OtherVersion(u8),
    /// Authentic, from a key that is not allowed here.
    #[error("the peer's key {0} is not on the list of allowed keys")]
    NotAllowed(PublicKey),
    /// Authentic, from a key that is not allowed here, with a code that does not let it in: a wrong
    /// one, or one that was used or has expired.
    #[error("the peer's key {0} is not allowed, and its code is wrong, used or expired")]
    WrongCode(PublicKey),
    /// Response to another handshake, by its session index.
    #[error("addressed to another session")]
    WrongSession,
    /// Response to a handshake that is over: a duplicate.
    #[error("the handshake is already complete")]
    AlreadyComplete,
    /// Initiation by somebody who does not know this end's public key, or changed on the path.
    #[error("its maker does not know this end's public key, or it was changed on its way")]
    WrongMac,
}

/// Reason for which a responder refuses a session to an allowed peer. The value is the status in
/// the response; 0 and 3 stand for an accepted session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// Sessions of other peers occupy all places.
    NoPlace = 1,
    /// The responder does not support the requested kind.
    NotCarried = 2,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Refusal; 2] = [Refusal::NoPlace, Refusal::NotCarried];
}

//! Why handshakes fail.

use thiserror::Error;

/// Why a handshake datagram was dropped. None is answered: who may not come in learns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum HandshakeError {
    /// Not of the kind or length expected here.
    #[error("not a handshake datagram of the expected kind and length")]
    Malformed,
    /// Made for another key or another version of the protocol, or changed on its way.
    #[error("made for another key or protocol version, or changed on its way")]
    Forged,
    /// Authentic, from a key that is not allowed here.
    #[error("the peer's key is not on the list of allowed keys")]
    NotAllowed,
    /// Authentic, but not newer than the newest initiation of the same key: a replay, or a peer
    /// whose clock went back.
    #[error("not newer than the peer's last initiation")]
    Stale,
    /// Authentic, and asks for a session of a kind that this end does not carry.
    #[error("asks for a session that carries what this end does not")]
    NotCarried,
    /// A response to another handshake, by its session index.
    #[error("addressed to another session")]
    WrongSession,
    /// A response to a handshake that is over: a duplicate.
    #[error("the handshake is already complete")]
    AlreadyComplete,
    /// An initiation by someone who does not know this end's public key, or changed on its way.
    #[error("its maker does not know this end's public key, or it was changed on its way")]
    WrongMac,
}

impl HandshakeError {
    /// Every kind.
    pub const ALL: [HandshakeError; 8] = [
        HandshakeError::Malformed,
        HandshakeError::Forged,
        HandshakeError::NotAllowed,
        HandshakeError::Stale,
        HandshakeError::NotCarried,
        HandshakeError::WrongSession,
        HandshakeError::AlreadyComplete,
        HandshakeError::WrongMac,
    ];
}

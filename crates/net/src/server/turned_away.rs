//! Senders that asked for a session and got none, until the owner asks.

use std::net::SocketAddr;

use anabranch_secure::{HandshakeError, PublicKey, Refusal};

/// A sender that asked for a session and got none. Its initiation may have been a replay, and from
/// anybody who knows this end's public key if it is not of an allowed peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnedAway {
    /// An allowed peer, which learnt the reason.
    Refused {
        /// The peer.
        peer: PublicKey,
        /// The reason.
        reason: Refusal,
    },
    /// Somebody whose key is not allowed, and was not answered. Only the newest is kept.
    NotAllowed {
        /// The key.
        peer: PublicKey,
        /// Address that the initiation came from.
        from: SocketAddr,
    },
    /// Somebody whose key is not allowed, and whose pairing code is wrong, used or expired. Only
    /// the newest of these and of those without a code is kept.
    WrongCode {
        /// The key.
        peer: PublicKey,
        /// Address that the initiation came from.
        from: SocketAddr,
    },
    /// A program of another protocol version, which learnt this end's. Only the newest is kept.
    OtherVersion {
        /// Its version.
        version: u8,
        /// Address that the initiation came from.
        from: SocketAddr,
    },
}

/// Memory is bounded by the number of allowed peers.
#[derive(Debug, Default)]
pub(super) struct TurnedAwayList {
    refused: Vec<(PublicKey, Refusal)>,
    others: [Option<TurnedAway>; 2],
}

impl TurnedAwayList {
    pub(super) fn add_refused(&mut self, peer: PublicKey, reason: Refusal) {
        if !self.refused.contains(&(peer, reason)) {
            self.refused.push((peer, reason));
        }
    }

    /// Notes an initiation that was dropped for a reason that the owner can do something about.
    pub(super) fn add(&mut self, from: SocketAddr, error: HandshakeError) {
        match error {
            HandshakeError::NotAllowed(peer) => {
                self.others[0] = Some(TurnedAway::NotAllowed { peer, from });
            }
            HandshakeError::WrongCode(peer) => {
                self.others[0] = Some(TurnedAway::WrongCode { peer, from });
            }
            HandshakeError::OtherVersion(version) => {
                self.others[1] = Some(TurnedAway::OtherVersion { version, from });
            }
            _ => {}
        }
    }

    pub(super) fn set_allowed(&mut self, allowed: &[PublicKey]) {
        self.refused.retain(|(peer, _)| allowed.contains(peer));
    }

    pub(super) fn take(&mut self) -> Vec<TurnedAway> {
        let refused = core::mem::take(&mut self.refused);
        let refused = refused.into_iter();
        let refused = refused.map(|(peer, reason)| TurnedAway::Refused { peer, reason });
        let others = core::mem::take(&mut self.others);
        refused.chain(others.into_iter().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    #[test]
    fn each_is_told_once_and_of_strangers_the_newest() {
        let mut list = TurnedAwayList::default();
        let from = "192.0.2.1:7000".parse().unwrap();
        let peer = SecretKey::generate().public_key();
        let reason = Refusal::NoPlace;
        for _ in 0..3 {
            list.add_refused(peer, reason);
        }
        let mut newest = peer;
        for _ in 0..10 {
            newest = SecretKey::generate().public_key();
            list.add(from, HandshakeError::NotAllowed(newest));
            list.add(from, HandshakeError::OtherVersion(9));
            list.add(from, HandshakeError::Forged);
        }
        let expected = [
            TurnedAway::Refused { peer, reason },
            TurnedAway::NotAllowed { peer: newest, from },
            TurnedAway::OtherVersion { version: 9, from },
        ];
        assert_eq!(list.take(), expected);
        assert_eq!(list.take(), []);
        list.add_refused(peer, reason);
        list.set_allowed(&[newest]);
        assert_eq!(list.take(), []);
    }
}

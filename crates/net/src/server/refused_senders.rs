//! Senders that requested a session and got none, until the owner takes them.

use std::net::SocketAddr;

use anabranch_secure::{HandshakeError, PublicKey, Refusal};

/// A sender that requested a session and got none. Its initiation may have been a replay. If it is
/// not of an allowed peer, anybody who knows this end's public key may have sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedSender {
    /// An allowed peer, which received the reason.
    Refused {
        /// The peer.
        peer: PublicKey,
        /// The reason.
        reason: Refusal,
    },
    /// An end whose key is not allowed, and which was not answered. Only the newest is kept.
    NotAllowed {
        /// The key.
        peer: PublicKey,
        /// Source address of the initiation.
        from: SocketAddr,
    },
    /// A sender whose key is not allowed, and whose pairing code is wrong, used or expired. Only
    /// the newest of these and of those without a code is kept.
    WrongCode {
        /// The key.
        peer: PublicKey,
        /// Source address of the initiation.
        from: SocketAddr,
    },
    /// A program of another protocol version, which received this end's version. Only the newest is
    /// kept.
    OtherVersion {
        /// The program's version.
        version: u8,
        /// Source address of the initiation.
        from: SocketAddr,
    },
}

/// Senders that were turned away. Memory is bounded by the number of allowed peers.
#[derive(Debug, Default)]
pub(crate) struct RefusedSenders {
    refused: Vec<(PublicKey, Refusal)>,
    others: [Option<RefusedSender>; 2],
}

impl RefusedSenders {
    pub(crate) fn add_refused(&mut self, peer: PublicKey, reason: Refusal) {
        if !self.refused.contains(&(peer, reason)) {
            self.refused.push((peer, reason));
        }
    }

    /// Records an initiation that was dropped for a reason that the owner can act on.
    pub(crate) fn add(&mut self, from: SocketAddr, error: HandshakeError) {
        match error {
            HandshakeError::NotAllowed(peer) => {
                self.others[0] = Some(RefusedSender::NotAllowed { peer, from });
            }
            HandshakeError::WrongCode(peer) => {
                self.others[0] = Some(RefusedSender::WrongCode { peer, from });
            }
            HandshakeError::OtherVersion(version) => {
                self.others[1] = Some(RefusedSender::OtherVersion { version, from });
            }
            _ => {}
        }
    }

    pub(crate) fn set_allowed(&mut self, allowed: &[PublicKey]) {
        self.refused.retain(|(peer, _)| allowed.contains(peer));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.refused.is_empty() && self.others.iter().all(Option::is_none)
    }

    pub(crate) fn take(&mut self) -> Vec<RefusedSender> {
        let refused = core::mem::take(&mut self.refused)
            .into_iter()
            .map(|(peer, reason)| RefusedSender::Refused { peer, reason });
        let others = core::mem::take(&mut self.others);
        refused.chain(others.into_iter().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    #[test]
    fn refusals_are_reported_once_newest_strangers() {
        let mut list = RefusedSenders::default();
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
            RefusedSender::Refused { peer, reason },
            RefusedSender::NotAllowed { peer: newest, from },
            RefusedSender::OtherVersion { version: 9, from },
        ];
        assert_eq!(list.take(), expected);
        assert_eq!(list.take(), []);
        list.add_refused(peer, reason);
        list.set_allowed(&[newest]);
        assert_eq!(list.take(), []);
    }
}

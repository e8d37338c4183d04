//! Peers that register by a code, which is good once and for a while.
//!
//! Nothing is kept of strangers. A wrong code costs a handshake, so the gate limits it like all
//! initiations; no number of them guesses 128 bits, or voids the right one.

use anabranch_secure::{PairingCode, PublicKey};
use anabranch_units::{Duration, Instant};

use super::ServerRole;

/// Outcome of a pairing code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PairingOutcome {
    /// A peer has used it, and is allowed. The next [`Receiver::set_allowed`] must name the peer.
    ///
    /// [`Receiver::set_allowed`]: crate::Receiver::set_allowed
    Paired(PublicKey),
    /// It has expired.
    Expired,
}

#[derive(Debug, Default)]
pub(super) struct Pairing {
    /// `None`: there is no code.
    expires_at: Option<Instant>,
    /// The peer that has used the code, until the owner knows it.
    paired: Option<PublicKey>,
    outcomes: Vec<PairingOutcome>,
}

impl ServerRole {
    /// Lets in the first peer that has `code`, until `lasts` is over.
    pub(crate) fn start_pairing(&mut self, now: Instant, code: PairingCode, lasts: Duration) {
        self.responder.set_code(Some(code));
        self.pairing.expires_at = Some(now + lasts);
    }

    /// Takes the outcomes of codes since the last call. From now on the owner names the peer.
    pub(crate) fn take_pairing_outcomes(&mut self, now: Instant) -> Vec<PairingOutcome> {
        self.expire_code(now);
        self.pairing.paired = None;
        core::mem::take(&mut self.pairing.outcomes)
    }

    /// Takes the code away whose time is over: before an initiation is read.
    pub(super) fn expire_code(&mut self, now: Instant) {
        if self.pairing.expires_at.is_some_and(|at| now >= at) {
            self.end_pairing(PairingOutcome::Expired);
        }
    }

    /// Allows the peer that has used the code.
    pub(super) fn pair(&mut self, peer: PublicKey) {
        self.responder.allow(peer);
        self.pairing.paired = Some(peer);
        self.end_pairing(PairingOutcome::Paired(peer));
    }

    /// Adds the peer that the owner does not know yet to those that it names.
    pub(super) fn with_paired(&self, allowed: &[PublicKey]) -> Vec<PublicKey> {
        let paired = self.pairing.paired.iter();
        let unknown = paired.filter(|peer| !allowed.contains(peer));
        allowed.iter().chain(unknown).copied().collect()
    }

    fn end_pairing(&mut self, outcomes: PairingOutcome) {
        self.responder.set_code(None);
        self.pairing.expires_at = None;
        self.pairing.outcomes.push(outcomes);
    }
}

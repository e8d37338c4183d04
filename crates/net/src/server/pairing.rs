//! Peers that register by a code, which is good once, for a while, and for a few wrong guesses.
//!
//! Nothing is kept of strangers but the number of their wrong codes. Each costs a handshake, so the
//! gate limits them like all initiations.

use anabranch_secure::{HandshakeError, PairingCode, PublicKey};
use anabranch_units::{Duration, Instant};

use super::ServerRole;

/// Wrong codes after which the right one is void. Chosen: a code of 128 bits is not guessed by any
/// number of them, so this many are an attack, which is reported to the owner.
const MAX_WRONG_COUNT: u32 = 32;

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
    /// It is void after too many wrong codes.
    TooManyGuesses,
}

#[derive(Debug, Default)]
pub(super) struct Pairing {
    /// `None`: there is no code.
    expires_at: Option<Instant>,
    wrong_count: u32,
    /// The peer that has used the code, until the owner knows it.
    paired: Option<PublicKey>,
    outcomes: Vec<PairingOutcome>,
}

impl ServerRole {
    /// Lets in the first peer that has `code`, until `lasts` is over.
    pub(crate) fn start_pairing(&mut self, now: Instant, code: PairingCode, lasts: Duration) {
        self.responder.set_code(Some(code));
        self.pairing.expires_at = Some(now + lasts);
        self.pairing.wrong_count = 0;
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

    /// Counts an initiation that was refused, if it had a wrong code while one is good.
    pub(super) fn count_wrong_code(&mut self, refused: HandshakeError) {
        let is_guess = matches!(refused, HandshakeError::WrongCode(_));
        if !is_guess || self.pairing.expires_at.is_none() {
            return;
        }
        self.pairing.wrong_count += 1;
        if self.pairing.wrong_count == MAX_WRONG_COUNT {
            self.end_pairing(PairingOutcome::TooManyGuesses);
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

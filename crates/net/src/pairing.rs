//! Peers that register by a code, each of which is good once and for a while.
//!
//! Nothing is kept of strangers. A wrong code costs a handshake, so the limiter limits it like all
//! initiations; no number of them guesses 128 bits, or voids a right one.

use anabranch_secure::{PairingCode, PublicKey, Responder};
use anabranch_units::{Duration, Instant};

/// Maximum number of codes at a time; the oldest gives way. Chosen: an initiation with a code is
/// compared with all of them.
const MAX_CODES: usize = 64;

/// Outcome of a pairing code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PairingOutcome {
    /// A peer has used it, and is allowed. The next [`Receiver::set_allowed`] must name the peer.
    ///
    /// [`Receiver::set_allowed`]: crate::Receiver::set_allowed
    Paired {
        /// The peer.
        peer: PublicKey,
        /// The code that it has used.
        code: PairingCode,
    },
    /// It has expired, or has made room for newer ones.
    Expired {
        /// The code.
        code: PairingCode,
    },
}

/// A code that waits for its peer.
#[derive(Debug)]
struct Offered {
    code: PairingCode,
    expires_at: Instant,
}

/// The codes of one end, and their outcomes.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    /// Codes, the oldest first.
    offered: Vec<Offered>,
    /// Peers that have used a code, until the owner knows them.
    paired: Vec<PublicKey>,
    outcomes: Vec<PairingOutcome>,
}

impl Pairing {
    /// Lets in the first peer that has `code`, until `lasts` is over.
    pub(crate) fn start(
        &mut self,
        responder: &mut Responder,
        now: Instant,
        code: PairingCode,
        lasts: Duration,
    ) {
        if self.offered.len() == MAX_CODES {
            self.expire_first(responder);
        }
        responder.add_code(code.clone());
        let expires_at = now + lasts;
        self.offered.push(Offered { code, expires_at });
    }

    /// Takes a code back, which has no outcome then.
    pub(crate) fn stop(&mut self, responder: &mut Responder, code: &PairingCode) {
        responder.remove_code(code);
        self.offered.retain(|offered| offered.code != *code);
    }

    /// Takes the outcomes of codes since the last call. From now on the owner names the peers.
    pub(crate) fn take_outcomes(
        &mut self,
        responder: &mut Responder,
        now: Instant,
    ) -> Vec<PairingOutcome> {
        self.expire(responder, now);
        self.paired.clear();
        core::mem::take(&mut self.outcomes)
    }

    /// Takes the codes away whose time is over: before an initiation is read.
    pub(crate) fn expire(&mut self, responder: &mut Responder, now: Instant) {
        while let Some(at) = self.offered.iter().position(|code| now >= code.expires_at) {
            let Offered { code, .. } = self.offered.remove(at);
            responder.remove_code(&code);
            self.outcomes.push(PairingOutcome::Expired { code });
        }
    }

    /// Allows the peer that has used a code.
    pub(crate) fn pair(&mut self, responder: &mut Responder, peer: PublicKey, code: PairingCode) {
        self.stop(responder, &code);
        responder.allow(peer);
        self.paired.push(peer);
        self.outcomes.push(PairingOutcome::Paired { peer, code });
    }

    /// Adds the peers that the owner does not know yet to those that it names.
    pub(crate) fn with_paired(&self, allowed: &[PublicKey]) -> Vec<PublicKey> {
        let paired = self.paired.iter();
        let unknown = paired.filter(|peer| !allowed.contains(peer));
        allowed.iter().chain(unknown).copied().collect()
    }

    fn expire_first(&mut self, responder: &mut Responder) {
        let Offered { code, .. } = self.offered.remove(0);
        responder.remove_code(&code);
        self.outcomes.push(PairingOutcome::Expired { code });
    }
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    fn expired(code: &PairingCode) -> PairingOutcome {
        PairingOutcome::Expired { code: code.clone() }
    }

    #[test]
    fn the_oldest_code_makes_room_and_one_that_is_taken_back_says_nothing() {
        let mut responder = Responder::new(SecretKey::generate(), []);
        let mut pairing = Pairing::default();
        let codes: Vec<PairingCode> = (0..=MAX_CODES).map(|_| PairingCode::generate()).collect();
        for code in &codes {
            let lasts = Duration::from_secs(600);
            pairing.start(&mut responder, Instant::ZERO, code.clone(), lasts);
        }
        let outcomes = pairing.take_outcomes(&mut responder, Instant::from_secs(599));
        assert_eq!(outcomes, [expired(&codes[0])]);
        pairing.stop(&mut responder, &codes[1]);
        let outcomes = pairing.take_outcomes(&mut responder, Instant::from_secs(600));
        assert_eq!(outcomes, codes[2..].iter().map(expired).collect::<Vec<_>>());
    }
}

//! Resets: a responder's notice to an initiator that it does not know the session.
//!
//! ```text
//! byte 0      kind, 5
//! bytes 1–4   the responder's session index, big-endian, as the unknown datagram had it
//! bytes 5–20  the session's reset token
//! ```
//!
//! After RFC 9000 §10.3. The token is a function of the responder's secret key and of the session
//! index, so a responder that was restarted can make it again. The handshake sends it to the
//! initiator, encrypted; nobody else knows it before the responder uses it.

use ring::hmac;
use subtle::ConstantTimeEq;

use crate::keys::SecretKey;
use crate::kind::{Kind, RESET_INDEX_AT};

/// Length of a reset: shorter than every datagram that it may answer, so that two ends do not
/// answer each other endlessly.
pub const RESET_BYTES: usize = 21;
/// Length of a reset token (RFC 9000 §10.3: 16 bytes are hard to guess).
pub(crate) const TOKEN_BYTES: usize = 16;

const TOKEN_AT: usize = RESET_BYTES - TOKEN_BYTES;
/// Label that separates the tokens' key from other keys derived of a static key.
const LABEL: &[u8] = b"anabranch 1 reset";

/// Proof that the responder no longer has the session.
#[derive(Clone, Copy)]
pub(crate) struct ResetToken([u8; TOKEN_BYTES]);

impl ResetToken {
    pub(crate) fn from_bytes(bytes: [u8; TOKEN_BYTES]) -> Self {
        ResetToken(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; TOKEN_BYTES] {
        &self.0
    }

    /// Returns whether the datagram is the reset of the responder's session `remote_index`.
    pub(crate) fn is_in(&self, datagram: &[u8], remote_index: u32) -> bool {
        let expected = reset(remote_index, self);
        // Compared in constant time, so that it does not reveal the number of correct bytes.
        datagram.ct_eq(&expected).into()
    }
}

/// Key of the reset tokens of a responder.
pub(crate) struct ResetKey(hmac::Key);

impl ResetKey {
    pub(crate) fn new(local: &SecretKey) -> Self {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, local.bytes());
        let derived = hmac::sign(&secret, LABEL);
        ResetKey(hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()))
    }

    /// Returns the token of the responder's session `local_index`.
    pub(crate) fn token(&self, local_index: u32) -> ResetToken {
        let tag = hmac::sign(&self.0, &local_index.to_be_bytes());
        let token = tag.as_ref().first_chunk();
        ResetToken(*token.expect("a tag has 32 bytes"))
    }

    /// Returns the reset of the session `local_index`, as if it were the responder's own.
    pub(crate) fn reset(&self, local_index: u32) -> [u8; RESET_BYTES] {
        reset(local_index, &self.token(local_index))
    }
}

fn reset(index: u32, token: &ResetToken) -> [u8; RESET_BYTES] {
    let mut datagram = [0; RESET_BYTES];
    datagram[0] = Kind::Reset as u8;
    datagram[RESET_INDEX_AT..TOKEN_AT].copy_from_slice(&index.to_be_bytes());
    datagram[TOKEN_AT..].copy_from_slice(&token.0);
    datagram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_of_the_key_makes_the_token_of_an_index() {
        let (owner, other) = (SecretKey::generate(), SecretKey::generate());
        let again = SecretKey::from_text(&owner.to_text()).unwrap();
        let (before, after) = (ResetKey::new(&owner), ResetKey::new(&again));
        let token = before.token(7);
        assert!(token.is_in(&after.reset(7), 7), "a restart changes nothing");
        assert!(!token.is_in(&after.reset(8), 7));
        assert!(!token.is_in(&after.reset(8), 8));
        assert!(!token.is_in(&ResetKey::new(&other).reset(7), 7));
        let mut changed = after.reset(7);
        for at in 0..RESET_BYTES {
            changed[at] ^= 1;
            assert!(!token.is_in(&changed, 7), "byte {at}");
            changed[at] ^= 1;
        }
        assert!(!token.is_in(&changed[..RESET_BYTES - 1], 7));
    }
}

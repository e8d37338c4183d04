//! The sequence of keys in one direction of a session.
//!
//! ```text
//! secret 0 = one of the two keys of Noise's Split()
//! key n         = HKDF-Expand(secret n, "anabranch key", 32)
//! secret n + 1  = HKDF-Expand(secret n, "anabranch update", 32)
//! ```
//!
//! HKDF is RFC 5869's with SHA-256. As in TLS 1.3 (RFC 8446 §7.2), an attacker that reads a key out
//! of memory learns nothing of the keys before it, but every key after it.

use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use zeroize::Zeroizing;

const SECRET_BYTES: usize = 32;

/// The secret of the next generation; earlier ones are forgotten.
pub(crate) struct KeyChain(Zeroizing<[u8; SECRET_BYTES]>);

impl KeyChain {
    /// Creates the chain whose secret 0 is `secret`.
    pub(crate) fn new(secret: &[u8; SECRET_BYTES]) -> Self {
        KeyChain(Zeroizing::new(*secret))
    }

    /// Returns the key of the next generation; generation 0's at first.
    pub(crate) fn next_key(&mut self) -> LessSafeKey {
        let secret = Prk::new_less_safe(HKDF_SHA256, &*self.0);
        let key = expanded(&secret, b"anabranch key");
        self.0 = expanded(&secret, b"anabranch update");
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).expect("AES-256 takes 32 bytes"))
    }
}

struct Secret;

impl KeyType for Secret {
    fn len(&self) -> usize {
        SECRET_BYTES
    }
}

fn expanded(secret: &Prk, info: &[u8]) -> Zeroizing<[u8; SECRET_BYTES]> {
    let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
    secret
        .expand(&[info], Secret)
        .and_then(|expanded| expanded.fill(&mut *bytes))
        .expect("32 bytes are far below HKDF's limit");
    bytes
}

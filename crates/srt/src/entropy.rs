//! Random bytes from one secret, so that a test can repeat a connection.

use core::fmt;

use ring::hmac;

/// Length of the secret in bytes.
pub const SECRET_BYTES: usize = 32;
/// Output of HMAC-SHA256.
const BLOCK_BYTES: usize = 32;

/// A stream of random bytes: HMAC-SHA256 of a counter (the generator of SP 800-108, §4.1).
pub struct Entropy {
    key: hmac::Key,
    counter: u64,
}

impl Entropy {
    /// Takes a secret, which a driver gets from the system.
    pub fn new(secret: &[u8; SECRET_BYTES]) -> Self {
        Entropy {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            counter: 0,
        }
    }

    /// Returns another generator, whose bytes are independent of this one's.
    pub fn derive(&mut self) -> Self {
        Entropy::new(&self.bytes())
    }

    /// Returns the next bytes, at most 32 of them.
    pub(crate) fn bytes<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        const { assert!(COUNT <= BLOCK_BYTES) };
        self.counter += 1;
        let block = hmac::sign(&self.key, &self.counter.to_be_bytes());
        let mut bytes = [0; COUNT];
        bytes.copy_from_slice(&block.as_ref()[..COUNT]);
        bytes
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes())
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_differ_from_each_other_and_repeat_with_the_secret() {
        let mut entropy = Entropy::new(&[1; SECRET_BYTES]);
        let first: [u8; 32] = entropy.bytes();
        let mut child = entropy.derive();
        let rest = [entropy.bytes::<32>(), child.bytes()];
        assert!(first != rest[0] && rest[0] != rest[1]);
        let mut again = Entropy::new(&[1; SECRET_BYTES]);
        assert_eq!(again.bytes::<32>(), first);
        assert_ne!(Entropy::new(&[2; SECRET_BYTES]).bytes::<32>(), first);
    }
}

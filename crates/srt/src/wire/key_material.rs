//! Key material messages (draft-sharabayko-srt-01, §3.2.2).

use super::KeyParity;

/// Length of the salt in bytes, the only one in use.
pub const SALT_BYTES: usize = 16;
/// Bytes by which a wrapped key is longer (RFC 3394).
pub const WRAP_BYTES: usize = 8;
/// Version 1 and packet type 2, "KMmsg".
const VERSION_AND_TYPE: u8 = 0x12;
/// Letters of the vendor Haivision.
const SIGNATURE: u16 = 0x2029;
/// Cipher AES-CTR.
const AES_CTR: u8 = 2;
/// Stream encapsulation "MPEG-TS/SRT".
const LIVE_SRT: u8 = 2;
const HEADER_BYTES: usize = 16;

/// Keys that a message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrappedKeys {
    /// One key.
    One(KeyParity),
    /// The even key and then the odd one.
    Both,
}

impl WrappedKeys {
    fn bits(self) -> u8 {
        match self {
            WrappedKeys::One(KeyParity::Even) => 1,
            WrappedKeys::One(KeyParity::Odd) => 2,
            WrappedKeys::Both => 3,
        }
    }

    fn of(bits: u8) -> Option<Self> {
        match bits & 3 {
            1 => Some(WrappedKeys::One(KeyParity::Even)),
            2 => Some(WrappedKeys::One(KeyParity::Odd)),
            3 => Some(WrappedKeys::Both),
            _ => None,
        }
    }

    /// Returns the number of keys.
    pub fn count(self) -> usize {
        match self {
            WrappedKeys::One(_) => 1,
            WrappedKeys::Both => 2,
        }
    }
}

/// A key material message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyMaterial<'a> {
    /// Keys in `wrapped`.
    pub keys: WrappedKeys,
    /// Length of a key: 16, 24 or 32 bytes.
    pub key_bytes: usize,
    /// Salt of key derivation and of the counter.
    pub salt: [u8; SALT_BYTES],
    /// Wrapped keys, eight bytes longer than the keys.
    pub wrapped: &'a [u8],
}

impl<'a> KeyMaterial<'a> {
    /// Parses a message; `None` if it is malformed, or of another cipher than AES-CTR.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let [kind, sign_high, sign_low, keys, rest_of_header @ ..] = header;
        // Index of the key-encrypting key (0), cipher, authentication, encapsulation.
        let [
            0,
            0,
            0,
            0,
            AES_CTR,
            0,
            LIVE_SRT,
            _,
            _,
            _,
            salt_words,
            key_words,
        ] = rest_of_header
        else {
            return None;
        };
        let is_ours = *kind == VERSION_AND_TYPE
            && u16::from_be_bytes([*sign_high, *sign_low]) == SIGNATURE
            && usize::from(*salt_words) * 4 == SALT_BYTES;
        let key_bytes = usize::from(*key_words) * 4;
        let keys = WrappedKeys::of(*keys)?;
        let (salt, wrapped) = rest.split_first_chunk()?;
        let has_keys = wrapped.len() == keys.count() * key_bytes + WRAP_BYTES;
        (is_ours && [16, 24, 32].contains(&key_bytes) && has_keys).then_some(KeyMaterial {
            keys,
            key_bytes,
            salt: *salt,
            wrapped,
        })
    }

    /// Returns the message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION_AND_TYPE];
        bytes.extend(SIGNATURE.to_be_bytes());
        bytes.push(self.keys.bits());
        bytes.extend([0, 0, 0, 0, AES_CTR, 0, LIVE_SRT, 0, 0, 0]);
        bytes.push((SALT_BYTES / 4) as u8);
        bytes.push((self.key_bytes / 4) as u8);
        bytes.extend(self.salt);
        bytes.extend(self.wrapped);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_3_2_2_round_trip_and_malformed_messages() {
        for (keys, key_bytes) in [
            (WrappedKeys::One(KeyParity::Even), 16),
            (WrappedKeys::One(KeyParity::Odd), 24),
            (WrappedKeys::Both, 32),
        ] {
            let wrapped = vec![7; keys.count() * key_bytes + WRAP_BYTES];
            let message = KeyMaterial {
                keys,
                key_bytes,
                salt: [5; SALT_BYTES],
                wrapped: &wrapped,
            };
            let bytes = message.to_bytes();
            assert_eq!(KeyMaterial::parse(&bytes), Some(message));
            for length in 0..bytes.len() {
                assert_eq!(KeyMaterial::parse(&bytes[..length]), None);
            }
            // Another cipher, as GCM; and lengths that do not fit.
            for (at, value) in [(8, 3), (9, 1), (14, 0), (15, 5), (0, 0x02), (3, 0)] {
                let mut other = bytes.clone();
                other[at] = value;
                assert_eq!(KeyMaterial::parse(&other), None, "byte {at}");
            }
        }
    }
}

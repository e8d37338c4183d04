//! Static X25519 keys (RFC 7748 §5) and their text.

use core::fmt;
use core::str::FromStr;

use snow::params::{DHChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::Dh;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

use crate::text::{self, DecodeError, ENCODED_CHARACTERS};

/// Handshake whose keys these are.
const NOISE_PROTOCOL: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
const PUBLIC_PREFIX: &str = "abpub_";
const SECRET_PREFIX: &str = "absec_";

/// Reason for which a text or 32 bytes are not a key. No message repeats any of the text: it may be
/// a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseKeyError {
    /// A secret key where a public one belongs.
    #[error(
        "this is a secret key (absec_…), which must never leave its owner: give the public key \
         that belongs to it, which starts with abpub_"
    )]
    SecretInsteadOfPublic,
    /// A public key where a secret one belongs.
    #[error("this is a public key (abpub_…): a secret key starts with absec_")]
    PublicInsteadOfSecret,
    /// No known prefix at the start.
    #[error(
        "a key is {expected} followed by 43 characters, and this does not start with {expected}"
    )]
    MissingPrefix {
        /// The prefix of the wanted kind of key.
        expected: &'static str,
    },
    /// Too few or too many characters: usually a key copied in part.
    #[error(
        "{character_count} characters follow the key's prefix, and 43 should: was it copied whole?"
    )]
    WrongLength {
        /// Characters after the prefix.
        character_count: usize,
    },
    /// A character outside of base64url.
    #[error(
        "character {position} after the key's prefix is none of A-Z, a-z, 0-9, \"-\" and \"_\" \
         (unpadded base64url)"
    )]
    WrongCharacter {
        /// Its position after the prefix, counted from 1.
        position: usize,
    },
    /// The last character holds bits that no key has.
    #[error("the key's last character is wrong: was it copied whole?")]
    TrailingBits,
    /// A point of small order, with which every shared secret is zero (RFC 7748 §6.1).
    #[error("this public key belongs to no secret key: with it, every shared secret would be zero")]
    SmallOrder,
}

impl From<DecodeError> for ParseKeyError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Length { character_count } => {
                ParseKeyError::WrongLength { character_count }
            }
            DecodeError::Character { position } => ParseKeyError::WrongCharacter {
                position: position + 1,
            },
            DecodeError::TrailingBits => ParseKeyError::TrailingBits,
        }
    }
}

/// The secret half of a static X25519 key pair: 32 bytes, wiped when dropped, never shown by
/// `Debug`.
///
/// The bytes live in one place on the heap, so that moving the key leaves no copies behind. Working
/// copies inside the Noise implementation, during a handshake, are freed but not wiped.
///
/// ```
/// use anabranch_secure::SecretKey;
///
/// let key = SecretKey::generate();
/// let file = key.to_text();
/// let read = SecretKey::from_text(&file)?;
/// assert_eq!(read.public_key(), key.public_key());
/// assert_eq!(format!("{key:?}"), "SecretKey(…)");
/// # Ok::<(), anabranch_secure::ParseKeyError>(())
/// ```
pub struct SecretKey(Box<Zeroizing<[u8; 32]>>);

impl SecretKey {
    /// Generates a key with the operating system's random generator.
    ///
    /// # Panics
    /// If the operating system has no randomness.
    pub fn generate() -> Self {
        let mut pair = snow::Builder::new(noise_params())
            .generate_keypair()
            .expect("the operating system's random generator failed");
        let mut secret = SecretKey(Box::default());
        secret.0.copy_from_slice(&pair.private);
        pair.private.zeroize();
        secret
    }

    /// Parses the output of [`to_text`](Self::to_text), with optional space around it.
    ///
    /// # Errors
    /// A [`ParseKeyError`] that describes the mistake in the text.
    pub fn from_text(text: &str) -> Result<Self, ParseKeyError> {
        let text = text.trim();
        if text.starts_with(PUBLIC_PREFIX) {
            return Err(ParseKeyError::PublicInsteadOfSecret);
        }
        let encoded = text
            .strip_prefix(SECRET_PREFIX)
            .ok_or(ParseKeyError::MissingPrefix {
                expected: SECRET_PREFIX,
            })?;
        let bytes = text::decode::<32>(encoded)?;
        let mut secret = SecretKey(Box::default());
        secret.0.copy_from_slice(&*bytes);
        Ok(secret)
    }

    /// Returns `absec_` and 43 characters of base64url, without a line's end: the content of a key
    /// file, which only its owner may read. The text is wiped when dropped.
    pub fn to_text(&self) -> Zeroizing<String> {
        // Room for all at once: a string that grows would leave pieces of the secret behind.
        let mut out = Zeroizing::new(String::with_capacity(
            SECRET_PREFIX.len() + ENCODED_CHARACTERS,
        ));
        out.push_str(SECRET_PREFIX);
        text::encode(&**self.0, &mut out);
        out
    }

    /// Returns the public half.
    pub fn public_key(&self) -> PublicKey {
        let mut x25519 = x25519();
        x25519.set(self.bytes());
        let mut public = [0; 32];
        public.copy_from_slice(x25519.pubkey());
        x25519.set(&[0; 32]);
        PublicKey(public)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

/// The public half of a static X25519 key pair: an end's name. Text: `abpub_` and 43 characters of
/// unpadded base64url (RFC 4648 §5).
///
/// ```
/// use anabranch_secure::{ParseKeyError, PublicKey, SecretKey};
///
/// let key = SecretKey::generate();
/// let name = key.public_key().to_string();
/// assert_eq!(name.parse::<PublicKey>()?, key.public_key());
/// // A secret key in the place of a public one is a mistake that has a name.
/// let mistake = key.to_text().parse::<PublicKey>();
/// assert_eq!(mistake, Err(ParseKeyError::SecretInsteadOfPublic));
/// # Ok::<(), ParseKeyError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Returns the key with these bytes.
    ///
    /// # Errors
    /// [`ParseKeyError::SmallOrder`] for the few points with which every shared secret is zero: an
    /// end that trusted one would trust everybody.
    pub fn from_bytes(bytes: [u8; 32]) -> Result<Self, ParseKeyError> {
        let mut x25519 = x25519();
        // Clamping makes every scalar a multiple of the cofactor: any one shows small order.
        x25519.set(&[1; 32]);
        let mut shared = [0; 32];
        x25519
            .dh(&bytes, &mut shared)
            .map_err(|_| ParseKeyError::SmallOrder)?;
        if shared == [0; 32] {
            Err(ParseKeyError::SmallOrder)
        } else {
            Ok(PublicKey(bytes))
        }
    }

    /// Returns the key that a peer claims, only for a search among keys that passed
    /// [`from_bytes`](Self::from_bytes). Its check would cost a flooded responder one more
    /// multiplication.
    pub(crate) fn claimed(bytes: [u8; 32]) -> Self {
        PublicKey(bytes)
    }

    /// Returns the key's 32 bytes, as RFC 7748 encodes them.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::with_capacity(PUBLIC_PREFIX.len() + ENCODED_CHARACTERS);
        out.push_str(PUBLIC_PREFIX);
        text::encode(&self.0, &mut out);
        f.pad(&out)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let text = text.trim();
        if text.starts_with(SECRET_PREFIX) {
            return Err(ParseKeyError::SecretInsteadOfPublic);
        }
        let encoded = text
            .strip_prefix(PUBLIC_PREFIX)
            .ok_or(ParseKeyError::MissingPrefix {
                expected: PUBLIC_PREFIX,
            })?;
        PublicKey::from_bytes(*text::decode(encoded)?)
    }
}

fn x25519() -> Box<dyn Dh> {
    DefaultResolver
        .resolve_dh(&DHChoice::Curve25519)
        .expect("snow is built with its X25519 implementation")
}

/// Returns the parameters of the handshake in which the keys are used.
pub(crate) fn noise_params() -> NoiseParams {
    NOISE_PROTOCOL
        .parse()
        .expect("snow knows its own name for Noise IK")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> [u8; 32] {
        core::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
    }

    #[test]
    fn public_key_of_rfc_7748_section_6_1() {
        let secret = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";
        let public = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
        let secret = SecretKey(Box::new(Zeroizing::new(unhex(secret))));
        assert_eq!(secret.public_key().as_bytes(), &unhex(public));
    }

    #[test]
    fn texts_read_back() {
        let secret = SecretKey::generate();
        let file = format!("{}\n", *secret.to_text());
        let read = SecretKey::from_text(&file).unwrap();
        assert_eq!(read.bytes(), secret.bytes());
        let public = secret.public_key();
        assert_eq!(public.to_string().parse(), Ok(public));
        assert_eq!(public.to_string().len(), 49);
        assert_eq!(read.public_key(), public);
    }

    #[test]
    fn generated_keys_differ() {
        assert_ne!(
            SecretKey::generate().public_key(),
            SecretKey::generate().public_key()
        );
    }

    #[test]
    fn debug_never_shows_the_secret() {
        assert_eq!(format!("{:?}", SecretKey::generate()), "SecretKey(…)");
        assert_eq!(format!("{:#?}", SecretKey::generate()), "SecretKey(…)");
    }

    #[test]
    fn wrong_texts_teach() {
        fn parse(text: &str) -> ParseKeyError {
            text.parse::<PublicKey>().unwrap_err()
        }

        let secret = SecretKey::generate();
        let public = secret.public_key().to_string();
        assert_eq!(
            parse(&secret.to_text()),
            ParseKeyError::SecretInsteadOfPublic
        );
        assert_eq!(
            SecretKey::from_text(&public).unwrap_err(),
            ParseKeyError::PublicInsteadOfSecret
        );
        assert_eq!(
            parse("hello"),
            ParseKeyError::MissingPrefix { expected: "abpub_" }
        );
        assert_eq!(
            parse(&public[..48]),
            ParseKeyError::WrongLength {
                character_count: 42
            }
        );
        assert_eq!(
            parse(&format!("abpub_+{}", &public[7..])),
            ParseKeyError::WrongCharacter { position: 1 }
        );
        assert_eq!(
            parse(&format!("{}B", &public[..48])),
            ParseKeyError::TrailingBits
        );
    }

    #[test]
    fn errors_repeat_nothing_of_a_secret() {
        let text = SecretKey::generate().to_text();
        let body = &text[SECRET_PREFIX.len()..];
        for wrong in [
            body.to_owned(),
            format!("absec_{body}A"),
            format!("absec_{}.", &body[1..]),
        ] {
            let error = SecretKey::from_text(&wrong).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(
                (0..35).all(|at| !shown.contains(&body[at..at + 8])),
                "{shown}"
            );
        }
        let shown = text.parse::<PublicKey>().unwrap_err().to_string();
        assert!(!shown.contains(&body[..8]), "{shown}");
    }

    #[test]
    fn points_of_small_order_are_refused() {
        let mut one = [0; 32];
        one[0] = 1;
        for point in [[0; 32], one] {
            assert_eq!(PublicKey::from_bytes(point), Err(ParseKeyError::SmallOrder));
        }
    }
}

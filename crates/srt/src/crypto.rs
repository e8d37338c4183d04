//! Encryption of payloads (draft-sharabayko-srt-01, §6): keys from a passphrase, wrapped keys, and
//! AES in counter mode. Nothing authenticates payloads or headers.

use core::fmt;
use core::num::NonZeroU32;

use aes::cipher::KeyInit;
use aes::{Aes128, Aes192, Aes256};
use aes_kw::{KwAes128, KwAes192, KwAes256};
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use ring::pbkdf2;
use zeroize::Zeroize;

use crate::entropy::Entropy;
use crate::settings::{KeyLength, Passphrase};
use crate::wire::key_material::{KeyMaterial, SALT_BYTES, WRAP_BYTES, WrappedKeys};
use crate::wire::{KeyParity, SequenceNumber};

/// Iterations of PBKDF2 (§6.1.4).
const ITERATIONS: NonZeroU32 = NonZeroU32::new(2_048).unwrap();
/// Part of the salt that PBKDF2 uses: the last 64 bits (§6.1.4).
const KDF_SALT_BYTES: usize = 8;
/// Longest key.
const MAX_KEY_BYTES: usize = 32;
/// Part of the salt that the counter block uses: the first 112 bits (§6.2.2).
const COUNTER_SALT_BYTES: usize = 14;
/// Place of the packet's index in the counter block (§6.1.2).
const INDEX_AT: usize = 10;

/// A key in the first bytes.
type Key = [u8; MAX_KEY_BYTES];

/// The error that keys were wrapped by another passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongSecret;

/// Keys of one direction. They are never shown, and wiped at the end.
#[derive(Clone)]
pub(crate) struct Keys {
    length: KeyLength,
    passphrase: Passphrase,
    /// Salt of the last message, and the key that encrypts keys, which is derived from it.
    salt: Salt,
    kek: Key,
    even: Option<SaltedKey>,
    odd: Option<SaltedKey>,
}

type Salt = [u8; SALT_BYTES];

/// A key with the salt of the message that brought it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SaltedKey {
    key: Key,
    salt: Salt,
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.kek.zeroize();
        for key in [&mut self.even, &mut self.odd].into_iter().flatten() {
            key.key.zeroize();
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys(hidden, {:?})", self.length)
    }
}

impl Keys {
    /// Makes a salt and an even key.
    pub(crate) fn generate(
        passphrase: &Passphrase,
        length: KeyLength,
        entropy: &mut Entropy,
    ) -> Self {
        let salt = entropy.bytes();
        let key = entropy.bytes();
        Keys {
            length,
            passphrase: passphrase.clone(),
            salt,
            kek: derive_kek(passphrase, &salt, length),
            even: Some(SaltedKey { key, salt }),
            odd: None,
        }
    }

    /// Unwraps the keys of a message.
    ///
    /// # Errors
    /// The passphrase is another one.
    pub(crate) fn unwrap(
        passphrase: &Passphrase,
        message: &KeyMaterial<'_>,
    ) -> Result<Self, WrongSecret> {
        let length = KeyLength::of_bytes(message.key_bytes).ok_or(WrongSecret)?;
        let mut keys = Keys {
            length,
            passphrase: passphrase.clone(),
            salt: message.salt,
            kek: derive_kek(passphrase, &message.salt, length),
            even: None,
            odd: None,
        };
        keys.take(message)?;
        Ok(keys)
    }

    /// Returns whether a message needs another key-encrypting key, which costs a millisecond.
    pub(crate) fn needs_derivation(&self, message: &KeyMaterial<'_>) -> bool {
        message.salt != self.salt
    }

    /// Takes the keys of a later message. Its key that is not in the message is kept, and one that
    /// is repeated keeps its salt: packets are encrypted by it already.
    ///
    /// # Errors
    /// The passphrase or the length is another one. The keys stay as they are.
    pub(crate) fn take(&mut self, message: &KeyMaterial<'_>) -> Result<(), WrongSecret> {
        let bytes = self.length.bytes();
        if message.key_bytes != bytes {
            return Err(WrongSecret);
        }
        let salt = message.salt;
        let mut kek = self.kek;
        if self.needs_derivation(message) {
            kek = derive_kek(&self.passphrase, &salt, self.length);
        }
        let mut buffer = [0; 2 * MAX_KEY_BYTES];
        let taken = self.take_wrapped(message, &kek, &mut buffer);
        if taken.is_ok() {
            (self.salt, self.kek) = (salt, kek);
        }
        kek.zeroize();
        buffer.zeroize();
        taken
    }

    fn take_wrapped(
        &mut self,
        message: &KeyMaterial<'_>,
        kek: &Key,
        buffer: &mut [u8; 2 * MAX_KEY_BYTES],
    ) -> Result<(), WrongSecret> {
        let unwrapped = unwrap_bytes(self.length, kek, message.wrapped, buffer)?;
        let (first, second) = unwrapped.split_at(self.length.bytes());
        match message.keys {
            WrappedKeys::One(parity) => self.take_key(parity, first, message.salt),
            WrappedKeys::Both => {
                self.take_key(KeyParity::Even, first, message.salt);
                self.take_key(KeyParity::Odd, second, message.salt);
            }
        }
        Ok(())
    }

    /// Takes a key. One that is repeated keeps its salt.
    fn take_key(&mut self, parity: KeyParity, bytes: &[u8], salt: Salt) {
        let mut key = [0; MAX_KEY_BYTES];
        let length = self.length.bytes();
        key[..length].copy_from_slice(&bytes[..length]);
        let place = self.key_mut(parity);
        if place.is_none_or(|before| before.key != key) {
            *place = Some(SaltedKey { key, salt });
        }
    }

    /// Makes another key in place of the one of this parity.
    pub(crate) fn renew(&mut self, parity: KeyParity, entropy: &mut Entropy) {
        let (key, salt) = (entropy.bytes(), self.salt);
        *self.key_mut(parity) = Some(SaltedKey { key, salt });
    }

    /// Returns the parity of the key to begin with; even, if there are both.
    pub(crate) fn first_parity(&self) -> KeyParity {
        match self.even {
            Some(_) => KeyParity::Even,
            None => KeyParity::Odd,
        }
    }

    /// Returns the message that carries all keys.
    pub(crate) fn message(&self) -> Vec<u8> {
        let keys = match (self.even, self.odd) {
            (Some(_), Some(_)) => WrappedKeys::Both,
            (None, Some(_)) => WrappedKeys::One(KeyParity::Odd),
            _ => WrappedKeys::One(KeyParity::Even),
        };
        let present = [self.even, self.odd].into_iter().flatten();
        let plain: Vec<u8> = present
            .flat_map(|its| its.key.into_iter().take(self.length.bytes()))
            .collect();
        let mut wrapped = vec![0; plain.len() + WRAP_BYTES];
        self.wrap_bytes(&plain, &mut wrapped);
        let message = KeyMaterial {
            keys,
            key_bytes: self.length.bytes(),
            salt: self.salt,
            wrapped: &wrapped,
        };
        message.to_bytes()
    }

    /// Encrypts or decrypts a payload in place. Returns false if there is no such key.
    pub(crate) fn apply(
        &self,
        parity: KeyParity,
        sequence: SequenceNumber,
        payload: &mut [u8],
    ) -> bool {
        let key = match parity {
            KeyParity::Even => &self.even,
            KeyParity::Odd => &self.odd,
        };
        let Some(SaltedKey { key, salt }) = key else {
            return false;
        };
        let block = counter_block(salt, sequence);
        let key = &key[..self.length.bytes()];
        // Lengths are those of the cipher.
        match self.length {
            KeyLength::Aes128 => apply::<Ctr128BE<Aes128>>(key, &block, payload),
            KeyLength::Aes192 => apply::<Ctr128BE<Aes192>>(key, &block, payload),
            KeyLength::Aes256 => apply::<Ctr128BE<Aes256>>(key, &block, payload),
        }
        true
    }

    fn key_mut(&mut self, parity: KeyParity) -> &mut Option<SaltedKey> {
        match parity {
            KeyParity::Even => &mut self.even,
            KeyParity::Odd => &mut self.odd,
        }
    }

    fn wrap_bytes(&self, plain: &[u8], wrapped: &mut [u8]) {
        let kek = &self.kek[..self.length.bytes()];
        let result = match self.length {
            KeyLength::Aes128 => {
                KwAes128::new_from_slice(kek).map(|kw| kw.wrap_key(plain, wrapped).is_ok())
            }
            KeyLength::Aes192 => {
                KwAes192::new_from_slice(kek).map(|kw| kw.wrap_key(plain, wrapped).is_ok())
            }
            KeyLength::Aes256 => {
                KwAes256::new_from_slice(kek).map(|kw| kw.wrap_key(plain, wrapped).is_ok())
            }
        };
        debug_assert_eq!(result, Ok(true), "the lengths fit");
    }
}

/// Returns the first counter block of a packet (§6.1.2): its number, the salt, and a counter of
/// 16 bits that begins with 0.
fn counter_block(salt: &Salt, sequence: SequenceNumber) -> [u8; 16] {
    let mut block = [0; 16];
    block[..COUNTER_SALT_BYTES].copy_from_slice(&salt[..COUNTER_SALT_BYTES]);
    let number = sequence.bits().to_be_bytes();
    for (byte, number) in block[INDEX_AT..].iter_mut().zip(number) {
        *byte ^= number;
    }
    block
}

fn unwrap_bytes<'a>(
    length: KeyLength,
    kek: &Key,
    wrapped: &[u8],
    buffer: &'a mut [u8; 2 * MAX_KEY_BYTES],
) -> Result<&'a [u8], WrongSecret> {
    let kek = &kek[..length.bytes()];
    let plain_bytes = wrapped.len().checked_sub(WRAP_BYTES).ok_or(WrongSecret)?;
    let plain = buffer.get_mut(..plain_bytes).ok_or(WrongSecret)?;
    let is_ours = match length {
        KeyLength::Aes128 => {
            KwAes128::new_from_slice(kek).map(|kw| kw.unwrap_key(wrapped, plain).is_ok())
        }
        KeyLength::Aes192 => {
            KwAes192::new_from_slice(kek).map(|kw| kw.unwrap_key(wrapped, plain).is_ok())
        }
        KeyLength::Aes256 => {
            KwAes256::new_from_slice(kek).map(|kw| kw.unwrap_key(wrapped, plain).is_ok())
        }
    };
    match is_ours {
        Ok(true) => Ok(plain),
        _ => Err(WrongSecret),
    }
}
fn apply<C: KeyIvInit + StreamCipher>(key: &[u8], block: &[u8; 16], payload: &mut [u8]) {
    let cipher = C::new_from_slices(key, block);
    debug_assert!(cipher.is_ok(), "the lengths fit");
    if let Ok(mut cipher) = cipher {
        cipher.apply_keystream(payload);
    }
}

fn derive_kek(passphrase: &Passphrase, salt: &[u8; SALT_BYTES], length: KeyLength) -> Key {
    let mut kek = [0; MAX_KEY_BYTES];
    let salt = &salt[SALT_BYTES - KDF_SALT_BYTES..];
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA1;
    let out = &mut kek[..length.bytes()];
    pbkdf2::derive(algorithm, ITERATIONS, salt, passphrase.as_bytes(), out);
    kek
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SECRET_BYTES;

    const LENGTHS: [KeyLength; 3] = [KeyLength::Aes128, KeyLength::Aes192, KeyLength::Aes256];

    fn passphrase() -> Passphrase {
        Passphrase::new("correct horse").unwrap()
    }

    fn keys(length: KeyLength) -> Keys {
        let mut entropy = Entropy::new(&[3; SECRET_BYTES]);
        Keys::generate(&passphrase(), length, &mut entropy)
    }

    #[test]
    fn section_6_2_1_keys_reach_the_peer_wrapped() {
        for length in LENGTHS {
            let mut sender = keys(length);
            let message = sender.message();
            let parsed = KeyMaterial::parse(&message).unwrap();
            let mut receiver = Keys::unwrap(&passphrase(), &parsed).unwrap();
            let other = Passphrase::new("wrong horses").unwrap();
            assert_eq!(Keys::unwrap(&other, &parsed).err(), Some(WrongSecret));
            let number = SequenceNumber::new(77);
            let mut payload = *b"thirty-two bytes and a few more.";
            assert!(sender.apply(KeyParity::Even, number, &mut payload));
            assert!(&payload[..6] != b"thirty");
            assert!(receiver.apply(KeyParity::Even, number, &mut payload));
            assert_eq!(&payload, b"thirty-two bytes and a few more.");
            assert!(!receiver.apply(KeyParity::Odd, number, &mut payload));
            // A refresh carries both.
            sender.renew(KeyParity::Odd, &mut Entropy::new(&[4; SECRET_BYTES]));
            let message = sender.message();
            receiver
                .take(&KeyMaterial::parse(&message).unwrap())
                .unwrap();
            for parity in [KeyParity::Even, KeyParity::Odd] {
                let mut payload = [9; 20];
                assert!(sender.apply(parity, number, &mut payload) && payload != [9; 20]);
                assert!(receiver.apply(parity, number, &mut payload) && payload == [9; 20]);
            }
        }
    }

    #[test]
    fn known_answers_of_other_implementations() {
        fn hex(bytes: &[u8]) -> String {
            bytes.iter().map(|b| format!("{b:02x}")).collect()
        }

        let salt: [u8; SALT_BYTES] = core::array::from_fn(|at| at as u8);
        let kek = derive_kek(&passphrase(), &salt, KeyLength::Aes128);
        // Python's hashlib.pbkdf2_hmac("sha1", b"correct horse", bytes(range(8, 16)), 2048, 16).
        assert_eq!(hex(&kek[..16]), "43fcfd0604bae887d5880a354dafc66c");
        let mut keys = keys(KeyLength::Aes128);
        let key = [1; MAX_KEY_BYTES];
        keys.even = Some(SaltedKey { key, salt });
        // Its first block is 000102…0d0000, XOR 0x0000004d at byte 10.
        let block = counter_block(&salt, SequenceNumber::new(77));
        assert_eq!(hex(&block), "000102030405060708090a0b0c400000");
        let mut payload = [0; 32];
        keys.apply(KeyParity::Even, SequenceNumber::new(77), &mut payload);
        // OpenSSL: openssl enc -aes-128-ctr -K 0101…01 -iv 000102…400000, of 32 zeros.
        assert_eq!(
            hex(&payload),
            "507e65f367c240083369eed2c3326111a0670f3dc3e07cac4fd1e7e2fd7e35dc"
        );
    }

    /// Checks senders that choose another salt for each refresh: the key in use keeps its own.
    #[test]
    fn a_refresh_may_bring_another_salt() {
        for both in [true, false] {
            let sender = keys(KeyLength::Aes256);
            let message = sender.message();
            let parsed = KeyMaterial::parse(&message).unwrap();
            let mut receiver = Keys::unwrap(&passphrase(), &parsed).unwrap();
            let mut entropy = Entropy::new(&[8; SECRET_BYTES]);
            let mut next = Keys::generate(&passphrase(), KeyLength::Aes256, &mut entropy);
            next.renew(KeyParity::Odd, &mut entropy);
            next.even = if both { sender.even } else { None };
            let message = next.message();
            let parsed = KeyMaterial::parse(&message).unwrap();
            assert!(receiver.needs_derivation(&parsed));
            receiver.take(&parsed).unwrap();
            let number = SequenceNumber::new(77);
            for (parity, of) in [(KeyParity::Even, &sender), (KeyParity::Odd, &next)] {
                let mut payload = [9; 20];
                assert!(of.apply(parity, number, &mut payload) && payload != [9; 20]);
                assert!(receiver.apply(parity, number, &mut payload));
                assert_eq!(payload, [9; 20], "{parity:?}");
            }
            // A message by another passphrase changes nothing.
            let other = Passphrase::new("wrong horses").unwrap();
            let mut wrong = Keys::generate(&other, KeyLength::Aes256, &mut entropy);
            wrong.renew(KeyParity::Odd, &mut entropy);
            let message = wrong.message();
            let parsed = KeyMaterial::parse(&message).unwrap();
            assert_eq!(receiver.take(&parsed), Err(WrongSecret));
            let mut payload = [9; 20];
            next.apply(KeyParity::Odd, number, &mut payload);
            assert!(receiver.apply(KeyParity::Odd, number, &mut payload));
            assert_eq!(payload, [9; 20]);
        }
    }

    #[test]
    fn keys_are_never_shown() {
        assert_eq!(
            format!("{:?}", keys(KeyLength::Aes256)),
            "Keys(hidden, Aes256)"
        );
    }
}

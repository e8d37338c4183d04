//! The two marks behind an initiation. They cost less to check than the handshake does, like
//! WireGuard's mac1 and mac2 (Donenfeld, "WireGuard: Next Generation Kernel Network Tunnel", NDSS
//! 2017, §5.3 and §5.4.4).
//!
//! The first proves that its maker knows the responder's public key. The second proves that its
//! maker receives at its source address: it is keyed by a cookie that the responder gave to that
//! address.
//!
//! *Deviation*: HMAC-SHA-256 cut to 16 bytes in place of keyed BLAKE2s, and AES-256-GCM in place of
//! XChaCha20-Poly1305. Both are used here already, and faster where the processor has them.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::keys::PublicKey;
use crate::kind::Kind;

/// Length of either mark.
pub(crate) const MAC_BYTES: usize = 16;
/// Length of a cookie reply: shorter than the initiation that it answers.
pub const COOKIE_REPLY_BYTES: usize = REPLY_SEALED_AT + MAC_BYTES + TAG_BYTES;

/// Length of a version notice: shorter than any initiation that it answers.
pub const VERSION_NOTICE_BYTES: usize = NOTICE_MAC_AT + MAC_BYTES;

const NOTICED_VERSION_AT: usize = 1;
const NOTICE_MAC_AT: usize = 2;
const REPLY_NONCE_AT: usize = 1;
const NONCE_BYTES: usize = 12;
const REPLY_SEALED_AT: usize = REPLY_NONCE_AT + NONCE_BYTES;
const TAG_BYTES: usize = 16;
/// Length of an IPv6 address and a port.
const SOURCE_BYTES: usize = 18;

/// A mark.
pub type Mac = [u8; MAC_BYTES];

/// Returns the key of the first mark.
pub(crate) fn first_key(responder: &PublicKey) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &derived("anabranch mac1", responder))
}

/// Returns the mark that `key` makes on `bytes`.
pub(crate) fn mac(key: &hmac::Key, bytes: &[u8]) -> Mac {
    let tag = hmac::sign(key, bytes);
    *tag.as_ref()
        .first_chunk()
        .expect("a tag is longer than the part of it that is used")
}

/// Returns whether `claimed` is the mark that `key` makes on `bytes`. They are compared as one
/// number, so that the time does not reveal the position of a difference.
pub(crate) fn is_mac(key: &hmac::Key, bytes: &[u8], claimed: &Mac) -> bool {
    u128::from_ne_bytes(mac(key, bytes)) == u128::from_ne_bytes(*claimed)
}

/// A responder's cookie for an initiator's address: proof that the initiator receives there.
#[derive(Clone, PartialEq, Eq)]
pub struct Cookie(Mac);

impl Cookie {
    /// Returns the second mark on an initiation.
    pub(crate) fn mac(&self, marked: &[u8]) -> Mac {
        mac(&hmac::Key::new(hmac::HMAC_SHA256, &self.0), marked)
    }

    /// Reads a cookie reply. `None` if `responder` did not make it in answer to the initiation
    /// whose first mark is `asked`.
    pub(crate) fn open(responder: &PublicKey, asked: &Mac, datagram: &[u8]) -> Option<Cookie> {
        let reply: &[u8; COOKIE_REPLY_BYTES] = datagram.try_into().ok()?;
        if reply[0] != Kind::CookieReply as u8 {
            return None;
        }
        let nonce = *reply[REPLY_NONCE_AT..].first_chunk()?;
        let mut sealed = [0; MAC_BYTES + TAG_BYTES];
        sealed.copy_from_slice(&reply[REPLY_SEALED_AT..]);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let cookie = reply_key(responder)
            .open_in_place(nonce, Aad::from(asked), &mut sealed)
            .ok()?;
        Some(Cookie(*cookie.first_chunk()?))
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie(…)")
    }
}

/// Secrets from which a responder makes cookies. It keeps no cookies.
pub(crate) struct CookieJar {
    /// The secrets, the newest first.
    secrets: [hmac::Key; 2],
    reply_key: LessSafeKey,
    /// Nonce that counts from a random start, so that replies after a restart have other nonces.
    next_nonce: u128,
}

impl CookieJar {
    /// # Panics
    /// If the operating system has no randomness.
    pub(crate) fn new(responder: &PublicKey) -> Self {
        CookieJar {
            secrets: [fresh_secret(), fresh_secret()],
            reply_key: reply_key(responder),
            next_nonce: u128::from_be_bytes(random()),
        }
    }

    /// Makes cookies of another secret; those of the one before stay valid until the next call.
    pub(crate) fn rotate(&mut self) {
        self.secrets.swap(0, 1);
        self.secrets[0] = fresh_secret();
    }

    /// Returns the reply with the cookie of `source`. Only the end that sent the initiation with
    /// the first mark `asked` accepts it.
    pub(crate) fn reply(&mut self, source: SocketAddr, asked: &Mac) -> [u8; COOKIE_REPLY_BYTES] {
        let mut cookie = mac(&self.secrets[0], &source_bytes(source));
        let counted = self.next_nonce.to_be_bytes();
        self.next_nonce = self.next_nonce.wrapping_add(1);
        let nonce: [u8; NONCE_BYTES] = *counted.last_chunk().expect("16 bytes have a last 12");
        let tag = self
            .reply_key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(asked),
                &mut cookie,
            )
            .expect("a cookie is far below AES-GCM's limit");
        let mut reply = [0; COOKIE_REPLY_BYTES];
        reply[0] = Kind::CookieReply as u8;
        reply[REPLY_NONCE_AT..REPLY_SEALED_AT].copy_from_slice(&nonce);
        let (sealed, tag_room) = reply[REPLY_SEALED_AT..].split_at_mut(MAC_BYTES);
        sealed.copy_from_slice(&cookie);
        tag_room.copy_from_slice(tag.as_ref());
        reply
    }

    /// Returns whether `claimed` is the second mark of an initiation whose maker has `source`'s
    /// cookie.
    pub(crate) fn proves(&self, source: SocketAddr, marked: &[u8], claimed: &Mac) -> bool {
        let source = source_bytes(source);
        self.secrets.iter().any(|secret| {
            let cookie = Cookie(mac(secret, &source));
            u128::from_ne_bytes(cookie.mac(marked)) == u128::from_ne_bytes(*claimed)
        })
    }
}

/// Makes the answer to an initiation of another version, with the first mark `asked`: kind, the
/// responder's `version`, and a mark. Anybody who sees the initiation and knows the public key can
/// make that mark. The format is the same in every version.
pub(crate) fn version_notice(
    responder: &PublicKey,
    asked: &Mac,
    version: u8,
) -> [u8; VERSION_NOTICE_BYTES] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &derived("anabranch version", responder));
    let mut marked = [0; 1 + MAC_BYTES];
    marked[0] = version;
    marked[1..].copy_from_slice(asked);
    let mut notice = [0; VERSION_NOTICE_BYTES];
    notice[0] = Kind::VersionNotice as u8;
    notice[NOTICED_VERSION_AT] = version;
    notice[NOTICE_MAC_AT..].copy_from_slice(&mac(&key, &marked));
    notice
}

/// Returns the version in a [`version_notice`]; `None` if it does not answer the initiation with
/// the first mark `asked`.
pub(crate) fn noticed_version(responder: &PublicKey, asked: &Mac, datagram: &[u8]) -> Option<u8> {
    let version = *datagram.get(NOTICED_VERSION_AT)?;
    (datagram == version_notice(responder, asked, version)).then_some(version)
}

fn reply_key(responder: &PublicKey) -> LessSafeKey {
    let bytes = derived("anabranch cookie", responder);
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).expect("AES-256 takes 32 bytes"))
}

/// Returns 32 bytes for one purpose, which anybody with the public key can compute.
fn derived(label: &str, responder: &PublicKey) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, label.as_bytes());
    let tag = hmac::sign(&key, responder.as_bytes());
    *tag.as_ref().first_chunk().expect("SHA-256 gives 32 bytes")
}

/// Returns the bytes of an address. IPv4 and IPv4 within IPv6 are the same address.
fn source_bytes(source: SocketAddr) -> [u8; SOURCE_BYTES] {
    let address = match source.ip().to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let mut bytes = [0; SOURCE_BYTES];
    let (ip, port) = bytes.split_at_mut(SOURCE_BYTES - 2);
    ip.copy_from_slice(&address.octets());
    port.copy_from_slice(&source.port().to_be_bytes());
    bytes
}

fn fresh_secret() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, &random::<32>())
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system's random generator failed");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SecretKey;

    const MARKED: &[u8] = b"an initiation and its first mark";

    fn source(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn cookie(jar: &mut CookieJar, key: &PublicKey, from: &str) -> Cookie {
        let reply = jar.reply(source(from), &[7; MAC_BYTES]);
        Cookie::open(key, &[7; MAC_BYTES], &reply).expect("our own reply")
    }

    #[test]
    fn known_answer_of_another_hmac() {
        let bytes: [u8; 32] = core::array::from_fn(|at| at as u8 + 9);
        let key = first_key(&PublicKey::claimed(bytes));
        // Computed with Python's hmac and hashlib.
        let hex: String = mac(&key, b"initiation")
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, "1da1d2200e465f8f310d13ab7680d471");
    }

    #[test]
    fn a_cookie_proves_the_address_that_it_was_given_to_and_no_other() {
        let key = SecretKey::generate().public_key();
        let mut jar = CookieJar::new(&key);
        let mark = cookie(&mut jar, &key, "192.0.2.1:7000").mac(MARKED);
        assert!(jar.proves(source("192.0.2.1:7000"), MARKED, &mark));
        assert!(jar.proves(source("[::ffff:192.0.2.1]:7000"), MARKED, &mark));
        for other in ["192.0.2.2:7000", "192.0.2.1:7001", "[2001:db8::1]:7000"] {
            assert!(!jar.proves(source(other), MARKED, &mark), "{other}");
        }
        assert!(!jar.proves(source("192.0.2.1:7000"), b"another", &mark));
        assert!(!jar.proves(source("192.0.2.1:7000"), MARKED, &[0; MAC_BYTES]));
    }

    #[test]
    fn a_cookie_outlives_one_rotation_and_not_two() {
        let key = SecretKey::generate().public_key();
        let mut jar = CookieJar::new(&key);
        let from = "192.0.2.1:7000";
        let mark = cookie(&mut jar, &key, from).mac(MARKED);
        jar.rotate();
        assert!(jar.proves(source(from), MARKED, &mark));
        jar.rotate();
        assert!(!jar.proves(source(from), MARKED, &mark));
    }

    #[test]
    fn only_who_asked_takes_a_reply_and_only_the_responder_makes_one() {
        let key = SecretKey::generate().public_key();
        let mut jar = CookieJar::new(&key);
        let reply = jar.reply(source("192.0.2.1:7000"), &[7; MAC_BYTES]);
        assert!(Cookie::open(&key, &[8; MAC_BYTES], &reply).is_none());
        let stranger = SecretKey::generate().public_key();
        assert!(Cookie::open(&stranger, &[7; MAC_BYTES], &reply).is_none());
        for bit in 0..COOKIE_REPLY_BYTES * 8 {
            let mut tampered = reply;
            tampered[bit / 8] ^= 1 << (bit % 8);
            assert!(Cookie::open(&key, &[7; MAC_BYTES], &tampered).is_none());
        }
        assert!(Cookie::open(&key, &[7; MAC_BYTES], &reply[1..]).is_none());
        let again = jar.reply(source("192.0.2.1:7000"), &[7; MAC_BYTES]);
        assert_ne!(again[..13], reply[..13], "a nonce of its own");
    }

    #[test]
    fn a_version_notice_answers_one_initiation() {
        let key = SecretKey::generate().public_key();
        let notice = version_notice(&key, &[7; MAC_BYTES], 9);
        assert_eq!(noticed_version(&key, &[7; MAC_BYTES], &notice), Some(9));
        assert_eq!(noticed_version(&key, &[8; MAC_BYTES], &notice), None);
        let stranger = SecretKey::generate().public_key();
        assert_eq!(noticed_version(&stranger, &[7; MAC_BYTES], &notice), None);
        for bit in 0..VERSION_NOTICE_BYTES * 8 {
            let mut tampered = notice;
            tampered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(noticed_version(&key, &[7; MAC_BYTES], &tampered), None);
        }
        for length in 0..VERSION_NOTICE_BYTES {
            let short = &notice[..length];
            assert_eq!(noticed_version(&key, &[7; MAC_BYTES], short), None);
        }
    }

    #[test]
    fn debug_shows_no_cookie() {
        assert_eq!(format!("{:?}", Cookie([9; MAC_BYTES])), "Cookie(…)");
    }
}

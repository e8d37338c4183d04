//! The checks of an initiation that need no secret key.

use core::fmt;
use core::net::SocketAddr;

use ring::hmac;

use super::{
    HandshakeError, INITIATION_BYTES, MARKS_BYTES, PAIRING_INITIATION_BYTES, VERSION, first_mac,
};
use crate::keys::PublicKey;
use crate::kind::Kind;
use crate::mac::{self, COOKIE_REPLY_BYTES, CookieJar, Mac};

/// Checks whether initiations are for the holder of a public key, and whether their makers receive
/// at the addresses that they come from. It needs the public key alone, so a relay can check for
/// the responders behind it, and answer with cookies in their place.
pub struct Screen {
    first_mac_key: hmac::Key,
    cookies: CookieJar,
}

impl Screen {
    /// Creates the checks of a responder's initiations.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn new(responder: &PublicKey) -> Self {
        Screen {
            first_mac_key: mac::first_key(responder),
            cookies: CookieJar::new(responder),
        }
    }

    /// Checks whether `datagram` looks like an initiation by somebody who knows the responder's
    /// public key. It takes a microsecond, where a handshake takes hundreds.
    ///
    /// # Errors
    /// [`HandshakeError::Malformed`], [`HandshakeError::WrongMac`], or
    /// [`HandshakeError::OtherVersion`] with a correct mark.
    pub fn check(&self, datagram: &[u8]) -> Result<(), HandshakeError> {
        let (&kind, &version) = match datagram {
            [kind, version, ..] => (kind, version),
            _ => return Err(HandshakeError::Malformed),
        };
        let is_whole = version != VERSION || is_initiations(datagram.len());
        let (marked, claimed) = marked(datagram).ok_or(HandshakeError::Malformed)?;
        if kind != Kind::Initiation as u8 || !is_whole {
            return Err(HandshakeError::Malformed);
        }
        if !mac::is_mac(&self.first_mac_key, marked, claimed) {
            return Err(HandshakeError::WrongMac);
        }
        match version {
            VERSION => Ok(()),
            _ => Err(HandshakeError::OtherVersion(version)),
        }
    }

    /// Returns whether an initiation's maker has the cookie of the address that it came from.
    pub fn proves_address(&self, source: SocketAddr, datagram: &[u8]) -> bool {
        is_initiations(datagram.len())
            && datagram
                .split_last_chunk()
                .is_some_and(|(marked, mac)| self.cookies.proves(source, marked, mac))
    }

    /// Answers an initiation that [`check`](Self::check) let pass with the means to prove that its
    /// maker receives at `source`. `None` for any other datagram. It keeps no state, and the answer
    /// is shorter.
    pub fn cookie_reply(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
    ) -> Option<[u8; COOKIE_REPLY_BYTES]> {
        let asked = mark(datagram)?;
        Some(self.cookies.reply(source, &asked))
    }

    /// Makes cookies of another secret from now on. Earlier ones stay valid until the next call; a
    /// call every two minutes suffices.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn rotate_cookies(&mut self) {
        self.cookies.rotate();
    }
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Screen(…)")
    }
}

/// Returns the first mark of an initiation; `None` for any other length.
pub(super) fn mark(datagram: &[u8]) -> Option<Mac> {
    is_initiations(datagram.len()).then(|| *first_mac(datagram))
}

/// Returns an initiation of any version up to its first mark, and this mark.
pub(super) fn marked(datagram: &[u8]) -> Option<(&[u8], &Mac)> {
    let (marked, marks) = datagram.split_last_chunk::<MARKS_BYTES>()?;
    Some((marked, marks.first_chunk()?))
}

/// Whether a datagram of this version is as long as an initiation, with a code or without.
fn is_initiations(length: usize) -> bool {
    [INITIATION_BYTES, PAIRING_INITIATION_BYTES].contains(&length)
}

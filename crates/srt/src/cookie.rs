//! Cookies, which prove that a caller receives at its address before the listener keeps anything.

use core::net::{IpAddr, SocketAddr};

use anabranch_units::{Duration, Instant};
use ring::hmac;

use crate::entropy::{Entropy, SECRET_BYTES};

/// Period in which a cookie is made. It is valid in this period and the next one, as libsrt's,
/// which changes each minute.
const SLOT: Duration = Duration::from_secs(60);

/// Makes and checks cookies.
#[derive(Debug)]
pub(crate) struct Cookies {
    key: hmac::Key,
}

impl Cookies {
    pub(crate) fn new(entropy: &mut Entropy) -> Self {
        let secret: [u8; SECRET_BYTES] = entropy.bytes();
        Cookies {
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
        }
    }

    /// Returns the cookie of a caller.
    pub(crate) fn make(&self, now: Instant, caller: SocketAddr) -> u32 {
        self.in_slot(slot(now), caller)
    }

    /// Returns whether the cookie was made for this caller, and not too long ago.
    pub(crate) fn is_valid(&self, now: Instant, caller: SocketAddr, cookie: u32) -> bool {
        let current = slot(now);
        let before = current.checked_sub(1);
        let mut slots = core::iter::once(current).chain(before);
        slots.any(|slot| self.in_slot(slot, caller) == cookie)
    }

    fn in_slot(&self, slot: u64, caller: SocketAddr) -> u32 {
        let address = match caller.ip().to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let mut text = address.octets().to_vec();
        text.extend(caller.port().to_be_bytes());
        text.extend(slot.to_be_bytes());
        let mac = hmac::sign(&self.key, &text);
        let word = mac.as_ref().first_chunk();
        word.map_or(0, |word| u32::from_be_bytes(*word))
    }
}

fn slot(now: Instant) -> u64 {
    now.as_nanos() / SLOT.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_good_for_one_address_and_one_to_two_minutes() {
        let cookies = Cookies::new(&mut Entropy::new(&[1; SECRET_BYTES]));
        let caller = SocketAddr::from(([192, 0, 2, 1], 5_000));
        let at = Instant::from_secs;
        let cookie = cookies.make(at(59), caller);
        for (second, is_valid) in [(59, true), (60, true), (119, true), (120, false)] {
            assert_eq!(cookies.is_valid(at(second), caller, cookie), is_valid);
        }
        for other in [([192, 0, 2, 1], 5_001), ([192, 0, 2, 2], 5_000)] {
            assert!(!cookies.is_valid(at(59), other.into(), cookie));
        }
        let others = Cookies::new(&mut Entropy::new(&[2; SECRET_BYTES]));
        assert!(!others.is_valid(at(59), caller, cookie));
    }
}

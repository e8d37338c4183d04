//! Names of groups, which prove that a sender receives at its address.
//!
//! The receiver keeps no state of a REG1. The name in its answer contains the source address, and a
//! MAC of that address, the time and the sender's half. A REG2 with such a name, on any link, shows
//! that its sender has got the answer.

use core::net::{IpAddr, Ipv6Addr};

use anabranch_units::{Duration, Instant};
use ring::hmac;

use crate::wire::{ID_BYTES, Id};

/// Length of the secret that names are made with.
pub const SECRET_BYTES: usize = 32;
/// Period in which a name founds a group: the slot of time in which it was made and the next one,
/// so two to four minutes. WireGuard's cookies are valid for as long (§5.4.7).
const SLOT: Duration = Duration::from_secs(120);

/// Position of the receiver's half: an address, the MAC, and zeros.
const ADDRESS_AT: usize = ID_BYTES / 2;
const MAC_AT: usize = ADDRESS_AT + ADDRESS_BYTES;
const ZEROS_AT: usize = MAC_AT + MAC_BYTES;
const ADDRESS_BYTES: usize = 16;
const MAC_BYTES: usize = 32;

/// Makes and checks names.
#[derive(Debug)]
pub(crate) struct Names {
    key: hmac::Key,
}

impl Names {
    pub(crate) fn new(secret: &[u8; SECRET_BYTES]) -> Self {
        Names {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
        }
    }

    /// Makes the name of the group that the sender of `half` requests from `address`.
    pub(crate) fn make(&self, now: Instant, address: IpAddr, half: &[u8; ID_BYTES / 2]) -> Id {
        let mut name = [0; ID_BYTES];
        name[..ADDRESS_AT].copy_from_slice(half);
        name[ADDRESS_AT..MAC_AT].copy_from_slice(&bits(address).to_be_bytes());
        let mac = hmac::sign(&self.key, &marked(slot(now), &name));
        name[MAC_AT..ZEROS_AT].copy_from_slice(mac.as_ref());
        name
    }

    /// Returns the address that was given this name; `None` if no address was, or too long ago.
    pub(crate) fn address(&self, now: Instant, name: &Id) -> Option<IpAddr> {
        let current = slot(now);
        let is_ours = [Some(current), current.checked_sub(1)]
            .into_iter()
            .flatten()
            .any(|slot| {
                let mac = &name[MAC_AT..ZEROS_AT];
                hmac::verify(&self.key, &marked(slot, name), mac).is_ok()
            });
        let has_one_form = name[ZEROS_AT..].iter().all(|&byte| byte == 0);
        let address = *name[ADDRESS_AT..].first_chunk()?;
        (is_ours && has_one_form).then(|| Ipv6Addr::from(address).to_canonical())
    }
}

/// Returns the number of a slot of time.
fn slot(now: Instant) -> u64 {
    now.as_nanos() / SLOT.as_nanos()
}

/// Returns the bytes that the MAC covers: the time, the sender's half and the address.
fn marked(slot: u64, name: &Id) -> [u8; 8 + MAC_AT] {
    let mut bytes = [0; 8 + MAC_AT];
    bytes[..8].copy_from_slice(&slot.to_be_bytes());
    bytes[8..].copy_from_slice(&name[..MAC_AT]);
    bytes
}

/// Returns an address as a number; IPv4 and IPv4 within IPv6 are the same.
fn bits(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: [u8; ID_BYTES / 2] = [5; ID_BYTES / 2];

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(seconds)
    }

    #[test]
    fn name_yields_its_address_for_two_to_four_minutes() {
        let names = Names::new(&[1; SECRET_BYTES]);
        for text in ["192.0.2.7", "2001:db8::7"] {
            let name = names.make(at(119), address(text), &HALF);
            assert_eq!(name[..ID_BYTES / 2], HALF);
            assert_eq!(name, names.make(at(0), address(text), &HALF), "a slot");
            assert_ne!(name, names.make(at(120), address(text), &HALF));
            for second in [0, 120, 239] {
                assert_eq!(names.address(at(second), &name), Some(address(text)));
            }
            assert_eq!(names.address(at(240), &name), None);
        }
        let mapped = names.make(at(0), address("::ffff:192.0.2.7"), &HALF);
        let of_mapped = names.address(at(0), &mapped);
        assert_eq!(of_mapped, Some(address("192.0.2.7")));
    }

    #[test]
    fn nobody_else_makes_a_name_and_none_has_two_forms() {
        let names = Names::new(&[1; SECRET_BYTES]);
        let name = names.make(at(0), address("192.0.2.7"), &HALF);
        let others = Names::new(&[2; SECRET_BYTES]);
        assert_eq!(others.address(at(0), &name), None);
        for bit in 0..8 * ID_BYTES {
            let mut changed = name;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(names.address(at(0), &changed), None, "bit {bit}");
        }
    }

    #[test]
    fn known_answer_of_another_hmac() {
        let names = Names::new(&[1; SECRET_BYTES]);
        let name = names.make(at(250), address("192.0.2.7"), &HALF);
        let mac = name[MAC_AT..ZEROS_AT].iter();
        let hex: String = mac.map(|byte| format!("{byte:02x}")).collect();
        // Computed with Python's hmac and hashlib.
        assert_eq!(
            hex,
            "76317d4a885ebb724c88ba4c7075d90d4a74794243cac54e3e3a193c2b1a85d3"
        );
    }
}

//! Messages in a datagram of the session, beside those of UDP flows.
//!
//! ```text
//! byte 0  kind
//! then    5 packet:   an IP packet
//!         6 claim:    IPv4 address, 4 bytes; IPv6 address, 16 bytes; zeros: none
//!         7 verdict:  of each claimed address a verdict, 1 byte, and an address, 4 and 16 bytes
//!         8 unknown:  nothing
//! ```
//!
//! The proxy sends 5 and 6, the server 5, 7 and 8.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Length of the kind, which every message has.
pub const KIND_BYTES: usize = 1;
/// First kind that does not belong to UDP flows.
const FIRST_KIND: u8 = 5;

/// A pair of values: one for IPv4, one for IPv6.
pub type OfEach<T> = [T; 2];

/// Returns the index of an address in such a pair.
pub fn index_of(address: IpAddr) -> usize {
    usize::from(address.is_ipv6())
}

/// Verdict of a server on a claimed address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The address was not claimed.
    #[default]
    NotClaimed,
    /// The peer has the address.
    Granted,
    /// The server has no interface with addresses of that kind.
    NoNetwork,
    /// The address belongs to another key, or is outside of the server's network. Contains an
    /// address that the key may have.
    NotYours(Option<IpAddr>),
}

/// Message in a datagram of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// An IP packet.
    Packet(Bytes),
    /// The proxy's interface has these addresses.
    Claim(OfEach<Option<IpAddr>>),
    /// The server's verdict about each claimed address.
    Verdict(OfEach<Verdict>),
    /// The server knows no claim in this session; a packet was dropped.
    Unknown,
}

/// Returns whether a datagram is one of these messages.
pub fn is_of_tun(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|kind| *kind >= FIRST_KIND)
}

impl Message {
    /// Parses a message; `None` if it has no meaning.
    pub fn read(mut bytes: Bytes) -> Option<Message> {
        match bytes.try_get_u8().ok()? {
            5 => Some(Message::Packet(bytes)),
            6 => Some(Message::Claim([get_v4(&mut bytes)?, get_v6(&mut bytes)?])),
            7 => {
                let kind = bytes.try_get_u8().ok()?;
                let v4 = verdict(kind, get_v4(&mut bytes)?)?;
                let kind = bytes.try_get_u8().ok()?;
                let v6 = verdict(kind, get_v6(&mut bytes)?)?;
                Some(Message::Verdict([v4, v6]))
            }
            8 => Some(Message::Unknown),
            _ => None,
        }
    }
}

fn get_v4(bytes: &mut Bytes) -> Option<Option<IpAddr>> {
    let address = Ipv4Addr::from(bytes.try_get_u32().ok()?);
    Some((!address.is_unspecified()).then_some(address.into()))
}

fn get_v6(bytes: &mut Bytes) -> Option<Option<IpAddr>> {
    let address = Ipv6Addr::from(bytes.try_get_u128().ok()?);
    Some((!address.is_unspecified()).then_some(address.into()))
}

fn verdict(kind: u8, offered: Option<IpAddr>) -> Option<Verdict> {
    match kind {
        0 => Some(Verdict::NotClaimed),
        1 => Some(Verdict::Granted),
        2 => Some(Verdict::NoNetwork),
        3 => Some(Verdict::NotYours(offered)),
        _ => None,
    }
}

/// Returns the datagram of an IP packet.
pub fn packet(packet: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(KIND_BYTES + packet.len());
    bytes.put_u8(5);
    bytes.put_slice(packet);
    bytes.freeze()
}

/// Returns the datagram of a claim.
pub fn claim(addresses: OfEach<Option<IpAddr>>) -> Bytes {
    let mut bytes = BytesMut::with_capacity(KIND_BYTES + 20);
    bytes.put_u8(6);
    for (index, address) in addresses.into_iter().enumerate() {
        put(&mut bytes, index, address);
    }
    bytes.freeze()
}

/// Returns the datagram of verdicts.
pub fn verdicts(verdicts: OfEach<Verdict>) -> Bytes {
    let mut bytes = BytesMut::with_capacity(KIND_BYTES + 22);
    bytes.put_u8(7);
    for (index, verdict) in verdicts.into_iter().enumerate() {
        let (kind, offered) = match verdict {
            Verdict::NotClaimed => (0, None),
            Verdict::Granted => (1, None),
            Verdict::NoNetwork => (2, None),
            Verdict::NotYours(offered) => (3, offered),
        };
        bytes.put_u8(kind);
        put(&mut bytes, index, offered);
    }
    bytes.freeze()
}

/// Returns the datagram of a server that knows no claim of the session.
pub fn unknown() -> Bytes {
    Bytes::from_static(&[8])
}

fn put(bytes: &mut BytesMut, index: usize, address: Option<IpAddr>) {
    match (index, address) {
        (0, Some(IpAddr::V4(address))) => bytes.put_slice(&address.octets()),
        (_, Some(IpAddr::V6(address))) => bytes.put_slice(&address.octets()),
        (0, _) => bytes.put_bytes(0, 4),
        (_, _) => bytes.put_bytes(0, 16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_they_were_written() {
        let v4: Option<IpAddr> = Some([10, 99, 0, 2].into());
        let v6: Option<IpAddr> = Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).into());
        for claimed in [[v4, v6], [v4, None], [None, v6]] {
            assert_eq!(Message::read(claim(claimed)), Some(Message::Claim(claimed)));
        }
        let of_v4 = [Verdict::NotYours(v4), Verdict::NotYours(None)];
        let of_v6 = [Verdict::NotYours(v6), Verdict::NotYours(None)];
        let others = [Verdict::NotClaimed, Verdict::Granted, Verdict::NoNetwork];
        for first in of_v4.into_iter().chain(others) {
            for second in of_v6.into_iter().chain(others) {
                let both = [first, second];
                assert_eq!(Message::read(verdicts(both)), Some(Message::Verdict(both)));
            }
        }
        let bytes = Bytes::from_static(b"abc");
        assert_eq!(Message::read(packet(b"abc")), Some(Message::Packet(bytes)));
        assert_eq!(Message::read(unknown()), Some(Message::Unknown));
    }

    #[test]
    fn what_means_nothing_is_none() {
        for length in 1..21 {
            let claim = claim([None; 2]).slice(..length);
            assert_eq!(Message::read(claim), None, "{length}");
        }
        for length in 1..23 {
            let verdicts = verdicts([Verdict::Granted; 2]).slice(..length);
            assert_eq!(Message::read(verdicts), None, "{length}");
        }
        let mut wrong = BytesMut::from(&verdicts([Verdict::Granted; 2])[..]);
        wrong[1] = 4;
        assert_eq!(Message::read(wrong.freeze()), None);
        for wrong in [&b""[..], b"\x04", b"\x09"] {
            assert_eq!(Message::read(Bytes::from_static(wrong)), None, "{wrong:?}");
        }
    }

    #[test]
    fn messages_of_udp_flows_are_others() {
        for message in [packet(b""), claim([None; 2]), unknown()] {
            assert!(is_of_tun(&message));
        }
        assert!(!is_of_tun(b""));
        for kind in 0..=4 {
            assert!(!is_of_tun(&[kind, 0, 0, 0, 0]), "{kind}");
        }
    }
}

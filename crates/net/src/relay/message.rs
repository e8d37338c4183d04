//! Messages between a receiver and its relay: the contents of the protected datagrams of the
//! session in which the receiver has registered.
//!
//! ```text
//! byte 0   kind
//! kind 1, datagram; 2, the same for a peer whose address the receiver has proven
//!          byte 1: 4 or 6, bytes 2–3: the peer's port, then its address of 4 or 16 bytes, then the
//!          datagram of the end-to-end session as it travels between the relay and the peer
//! kind 3, ping; 4, pong           8 bytes of the ping, which the pong repeats
//! kind 5, challenge; 6, answer    8 bytes of the challenge, which the answer repeats
//! kind 7, the end of the registration
//! ```

use core::ops::Range;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const DATAGRAM: u8 = 1;
const DATAGRAM_PROVEN: u8 = 2;
const PING: u8 = 3;
const PONG: u8 = 4;
const CHALLENGE: u8 = 5;
const ANSWER: u8 = 6;
const BYE: u8 = 7;
const V4: u8 = 4;
const V6: u8 = 6;
/// Position of the address, behind kind, family and port.
const ADDRESS_AT: usize = 4;

/// A message that has been read, or is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A datagram from a peer, or to it.
    Datagram {
        peer: SocketAddr,
        /// Whether the receiver knows that the peer receives at this address.
        is_proven: bool,
        /// Position of the datagram in the message.
        bytes: Range<usize>,
    },
    Ping(u64),
    Pong(u64),
    Challenge(u64),
    Answer(u64),
    Bye,
}

/// Reads the number of a message, which has nothing after it.
fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.try_into().ok()?))
}

impl Message {
    /// Reads a message; `None` if it is malformed.
    pub(crate) fn read(message: &[u8]) -> Option<Message> {
        let (&kind, rest) = message.split_first()?;
        Some(match kind {
            DATAGRAM | DATAGRAM_PROVEN => {
                let (peer, at) = read_address(message)?;
                Message::Datagram {
                    peer,
                    is_proven: kind == DATAGRAM_PROVEN,
                    bytes: at..message.len(),
                }
            }
            PING => Message::Ping(number(rest)?),
            PONG => Message::Pong(number(rest)?),
            CHALLENGE => Message::Challenge(number(rest)?),
            ANSWER => Message::Answer(number(rest)?),
            BYE if rest.is_empty() => Message::Bye,
            _ => return None,
        })
    }

    /// Returns the bytes of any message but a datagram's.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let (kind, number) = match self {
            Message::Ping(number) => (PING, number),
            Message::Pong(number) => (PONG, number),
            Message::Challenge(number) => (CHALLENGE, number),
            Message::Answer(number) => (ANSWER, number),
            Message::Datagram { .. } | Message::Bye => return vec![BYE],
        };
        [&[kind][..], &number.to_be_bytes()].concat()
    }
}

/// Writes the message of a datagram in place of what `out` holds.
pub(crate) fn write_datagram(
    out: &mut Vec<u8>,
    peer: SocketAddr,
    is_proven: bool,
    datagram: &[u8],
) {
    out.clear();
    out.push(if is_proven { DATAGRAM_PROVEN } else { DATAGRAM });
    let port = peer.port().to_be_bytes();
    match peer.ip().to_canonical() {
        IpAddr::V4(address) => {
            out.push(V4);
            out.extend_from_slice(&port);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.push(V6);
            out.extend_from_slice(&port);
            out.extend_from_slice(&address.octets());
        }
    }
    out.extend_from_slice(datagram);
}

/// Returns a peer's address, and the position behind it.
fn read_address(message: &[u8]) -> Option<(SocketAddr, usize)> {
    let port = u16::from_be_bytes(*message.get(2..)?.first_chunk()?);
    let rest = message.get(ADDRESS_AT..)?;
    match *message.get(1)? {
        V4 => {
            let octets: [u8; 4] = *rest.first_chunk()?;
            let address = Ipv4Addr::from(octets);
            Some(((address, port).into(), ADDRESS_AT + octets.len()))
        }
        V6 => {
            let octets: [u8; 16] = *rest.first_chunk()?;
            let address = Ipv6Addr::from(octets);
            // An address of IPv4 has one spelling.
            let is_other = address.to_ipv4_mapped().is_some();
            (!is_other).then(|| ((address, port).into(), ADDRESS_AT + octets.len()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_read_as_it_is_written() {
        for (text, overhead) in [("192.0.2.7:9", 8), ("[2001:db8::7]:65535", 20)] {
            let peer: SocketAddr = text.parse().unwrap();
            for is_proven in [false, true] {
                let mut out = vec![1, 2, 3];
                write_datagram(&mut out, peer, is_proven, b"datagram");
                let bytes = overhead..overhead + 8;
                assert_eq!(&out[bytes.clone()], b"datagram");
                let read = Message::read(&out);
                let expected = Message::Datagram {
                    peer,
                    is_proven,
                    bytes,
                };
                assert_eq!(read, Some(expected));
            }
        }
        let mapped = "[::ffff:192.0.2.7]:9".parse().unwrap();
        let mut out = Vec::new();
        write_datagram(&mut out, mapped, false, b"");
        assert_eq!(out.len(), 8, "as IPv4");
    }

    #[test]
    fn numbers_and_ends_are_read_as_they_are_written() {
        let messages = [
            Message::Ping(1),
            Message::Pong(u64::MAX),
            Message::Challenge(3),
            Message::Answer(4),
            Message::Bye,
        ];
        for message in messages {
            assert_eq!(Message::read(&message.to_bytes()), Some(message));
        }
    }

    #[test]
    fn mistakes_are_nothing() {
        let mut mapped = vec![DATAGRAM, V6, 0, 9];
        let address: Ipv6Addr = "::ffff:192.0.2.7".parse().unwrap();
        mapped.extend_from_slice(&address.octets());
        for wrong in [
            &[][..],
            &[0],
            &[PING],
            &[PONG, 1, 2, 3, 4, 5, 6, 7],
            &[ANSWER, 1, 2, 3, 4, 5, 6, 7, 8, 9],
            &[BYE, 0],
            &[8],
            &[DATAGRAM],
            &[DATAGRAM, V4, 0, 9, 192, 0, 2],
            &[DATAGRAM, 5, 0, 9, 192, 0, 2, 7],
            &mapped,
        ] {
            assert_eq!(Message::read(wrong), None, "{wrong:?}");
        }
    }
}

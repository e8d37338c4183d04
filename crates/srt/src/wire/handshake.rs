//! Handshake packets and their extensions (draft-sharabayko-srt-01, §3.2.1).

use core::net::IpAddr;

use super::SequenceNumber;
use crate::rejection::Rejection;

/// Length of a handshake without extensions.
const BODY_BYTES: usize = 48;
/// Version of the handshake that has extensions.
pub const VERSION_5: u32 = 5;
/// Version in a caller's first handshake.
pub const VERSION_4: u32 = 4;
/// Extension field of a listener's induction that supports version 5.
pub const MAGIC: u16 = 0x4A17;
/// Extension field of a caller's induction: the datagram type of UDT.
pub const DATAGRAMS: u16 = 2;

/// Extension flags of a conclusion.
pub mod flags {
    /// Handshake request or response.
    pub const HANDSHAKE: u16 = 1;
    /// Key material.
    pub const KEY_MATERIAL: u16 = 2;
    /// Stream ID, congestion controller, filter or group.
    pub const CONFIG: u16 = 4;
}

/// Phase of a handshake, or a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeType {
    /// Request for a cookie, and its answer.
    Induction,
    /// Request for a connection, and its answer.
    Conclusion,
    /// Phases of rendezvous mode.
    Rendezvous,
    /// The connection is refused.
    Rejected(Rejection),
}

impl HandshakeType {
    fn of(bits: u32) -> Self {
        match bits {
            1 => HandshakeType::Induction,
            0xffff_ffff => HandshakeType::Conclusion,
            0 | 0xffff_fffe => HandshakeType::Rendezvous,
            code => HandshakeType::Rejected(Rejection::of(code)),
        }
    }

    fn bits(self) -> u32 {
        match self {
            HandshakeType::Induction => 1,
            HandshakeType::Conclusion => 0xffff_ffff,
            HandshakeType::Rendezvous => 0,
            HandshakeType::Rejected(rejection) => rejection.code(),
        }
    }
}

/// A handshake's fields and the bytes of its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake<'a> {
    /// Version 4 in a caller's induction, otherwise 5.
    pub version: u32,
    /// Length of the sender's key over 8; 0: not advertised.
    pub encryption: u16,
    /// Magic value of an induction, flags of a conclusion.
    pub extension_field: u16,
    /// Sequence number of the first data packet.
    pub initial_sequence: SequenceNumber,
    /// Longest IP packet in bytes.
    pub mtu: u32,
    /// Most packets in flight.
    pub flow_window: u32,
    /// Phase.
    pub kind: HandshakeType,
    /// Socket of the sender of this packet.
    pub socket_id: u32,
    /// Listener's cookie.
    pub cookie: u32,
    /// Address of the receiver of this packet, in the byte order of libsrt.
    pub peer_address: [u8; 16],
    /// Extensions as bytes.
    pub extensions: &'a [u8],
}

impl<'a> Handshake<'a> {
    /// Parses the body of a handshake packet.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        fn word(at: usize, fields: &[u8; 48]) -> u32 {
            let bytes = fields[4 * at..].first_chunk();
            bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
        }

        let (fields, extensions) = body.split_first_chunk::<BODY_BYTES>()?;
        Some(Handshake {
            version: word(0, fields),
            encryption: (word(1, fields) >> 16) as u16,
            extension_field: word(1, fields) as u16,
            initial_sequence: SequenceNumber::new(word(2, fields)),
            mtu: word(3, fields),
            flow_window: word(4, fields),
            kind: HandshakeType::of(word(5, fields)),
            socket_id: word(6, fields),
            cookie: word(7, fields),
            peer_address: *fields[32..].first_chunk()?,
            extensions,
        })
    }

    /// Returns the body as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = [
            self.version,
            u32::from(self.encryption) << 16 | u32::from(self.extension_field),
            self.initial_sequence.bits(),
            self.mtu,
            self.flow_window,
            self.kind.bits(),
            self.socket_id,
            self.cookie,
        ];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        bytes.extend(self.peer_address);
        bytes.extend(self.extensions);
        bytes
    }
}

/// Returns an address as libsrt writes it: the words of the address in little-endian order.
pub fn address_field(address: IpAddr) -> [u8; 16] {
    let mut field = [0; 16];
    match address.to_canonical() {
        IpAddr::V4(address) => field[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => field.copy_from_slice(&address.octets()),
    }
    swap_words(&mut field);
    field
}

/// Reverses the bytes of each word.
pub(super) fn swap_words(bytes: &mut [u8]) {
    for word in bytes.chunks_exact_mut(4) {
        word.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_3_2_1_round_trip() {
        for kind in [
            HandshakeType::Induction,
            HandshakeType::Conclusion,
            HandshakeType::Rendezvous,
            HandshakeType::Rejected(Rejection::BadSecret),
        ] {
            let handshake = Handshake {
                version: VERSION_5,
                encryption: 2,
                extension_field: flags::HANDSHAKE | flags::CONFIG,
                initial_sequence: SequenceNumber::new(77),
                mtu: 1_500,
                flow_window: 8_192,
                kind,
                socket_id: 9,
                cookie: 0xdead_beef,
                peer_address: address_field("192.0.2.1".parse().unwrap()),
                extensions: &[1, 2, 3, 4],
            };
            let bytes = handshake.to_bytes();
            assert_eq!(bytes.len(), 52);
            assert_eq!(bytes[32..36], [1, 2, 0, 192]);
            assert_eq!(Handshake::parse(&bytes), Some(handshake));
            assert_eq!(Handshake::parse(&bytes[..47]), None);
        }
    }
}

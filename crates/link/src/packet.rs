//! What travels over a link.

use anabranch_units::Instant;

/// A packet on its way. Links look at its size, its flow and its ECN field, never at its payload.
///
/// The payload is owned, so that a packet moves from element to element without a copy. Whoever
/// takes a packet out, delivered or dropped, may reuse the payload's allocation for a later packet;
/// the simulator does, and so allocates nothing in its steady state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The datagram. May be empty where only sizes matter.
    pub payload: Vec<u8>,
    /// Size on the wire in bytes, headers of all layers included: what is serialised and what the
    /// queue counts. Independent of the payload's length.
    pub size_bytes: u32,
    /// Explicit congestion notification.
    pub ecn: Ecn,
    /// Key of the flow, for disciplines that queue by flow.
    pub flow: u32,
    /// The driver's own handle; no link reads it.
    pub id: u64,
    /// When it entered the queue that it stands in or last stood in, which overwrites it
    /// (the enqueue time of RFC 8289 §5.1).
    pub entered_at: Instant,
}

impl Packet {
    /// A packet of `size_bytes` on the wire, without payload.
    pub fn of_size(size_bytes: u32) -> Packet {
        Packet {
            size_bytes,
            ..Packet::default()
        }
    }
}

/// The ECN field of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ecn {
    /// The transport does not understand ECN.
    #[default]
    NotEct = 0b00,
    /// ECN-capable transport, codepoint 1: low-latency service (RFC 9331).
    Ect1 = 0b01,
    /// ECN-capable transport, codepoint 0.
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// From the two low bits of the traffic class; the others are ignored.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// The two bits in the traffic class.
    pub const fn to_bits(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecn_codepoints_are_those_of_rfc_3168() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(bits).to_bits(), bits);
        }
        assert_eq!(Ecn::from_bits(0b1011_1010), Ecn::Ect0);
        assert_eq!(Ecn::from_bits(0b11), Ecn::Ce);
    }
}

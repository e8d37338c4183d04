//! Explicit congestion notification.

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
    /// Converts the two low bits of the traffic class; the others are ignored.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Returns the two bits in the traffic class.
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

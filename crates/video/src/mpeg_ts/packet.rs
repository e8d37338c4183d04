//! Reading a transport packet's header and adaptation field (ITU-T H.222.0 §2.4.3.2 to §2.4.3.5),
//! with whatever the bytes are.

use super::PACKET_LEN;

/// PID of the program association table.
pub(super) const PAT_PID: u16 = 0;
/// PIDs below this carry tables that describe the stream (H.222.0 table 2-3; DVB's SDT and kin).
const FIRST_PROGRAM_PID: u16 = 0x20;

/// A view of one transport packet.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a>(&'a [u8; PACKET_LEN]);

impl<'a> Packet<'a> {
    pub(super) const fn new(bytes: &'a [u8; PACKET_LEN]) -> Self {
        Packet(bytes)
    }

    pub(super) fn pid(self) -> u16 {
        u16::from_be_bytes([self.0[1] & 0x1f, self.0[2]])
    }

    /// Whether a PES packet or section starts in this packet (payload_unit_start_indicator).
    pub(super) const fn starts_unit(self) -> bool {
        self.0[1] & 0x40 != 0
    }

    /// Damaged on its way here (transport_error_indicator) or scrambled: not to be looked into.
    pub(super) const fn is_opaque(self) -> bool {
        self.0[1] & 0x80 != 0 || self.0[3] & 0xc0 != 0
    }

    /// Whether the packet's PID is one of those that carry tables only.
    pub(super) fn has_table_pid(self) -> bool {
        self.pid() < FIRST_PROGRAM_PID
    }

    /// The adaptation field after its length byte; empty if there is none.
    fn adaptation_field(self) -> &'a [u8] {
        if self.0[3] & 0x20 == 0 {
            return &[];
        }
        let len = usize::from(self.0[4]);
        self.0.get(5..5 + len).unwrap_or(&[])
    }

    /// The bytes behind header and adaptation field; empty if there are none or the adaptation
    /// field's length is wrong.
    pub(super) fn payload(self) -> &'a [u8] {
        let start = match self.0[3] >> 4 & 0b11 {
            0b01 => 4,
            0b11 => 5 + usize::from(self.0[4]),
            _ => PACKET_LEN,
        };
        self.0.get(start..).unwrap_or(&[])
    }

    /// Whether decoding can start here (random_access_indicator).
    pub(super) fn is_random_access(self) -> bool {
        self.adaptation_field()
            .first()
            .is_some_and(|flags| flags & 0x40 != 0)
    }

    /// The program clock reference's base, 33 bits in units of 1/90,000 s.
    pub(super) fn clock_reference(self) -> Option<u64> {
        match *self.adaptation_field() {
            [flags, a, b, c, d, e, _, ..] if flags & 0x10 != 0 => {
                Some(u64::from(u32::from_be_bytes([a, b, c, d])) << 1 | u64::from(e >> 7))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adaptation_field_longer_than_the_packet_hides_the_payload() {
        let mut bytes = [0; PACKET_LEN];
        bytes[..6].copy_from_slice(&[0x47, 0x41, 0x00, 0x30, 184, 0x50]);
        let packet = Packet::new(&bytes);
        assert_eq!(packet.payload(), []);
        assert_eq!(packet.clock_reference(), None);
        assert!(!packet.is_random_access());
    }

    #[test]
    fn the_clock_references_base_has_33_bits() {
        let mut bytes = [0xff; PACKET_LEN];
        bytes[..12].copy_from_slice(&[0x47, 0x41, 0, 0x30, 7, 0x10, 0x80, 0, 0, 1, 0x80, 0]);
        assert_eq!(Packet::new(&bytes).clock_reference(), Some(1 << 32 | 0b11));
    }
}

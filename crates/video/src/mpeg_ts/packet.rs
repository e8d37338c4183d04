//! Reading a transport packet's header and adaptation field (ITU-T H.222.0 §2.4.3.2 to §2.4.3.5),
//! with any bytes.

use super::PACKET_LEN;

/// PID of the program association table.
pub(super) const PAT_PID: u16 = 0;
/// PID of null packets; as a program's PCR PID it means that there is no clock reference.
pub(super) const NULL_PID: u16 = 0x1fff;
/// PID below which packets carry tables that describe the stream (H.222.0 table 2-3; DVB's SDT and
/// others).
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

    /// Returns whether a PES packet or section starts in this packet
    /// (payload_unit_start_indicator).
    pub(super) const fn starts_unit(self) -> bool {
        self.0[1] & 0x40 != 0
    }

    /// Returns whether the packet was damaged on its way here (transport_error_indicator).
    pub(super) const fn is_damaged(self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// Returns whether the packet is damaged or scrambled, so that its payload must not be read. A
    /// scrambled packet's adaptation field is in the clear.
    pub(super) const fn is_opaque(self) -> bool {
        self.is_damaged() || self.0[3] & 0xc0 != 0
    }

    /// Returns whether the packet's PID is reserved for tables.
    pub(super) fn has_table_pid(self) -> bool {
        self.pid() < FIRST_PROGRAM_PID
    }

    /// Returns the adaptation field after its length byte; empty if there is none.
    fn adaptation_field(self) -> &'a [u8] {
        if self.0[3] & 0x20 == 0 {
            return &[];
        }
        let len = usize::from(self.0[4]);
        self.0.get(5..5 + len).unwrap_or(&[])
    }

    /// Returns whether there is more than an adaptation field, such as one with a clock reference.
    pub(super) const fn has_payload(self) -> bool {
        self.0[3] & 0x10 != 0
    }

    /// Returns the bytes behind header and adaptation field; empty if there are none or the
    /// adaptation field's length is wrong.
    pub(super) fn payload(self) -> &'a [u8] {
        let start = match self.0[3] >> 4 & 0b11 {
            0b01 => 4,
            0b11 => 5 + usize::from(self.0[4]),
            _ => PACKET_LEN,
        };
        self.0.get(start..).unwrap_or(&[])
    }

    /// Returns whether the payload follows meaningless stuffing. Muxers stuff a packet if a PES
    /// packet ends before the transport packet does (H.222.0 §2.4.3.5).
    pub(super) fn is_stuffed(self) -> bool {
        if self.0[3] & 0x30 != 0x30 {
            return false;
        }
        let [flags, fields @ ..] = self.adaptation_field() else {
            // A length of zero: the length byte itself fills the packet up.
            return self.0[4] == 0;
        };
        if *flags == 0 {
            return true;
        }
        // Two clock references, a splice countdown, private data, an extension.
        let mut used = 6 * usize::from(flags >> 4 & 1) + 6 * usize::from(flags >> 3 & 1);
        used += usize::from(flags >> 2 & 1);
        for flag in [0x02, 0x01] {
            if flags & flag != 0 {
                used += 1 + fields.get(used).map_or(0, |&len| usize::from(len));
            }
        }
        fields.len() > used
    }

    /// Returns whether decoding can start here (random_access_indicator).
    pub(super) fn is_random_access(self) -> bool {
        self.adaptation_field()
            .first()
            .is_some_and(|flags| flags & 0x40 != 0)
    }

    /// Returns whether a new time base begins (discontinuity_indicator), with this packet or with
    /// the next clock reference of its PID.
    pub(super) fn is_discontinuous(self) -> bool {
        self.adaptation_field()
            .first()
            .is_some_and(|flags| flags & 0x80 != 0)
    }

    /// Returns the program clock reference's base, 33 bits in units of 1/90,000 s.
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
    fn stuffing_is_what_no_field_accounts_for() {
        fn packet(control: u8, field: &[u8]) -> bool {
            let mut bytes = [0xff; PACKET_LEN];
            bytes[..4].copy_from_slice(&[0x47, 1, 0, control]);
            bytes[4..4 + field.len()].copy_from_slice(field);
            Packet::new(&bytes).is_stuffed()
        }
        assert!(!packet(0x10, &[0]), "no adaptation field");
        assert!(!packet(0x20, &[183, 0]), "no payload");
        assert!(packet(0x30, &[0]));
        assert!(packet(0x30, &[1, 0]));
        assert!(packet(0x30, &[9, 0]));
        let reference = [7, 0x50, 0, 0, 0, 0, 0x7e, 0];
        assert!(!packet(0x30, &reference));
        assert!(packet(0x30, &[&[8], &reference[1..]].concat()));
        // A countdown, two private bytes, an extension of one.
        let fields = [7, 0x07, 5, 2, 0xaa, 0xbb, 1, 0x1f];
        assert!(!packet(0x30, &fields));
        assert!(packet(0x30, &[&[12], &fields[1..]].concat()));
    }

    #[test]
    fn the_clock_references_base_has_33_bits() {
        let mut bytes = [0xff; PACKET_LEN];
        bytes[..12].copy_from_slice(&[0x47, 0x41, 0, 0x30, 7, 0x10, 0x80, 0, 0, 1, 0x80, 0]);
        assert_eq!(Packet::new(&bytes).clock_reference(), Some(1 << 32 | 0b11));
    }
}

//! MPEG-TS in RTP (RFC 3550 §5.1, RFC 2250 §2). Many encoders send it to receivers of plain UDP.

use core::ops::Range;

use anabranch_video::mpeg_ts::{PACKET_LEN, SYNC_BYTE};

const FIXED_HEADER_LEN: usize = 12;

/// A packet's position in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The synchronization source.
    pub source: u32,
    /// Sequence number, which wraps.
    pub sequence: u16,
}

/// Header fields of an RTP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtpPacket {
    /// Payload type: 33 for MPEG-TS; 96 and more by agreement.
    pub payload_type: u8,
    number: Numbered,
    payload: Range<usize>,
}

impl RtpPacket {
    /// Parses a datagram as an RTP packet, if its header is consistent. No datagram that begins
    /// with a transport packet is RTP, because the sync byte encodes another version.
    pub fn parse(datagram: &[u8]) -> Option<RtpPacket> {
        let header: &[u8; FIXED_HEADER_LEN] = datagram.first_chunk()?;
        let [flags, marker_and_type, high, low, .., s0, s1, s2, s3] = *header;
        if flags >> 6 != 2 {
            return None;
        }
        let mut start = FIXED_HEADER_LEN + 4 * usize::from(flags & 0xf);
        if flags & 0x10 != 0 {
            let words = datagram.get(start + 2..start + 4)?;
            start += 4 + 4 * usize::from(u16::from_be_bytes([words[0], words[1]]));
        }
        let padding = match flags & 0x20 {
            0 => 0,
            _ => usize::from(*datagram.last()?),
        };
        let end = datagram.len().checked_sub(padding)?;
        (start <= end).then_some(RtpPacket {
            payload_type: marker_and_type & 0x7f,
            number: Numbered {
                source: u32::from_be_bytes([s0, s1, s2, s3]),
                sequence: u16::from_be_bytes([high, low]),
            },
            payload: start..end,
        })
    }

    /// Returns the payload's range if it consists of whole transport packets.
    fn transport_packets(&self, datagram: &[u8]) -> Option<Range<usize>> {
        let payload = &datagram[self.payload.clone()];
        let are_whole = !payload.is_empty() && payload.len().is_multiple_of(PACKET_LEN);
        let mut packets = payload.chunks(PACKET_LEN);
        (are_whole && packets.all(|packet| packet[0] == SYNC_BYTE)).then(|| self.payload.clone())
    }
}

/// Returns a datagram's number and transport packets, if it is RTP.
pub fn unpack(datagram: &[u8]) -> Option<(Numbered, &[u8])> {
    let rtp = RtpPacket::parse(datagram)?;
    let packets = rtp.transport_packets(datagram)?;
    Some((rtp.number, &datagram[packets]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns two transport packets that differ in their second byte.
    fn transport_packets() -> Vec<u8> {
        let packet = |number: u8| [vec![SYNC_BYTE, number], vec![0; PACKET_LEN - 2]].concat();
        [packet(1), packet(2)].concat()
    }

    fn header(flags: u8, payload_type: u8) -> Vec<u8> {
        [&[flags, payload_type][..], &[0x47; 10]].concat()
    }

    #[test]
    fn rfc2250_transport_packets_come_out_of_rtp() {
        let packets = transport_packets();
        let plain = [header(0x80, 33), packets.clone()].concat();
        // Two contributing sources, an extension of one word, two bytes of padding, and the marker
        // bit.
        let sources = [7; 8];
        let extension = [0xbe, 0xde, 0, 1, 1, 2, 3, 4];
        let full = [
            &header(0xb2, 0x80 | 33)[..],
            &sources,
            &extension,
            &packets,
            &[0, 2],
        ]
        .concat();
        for datagram in [plain, full] {
            let (number, unpacked) = unpack(&datagram).unwrap();
            assert_eq!(unpacked, packets);
            let expected = Numbered {
                source: 0x4747_4747,
                sequence: 0x4747,
            };
            assert_eq!(number, expected);
        }
        assert_eq!(unpack(&packets), None);
    }

    #[test]
    fn what_is_no_mpeg_ts_in_rtp_stays_as_it_came() {
        let packets = transport_packets();
        let other_payload = [header(0x80, 96), vec![0x67; 100]].concat();
        let other_version = [header(0x40, 33), packets.clone()].concat();
        let cut = [&header(0x80, 33)[..], &packets[..300]].concat();
        let no_room_for_sources = header(0x8f, 33);
        for datagram in [
            other_payload.clone(),
            other_version,
            cut,
            no_room_for_sources,
            vec![0x80],
        ] {
            assert_eq!(unpack(&datagram), None);
        }
        let rtp = RtpPacket::parse(&other_payload).unwrap();
        assert_eq!(rtp.payload_type, 96);
    }
}

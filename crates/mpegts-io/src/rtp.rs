//! MPEG-TS in RTP (RFC 3550 §5.1, RFC 2250 §2). Many encoders send it to receivers of plain UDP.

use core::ops::{Range, RangeInclusive};

use anabranch_units::{Duration, Instant};
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

/// Memory of RTP at a port where plain MPEG-TS may come too.
const MEMORY: Duration = Duration::from_secs(5);
/// Packet types of RTCP (RFC 3550 §12.1, RFC 4585, RFC 3611).
const RTCP_TYPES: RangeInclusive<u8> = 200..=207;

/// Rule for datagrams at a port that are neither MPEG-TS nor MPEG-TS in RTP. Beside its stream, an
/// encoder may send repairs (SMPTE 2022-1), other payload types and RTCP to the same port. Sync
/// bytes in them are no packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct RtpPort {
    /// Whether the port's address is `rtp://`.
    pub is_named: bool,
    heard_at: Option<Instant>,
}

impl RtpPort {
    /// Records MPEG-TS in RTP.
    pub fn on_packets(&mut self, now: Instant) {
        self.heard_at = Some(now);
    }

    /// Returns whether the datagram may be a piece of MPEG-TS that does not begin with a packet.
    pub fn may_be_transport(&self, now: Instant, datagram: &[u8]) -> bool {
        let has_heard = self.heard_at.is_some_and(|at| now < at + MEMORY);
        !self.is_named && !has_heard && !is_rtcp(datagram)
    }
}

/// Returns whether the datagram consists of whole packets of RTCP (RFC 3550 §6.1).
fn is_rtcp(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while let &[flags, packet_type, high, low, ..] = rest {
        let len = 4 + 4 * usize::from(u16::from_be_bytes([high, low]));
        let is_packet = flags >> 6 == 2 && RTCP_TYPES.contains(&packet_type);
        match rest.get(len..) {
            Some(others) if is_packet => rest = others,
            _ => return false,
        }
    }
    rest.is_empty() && !datagram.is_empty()
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
        fn packet(number: u8) -> Vec<u8> {
            [vec![SYNC_BYTE, number], vec![0; PACKET_LEN - 2]].concat()
        }
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
    fn other_rtp_payloads_are_not_unpacked() {
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

    #[test]
    fn rfc3550_a_datagram_of_whole_rtcp_packets_is_none_of_a_stream() {
        let report = [&[0x80, 200, 0, 6][..], &[0x47; 24]].concat();
        let names = [&[0x81, 202, 0, 1][..], &[0x47; 4]].concat();
        let port = RtpPort::default();
        for datagram in [report.clone(), [report.clone(), names].concat()] {
            assert!(!port.may_be_transport(Instant::ZERO, &datagram));
        }
        let cut = &report[..20];
        let other_version = [&[0x40][..], &report[1..]].concat();
        for datagram in [cut, &other_version, &[0x12; 188], &[]] {
            assert!(port.may_be_transport(Instant::ZERO, datagram));
        }
    }

    #[test]
    fn repairs_beside_rtp_are_none_of_a_stream() {
        // Sync bytes at a distance of packets, as in the sum of an odd number of datagrams.
        let repair = [header(0x80, 96), vec![0; 16], transport_packets()].concat();
        assert_eq!(unpack(&repair), None);
        let at = Instant::from_secs;
        let named = RtpPort {
            is_named: true,
            ..RtpPort::default()
        };
        assert!(!named.may_be_transport(at(0), &repair));
        let mut port = RtpPort::default();
        assert!(port.may_be_transport(at(0), &repair), "nobody knows");
        port.on_packets(at(1));
        assert!(!port.may_be_transport(at(1), &repair));
        assert!(
            port.may_be_transport(at(6), &repair),
            "the encoder is another"
        );
    }
}

//! The fields of IP packets that a router reads and writes (RFC 791, RFC 8200).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use anabranch_units::Ecn;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;

/// Length of an IPv6 header.
const V6_HEADER_BYTES: usize = 40;
/// Number of IPv6 extension headers that are followed. Chosen: hosts send one or two.
const MAX_EXTENSION_COUNT: usize = 8;
/// Maximum length of an ICMPv6 error (RFC 4443 §2.4): the least MTU of IPv6.
const MAX_V6_ERROR_BYTES: usize = 1_280;
/// Bytes of an IPv4 packet that an ICMP error quotes: its header and 8 bytes (RFC 792), and more as
/// RFC 1812 §4.3.2.3 permits.
const V4_QUOTE_BYTES: usize = 548;

/// A packet's fields for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpHeader {
    pub(crate) ecn: Ecn,
    /// Key of the flow: addresses, protocol and ports.
    pub(crate) flow: u32,
    /// Whether only hosts on one link receive it, such as a router solicitation.
    is_link_local_multicast: bool,
}

impl IpHeader {
    /// Returns the fields of a packet; `None` if it is no whole packet of IPv4 or IPv6.
    pub(crate) fn parse(packet: &[u8]) -> Option<IpHeader> {
        let payload = payload(packet)?;
        let (traffic_class, addresses, is_link_local_multicast) = match packet[0] >> 4 {
            4 => (packet[1], 12..20, packet[16..19] == [224, 0, 0]),
            _ => (
                packet[0] << 4 | packet[1] >> 4,
                8..V6_HEADER_BYTES,
                packet[24..26] == [0xff, 0x02],
            ),
        };
        let mut hasher = DefaultHasher::new();
        (&packet[addresses], payload.protocol).hash(&mut hasher);
        if matches!(payload.protocol, TCP | UDP) && payload.is_first {
            packet[payload.bytes.clone()].get(..4).hash(&mut hasher);
        }
        Some(IpHeader {
            ecn: Ecn::from_bits(traffic_class),
            // Either half of a good hash is a good hash.
            flow: hasher.finish() as u32,
            is_link_local_multicast,
        })
    }

    /// Returns whether a router passes the packet on.
    pub(crate) fn is_forwarded(&self) -> bool {
        !self.is_link_local_multicast
    }
}

/// The part of a packet behind its IP headers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Payload {
    protocol: u8,
    bytes: Range<usize>,
    /// Whether it starts with the protocol's header.
    is_first: bool,
    is_fragment: bool,
}

fn payload(packet: &[u8]) -> Option<Payload> {
    match packet.first()? >> 4 {
        4 => v4_payload(packet),
        6 => v6_payload(packet),
        _ => None,
    }
}

fn v4_payload(packet: &[u8]) -> Option<Payload> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let header_bytes = usize::from(header[0] & 0xf) * 4;
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header_bytes < 20 || header_bytes > length || length != packet.len() {
        return None;
    }
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    Some(Payload {
        protocol: header[9],
        bytes: header_bytes..length,
        is_first: fragment & 0x1fff == 0,
        is_fragment: fragment & 0x3fff != 0,
    })
}

fn v6_payload(packet: &[u8]) -> Option<Payload> {
    let header: &[u8; V6_HEADER_BYTES] = packet.first_chunk()?;
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if V6_HEADER_BYTES + length != packet.len() {
        return None;
    }
    let mut payload = Payload {
        protocol: header[6],
        bytes: V6_HEADER_BYTES..packet.len(),
        is_first: true,
        is_fragment: false,
    };
    for _ in 0..MAX_EXTENSION_COUNT {
        // Hop-by-hop options, routing and destination options; a fragment header.
        let is_fragment = payload.protocol == 44;
        if !matches!(payload.protocol, 0 | 43 | 60) && !is_fragment {
            break;
        }
        let at = payload.bytes.start;
        let extension: &[u8; 8] = packet.get(at..)?.first_chunk()?;
        let extension_bytes = if is_fragment {
            let offset = u16::from_be_bytes([extension[2], extension[3]]);
            payload.is_first = offset >> 3 == 0;
            payload.is_fragment = true;
            8
        } else {
            8 + usize::from(extension[1]) * 8
        };
        if at + extension_bytes > packet.len() {
            return None;
        }
        payload.protocol = extension[0];
        payload.bytes.start += extension_bytes;
        if !payload.is_first {
            break;
        }
    }
    Some(payload)
}

/// Writes the ECN field of a packet that [`IpHeader::parse`] has accepted. The checksum of an IPv4
/// header follows (RFC 1624 §3).
pub(crate) fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    if packet[0] >> 4 == 6 {
        packet[1] = packet[1] & !0x30 | ecn.to_bits() << 4;
        return;
    }
    let before = u16::from_be_bytes([packet[0], packet[1]]);
    packet[1] = packet[1] & !0x3 | ecn.to_bits();
    let after = u16::from_be_bytes([packet[0], packet[1]]);
    let checksum = u16::from_be_bytes([packet[10], packet[11]]);
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    packet[10..12].copy_from_slice(&(!folded(sum)).to_be_bytes());
}

/// Returns the error that a router sends back for a packet above the `mtu` of its next link: ICMP
/// "fragmentation needed" (RFC 1191 §4) or ICMPv6 "packet too big" (RFC 4443 §3.2). `None` if the
/// packet may be fragmented, or is an error itself (RFC 1122 §3.2.2).
pub(crate) fn too_big(packet: &[u8], mtu: u32) -> Option<Vec<u8>> {
    let payload = payload(packet)?;
    let icmp_type = packet.get(payload.bytes.start).copied();
    if !payload.is_first {
        return None;
    }
    if packet[0] >> 4 == 6 {
        let is_error = payload.protocol == ICMP_V6 && icmp_type.is_none_or(|kind| kind < 128);
        return (!is_error).then(|| v6_too_big(packet, mtu));
    }
    let is_error = payload.protocol == ICMP && !matches!(icmp_type, Some(0 | 8));
    let must_not_fragment = packet[6] & 0x40 != 0;
    (must_not_fragment && !is_error).then(|| v4_too_big(packet, mtu))
}

fn v4_too_big(packet: &[u8], mtu: u32) -> Vec<u8> {
    let quoted = &packet[..packet.len().min(V4_QUOTE_BYTES)];
    let mut error = vec![0; 28];
    error[0] = 0x45;
    error[2..4].copy_from_slice(&(28 + quoted.len() as u16).to_be_bytes());
    // Sixty-four hops, as most hosts send.
    (error[8], error[9]) = (64, ICMP);
    // From the destination, back to the source.
    error[12..16].copy_from_slice(&packet[16..20]);
    error[16..20].copy_from_slice(&packet[12..16]);
    let checksum = checksum(&[&error[..20]]);
    error[10..12].copy_from_slice(&checksum.to_be_bytes());
    (error[20], error[21]) = (3, 4);
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    error[26..28].copy_from_slice(&mtu.to_be_bytes());
    error.extend_from_slice(quoted);
    let checksum = self::checksum(&[&error[20..]]);
    error[22..24].copy_from_slice(&checksum.to_be_bytes());
    error
}

fn v6_too_big(packet: &[u8], mtu: u32) -> Vec<u8> {
    let quoted = &packet[..packet.len().min(MAX_V6_ERROR_BYTES - V6_HEADER_BYTES - 8)];
    let mut error = vec![0; V6_HEADER_BYTES + 8];
    error[0] = 0x60;
    error[4..6].copy_from_slice(&(8 + quoted.len() as u16).to_be_bytes());
    (error[6], error[7]) = (ICMP_V6, 64);
    error[8..24].copy_from_slice(&packet[24..40]);
    error[24..40].copy_from_slice(&packet[8..24]);
    error[40] = 2;
    error[44..48].copy_from_slice(&mtu.to_be_bytes());
    error.extend_from_slice(quoted);
    let checksum = transport_checksum(&error, ICMP_V6, V6_HEADER_BYTES);
    error[42..44].copy_from_slice(&checksum.to_be_bytes());
    error
}

/// Computes the checksum of a TCP segment or UDP datagram. Pairs of virtual Ethernet interfaces
/// leave it to a network card that does not exist.
pub(crate) fn complete_checksum(packet: &mut [u8]) {
    let Some(payload) = payload(packet).filter(|payload| !payload.is_fragment) else {
        return;
    };
    let at = match payload.protocol {
        TCP => payload.bytes.start + 16,
        UDP => payload.bytes.start + 6,
        _ => return,
    };
    let Some(field) = packet.get_mut(at..at + 2) else {
        return;
    };
    // A UDP datagram over IPv4 may have none (RFC 768).
    if payload.protocol == UDP && field == [0, 0] {
        return;
    }
    field.fill(0);
    let sum = transport_checksum(packet, payload.protocol, payload.bytes.start);
    let is_zero_of_udp = payload.protocol == UDP && sum == 0;
    let sum = if is_zero_of_udp { u16::MAX } else { sum };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// Returns the checksum with the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1).
fn transport_checksum(packet: &[u8], protocol: u8, start: usize) -> u16 {
    let addresses = match packet[0] >> 4 {
        4 => &packet[12..20],
        _ => &packet[8..V6_HEADER_BYTES],
    };
    let segment = &packet[start..];
    let length = (segment.len() as u32).to_be_bytes();
    checksum(&[addresses, &length, &[0, protocol], segment])
}

/// Returns the Internet checksum of parts (RFC 1071), all of which but the last have an even
/// length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum: u64 = 0;
    for part in parts {
        let (words, rest) = part.as_chunks::<2>();
        for word in words {
            sum += u64::from(u16::from_be_bytes(*word));
        }
        if let [last] = rest {
            sum += u64::from(*last) << 8;
        }
    }
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    !folded((sum & 0xffff) as u32 + (sum >> 16) as u32)
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a UDP datagram over IPv4, with "do not fragment", and valid checksums.
    pub(crate) fn v4(source_port: u16, ecn: Ecn, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, ecn.to_bits(), 0, 0, 0, 1, 0x40, 0, 64, UDP, 0, 0];
        packet.extend_from_slice(&[10, 27, 0, 2, 10, 27, 0, 1]);
        udp(&mut packet, source_port, payload);
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        let sum = checksum(&[&packet[..20]]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        complete_checksum(&mut packet);
        packet
    }

    /// Returns a UDP datagram over IPv6 with a valid checksum.
    pub(crate) fn v6(source_port: u16, ecn: Ecn, payload: &[u8]) -> Vec<u8> {
        fn address(host: u8) -> [u8; 16] {
            [0xfd, 0, 0, 0x27, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]
        }

        let mut packet = vec![0x60, ecn.to_bits() << 4, 0, 0, 0, 0, UDP, 64];
        packet.extend_from_slice(&address(2));
        packet.extend_from_slice(&address(1));
        udp(&mut packet, source_port, payload);
        let length = (packet.len() - V6_HEADER_BYTES) as u16;
        packet[4..6].copy_from_slice(&length.to_be_bytes());
        complete_checksum(&mut packet);
        packet
    }

    fn udp(packet: &mut Vec<u8>, source_port: u16, payload: &[u8]) {
        packet.extend_from_slice(&source_port.to_be_bytes());
        packet.extend_from_slice(&[0x1f, 0x90]);
        packet.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
        packet.extend_from_slice(&[0xff, 0xff]);
        packet.extend_from_slice(payload);
    }

    fn is_v4_header_valid(packet: &[u8]) -> bool {
        checksum(&[&packet[..20]]) == 0
    }

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        // The example of its section 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&[&bytes]), !0xddf2);
        assert_eq!(checksum(&[&bytes[..4], &bytes[4..]]), !0xddf2);
    }

    #[test]
    fn ports_and_addresses_make_a_flow_and_payloads_do_not() {
        fn flow(
            port: u16,
            ecn: Ecn,
            payload: &[u8],
            packet: &fn(u16, Ecn, &[u8]) -> Vec<u8>,
        ) -> u32 {
            let header = IpHeader::parse(&packet(port, ecn, payload)).unwrap();
            assert_eq!(header.ecn, ecn);
            header.flow
        }

        for packet in [v4, v6] {
            let first = flow(7, Ecn::Ect0, b"one", &packet);
            assert_eq!(first, flow(7, Ecn::Ce, b"another", &packet));
            assert_ne!(first, flow(8, Ecn::Ect0, b"one", &packet));
        }
    }

    #[test]
    fn a_mark_changes_the_field_and_keeps_the_checksum_valid() {
        for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::NotEct] {
            let mut packet = v4(7, Ecn::Ect0, b"payload");
            packet[1] |= 0xb8;
            let sum = checksum(&[&packet[..10], &packet[12..20]]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            set_ecn(&mut packet, ecn);
            assert_eq!(packet[1], 0xb8 | ecn.to_bits());
            assert!(is_v4_header_valid(&packet), "{packet:?}");
            let mut packet = v6(7, Ecn::Ect0, b"payload");
            (packet[0], packet[1]) = (0x6b, 0x8f);
            set_ecn(&mut packet, ecn);
            assert_eq!(packet[..2], [0x6b, 0x8f & !0x30 | ecn.to_bits() << 4]);
            assert_eq!(IpHeader::parse(&packet).unwrap().ecn, ecn);
        }
    }

    #[test]
    fn a_part_of_a_packet_is_none() {
        for whole in [v4(7, Ecn::NotEct, b"x"), v6(7, Ecn::NotEct, b"x")] {
            assert!(IpHeader::parse(&whole).is_some());
            for length in 0..whole.len() {
                assert_eq!(IpHeader::parse(&whole[..length]), None, "{length}");
            }
            let mut other = whole.clone();
            other[0] = 0x50 | other[0] & 0xf;
            assert_eq!(IpHeader::parse(&other), None);
        }
    }

    #[test]
    fn packets_for_one_link_are_not_forwarded() {
        let mut packet = v4(7, Ecn::NotEct, b"x");
        assert!(IpHeader::parse(&packet).unwrap().is_forwarded());
        packet[16..20].copy_from_slice(&[224, 0, 0, 22]);
        assert!(!IpHeader::parse(&packet).unwrap().is_forwarded());
        let mut packet = v6(7, Ecn::NotEct, b"x");
        assert!(IpHeader::parse(&packet).unwrap().is_forwarded());
        packet[24..26].copy_from_slice(&[0xff, 0x02]);
        assert!(!IpHeader::parse(&packet).unwrap().is_forwarded());
    }

    #[test]
    fn an_answer_to_a_long_packet_names_the_mtu_and_quotes_it() {
        let packet = v4(7, Ecn::Ect0, &[1; 1_400]);
        let error = too_big(&packet, 1_300).expect("it must not be fragmented");
        assert!(IpHeader::parse(&error).is_some() && is_v4_header_valid(&error));
        assert_eq!(
            (&error[12..16], &error[16..20]),
            (&packet[16..20], &packet[12..16])
        );
        assert_eq!(error[20..22], [3, 4], "fragmentation needed");
        assert_eq!(error[26..28], 1_300_u16.to_be_bytes());
        assert_eq!(checksum(&[&error[20..]]), 0);
        assert_eq!(error[28..], packet[..V4_QUOTE_BYTES]);

        let packet = v6(7, Ecn::Ect0, &[1; 1_400]);
        let error = too_big(&packet, 1_300).expect("routers do not fragment");
        assert!(IpHeader::parse(&error).is_some());
        assert_eq!((error.len(), error[40]), (MAX_V6_ERROR_BYTES, 2));
        assert_eq!(
            (&error[8..24], &error[24..40]),
            (&packet[24..40], &packet[8..24])
        );
        assert_eq!(error[44..48], 1_300_u32.to_be_bytes());
        assert_eq!(transport_checksum(&error, ICMP_V6, V6_HEADER_BYTES), 0);
    }

    #[test]
    fn errors_and_packets_that_may_be_fragmented_get_no_answer() {
        let mut packet = v4(7, Ecn::NotEct, &[1; 1_400]);
        packet[6] = 0;
        assert_eq!(too_big(&packet, 1_300), None);
        let mut error = too_big(&v4(7, Ecn::NotEct, &[1; 1_400]), 1_300)
            .unwrap()
            .clone();
        error[6] = 0x40;
        assert_eq!(too_big(&error, 100), None);
        let error = too_big(&v6(7, Ecn::NotEct, &[1; 1_400]), 1_300).unwrap();
        assert_eq!(too_big(&error, 100), None);
    }

    #[test]
    fn a_checksum_that_was_left_to_a_card_is_completed() {
        for packet in [v4(7, Ecn::Ect0, b"odd"), v6(7, Ecn::Ect0, b"even")] {
            let mut partial = packet.clone();
            let at = payload(&packet).unwrap().bytes.start + 6;
            partial[at..at + 2].copy_from_slice(&[0x12, 0x34]);
            complete_checksum(&mut partial);
            assert_eq!(partial, packet);
            let start = at - 6;
            assert_eq!(transport_checksum(&packet, UDP, start), 0);
        }
        let mut without = v4(7, Ecn::Ect0, b"x");
        without[26..28].fill(0);
        let before = without.clone();
        complete_checksum(&mut without);
        assert_eq!(without, before);
    }

    #[test]
    fn extension_headers_are_followed_and_fragments_left_alone() {
        fn flow(packet: &[u8]) -> u32 {
            IpHeader::parse(packet).unwrap().flow
        }

        let plain = v6(7, Ecn::NotEct, b"payload");
        let mut long = plain.clone();
        long.splice(40..40, [UDP, 0, 1, 4, 0, 0, 0, 0]);
        long[6] = 60;
        long[5] += 8;
        assert_eq!(payload(&long).unwrap().bytes.start, 48);
        assert_eq!(flow(&long), flow(&plain));
        long[6] = 44;
        long[43] = 9;
        let before = long.clone();
        complete_checksum(&mut long);
        assert_eq!(long, before, "a fragment");
        assert!(!payload(&long).unwrap().is_first);
        long[6] = 60;
        long[41] = 200;
        assert_eq!(IpHeader::parse(&long), None, "an extension beyond its end");
    }
}

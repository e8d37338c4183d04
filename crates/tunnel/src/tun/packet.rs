//! Source and destination of an IP packet (RFC 791 §3.1, RFC 8200 §3).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Source and destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Source.
    pub from: IpAddr,
    /// Destination.
    pub to: IpAddr,
}

/// Returns source and destination of a packet; `None` if it is no whole packet of IPv4 or IPv6.
pub fn ends(packet: &[u8]) -> Option<Ends> {
    match packet.first()? >> 4 {
        4 => {
            let length = u16::from_be_bytes(*packet.get(2..4)?.first_chunk()?);
            let from: [u8; 4] = *packet.get(12..16)?.first_chunk()?;
            let to: [u8; 4] = *packet.get(16..20)?.first_chunk()?;
            let header_bytes = usize::from(packet[0] & 0xf) * 4;
            let is_whole = header_bytes >= 20
                && header_bytes <= usize::from(length)
                && usize::from(length) == packet.len();
            let (from, to) = (Ipv4Addr::from(from).into(), Ipv4Addr::from(to).into());
            is_whole.then_some(Ends { from, to })
        }
        6 => {
            let length = u16::from_be_bytes(*packet.get(4..6)?.first_chunk()?);
            let from: [u8; 16] = *packet.get(8..24)?.first_chunk()?;
            let to: [u8; 16] = *packet.get(24..40)?.first_chunk()?;
            let is_whole = 40 + usize::from(length) == packet.len();
            let (from, to) = (Ipv6Addr::from(from).into(), Ipv6Addr::from(to).into());
            is_whole.then_some(Ends { from, to })
        }
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a packet without payload.
    pub(in crate::tun) fn packet(from: &str, to: &str) -> Vec<u8> {
        match (from.parse().unwrap(), to.parse().unwrap()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut packet = vec![0; 20];
                (packet[0], packet[3]) = (0x45, 20);
                packet[12..16].copy_from_slice(&from.octets());
                packet[16..20].copy_from_slice(&to.octets());
                packet
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut packet = vec![0; 40];
                packet[0] = 0x60;
                packet[8..24].copy_from_slice(&from.octets());
                packet[24..40].copy_from_slice(&to.octets());
                packet
            }
            mixed => panic!("{mixed:?}"),
        }
    }

    #[test]
    fn both_kinds_of_packets_name_their_ends() {
        for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "2001:db8::2")] {
            let expected = Ends {
                from: from.parse().unwrap(),
                to: to.parse().unwrap(),
            };
            assert_eq!(ends(&packet(from, to)), Some(expected));
        }
    }

    #[test]
    fn incomplete_packets_have_no_ends() {
        for whole in [packet("10.0.0.1", "10.0.0.2"), packet("fd00::1", "fd00::2")] {
            for length in 0..whole.len() {
                assert_eq!(ends(&whole[..length]), None, "{length}");
            }
            let longer = [&whole[..], &[0]].concat();
            assert_eq!(ends(&longer), None, "more than it says");
            let mut other = whole.clone();
            other[0] = 0x55;
            assert_eq!(ends(&other), None, "another version");
        }
        let mut short_header = packet("10.0.0.1", "10.0.0.2");
        short_header[0] = 0x44;
        assert_eq!(ends(&short_header), None);
        short_header[0] = 0x46;
        assert_eq!(ends(&short_header), None, "a header beyond its end");
    }
}

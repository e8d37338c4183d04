//! Control packets (draft-sharabayko-srt-01, §3.2).

use anabranch_units::Duration;

use super::extensions::kinds;
use super::loss_list::LossList;
use super::{CONTROL_BIT, SequenceNumber, packet};

const HANDSHAKE: u16 = 0;
const KEEPALIVE: u16 = 1;
const ACK: u16 = 2;
const NAK: u16 = 3;
const SHUTDOWN: u16 = 5;
const ACK_ACK: u16 = 6;
const DROP_REQUEST: u16 = 7;
const USER_DEFINED: u16 = 0x7fff;

/// Report of a receiver in a full acknowledgement (§3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Its variation.
    pub rtt_variation: Duration,
    /// Free places in the receiver's buffer, in packets.
    pub available_packets: u32,
    /// Packets that arrive per second.
    pub packets_per_second: u32,
    /// Estimated capacity in packets per second.
    pub capacity: u32,
    /// Bytes that arrive per second.
    pub bytes_per_second: u32,
}

/// Acknowledgement of all packets before a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Number of this acknowledgement, which the sender returns; 0 in light ones.
    pub number: u32,
    /// First packet that has not arrived.
    pub next: SequenceNumber,
    /// Report; none in light acknowledgements.
    pub report: Option<Report>,
}

/// Content of a control packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// Body of a handshake.
    Handshake(&'a [u8]),
    /// Sign of life.
    Keepalive,
    /// Acknowledgement.
    Ack(Ack),
    /// Negative acknowledgement.
    Nak(LossList<'a>),
    /// End of the connection.
    Shutdown,
    /// Acknowledgement of the acknowledgement with this number.
    AckAck(u32),
    /// Packets that will not be sent again.
    DropRequest {
        /// Message; 0 if it is not known any more.
        message: u32,
        /// First packet.
        first: SequenceNumber,
        /// Last packet.
        last: SequenceNumber,
    },
    /// New keys.
    KeyMaterialRequest(&'a [u8]),
    /// Answer to new keys: the same message.
    KeyMaterialResponse(&'a [u8]),
    /// Another type, which is ignored.
    Other,
}

impl<'a> Control<'a> {
    pub(super) fn parse(kind: u16, subtype: u16, info: u32, body: &'a [u8]) -> Option<Self> {
        Some(match kind {
            HANDSHAKE => Control::Handshake(body),
            KEEPALIVE => Control::Keepalive,
            ACK => Control::Ack(Ack {
                number: info,
                next: SequenceNumber::new(word(body, 0)?),
                report: report(body),
            }),
            NAK => Control::Nak(LossList::new(body)),
            SHUTDOWN => Control::Shutdown,
            ACK_ACK => Control::AckAck(info),
            DROP_REQUEST => Control::DropRequest {
                message: info,
                first: SequenceNumber::new(word(body, 0)?),
                last: SequenceNumber::new(word(body, 1)?),
            },
            USER_DEFINED if subtype == kinds::KEY_MATERIAL_REQUEST => {
                Control::KeyMaterialRequest(body)
            }
            USER_DEFINED if subtype == kinds::KEY_MATERIAL_RESPONSE => {
                Control::KeyMaterialResponse(body)
            }
            _ => Control::Other,
        })
    }

    /// Returns the packet as bytes.
    pub fn to_packet(&self, timestamp: u32, destination: u32) -> Vec<u8> {
        let (kind, info, body) = match self {
            Control::Handshake(body) => (u32::from(HANDSHAKE) << 16, 0, body.to_vec()),
            Control::Keepalive => (u32::from(KEEPALIVE) << 16, 0, vec![0; 4]),
            Control::Ack(ack) => (u32::from(ACK) << 16, ack.number, ack_body(ack)),
            Control::Nak(list) => {
                let mut body = Vec::new();
                list.for_each(|range| super::loss_list::append(&mut body, range));
                (u32::from(NAK) << 16, 0, body)
            }
            Control::Shutdown => (u32::from(SHUTDOWN) << 16, 0, vec![0; 4]),
            Control::AckAck(number) => (u32::from(ACK_ACK) << 16, *number, vec![0; 4]),
            Control::DropRequest {
                message,
                first,
                last,
            } => {
                let words = [first.bits(), last.bits()];
                let body = words.into_iter().flat_map(u32::to_be_bytes).collect();
                (u32::from(DROP_REQUEST) << 16, *message, body)
            }
            Control::KeyMaterialRequest(body) => user(kinds::KEY_MATERIAL_REQUEST, body),
            Control::KeyMaterialResponse(body) => user(kinds::KEY_MATERIAL_RESPONSE, body),
            Control::Other => (u32::from(KEEPALIVE) << 16, 0, vec![0; 4]),
        };
        packet([CONTROL_BIT | kind, info, timestamp, destination], &body)
    }
}

fn user(subtype: u16, body: &[u8]) -> (u32, u32, Vec<u8>) {
    let kind = u32::from(USER_DEFINED) << 16 | u32::from(subtype);
    (kind, 0, body.to_vec())
}

/// Returns a word of a body.
fn word(body: &[u8], at: usize) -> Option<u32> {
    let bytes = body.get(4 * at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

fn report(body: &[u8]) -> Option<Report> {
    Some(Report {
        rtt: Duration::from_micros(u64::from(word(body, 1)?)),
        rtt_variation: Duration::from_micros(u64::from(word(body, 2)?)),
        available_packets: word(body, 3)?,
        packets_per_second: word(body, 4).unwrap_or(0),
        capacity: word(body, 5).unwrap_or(0),
        bytes_per_second: word(body, 6).unwrap_or(0),
    })
}

/// Returns a span in microseconds.
fn micros(span: Duration) -> u32 {
    span.as_micros().min(u64::from(u32::MAX)) as u32
}

fn ack_body(ack: &Ack) -> Vec<u8> {
    let mut words = vec![ack.next.bits()];
    if let Some(report) = &ack.report {
        words.extend([
            micros(report.rtt),
            micros(report.rtt_variation),
            report.available_packets,
            report.packets_per_second,
            report.capacity,
            report.bytes_per_second,
        ]);
    }
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Packet;
    use super::*;

    #[test]
    fn section_3_2_round_trips() {
        let report = Report {
            rtt: Duration::from_micros(20_000),
            rtt_variation: Duration::from_micros(3_000),
            available_packets: 8_000,
            packets_per_second: 500,
            capacity: 1_000,
            bytes_per_second: 650_000,
        };
        let number = SequenceNumber::new;
        for control in [
            Control::Handshake(&[1; 48]),
            Control::Keepalive,
            Control::Ack(Ack {
                number: 3,
                next: number(9),
                report: Some(report),
            }),
            Control::Ack(Ack {
                number: 0,
                next: number(9),
                report: None,
            }),
            Control::Nak(LossList::new(&[0x80, 0, 0, 1, 0, 0, 0, 5])),
            Control::Shutdown,
            Control::AckAck(3),
            Control::DropRequest {
                message: 4,
                first: number(1),
                last: number(2),
            },
            Control::KeyMaterialRequest(&[5; 40]),
            Control::KeyMaterialResponse(&[5; 40]),
        ] {
            let bytes = control.to_packet(11, 12);
            let parsed = Packet::parse(&bytes);
            let expected = Packet::Control {
                control,
                timestamp: 11,
                destination: 12,
            };
            assert_eq!(parsed, Some(expected));
        }
    }

    #[test]
    fn short_packets_are_malformed_and_unknown_types_are_ignored() {
        for kind in [ACK, DROP_REQUEST] {
            assert_eq!(Control::parse(kind, 0, 0, &[0; 3]), None);
        }
        assert_eq!(Control::parse(4, 0, 0, &[]), Some(Control::Other));
        assert_eq!(
            Control::parse(USER_DEFINED, 99, 0, &[]),
            Some(Control::Other)
        );
    }
}

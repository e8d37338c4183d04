//! Packets as bytes (draft-sharabayko-srt-01, §3).

pub mod control;
pub mod extensions;
pub mod handshake;
pub mod key_material;
pub mod loss_list;
mod sequence;

pub use control::{Ack, Control};
pub use sequence::SequenceNumber;
pub(crate) use sequence::Unwrapped;

/// Length of the header of every packet.
pub const HEADER_BYTES: usize = 16;
/// Bytes of the headers of IPv4 and UDP, which the MTU includes as libsrt counts.
pub const IP_AND_UDP_BYTES: usize = 28;
/// Bit of control packets.
const CONTROL_BIT: u32 = 1 << 31;
/// Bits of a message's number.
const MESSAGE_BITS: u32 = (1 << 26) - 1;
/// Position "only packet of its message".
const SOLO: u32 = 0b11 << 30;
const RETRANSMITTED_BIT: u32 = 1 << 26;

/// One of two keys, which follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyParity {
    /// The even key.
    Even,
    /// The odd key.
    Odd,
}

impl KeyParity {
    /// Returns the other key.
    pub fn other(self) -> Self {
        match self {
            KeyParity::Even => KeyParity::Odd,
            KeyParity::Odd => KeyParity::Even,
        }
    }
}

/// Header of a data packet (§3.1). In live mode every packet is a message of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// Sequence number.
    pub sequence: SequenceNumber,
    /// Key of the payload, if it is encrypted.
    pub key: Option<KeyParity>,
    /// Whether the packet has been sent before.
    pub is_retransmitted: bool,
    /// Number of the message.
    pub message: u32,
    /// Time of the sender in microseconds, modulo 2^32.
    pub timestamp: u32,
    /// Socket of the receiver.
    pub destination: u32,
}

impl DataHeader {
    /// Returns the packet as bytes.
    pub fn to_packet(&self, payload: &[u8]) -> Vec<u8> {
        let key = match self.key {
            None => 0,
            Some(KeyParity::Even) => 1 << 27,
            Some(KeyParity::Odd) => 1 << 28,
        };
        let flag = if self.is_retransmitted {
            RETRANSMITTED_BIT
        } else {
            0
        };
        let words = [
            self.sequence.bits(),
            SOLO | key | flag | self.message & MESSAGE_BITS,
            self.timestamp,
            self.destination,
        ];
        packet(words, payload)
    }

    fn of([sequence, message, timestamp, destination]: [u32; 4]) -> Option<Self> {
        let key = match message >> 27 & 3 {
            0 => None,
            1 => Some(KeyParity::Even),
            2 => Some(KeyParity::Odd),
            // Both keys are for control packets.
            _ => return None,
        };
        Some(DataHeader {
            sequence: SequenceNumber::new(sequence),
            key,
            is_retransmitted: message & RETRANSMITTED_BIT != 0,
            message: message & MESSAGE_BITS,
            timestamp,
            destination,
        })
    }
}

/// A packet of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Data with its payload.
    Data(DataHeader, &'a [u8]),
    /// A control packet.
    Control {
        /// Content.
        control: Control<'a>,
        /// Time of the sender in microseconds, modulo 2^32.
        timestamp: u32,
        /// Socket of the receiver; 0 for a listener.
        destination: u32,
    },
}

impl<'a> Packet<'a> {
    /// Parses a datagram; `None` if it is malformed.
    pub fn parse(datagram: &'a [u8]) -> Option<Self> {
        let (header, body) = datagram.split_first_chunk::<HEADER_BYTES>()?;
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(header.chunks_exact(4)) {
            *word = u32::from_be_bytes(*bytes.first_chunk()?);
        }
        if words[0] & CONTROL_BIT == 0 {
            return Some(Packet::Data(DataHeader::of(words)?, body));
        }
        let kind = (words[0] >> 16) as u16 & 0x7fff;
        Some(Packet::Control {
            control: Control::parse(kind, words[0] as u16, words[1], body)?,
            timestamp: words[2],
            destination: words[3],
        })
    }

    /// Returns the receiver's socket.
    pub fn destination(&self) -> u32 {
        match self {
            Packet::Data(header, _) => header.destination,
            Packet::Control { destination, .. } => *destination,
        }
    }
}

fn packet(words: [u32; 4], body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend(words.into_iter().flat_map(u32::to_be_bytes));
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_3_1_data_packets() {
        for (key, is_retransmitted, bits) in [
            (None, false, 0xc0_u8),
            (Some(KeyParity::Even), false, 0xc8),
            (Some(KeyParity::Odd), true, 0xd4),
        ] {
            let header = DataHeader {
                sequence: SequenceNumber::new(0x7fff_ffff),
                key,
                is_retransmitted,
                message: 5,
                timestamp: 6,
                destination: 7,
            };
            let bytes = header.to_packet(b"media");
            assert_eq!(bytes[..8], [0x7f, 0xff, 0xff, 0xff, bits, 0, 0, 5]);
            assert_eq!(Packet::parse(&bytes), Some(Packet::Data(header, b"media")));
            assert_eq!(Packet::parse(&bytes[..15]), None);
        }
    }
}

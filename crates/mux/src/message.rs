//! Messages as bytes.
//!
//! ```text
//! byte 0   0 data, 1 data that ends the stream, 2 credit, 3 reset, 4 stop, 5 blocked,
//!          6 credit of the session
//! varint   stream; credit of the session: how many bytes the peer may send in all streams
//! varint   data: the offset of the first byte; credit: the offset up to which the peer may send;
//!          blocked: the offset at which credit ended
//! the rest data
//! ```
//!
//! Varints are those of RFC 9000 §16.

use bytes::Bytes;

/// Length of the longest header of a message with data.
pub const MAX_HEADER_BYTES: usize = 1 + 8 + 8;

const DATA: u8 = 0;
const LAST_DATA: u8 = 1;
const CREDIT: u8 = 2;
const RESET: u8 = 3;
const STOP: u8 = 4;
const BLOCKED: u8 = 5;
const SESSION_CREDIT: u8 = 6;

/// A stream of a session. The client opens even ones, the server odd ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u64);

/// A decoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Bytes of the stream, and whether it ends behind them.
    Data {
        id: StreamId,
        offset: u64,
        is_last: bool,
        bytes: Bytes,
    },
    /// The peer may send bytes below this offset.
    Credit { id: StreamId, max_offset: u64 },
    /// The sender gives up the stream: its end will not come.
    Reset { id: StreamId },
    /// The reader wants no more.
    Stop { id: StreamId },
    /// The sender has more, but credit ends at this offset.
    Blocked { id: StreamId, offset: u64 },
    /// The peer may send this many bytes in all streams, from the session's beginning on.
    SessionCredit { max_bytes: u64 },
}

impl Message {
    /// Reads a message; `None` for other bytes.
    pub(crate) fn read(bytes: Bytes) -> Option<Message> {
        let (kind, mut rest) = bytes.split_first()?;
        let id = StreamId(read_varint(&mut rest)?);
        let message = match *kind {
            DATA | LAST_DATA => {
                let offset = read_varint(&mut rest)?;
                let data = bytes.slice(bytes.len() - rest.len()..);
                let is_last = *kind == LAST_DATA;
                let is_something = is_last || !data.is_empty();
                return is_something.then_some(Message::Data {
                    id,
                    offset,
                    is_last,
                    bytes: data,
                });
            }
            CREDIT => Message::Credit {
                id,
                max_offset: read_varint(&mut rest)?,
            },
            SESSION_CREDIT => Message::SessionCredit { max_bytes: id.0 },
            RESET => Message::Reset { id },
            STOP => Message::Stop { id },
            BLOCKED => Message::Blocked {
                id,
                offset: read_varint(&mut rest)?,
            },
            _ => return None,
        };
        rest.is_empty().then_some(message)
    }

    /// Appends a message; the caller appends the data of one with data.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let (kind, id) = match self {
            Message::Data { id, is_last, .. } => (if *is_last { LAST_DATA } else { DATA }, id),
            Message::Credit { id, .. } => (CREDIT, id),
            Message::Reset { id } => (RESET, id),
            Message::Stop { id } => (STOP, id),
            Message::Blocked { id, .. } => (BLOCKED, id),
            Message::SessionCredit { max_bytes } => (SESSION_CREDIT, &StreamId(*max_bytes)),
        };
        out.push(kind);
        write_varint(id.0, out);
        match self {
            Message::Data { offset, bytes, .. } => {
                write_varint(*offset, out);
                out.extend_from_slice(bytes);
            }
            Message::Credit {
                max_offset: offset, ..
            }
            | Message::Blocked { offset, .. } => write_varint(*offset, out),
            Message::Reset { .. } | Message::Stop { .. } | Message::SessionCredit { .. } => {}
        }
    }
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let length = 1 << (rest.first()? >> 6);
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    let marked = bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some(marked & (u64::MAX >> 2 >> (64 - 8 * length)))
}

fn write_varint(value: u64, out: &mut Vec<u8>) {
    let exponent = match value {
        0..0x40 => 0,
        0x40..0x4000 => 1,
        0x4000..0x4000_0000 => 2,
        _ => 3,
    };
    let bytes = (value << 2 >> 2).to_be_bytes();
    let start = out.len();
    out.extend_from_slice(&bytes[8 - (1 << exponent)..]);
    out[start] |= (exponent as u8) << 6;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written_and_cut_ones_are_none() {
        let values = [
            0,
            0x3f,
            0x40,
            0x3fff,
            0x4000,
            0x3fff_ffff,
            0x4000_0000,
            (1 << 62) - 1,
        ];
        for value in values {
            let id = StreamId(value);
            let bytes = Bytes::from_static(b"abc");
            let [open, last] = [false, true].map(|is_last| Message::Data {
                id,
                offset: value,
                is_last,
                bytes: bytes.clone(),
            });
            let credit = Message::Credit {
                id,
                max_offset: value,
            };
            let messages = [
                open,
                last,
                credit,
                Message::Reset { id },
                Message::Stop { id },
                Message::Blocked { id, offset: value },
            ];
            for message in messages {
                let mut written = Vec::new();
                message.write(&mut written);
                assert!(written.len() <= MAX_HEADER_BYTES + bytes.len());
                assert_eq!(Message::read(written.clone().into()), Some(message.clone()));
                let header = match message {
                    Message::Data { .. } => written.len() - bytes.len(),
                    _ => written.len(),
                };
                for length in 0..header {
                    let cut = Message::read(written[..length].to_vec().into());
                    assert_eq!(cut, None, "{message:?} cut to {length}");
                }
            }
        }
    }

    #[test]
    fn section_16_numbers_take_the_fewest_bytes() {
        let ends = [(0x40, 1), (0x4000, 2), (0x4000_0000, 4), (1 << 62, 8)];
        let mut begin = 0;
        for (end, length) in ends {
            for value in [begin, end - 1] {
                let mut written = Vec::new();
                write_varint(value, &mut written);
                assert_eq!(written.len(), length, "{value}");
            }
            begin = end;
        }
    }

    #[test]
    fn the_longest_header_has_two_long_numbers() {
        let longest = (1 << 62) - 1;
        let data = Message::Data {
            id: StreamId(longest),
            offset: longest,
            is_last: true,
            bytes: Bytes::new(),
        };
        let mut written = Vec::new();
        data.write(&mut written);
        assert_eq!(written.len(), MAX_HEADER_BYTES);
    }

    #[test]
    fn data_without_bytes_that_ends_nothing_is_no_message() {
        for (kind, is_one) in [(DATA, false), (LAST_DATA, true), (9, false)] {
            let message = Message::read(vec![kind, 4, 0].into());
            assert_eq!(message.is_some(), is_one, "{kind}");
        }
    }
}

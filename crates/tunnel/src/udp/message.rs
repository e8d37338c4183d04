//! Messages in a datagram of the session.
//!
//! ```text
//! byte 0      kind
//! bytes 1–4   number of the flow
//! then        0 datagram:  its bytes
//!             1 opening:   1 byte, 1 if the flow has no order; u16 deadline in milliseconds, or 0
//!                          for the server's; u16 length, target as text; the bytes of a datagram
//!             2 known, 3 unknown: nothing
//!             4 refused:   how a request is answered, 1 byte
//! ```
//!
//! Integers are big-endian. The proxy sends 0 and 1, the server 0, 2, 3 and 4.

use anabranch_units::Duration;
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::FlowOptions;
use crate::request::{Answer, MAX_TARGET_BYTES};

const HEADER_BYTES: usize = 5;

/// A message without its flow's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A datagram of a flow that the other end knows.
    Datagram(Bytes),
    /// A datagram of a flow that the other end may not know, with its target.
    Opening {
        /// Host and port.
        target: String,
        /// Transport of the flow's datagrams.
        options: FlowOptions,
        /// The datagram.
        bytes: Bytes,
    },
    /// Datagrams need no longer name their target.
    Known,
    /// Datagrams must name their target again; the last one was dropped.
    Unknown,
    /// The server does not permit the target.
    Refused(Answer),
}

impl Message {
    /// Parses a message; `None` if it has no meaning.
    pub fn read(mut bytes: Bytes) -> Option<(u32, Message)> {
        let kind = bytes.try_get_u8().ok()?;
        let flow = bytes.try_get_u32().ok()?;
        let message = match kind {
            0 => Message::Datagram(bytes),
            1 => {
                let is_unordered = match bytes.try_get_u8().ok()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                let deadline = Duration::from_millis(bytes.try_get_u16().ok()?.into());
                let options = FlowOptions {
                    deadline: Some(deadline).filter(|deadline| !deadline.is_zero()),
                    is_unordered,
                };
                let length = usize::from(bytes.try_get_u16().ok()?);
                if length == 0 || length > MAX_TARGET_BYTES.min(bytes.len()) {
                    return None;
                }
                let target = String::from_utf8(bytes.split_to(length).into()).ok()?;
                Message::Opening {
                    target,
                    options,
                    bytes,
                }
            }
            2 => Message::Known,
            3 => Message::Unknown,
            4 => Message::Refused(Answer::of_byte(bytes.try_get_u8().ok()?)?),
            _ => return None,
        };
        Some((flow, message))
    }
}

/// Returns the message for a flow's datagram, with its target and options if they are given.
pub fn datagram(flow: u32, opening: Option<(&str, FlowOptions)>, datagram: &[u8]) -> Bytes {
    let length = HEADER_BYTES + opening.map_or(0, |(target, _)| 5 + target.len()) + datagram.len();
    let mut bytes = BytesMut::with_capacity(length);
    bytes.put_u8(u8::from(opening.is_some()));
    bytes.put_u32(flow);
    if let Some((target, options)) = opening {
        bytes.put_u8(u8::from(options.is_unordered));
        let deadline = options.deadline.unwrap_or_default().as_millis();
        bytes.put_u16(u16::try_from(deadline).unwrap_or(u16::MAX));
        // Rules have no longer targets.
        bytes.put_u16(target.len() as u16);
        bytes.put_slice(target.as_bytes());
    }
    bytes.put_slice(datagram);
    bytes.freeze()
}

/// Returns the datagram of a server that knows the flow.
pub fn known(flow: u32) -> Bytes {
    short(2, flow, None)
}

/// Returns the datagram of a server that does not know the flow.
pub fn unknown(flow: u32) -> Bytes {
    short(3, flow, None)
}

/// Returns the datagram of a server that refuses the flow.
pub fn refused(flow: u32, answer: Answer) -> Bytes {
    short(4, flow, Some(answer.to_byte()))
}

fn short(kind: u8, flow: u32, last: Option<u8>) -> Bytes {
    let mut bytes = BytesMut::with_capacity(HEADER_BYTES + 1);
    bytes.put_u8(kind);
    bytes.put_u32(flow);
    bytes.extend(last);
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_they_were_written() {
        let bytes = Bytes::from_static(b"abc");
        let target = "a.b:9".to_owned();
        let options = FlowOptions {
            deadline: Some(Duration::from_millis(80)),
            is_unordered: true,
        };
        let opening = Message::Opening {
            target,
            options,
            bytes: bytes.clone(),
        };
        for (written, message) in [
            (datagram(7, None, b"abc"), Message::Datagram(bytes)),
            (datagram(7, None, b""), Message::Datagram(Bytes::new())),
            (datagram(7, Some(("a.b:9", options)), b"abc"), opening),
            (known(7), Message::Known),
            (unknown(7), Message::Unknown),
            (
                refused(7, Answer::NotAllowed),
                Message::Refused(Answer::NotAllowed),
            ),
        ] {
            assert_eq!(Message::read(written), Some((7, message)));
        }
    }

    #[test]
    fn what_means_nothing_is_none() {
        for wrong in [
            &b""[..],
            b"\0\0\0\0",
            b"\x01\0\0\0\0",
            b"\x01\0\0\0\0\0\0",
            b"\x01\0\0\0\0\0\0\0\0\0",
            b"\x01\0\0\0\0\0\0\0\0\x04abc",
            b"\x01\0\0\0\0\0\0\0\0\x01\xff",
            b"\x01\0\0\0\0\x02\0\0\0\x01a",
            b"\x04\0\0\0\0",
            b"\x04\0\0\0\0\x09",
            b"\x05\0\0\0\0",
        ] {
            assert_eq!(Message::read(Bytes::from_static(wrong)), None, "{wrong:?}");
        }
    }
}

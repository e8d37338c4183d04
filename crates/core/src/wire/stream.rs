//! The frames of the byte stream.
//!
//! Headers are short and of constant length, so that full segments have packets of one size, and an
//! acknowledgement is about as long as one of TCP.

use super::varint::{read as read_varint, write as write_varint};
use super::{TRACKED_HEADER_BYTES, WireFrame, read_u32};
use crate::fragment::Edges;

const SEGMENT: u8 = 0x10;
const LAST_FLAG: u8 = 0x01;
const PER_PACKET_FEEDBACK_FLAG: u8 = 0x02;
const SEGMENT_FLAGS: u8 = LAST_FLAG | PER_PACKET_FEEDBACK_FLAG;
/// A segment that begins a message and does not end it.
const MESSAGE_BEGIN: u8 = 0x18;
/// A segment that ends a message and does not begin it.
const MESSAGE_END: u8 = 0x1c;
/// A segment from the middle of a message.
const MESSAGE_MIDDLE: u8 = 0x60;
const STREAM_ACK: u8 = 0x14;
const STREAM_WINDOW: u8 = 0x15;
const STREAM_BLOCKED: u8 = 0x16;

/// Overhead of a segment: tracked header, type and offset.
pub(crate) const SEGMENT_HEADER_BYTES: usize = TRACKED_HEADER_BYTES + 1 + 4;

/// Where a segment belongs, and how it wants to be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// The low 32 bits of the offset of its first byte.
    pub(crate) offset: u32,
    /// Whether the stream ends with it. The end takes an offset of its own, as TCP's FIN does.
    pub(crate) is_last: bool,
    /// Whether the sender wants reports of every packet, or only the stream's offset.
    pub(crate) wants_packet_feedback: bool,
    /// Which edges of its message it has.
    pub(crate) edges: Edges,
}

/// Reads the body of a frame of this type.
pub(super) fn read<'a>(frame_type: u8, rest: &mut &'a [u8]) -> Option<WireFrame<'a>> {
    if let Some(edges) = edges_of(frame_type & !SEGMENT_FLAGS) {
        let header = SegmentHeader {
            offset: read_u32(rest)?,
            is_last: frame_type & LAST_FLAG != 0,
            wants_packet_feedback: frame_type & PER_PACKET_FEEDBACK_FLAG != 0,
            edges,
        };
        let payload = core::mem::take(rest);
        return (header.is_last || !payload.is_empty())
            .then_some(WireFrame::Segment { header, payload });
    }
    match frame_type {
        STREAM_ACK | STREAM_WINDOW => Some(WireFrame::StreamAck {
            offset: read_u32(rest)?,
            window: read_varint(rest)?,
            is_prompted: frame_type == STREAM_ACK,
        }),
        STREAM_BLOCKED => Some(WireFrame::StreamBlocked),
        _ => None,
    }
}

fn edges_of(kind: u8) -> Option<Edges> {
    let (begins, ends) = match kind {
        SEGMENT => (true, true),
        MESSAGE_BEGIN => (true, false),
        MESSAGE_END => (false, true),
        MESSAGE_MIDDLE => (false, false),
        _ => return None,
    };
    Some(Edges { begins, ends })
}

/// Appends the header of a segment, whose payload must end the datagram.
pub(crate) fn write_segment(header: SegmentHeader, out: &mut Vec<u8>) {
    let last = if header.is_last { LAST_FLAG } else { 0 };
    let feedback = if header.wants_packet_feedback {
        PER_PACKET_FEEDBACK_FLAG
    } else {
        0
    };
    let kind = match (header.edges.begins, header.edges.ends) {
        (true, true) => SEGMENT,
        (true, false) => MESSAGE_BEGIN,
        (false, true) => MESSAGE_END,
        (false, false) => MESSAGE_MIDDLE,
    };
    out.push(kind | last | feedback);
    out.extend_from_slice(&header.offset.to_le_bytes());
}

pub(crate) fn write_stream_ack(offset: u64, window: u64, is_prompted: bool, out: &mut Vec<u8>) {
    out.push(if is_prompted {
        STREAM_ACK
    } else {
        STREAM_WINDOW
    });
    out.extend_from_slice(&(offset as u32).to_le_bytes());
    write_varint(window, out);
}

pub(crate) fn write_stream_blocked(out: &mut Vec<u8>) {
    out.push(STREAM_BLOCKED);
}

#[cfg(test)]
mod tests {
    use super::super::{FeedbackReport, decode, write_tracked_header, write_untracked_header};
    use super::*;

    fn only_frame(datagram: &[u8]) -> Option<WireFrame<'_>> {
        let (_, mut frames) = decode(datagram).unwrap();
        let mut report = FeedbackReport::default();
        frames.next(&mut report).and_then(Result::ok)
    }

    #[test]
    fn a_segment_says_where_it_belongs_and_costs_ten_bytes() {
        for (is_last, wants_packet_feedback, [begins, ends]) in [
            (false, true, [true; 2]),
            (true, false, [true; 2]),
            (true, true, [false, true]),
            (false, false, [true, false]),
            (false, true, [false, true]),
            (false, true, [false; 2]),
        ] {
            let header = SegmentHeader {
                offset: 0xfedc_ba98,
                is_last,
                wants_packet_feedback,
                edges: Edges { begins, ends },
            };
            let mut datagram = Vec::new();
            write_tracked_header(7, &mut datagram);
            write_segment(header, &mut datagram);
            assert_eq!(datagram.len(), SEGMENT_HEADER_BYTES);
            datagram.extend_from_slice(b"abc");
            let payload = &b"abc"[..];
            let read = only_frame(&datagram);
            assert_eq!(read, Some(WireFrame::Segment { header, payload }));
        }
    }

    #[test]
    fn a_segment_without_bytes_that_ends_nothing_is_malformed() {
        let mut datagram = Vec::new();
        write_tracked_header(7, &mut datagram);
        datagram.extend_from_slice(&[SEGMENT, 1, 2, 3, 4]);
        assert_eq!(only_frame(&datagram), None);
        datagram[5] |= LAST_FLAG;
        assert!(only_frame(&datagram).is_some());
    }

    #[test]
    fn a_pure_acknowledgement_of_a_wide_open_window_has_ten_bytes() {
        let mut datagram = Vec::new();
        write_untracked_header(&mut datagram);
        write_stream_ack(1 << 33 | 5, 4 << 20, true, &mut datagram);
        assert_eq!(datagram.len(), 10);
        let read = only_frame(&datagram);
        let expected = WireFrame::StreamAck {
            offset: 5,
            window: 4 << 20,
            is_prompted: true,
        };
        assert_eq!(read, Some(expected));
        for length in 2..datagram.len() {
            assert_eq!(only_frame(&datagram[..length]), None, "cut to {length}");
        }
    }
}

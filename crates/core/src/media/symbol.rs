//! A fragment as a symbol of the erasure code: whole, with its header, so that a recovered fragment
//! equals one that arrived.

use super::{FragmentHeader, FrameId};
use crate::wire::{END_FLAG, end_flag, expand, importance_flags, importance_of};

/// The bytes of a symbol before the payload: length 2, flags 1, capture time 4, frame 4, offset 4.
pub(crate) const SYMBOL_HEAD_BYTES: usize = 15;

/// A fragment and what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol<'a> {
    pub(crate) header: FragmentHeader,
    /// Truncated to 32 bits, as on the wire.
    pub(crate) captured_at_micros: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Symbol<'a> {
    /// Returns the part of the symbol that precedes the payload.
    pub(crate) fn head(&self) -> [u8; SYMBOL_HEAD_BYTES] {
        let mut head = [0; SYMBOL_HEAD_BYTES];
        head[..2].copy_from_slice(&(self.payload.len() as u16).to_le_bytes());
        head[2] = importance_flags(self.header.importance) | end_flag(self.header.ends_frame);
        head[3..7].copy_from_slice(&self.captured_at_micros.to_le_bytes());
        head[7..11].copy_from_slice(&(self.header.frame.0 as u32).to_le_bytes());
        head[11..].copy_from_slice(&self.header.offset.to_le_bytes());
        head
    }

    /// Reads a recovered symbol, which may end with padding. `near` is a frame of about its age.
    pub(crate) fn read(bytes: &'a [u8], near: FrameId) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<SYMBOL_HEAD_BYTES>()?;
        let header = FragmentHeader {
            frame: FrameId(expand(number_at(head, 7), near.0)),
            offset: number_at(head, 11),
            ends_frame: head[2] & END_FLAG != 0,
            importance: importance_of(head[2])?,
        };
        let payload = rest.get(..usize::from(u16::from_le_bytes([head[0], head[1]])))?;
        header.admits(payload).then_some(Symbol {
            header,
            captured_at_micros: number_at(head, 3),
            payload,
        })
    }
}

fn number_at(head: &[u8; SYMBOL_HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_units::Importance;

    #[test]
    fn a_symbol_reads_as_written_without_its_padding() {
        let symbol = Symbol {
            header: FragmentHeader {
                frame: FrameId((1 << 32) + 2),
                offset: 0x0102_0304,
                ends_frame: true,
                importance: Importance::Disposable,
            },
            captured_at_micros: 0x0102_0304,
            payload: b"payload",
        };
        let mut bytes = symbol.head().to_vec();
        bytes.extend_from_slice(symbol.payload);
        for padding in [0, 9] {
            bytes.resize(bytes.len() + padding, 0);
            assert_eq!(
                Symbol::read(&bytes, FrameId(u64::from(u32::MAX))),
                Some(symbol)
            );
        }
        assert_eq!(Symbol::read(&bytes[..21], FrameId(0)), None, "cut");
        let nothing = Symbol {
            header: FragmentHeader {
                ends_frame: false,
                ..symbol.header
            },
            payload: &[],
            ..symbol
        };
        assert_eq!(Symbol::read(&nothing.head(), FrameId(0)), None);
    }
}

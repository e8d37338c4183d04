//! Repair symbols, and reports of recovered symbols.

use anabranch_fec::{MAX_ROWS, MAX_WINDOW, RepairHeader};

use super::{REPAIR, SYMBOLS_RECOVERED, WireFrame, read_u8, read_u32};

/// The most symbols that one frame reports as recovered.
pub(crate) const MAX_RECOVERED: usize = 64;

/// Description of a repair symbol, as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RepairHead {
    /// The low 32 bits of the first symbol's number.
    pub(crate) first: u32,
    pub(crate) count: u8,
    pub(crate) row: u8,
}

impl RepairHead {
    /// Returns the header with the number that these 32 bits stand for.
    pub(crate) fn expand(self, expected: u64) -> RepairHeader {
        RepairHeader {
            first: super::expand(self.first, expected),
            count: u16::from(self.count),
            row: self.row,
        }
    }
}

/// Low 32 bits of symbol numbers, as they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecoveredSymbols<'a>(&'a [u8]);

impl<'a> RecoveredSymbols<'a> {
    pub(super) fn read(bytes: &mut &'a [u8]) -> Option<Self> {
        let count = usize::from(read_u8(bytes)?);
        let (numbers, rest) = bytes.split_at_checked(count * 4)?;
        *bytes = rest;
        (1..=MAX_RECOVERED)
            .contains(&count)
            .then_some(RecoveredSymbols(numbers))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u32> + 'a {
        let (numbers, _) = self.0.as_chunks();
        numbers.iter().map(|number| u32::from_le_bytes(*number))
    }
}

pub(super) fn read_repair<'a>(rest: &mut &'a [u8]) -> Option<WireFrame<'a>> {
    let head = RepairHead {
        first: read_u32(rest)?,
        count: read_u8(rest)?,
        row: read_u8(rest)?,
    };
    let is_meant = (1..=MAX_WINDOW).contains(&u16::from(head.count)) && head.row < MAX_ROWS;
    let bytes = core::mem::take(rest);
    (is_meant && !bytes.is_empty()).then_some(WireFrame::Repair { head, bytes })
}

/// Appends the head of a repair symbol; the symbol itself follows and must be the datagram's last.
pub(crate) fn write_repair(header: RepairHeader, out: &mut Vec<u8>) {
    out.push(REPAIR);
    out.extend_from_slice(&(header.first as u32).to_le_bytes());
    out.push(header.count as u8);
    out.push(header.row);
}

/// Appends at least one and at most [`MAX_RECOVERED`] symbol numbers.
pub(crate) fn write_symbols_recovered(
    numbers: impl ExactSizeIterator<Item = u64>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&[SYMBOLS_RECOVERED, numbers.len() as u8]);
    for number in numbers {
        out.extend_from_slice(&(number as u32).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        FeedbackReport, Frames, SEND_TIME_BYTES, decode, max_fragment_header_bytes, write_fragment,
        write_tracked_header, write_untracked_header,
    };
    use super::*;
    use crate::media::{FragmentHeader, FrameId, SYMBOL_HEAD_BYTES};
    use anabranch_units::{Importance, Instant};

    fn only<'a>(mut frames: Frames<'a>) -> Option<WireFrame<'a>> {
        let mut report = FeedbackReport::default();
        let frame = frames.next(&mut report)?.ok();
        assert!(frames.next(&mut report).is_none());
        frame
    }

    #[test]
    fn a_repair_reads_as_written_and_nonsense_is_malformed() {
        let header = RepairHeader {
            first: (7 << 32) + 9,
            count: 128,
            row: 127,
        };
        let mut bytes = Vec::new();
        write_tracked_header(1, &mut bytes);
        let start = bytes.len();
        write_repair(header, &mut bytes);
        bytes.extend_from_slice(b"symbol");
        let Some(WireFrame::Repair {
            head,
            bytes: symbol,
        }) = only(decode(&bytes).unwrap().1)
        else {
            panic!("no repair")
        };
        assert_eq!(head.expand(7 << 32), header);
        assert_eq!(symbol, b"symbol");
        for (at, value) in [(5, 0), (5, 129), (6, 128)] {
            let mut bytes = bytes.clone();
            bytes[start + at] = value;
            assert_eq!(
                only(decode(&bytes).unwrap().1),
                None,
                "byte {at} is {value}"
            );
        }
        assert_eq!(only(decode(&bytes[..start + 7]).unwrap().1), None, "empty");
    }

    #[test]
    fn recovered_symbols_read_as_written() {
        let mut bytes = Vec::new();
        write_untracked_header(&mut bytes);
        write_symbols_recovered([3, (1 << 32) + 5].into_iter(), &mut bytes);
        let Some(WireFrame::SymbolsRecovered(numbers)) = only(decode(&bytes).unwrap().1) else {
            panic!("no list")
        };
        assert_eq!(numbers.iter().collect::<Vec<_>>(), [3, 5]);
        for length in 1..bytes.len() {
            assert_eq!(
                only(decode(&bytes[..length]).unwrap().1),
                None,
                "{length} bytes"
            );
        }
    }

    #[test]
    fn a_repair_is_never_larger_than_the_largest_fragment_of_its_window() {
        let mut repair = Vec::new();
        write_tracked_header(u64::MAX, &mut repair);
        let header = RepairHeader {
            first: u64::MAX,
            count: 128,
            row: 127,
        };
        write_repair(header, &mut repair);
        let of_repair = repair.len() + SYMBOL_HEAD_BYTES;
        let largest = FragmentHeader {
            frame: FrameId((1 << 62) - 1),
            offset: (1 << 23) - 1,
            ends_frame: false,
            importance: Importance::Key,
        };
        for has_symbol in [false, true] {
            let mut fragment = Vec::new();
            write_tracked_header(0, &mut fragment);
            let symbol = has_symbol.then_some(u64::MAX);
            write_fragment(largest, Instant::ZERO, symbol, &[], &mut fragment);
            let with_send_time = fragment.len() as u32 + SEND_TIME_BYTES;
            assert_eq!(with_send_time + 1, max_fragment_header_bytes(has_symbol));
        }
        assert!(
            of_repair as u32 <= max_fragment_header_bytes(true),
            "{of_repair}"
        );
    }
}

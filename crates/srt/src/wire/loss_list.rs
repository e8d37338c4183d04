//! Loss lists of negative acknowledgements (draft-sharabayko-srt-01, appendix A).

use super::SequenceNumber;

/// Mark of the first number of a range.
const RANGE_BIT: u32 = 1 << 31;

/// Missing packets from the first to the last number, both included.
pub type LossRange = (SequenceNumber, SequenceNumber);

/// Iterator over the ranges of a loss list. A word that begins a range but has no end is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossList<'a>(&'a [u8]);

impl<'a> LossList<'a> {
    /// Reads the body of a negative acknowledgement.
    pub fn new(body: &'a [u8]) -> Self {
        LossList(body)
    }

    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }
}

impl Iterator for LossList<'_> {
    type Item = LossRange;

    fn next(&mut self) -> Option<LossRange> {
        let word = self.word()?;
        let first = SequenceNumber::new(word);
        let last = if word & RANGE_BIT == 0 {
            first
        } else {
            SequenceNumber::new(self.word()?)
        };
        Some((first, last))
    }
}

/// Appends a range to the body of a negative acknowledgement.
pub fn append(body: &mut Vec<u8>, (first, last): LossRange) {
    if first == last {
        body.extend(first.bits().to_be_bytes());
    } else {
        body.extend((first.bits() | RANGE_BIT).to_be_bytes());
        body.extend(last.bits().to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appendix_a_single_numbers_and_ranges() {
        let number = SequenceNumber::new;
        let ranges = [
            (number(3), number(3)),
            (number(5), number(9)),
            (number((1 << 31) - 1), number(1)),
        ];
        let mut body = Vec::new();
        for range in ranges {
            append(&mut body, range);
        }
        assert_eq!(body[..12], [0, 0, 0, 3, 0x80, 0, 0, 5, 0, 0, 0, 9]);
        assert!(LossList::new(&body).eq(ranges));
        // A range without its end, and half a word.
        assert!(LossList::new(&body[..8]).eq(ranges[..1].to_vec()));
        assert_eq!(LossList::new(&body[..3]).next(), None);
    }
}

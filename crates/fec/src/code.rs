//! Repair symbols: their headers, and the encoder.

use crate::gf256;

/// Most symbols in the window of a repair symbol.
pub const MAX_WINDOW: u16 = 128;

/// Rows of the code: the number of different repair symbols of a window.
pub const MAX_ROWS: u8 = 128;

/// Description of a repair symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairHeader {
    /// Number of the first symbol in its window.
    pub first: u64,
    /// Symbols in its window, 1 to [`MAX_WINDOW`].
    pub count: u16,
    /// The row of its coefficients, below [`MAX_ROWS`]. Repair symbols that recover the same loss
    /// need different rows.
    pub row: u8,
}

impl RepairHeader {
    /// Returns the number after the last of its window; `None` for a header that no sender writes.
    pub(crate) fn end(self) -> Option<u64> {
        let is_meant = (1..=MAX_WINDOW).contains(&self.count) && self.row < MAX_ROWS;
        is_meant.then(|| self.first.checked_add(u64::from(self.count)))?
    }

    pub(crate) fn covers(self, number: u64) -> bool {
        number
            .checked_sub(self.first)
            .is_some_and(|offset| offset < u64::from(self.count))
    }

    /// Returns the factor of symbol `number`, which must be in the window.
    pub(crate) fn coefficient(self, number: u64) -> u8 {
        gf256::inverse((MAX_ROWS + self.row) ^ (number % u64::from(MAX_WINDOW)) as u8)
    }
}

/// Appends the repair symbol of `symbols`, the window's in order, to `out`: as many bytes as the
/// longest of them has. Each comes in two parts, to be read one after the other.
pub fn encode<'a>(
    repair: RepairHeader,
    symbols: impl Iterator<Item = [&'a [u8]; 2]>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    for (number, [head, tail]) in (repair.first..)
        .zip(symbols)
        .take(usize::from(repair.count))
    {
        let middle = start + head.len();
        let end = middle + tail.len();
        if out.len() < end {
            out.resize(end, 0);
        }
        let factor = repair.coefficient(number);
        gf256::multiply_add(&mut out[start..middle], head, factor);
        gf256::multiply_add(&mut out[middle..end], tail, factor);
    }
}

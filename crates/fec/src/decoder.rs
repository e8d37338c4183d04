//! The receiver's side of the code, which recovers lost symbols from received ones.

use std::collections::VecDeque;
use std::mem;

use crate::code::RepairHeader;
use crate::elimination::Elimination;

/// Number of remembered symbols, counted back from the highest known number: a quarter of a second
/// at 50 Mbit/s.
const RETAINED_SYMBOLS: u64 = 1_024;

/// Recovers lost symbols from repair symbols, of blocks and of sliding windows alike.
///
/// A symbol is recovered as soon as the received ones determine it. Without losses a repair symbol
/// costs one check of its window. The cost that a peer can cause is bounded. The newest 1,024
/// symbols and 128 repair symbols are kept. At most 128 unknown symbols are solved for at once; for
/// more, the oldest are given up. Each recovery uses up a repair symbol. One packet may complete
/// many: at worst 127 symbols, each a sum of 254 others.
#[derive(Debug)]
pub struct Decoder {
    /// A ring: a symbol is at its number modulo the length.
    symbols: Vec<Symbol>,
    /// The number after the highest known one.
    end: u64,
    elimination: Elimination,
    /// At most the lowest number in any window of the elimination's.
    oldest_needed: u64,
    recovered: VecDeque<u64>,
    missing: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Symbol {
    number: u64,
    is_known: bool,
    bytes: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new()
    }
}

impl Decoder {
    /// Creates an empty decoder. Buffers grow as symbols arrive and are reused.
    pub fn new() -> Self {
        Decoder {
            symbols: vec![Symbol::default(); RETAINED_SYMBOLS as usize],
            end: 0,
            elimination: Elimination::default(),
            oldest_needed: u64::MAX,
            recovered: VecDeque::new(),
            missing: Vec::new(),
        }
    }

    /// Adds a received symbol; the two parts follow one another. Returns whether it was unknown
    /// before: `false` for one that has arrived or was recovered already, and for a forgotten one.
    pub fn on_source(&mut self, number: u64, parts: [&[u8]; 2]) -> bool {
        let Some(end) = number.checked_add(1) else {
            return false;
        };
        self.advance(end);
        if number < self.floor() || known(&self.symbols, number).is_some() {
            return false;
        }
        let symbol = &mut self.symbols[slot(number)];
        symbol.number = number;
        symbol.is_known = true;
        symbol.bytes.clear();
        symbol.bytes.extend_from_slice(parts[0]);
        symbol.bytes.extend_from_slice(parts[1]);
        if self.oldest_needed != u64::MAX {
            self.elimination.remove_unknown(number);
            self.recover();
        }
        true
    }

    /// Adds a received repair symbol. One with an impossible header is ignored.
    pub fn on_repair(&mut self, repair: RepairHeader, bytes: &[u8]) {
        let Some(end) = repair.end() else {
            return;
        };
        self.advance(end);
        if repair.first < self.floor() {
            return;
        }
        self.missing.clear();
        let is_missing = |&number: &u64| known(&self.symbols, number).is_none();
        self.missing.extend((repair.first..end).filter(is_missing));
        if !self.missing.is_empty() {
            self.elimination.insert(repair, bytes, &self.missing);
            self.recover();
        }
    }

    /// Returns a lost symbol that became known, each once, with its number. It ends with the zeros
    /// it was padded with; its content must indicate its true length.
    pub fn next_recovered(&mut self) -> Option<(u64, &[u8])> {
        while let Some(number) = self.recovered.pop_front() {
            if known(&self.symbols, number).is_some() {
                return known(&self.symbols, number).map(|bytes| (number, bytes));
            }
        }
        None
    }

    /// Returns the lowest number that is not forgotten.
    fn floor(&self) -> u64 {
        self.end.saturating_sub(RETAINED_SYMBOLS)
    }

    fn advance(&mut self, end: u64) {
        self.end = self.end.max(end);
        let floor = self.floor();
        if self.oldest_needed < floor {
            self.elimination.forget_before(floor);
            self.oldest_needed = self.elimination.oldest().unwrap_or(u64::MAX);
        }
    }

    fn recover(&mut self) {
        while let Some((row, number)) = self.elimination.solved() {
            let mut bytes = mem::take(&mut self.symbols[slot(number)].bytes);
            bytes.clear();
            let others = |other| known(&self.symbols, other).unwrap_or_default();
            self.elimination.evaluate((row, number), others, &mut bytes);
            self.symbols[slot(number)] = Symbol {
                number,
                is_known: true,
                bytes,
            };
            self.elimination.remove_unknown(number);
            if self.recovered.len() as u64 == RETAINED_SYMBOLS {
                self.recovered.pop_front();
            }
            self.recovered.push_back(number);
        }
        self.oldest_needed = self.elimination.oldest().unwrap_or(u64::MAX);
    }
}

fn slot(number: u64) -> usize {
    (number % RETAINED_SYMBOLS) as usize
}

/// Returns the symbol's bytes if they are still kept; forgotten ones may be.
fn known(symbols: &[Symbol], number: u64) -> Option<&[u8]> {
    let symbol = &symbols[slot(number)];
    (symbol.is_known && symbol.number == number).then_some(&symbol.bytes[..])
}

#[cfg(test)]
mod tests;

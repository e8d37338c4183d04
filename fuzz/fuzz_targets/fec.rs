//! The decoder of forward error correction takes any symbols and repair symbols. What it recovers
//! it says once, and as long as nobody lied that is what was sent.
#![no_main]

use std::collections::BTreeSet;

use anabranch_core::fec::{Decoder, RepairHeader, encode};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    Source { offset: u16 },
    Repair { offset: u16, count: u8, row: u8 },
    ForgedSource { number: u64, bytes: Vec<u8> },
    ForgedRepair { first: u64, count: u16, row: u8, bytes: Vec<u8> },
}

/// What symbol `number` is, of a length of its own.
fn symbol(number: u64) -> Vec<u8> {
    let first = number.wrapping_mul(31);
    (0..=number % 40).map(|at| first.wrapping_add(at * 7) as u8 | 1).collect()
}

/// The repair symbol that a sender makes, if one can.
fn repair(first: u64, count: u8, row: u8) -> Option<(RepairHeader, Vec<u8>)> {
    let header = RepairHeader { first, count: u16::from(count % 128) + 1, row: row % 128 };
    let end = first.checked_add(header.count.into())?;
    let symbols: Vec<Vec<u8>> = (first..end).map(symbol).collect();
    let mut bytes = Vec::new();
    encode(header, symbols.iter().map(|bytes| [&bytes[..1], &bytes[1..]]), &mut bytes);
    Some((header, bytes))
}

fuzz_target!(|input: (u64, Vec<Step>)| {
    let (base, steps) = input;
    let mut decoder = Decoder::new();
    let mut recovered = BTreeSet::new();
    let mut is_honest = true;
    for step in steps {
        match step {
            Step::Source { offset } => {
                let number = base.saturating_add(offset.into());
                let is_new = decoder.on_source(number, [&symbol(number), &[]]);
                assert!(!(is_new && recovered.contains(&number)));
            }
            Step::Repair { offset, count, row } => {
                let first = base.saturating_add(offset.into());
                if let Some((header, bytes)) = repair(first, count, row) {
                    decoder.on_repair(header, &bytes);
                }
            }
            Step::ForgedSource { number, bytes } => {
                is_honest = false;
                decoder.on_source(number, [&[], &bytes]);
            }
            Step::ForgedRepair { first, count, row, bytes } => {
                is_honest = false;
                decoder.on_repair(RepairHeader { first, count, row }, &bytes);
            }
        }
        while let Some((number, bytes)) = decoder.next_recovered() {
            assert!(recovered.insert(number), "{number} was recovered twice");
            if is_honest {
                let sent = symbol(number);
                let (start, padding) = bytes.split_at(sent.len());
                assert!(start == sent && padding.iter().all(|byte| *byte == 0), "{number}");
            }
        }
    }
});

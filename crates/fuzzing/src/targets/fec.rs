//! The decoder of forward error correction accepts any symbols and repair symbols. It returns each
//! recovered symbol once, and if nobody lied it equals the sent one.

use std::collections::BTreeSet;

use anabranch_fec::{Decoder, RepairHeader, encode};

use crate::{Bound, Meter, Reader, Target, Writer};

/// The window of 128 symbols and as many repairs, with their unknowns. A repair here is made of
/// 128 symbols of 40 bytes, by five bytes of input.
const BOUND: Bound = Bound {
    fixed_bytes: 256 << 10,
    bytes_per_byte: 1_024,
};

#[derive(Debug)]
enum Step<'a> {
    Source {
        offset: u16,
    },
    Repair {
        offset: u16,
        count: u8,
        row: u8,
    },
    ForgedSource {
        number: u64,
        bytes: &'a [u8],
    },
    ForgedRepair {
        first: u64,
        count: u16,
        row: u8,
        bytes: &'a [u8],
    },
}

/// Reads a step. Numbers of forged symbols are near those of the others, or far.
fn step<'a>(input: &mut Reader<'a>, base: u64) -> Option<Step<'a>> {
    fn far(distance: u16, is_far: bool, base: u64) -> u64 {
        base.wrapping_add(u64::from(distance) << if is_far { 48 } else { 0 })
    }
    Some(match input.u8()? % 6 {
        0 | 1 => Step::Source {
            offset: input.u16()?,
        },
        2 | 3 => Step::Repair {
            offset: input.u16()?,
            count: input.u8()?,
            row: input.u8()?,
        },
        4 => {
            let (distance, is_far) = (input.u16()?, input.u8()? % 8 == 1);
            Step::ForgedSource {
                number: far(distance, is_far, base),
                bytes: input.bytes()?,
            }
        }
        _ => {
            let (distance, is_far) = (input.u16()?, input.u8()? % 8 == 1);
            let (count, row) = (input.u16()?, input.u8()?);
            let first = far(distance, is_far, base);
            Step::ForgedRepair {
                first,
                count,
                row,
                bytes: input.bytes()?,
            }
        }
    })
}

fn seeds() -> Vec<Vec<u8>> {
    fn source(seed: Writer, offset: u16) -> Writer {
        seed.raw([0]).u16(offset)
    }
    fn repair(seed: Writer, offset: u16, count: u8, row: u8) -> Writer {
        seed.raw([2]).u16(offset).raw([count - 1, row])
    }
    let lossy = [0, 2, 3, 5]
        .into_iter()
        .fold(Writer::default().u16(9), source);
    let recovered = repair(repair(lossy, 0, 6, 0), 0, 6, 1).done();
    let sliding = (0..20)
        .filter(|number| number % 4 != 1)
        .fold(Writer::default().u16(0), source);
    let sliding = (0..8).fold(sliding, |seed, row| {
        repair(seed, 2 * u16::from(row), 6, row)
    });
    let forged = repair(Writer::default().u16(60_000), 0, 3, 0)
        .raw([4])
        .u16(1)
        .raw([0])
        .bytes([7; 9])
        .raw([5])
        .u16(0)
        .raw([0])
        .u16(3)
        .raw([1])
        .bytes([1; 9]);
    vec![recovered, sliding.done(), forged.done()]
}

/// Returns symbol `number`, of a length of its own.
fn symbol(number: u64) -> Vec<u8> {
    let first = number.wrapping_mul(31);
    (0..=number % 40)
        .map(|at| first.wrapping_add(at * 7) as u8 | 1)
        .collect()
}

/// Returns the repair symbol that a sender makes, if one can.
fn repair(first: u64, count: u8, row: u8) -> Option<(RepairHeader, Vec<u8>)> {
    let header = RepairHeader {
        first,
        count: u16::from(count % 128) + 1,
        row: row % 128,
    };
    let end = first.checked_add(header.count.into())?;
    let symbols: Vec<Vec<u8>> = (first..end).map(symbol).collect();
    let mut bytes = Vec::new();
    encode(
        header,
        symbols.iter().map(|bytes| [&bytes[..1], &bytes[1..]]),
        &mut bytes,
    );
    Some((header, bytes))
}

/// The target.
pub const TARGET: Target = Target {
    name: "fec",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(bytes: &[u8]) {
    let meter = Meter::begin(BOUND);
    let mut input = Reader::new(bytes);
    // The last numbers are also tried.
    let base = match input.u16() {
        Some(near_end @ 0xff00..) => u64::MAX - u64::from(near_end & 0xff),
        base => u64::from(base.unwrap_or_default()),
    };
    let mut decoder = Decoder::new();
    let mut recovered = BTreeSet::new();
    let mut is_honest = true;
    while let Some(step) = step(&mut input, base) {
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
                decoder.on_source(number, [&[], bytes]);
            }
            Step::ForgedRepair {
                first,
                count,
                row,
                bytes,
            } => {
                is_honest = false;
                decoder.on_repair(RepairHeader { first, count, row }, bytes);
            }
        }
        while let Some((number, bytes)) = decoder.next_recovered() {
            assert!(recovered.insert(number), "{number} was recovered twice");
            if is_honest {
                let sent = symbol(number);
                let (start, padding) = bytes.split_at(sent.len());
                assert!(
                    start == sent && padding.iter().all(|byte| *byte == 0),
                    "{number}"
                );
            }
        }
    }
    meter.check(bytes.len());
}

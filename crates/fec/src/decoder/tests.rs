//! The code and its decoder together: every determined symbol is recovered, and none is ever wrong.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_units::{Rng, Seed};
use proptest::prelude::*;

use super::*;
use crate::code::{MAX_ROWS, MAX_WINDOW, encode};
use crate::gf256;

/// Returns a symbol with its length in front, as in a session, so that padding can be recognised.
fn symbol(number: u64, length: usize) -> Vec<u8> {
    let mut rng = Seed(number).rng();
    let mut bytes = (length as u16).to_be_bytes().to_vec();
    bytes.extend((0..length).map(|_| rng.next_u64() as u8));
    bytes
}

fn lengths_of(number: u64) -> usize {
    [20, 7, 33, 0, 16][(number % 5) as usize]
}

fn source(number: u64) -> Vec<u8> {
    symbol(number, lengths_of(number))
}

fn repair_of(header: RepairHeader) -> Vec<u8> {
    let window: Vec<Vec<u8>> = (header.first..)
        .take(usize::from(header.count))
        .map(source)
        .collect();
    let mut out = Vec::new();
    encode(
        header,
        window.iter().map(|bytes| [&bytes[..2], &bytes[2..]]),
        &mut out,
    );
    out
}

fn give_source(decoder: &mut Decoder, number: u64) -> bool {
    let bytes = source(number);
    decoder.on_source(number, [&bytes[..1], &bytes[1..]])
}

fn give_repair(decoder: &mut Decoder, header: RepairHeader) {
    decoder.on_repair(header, &repair_of(header));
    assert!(decoder.elimination.is_consistent());
}

/// Returns all recovered symbols, each checked against the sent one.
fn recovered(decoder: &mut Decoder) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    while let Some((number, bytes)) = decoder.next_recovered() {
        let sent = source(number);
        assert_eq!(bytes[..sent.len()], sent, "symbol {number}");
        assert!(
            bytes[sent.len()..].iter().all(|&byte| byte == 0),
            "padding of {number}"
        );
        assert!(numbers.insert(number), "{number} came twice");
    }
    numbers
}

fn block(first: u64, count: u16, row: u8) -> RepairHeader {
    RepairHeader { first, count, row }
}

/// Sends a block of `k` symbols and `m` repair symbols, of which those with a bit in `erased` are
/// lost. Returns the recovered symbols.
fn send_block(decoder: &mut Decoder, first: u64, (k, m): (u16, u8), erased: u32) -> BTreeSet<u64> {
    fn is_erased(index: u16, erased: u32) -> bool {
        erased & (1 << index) != 0
    }
    for index in (0..k).filter(|&index| !is_erased(index, erased)) {
        give_source(decoder, first + u64::from(index));
    }
    for row in (0..m).filter(|&row| !is_erased(k + u16::from(row), erased)) {
        give_repair(decoder, block(first, k, row));
    }
    recovered(decoder)
}

#[test]
fn every_pattern_of_at_most_m_erasures_is_recovered() {
    let mut pattern_count = 0;
    for n in 2..=12_u16 {
        for k in 1..n {
            let m = (n - k) as u8;
            let mut decoder = Decoder::new();
            let mut first = 100;
            for erased in (0_u32..1 << n).filter(|erased| erased.count_ones() <= u32::from(m)) {
                let lost: BTreeSet<u64> = (0..u64::from(k))
                    .filter(|index| erased & (1 << index) != 0)
                    .map(|index| first + index)
                    .collect();
                assert_eq!(send_block(&mut decoder, first, (k, m), erased), lost);
                first += u64::from(k) + 3;
                pattern_count += 1;
            }
        }
    }
    assert_eq!(pattern_count, 45_045);
}

#[test]
fn more_than_m_erasures_recover_nothing() {
    for n in 2..=12_u16 {
        for k in 1..n {
            let m = (n - k) as u8;
            let mut decoder = Decoder::new();
            let mut first = 0;
            for erased in (0_u32..1 << n).filter(|erased| erased.count_ones() == u32::from(m) + 1) {
                assert_eq!(
                    send_block(&mut decoder, first, (k, m), erased),
                    BTreeSet::new()
                );
                first += u64::from(k);
            }
        }
    }
}

#[test]
fn a_full_window_recovers_as_many_as_there_are_rows() {
    let mut decoder = Decoder::new();
    let first = 1_000_003;
    for row in 0..MAX_ROWS {
        assert_eq!(recovered(&mut decoder), BTreeSet::new());
        give_repair(&mut decoder, block(first, MAX_WINDOW, row));
    }
    assert_eq!(recovered(&mut decoder), (first..first + 128).collect());
    assert_eq!(decoder.elimination.repair_count(), 0);
}

#[test]
fn overhead_is_exactly_m_over_k() {
    for (k, m) in [(1, 1), (10, 3), (50, 12)] {
        let sources: Vec<Vec<u8>> = (0..k).map(|number| symbol(number, 98)).collect();
        let mut repairs = Vec::new();
        for row in 0..m {
            let parts = sources.iter().map(|bytes| [&bytes[..], &[][..]]);
            encode(block(0, k as u16, row as u8), parts, &mut repairs);
        }
        let source_bytes: usize = sources.iter().map(Vec::len).sum();
        assert_eq!(repairs.len() * k as usize, source_bytes * m as usize);
    }
}

#[test]
fn any_lengths_are_recovered_whichever_symbol_is_lost() {
    let mut rng = Seed(1).rng();
    let sources: Vec<Vec<u8>> = (0..6)
        .map(|number| symbol(number, rng.below(1_400) as usize))
        .collect();
    let longest = sources.iter().map(Vec::len).max().unwrap();
    let header = block(0, 6, 5);
    let mut repair = Vec::new();
    encode(
        header,
        sources.iter().map(|bytes| [&bytes[..2], &bytes[2..]]),
        &mut repair,
    );
    assert_eq!(repair.len(), longest);
    for lost in 0..6 {
        let mut decoder = Decoder::new();
        for (number, bytes) in (0..).zip(&sources).filter(|&(number, _)| number != lost) {
            decoder.on_source(number, [bytes, &[]]);
        }
        decoder.on_repair(header, &repair);
        let (number, bytes) = decoder.next_recovered().unwrap();
        assert_eq!((number, bytes.len()), (lost, longest));
        assert_eq!(
            bytes[..sources[lost as usize].len()],
            sources[lost as usize]
        );
    }
}

/// Iterates over repair symbols of the last `window` symbols, one after every `spacing` symbols.
fn sliding(end: u64, window: u64, spacing: u64) -> impl Iterator<Item = RepairHeader> {
    (1..)
        .map(move |index| (index, index * spacing))
        .take_while(move |&(_, at)| at <= end)
        .map(move |(index, at)| {
            let first = at.saturating_sub(window);
            block(first, (at - first) as u16, (index % 128) as u8)
        })
}

/// A burst of `b` is covered whole by the repair symbols sent after its end and before its
/// beginning has left the window: at least `(w - b + 1) / spacing` of them, rounded down.
#[test]
fn a_sliding_window_recovers_bursts_that_enough_repairs_cover_whole() {
    for (window, spacing, burst) in [
        (20, 4, 4),
        (32, 4, 6),
        (128, 5, 21),
        (24, 2, 8),
        (40, 10, 3),
    ] {
        assert!((window - burst + 1) / spacing >= burst);
        for lost_from in 200..200 + spacing {
            let lost = lost_from..lost_from + burst;
            let mut decoder = Decoder::new();
            let mut repairs = sliding(400, window, spacing).peekable();
            let mut out = BTreeSet::new();
            for number in 0..400 {
                if !lost.contains(&number) {
                    give_source(&mut decoder, number);
                }
                while let Some(header) = repairs.next_if(|header| header.end() == Some(number + 1))
                {
                    if !lost.contains(&number) {
                        give_repair(&mut decoder, header);
                    }
                }
                out.extend(recovered(&mut decoder));
                if number == lost_from + window - 1 {
                    assert_eq!(out, lost.clone().collect(), "w {window}, 1 in {spacing}");
                }
            }
            assert_eq!(out.len() as u64, burst);
        }
    }
}

#[test]
fn repairs_may_come_first_and_twice_and_in_any_order() {
    let mut rng = Seed(7).rng();
    for round in 0..50 {
        let first = round * 37;
        let mut decoder = Decoder::new();
        let lost: BTreeSet<u64> = [first + 2, first + 9, first + 11].into();
        let mut packets: Vec<Result<u64, u8>> = (first..first + 20)
            .filter(|number| !lost.contains(number))
            .map(Ok)
            .chain((0..3).map(Err))
            .collect();
        packets.extend(packets.clone());
        for index in (1..packets.len()).rev() {
            packets.swap(index, rng.below(index as u64 + 1) as usize);
        }
        let mut was_new = BTreeMap::new();
        let mut out = BTreeSet::new();
        for packet in packets {
            match packet {
                Ok(number) => {
                    *was_new.entry(number).or_insert(0) +=
                        u32::from(give_source(&mut decoder, number));
                }
                Err(row) => give_repair(&mut decoder, block(first, 20, row)),
            }
            for number in recovered(&mut decoder) {
                assert!(out.insert(number));
                assert!(
                    !give_source(&mut decoder, number),
                    "recovered, so no longer new"
                );
            }
        }
        assert!(out.is_superset(&lost));
        for (number, times) in was_new {
            assert_eq!(times, u32::from(!out.contains(&number)), "{number}");
        }
        assert_eq!(decoder.elimination.repair_count(), 0);
    }
}

/// Returns the unknowns that a set of repair symbols determines, by elimination from scratch.
fn determined(unknowns: &[u64], repairs: &[RepairHeader]) -> BTreeSet<u64> {
    let mut rows: Vec<Vec<u8>> = repairs
        .iter()
        .map(|header| {
            unknowns
                .iter()
                .map(|&number| {
                    if header.covers(number) {
                        header.coefficient(number)
                    } else {
                        0
                    }
                })
                .collect()
        })
        .collect();
    let mut rank = 0;
    for column in 0..unknowns.len() {
        let Some(pivot) = (rank..rows.len()).find(|&row| rows[row][column] != 0) else {
            continue;
        };
        rows.swap(rank, pivot);
        let pivot_row = rows[rank].clone();
        for row in (0..rows.len()).filter(|&row| row != rank) {
            let factor = gf256::multiply(rows[row][column], gf256::inverse(pivot_row[column]));
            gf256::multiply_add(&mut rows[row], &pivot_row, factor);
        }
        rank += 1;
    }
    let alone = rows
        .iter()
        .filter(|row| row.iter().filter(|&&c| c != 0).count() == 1);
    alone
        .map(|row| unknowns[row.iter().position(|&c| c != 0).unwrap()])
        .collect()
}

/// Returns whether each unknown can have a repair symbol of its own: necessary for a solution.
fn has_matching(unknowns: &[u64], repairs: &[RepairHeader]) -> bool {
    fn assign(
        number: u64,
        repairs: &[RepairHeader],
        tried: &mut [bool],
        of: &mut [Option<u64>],
    ) -> bool {
        for index in 0..repairs.len() {
            if repairs[index].covers(number) && !tried[index] {
                tried[index] = true;
                let is_free = match of[index] {
                    Some(other) => assign(other, repairs, tried, of),
                    None => true,
                };
                if is_free {
                    of[index] = Some(number);
                    return true;
                }
            }
        }
        false
    }
    let mut of = vec![None; repairs.len()];
    unknowns
        .iter()
        .all(|&number| assign(number, repairs, &mut vec![false; repairs.len()], &mut of))
}

/// Windows that differ: as many repair symbols as unknowns, each unknown with one of its own.
#[test]
fn overlapping_windows_are_seldom_singular() {
    let mut rng = Seed(3).rng();
    let (mut solvable, mut singular) = (0, 0);
    while solvable < 20_000 {
        let first = rng.below(1_000);
        let mut unknowns = BTreeSet::new();
        while unknowns.len() < 6 {
            unknowns.insert(first + rng.below(40));
        }
        let unknowns: Vec<u64> = unknowns.into_iter().collect();
        let repairs: Vec<RepairHeader> = (0..6)
            .map(|row| block(first + rng.below(28), 20, 20 * row))
            .collect();
        if repairs
            .iter()
            .all(|header| unknowns.iter().all(|&n| header.covers(n)))
            || !has_matching(&unknowns, &repairs)
        {
            continue;
        }
        solvable += 1;
        singular += u32::from(determined(&unknowns, &repairs).len() < unknowns.len());
    }
    let share = f64::from(singular) / f64::from(solvable);
    assert!((0.001..0.004).contains(&share), "{singular} of {solvable}");
}

#[derive(Clone, Debug)]
enum Packet {
    Source(u64),
    Repair(RepairHeader),
}

fn any_packet(numbers: u64) -> impl Strategy<Value = Packet> {
    prop_oneof![
        3 => (0..numbers).prop_map(Packet::Source),
        2 => (0..numbers, 1..40_u16, 0..MAX_ROWS)
            .prop_map(|(first, count, row)| Packet::Repair(block(first, count, row))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn determined_symbols_are_recovered(
        packets in prop::collection::vec(any_packet(60), 0..120)
    ) {
        let mut decoder = Decoder::new();
        let (mut sources, mut repairs, mut out) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
        for packet in packets {
            match packet {
                Packet::Source(number) => {
                    sources.insert(number);
                    give_source(&mut decoder, number);
                }
                Packet::Repair(header) => {
                    repairs.push(header);
                    give_repair(&mut decoder, header);
                }
            }
            out.extend(recovered(&mut decoder));
        }
        let covered: BTreeSet<u64> =
            repairs.iter().flat_map(|header| header.first..header.end().unwrap()).collect();
        let unknowns: Vec<u64> = covered.difference(&sources).copied().collect();
        let expected = determined(&unknowns, &repairs);
        prop_assert_eq!(out.difference(&sources).copied().collect::<BTreeSet<u64>>(), expected);
    }

    #[test]
    fn nothing_a_peer_says_breaks_the_decoder_or_its_bounds(
        packets in prop::collection::vec(
            (
                prop_oneof![any::<u64>(), 0..600_u64, u64::MAX - 600..=u64::MAX],
                prop_oneof![0..=130_u16, any::<u16>()],
                any::<u8>(),
                prop::collection::vec(any::<u8>(), 0..40),
                any::<bool>(),
            ),
            0..200,
        )
    ) {
        let mut decoder = Decoder::new();
        for (number, count, row, bytes, is_source) in packets {
            if is_source {
                decoder.on_source(number, [&bytes, &bytes]);
            } else {
                decoder.on_repair(block(number, count, row), &bytes);
            }
            prop_assert!(decoder.elimination.is_consistent());
            prop_assert!(decoder.elimination.repair_count() < usize::from(MAX_WINDOW));
        }
        while decoder.next_recovered().is_some() {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_long_lossy_stream_recovers_nothing_wrong(
        seed: u64, loss in 0.0..0.6_f64, window in 1..=128_u64, spacing in 1..20_u64,
        reorder in 1..300_u64,
    ) {
        let mut rng = Seed(seed).rng();
        let mut sent: Vec<(u64, Packet)> = Vec::new();
        let at = |number: u64, rng: &mut Rng| number + rng.below(reorder);
        for number in 0..1_500 {
            sent.push((at(number, &mut rng), Packet::Source(number)));
        }
        for header in sliding(1_500, window, spacing) {
            sent.push((at(header.end().unwrap(), &mut rng), Packet::Repair(header)));
        }
        sent.retain(|_| !rng.chance(loss));
        sent.sort_by_key(|&(at, _)| at);
        let mut decoder = Decoder::new();
        for (_, packet) in sent {
            match packet {
                Packet::Source(number) => {
                    give_source(&mut decoder, number);
                }
                Packet::Repair(header) => give_repair(&mut decoder, header),
            }
            recovered(&mut decoder);
        }
        prop_assert!(decoder.recovered.len() <= RETAINED_SYMBOLS as usize);
    }
}

#[test]
fn unpolled_symbols_are_bounded() {
    let mut decoder = Decoder::new();
    for number in 0..5_000 {
        give_repair(&mut decoder, block(number, 1, 0));
    }
    assert_eq!(decoder.recovered.len() as u64, RETAINED_SYMBOLS);
    assert_eq!(
        recovered(&mut decoder),
        (5_000 - RETAINED_SYMBOLS..5_000).collect()
    );
}

#[test]
fn buffers_are_used_again() {
    let mut decoder = Decoder::new();
    let mut buffers = BTreeSet::new();
    for number in 0..8 * RETAINED_SYMBOLS {
        if number % 10 != 3 {
            give_source(&mut decoder, number);
        }
        if number % 10 == 9 {
            give_repair(&mut decoder, block(number - 9, 10, 0));
            assert_eq!(recovered(&mut decoder).len(), 1);
        }
        if number == 6 * RETAINED_SYMBOLS {
            buffers = addresses(&decoder);
        }
    }
    assert!(
        addresses(&decoder) == buffers,
        "another buffer was allocated"
    );
}

fn addresses(decoder: &Decoder) -> BTreeSet<usize> {
    decoder
        .symbols
        .iter()
        .map(|symbol| symbol.bytes.as_ptr().addr())
        .collect()
}

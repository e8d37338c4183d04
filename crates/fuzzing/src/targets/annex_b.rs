//! Any bytes instead of H.264, in any pieces, give the same access units, byte for byte. Neither
//! memory nor time grows faster than the stream.

use anabranch_video::annex_b::{self, AccessUnit, AccessUnitSplitter};

use crate::{Bound, Meter, Target};

/// The splitter's buffer and the units, twice, and a header in memory for each unit, of which the
/// shortest has five bytes.
const BOUND: Bound = Bound {
    fixed_bytes: 64 << 10,
    bytes_per_byte: 64,
};

fn seeds() -> Vec<Vec<u8>> {
    // An SPS with timing of 50 fields a second, a PPS, an IDR slice, and two other pictures.
    let sps = [
        0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1e, 0xd9, 0, 0xa0, 0x47, 0xfe, 0x88, 0, 0, 3, 0, 8, 0, 0,
        3, 1, 0x90, 0x78, 0xb1, 0x72, 0x40,
    ];
    let rest = b"\0\0\x01\x68\xca\x43\0\0\x01\x65\x88\x80\0\0\x01\x41\x9a\x02\0\0\x01\x01\xa8\x03";
    let delimiter = b"\0\0\0\x01\x09\xf0\0\0\x01";
    let recovery_point = b"\x06\x06\x01\x00\x80\0\0\x01\x41\x9a";
    let delimited = [&delimiter[..], recovery_point, delimiter, b"\x41\x9a"].concat();
    let stream = [&sps[..], rest].concat();
    vec![
        [&[0, 2][..], &stream].concat(),
        [&[0, 255][..], &delimited].concat(),
        [&[255, 255][..], &stream, &delimited].concat(),
        [&[255, 255][..], b"\0\0\x01\x41\x80"].concat(),
    ]
}

fn units(stream: &[u8], piece_bytes: usize) -> Vec<AccessUnit> {
    let (mut splitter, mut units) = (AccessUnitSplitter::new(), Vec::new());
    for piece in stream.chunks(piece_bytes) {
        splitter.push(piece);
        while let Some(unit) = splitter.next_unit() {
            units.push(unit);
        }
    }
    units.extend(splitter.finish());
    units
}

/// The target.
pub const TARGET: Target = Target {
    name: "annex_b",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(input: &[u8]) {
    // Repeated, short inputs are long streams. At this length, quadratic cost exceeds the bounds.
    const MAX_STREAM_BYTES: usize = 16 << 10;
    let [count, piece_bytes, bytes @ ..] = input else {
        return;
    };
    let max_count = MAX_STREAM_BYTES / bytes.len().max(1);
    let stream = bytes.repeat((usize::from(*count) * 16).min(max_count).max(1));
    let meter = Meter::begin(BOUND);
    let whole = units(&stream, usize::MAX);
    assert_eq!(units(&stream, 1 + 16 * usize::from(*piece_bytes)), whole);
    let all: Vec<u8> = whole
        .iter()
        .flat_map(|unit| unit.annex_b.iter().copied())
        .collect();
    assert!(stream.ends_with(&all));
    for unit in &whole {
        annex_b::fingerprint(&unit.annex_b);
        annex_b::frame_interval(&unit.annex_b);
        assert!(!annex_b::is_key(&unit.annex_b) || unit.importance.is_key());
    }
    meter.check(stream.len());
}

//! The MPEG-TS splitter accepts any bytes in any pieces, and returns only bytes of the input.
//! Neither memory nor time grows faster than the stream.

use anabranch_units::Duration;
use anabranch_video::mpeg_ts::{PACKET_LEN, TransportStreamWriter, TransportUnitSplitter};

use crate::{Bound, Meter, Target};

/// Tables, clocks and the buffer; then the buffer's copies and the units'.
const BOUND: Bound = Bound {
    fixed_bytes: 256 << 10,
    bytes_per_byte: 16,
};

fn seeds() -> Vec<Vec<u8>> {
    let mut writer = TransportStreamWriter::new(Vec::new());
    for number in 0..4_u8 {
        let slice = if number % 3 == 0 { 0x65 } else { 0x41 };
        let head = [0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1, slice, 0x88];
        let picture = [&head[..], &[7; 300]].concat();
        let at = Duration::from_millis(40) * u64::from(number);
        writer
            .write(&picture, at, number % 3 == 0)
            .expect("memory to write to");
    }
    let stream = writer.into_inner();
    [[1, 255], [1, 11], [20, 255]]
        .map(|head| [&head[..], &stream].concat())
        .into()
}

/// The target.
pub const TARGET: Target = Target {
    name: "mpeg_ts",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(input: &[u8]) {
    // Repeated, short inputs are long streams.
    let [count, piece_bytes, bytes @ ..] = input else {
        return;
    };
    let stream = bytes.repeat(usize::from(*count).max(1));
    let meter = Meter::begin(BOUND);
    let mut splitter = TransportUnitSplitter::new();
    let mut taken = 0;
    for piece in stream.chunks(1 + 17 * usize::from(*piece_bytes)) {
        splitter.push(piece);
        while let Some(unit) = splitter.next_unit() {
            assert_eq!(unit.bytes.len() % PACKET_LEN, 0);
            taken += unit.bytes.len();
        }
    }
    while let Some(unit) = splitter.finish() {
        taken += unit.bytes.len();
    }
    assert!(taken <= stream.len());
    meter.check(stream.len());
}

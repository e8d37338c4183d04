//! The MPEG-TS splitter takes any bytes in any pieces, and gives back no byte that it was not
//! given.
#![no_main]

use anabranch_video::mpeg_ts::{PACKET_LEN, TransportUnitSplitter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|pieces: Vec<&[u8]>| {
    let mut splitter = TransportUnitSplitter::new();
    let given: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut taken = 0;
    for piece in pieces {
        splitter.push(piece);
        while let Some(unit) = splitter.next_unit() {
            assert_eq!(unit.bytes.len() % PACKET_LEN, 0);
            taken += unit.bytes.len();
        }
    }
    while let Some(unit) = splitter.finish() {
        taken += unit.bytes.len();
    }
    assert!(taken <= given);
});

//! Any bytes, cut anywhere, are read as datagrams of legal lengths or refused, and the cut does not
//! matter.

use anabranch_secure::{Deframer, MAX_FRAMED_BYTES, STREAM_PREAMBLE, StreamError, append_framed};

use crate::{Bound, Meter, Target};

/// Each datagram is kept here, two times, with a vector that takes 24 bytes.
const BOUND: Bound = Bound {
    fixed_bytes: 4 * MAX_FRAMED_BYTES,
    bytes_per_byte: 64,
};

fn seeds() -> Vec<Vec<u8>> {
    let mut stream = Vec::new();
    for length in [1, 100, 1_400] {
        assert!(append_framed(&mut stream, &vec![length as u8; length]));
    }
    let after_preamble = [&STREAM_PREAMBLE[..], &stream].concat();
    [(0, &stream), (9, &stream), (255, &after_preamble)]
        .map(|(piece, stream)| [&[piece][..], stream].concat())
        .into()
}

fn read(bytes: &[u8], piece_bytes: usize) -> (Vec<Vec<u8>>, Result<(), StreamError>) {
    let (mut deframer, mut datagrams) = (Deframer::default(), Vec::new());
    let mut stream = STREAM_PREAMBLE.to_vec();
    stream.extend_from_slice(bytes);
    for piece in stream.chunks_mut(piece_bytes) {
        let read = deframer.push(piece, |datagram| datagrams.push(datagram.to_vec()));
        if read.is_err() {
            return (datagrams, read);
        }
    }
    (datagrams, Ok(()))
}

/// The target.
pub const TARGET: Target = Target {
    name: "framing",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(input: &[u8]) {
    let Some((piece_bytes, bytes)) = input.split_first() else {
        return;
    };
    let meter = Meter::begin(BOUND);
    let whole = read(bytes, usize::MAX);
    assert_eq!(read(bytes, usize::from(*piece_bytes) + 1), whole);
    assert!(
        whole
            .0
            .iter()
            .all(|datagram| (1..=MAX_FRAMED_BYTES).contains(&datagram.len()))
    );
    let _ = Deframer::default().push(&mut bytes.to_vec(), |_| {});
    meter.check(input.len());
}

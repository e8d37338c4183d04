//! Any bytes, cut anywhere, are read as datagrams of legal lengths or refused, and the cut does not
//! matter.
#![no_main]

use anabranch_secure::{Deframer, MAX_FRAMED_BYTES, STREAM_PREAMBLE, StreamError};
use libfuzzer_sys::fuzz_target;

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

fuzz_target!(|input: (u8, &[u8])| {
    let (piece_bytes, bytes) = input;
    let whole = read(bytes, usize::MAX);
    assert_eq!(read(bytes, usize::from(piece_bytes) + 1), whole);
    let is_legal = |datagram: &Vec<u8>| (1..=MAX_FRAMED_BYTES).contains(&datagram.len());
    assert!(whole.0.iter().all(is_legal));
    let _ = Deframer::default().push(&mut bytes.to_vec(), |_| {});
});

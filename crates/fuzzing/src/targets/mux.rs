//! Streams neither panic nor take more memory than their windows, with any messages of a peer.

use anabranch_mux::{Budget, Event, Limits, Mux, Role};
use bytes::Bytes;

use crate::{Bound, Meter, Reader, Target, Writer};

/// Eight streams with 16 KiB of unsent bytes each, twice while these grow. A message of one byte
/// beyond a gap takes some hundred; it has three bytes here, with its length in the input five.
const BOUND: Bound = Bound {
    fixed_bytes: 512 << 10,
    bytes_per_byte: 64,
};

fn seeds() -> Vec<Vec<u8>> {
    let messages: [&[&[u8]]; 4] = [
        &[b"\0\0\0hello", b"\0\0\x05world", b"\x01\0\x0a."],
        &[
            b"\0\0\x02cd",
            b"\0\x04\x40\x80x",
            b"\0\0\0ab",
            b"\x05\0\x04",
            b"\x03\0",
        ],
        &[
            b"\x01\0\0a",
            b"\x02\0\x40\xff",
            b"\x04\0",
            b"\x06\x80\x10\0\0",
            b"\x02\x01\x05",
        ],
        &[
            b"\0\0\x01a",
            b"\0\0\x03b",
            b"\0\0\x05c",
            b"\0\0\x07d",
            b"\0\0\x02e",
        ],
    ];
    messages
        .map(|messages| {
            messages
                .iter()
                .fold(Writer::default(), |seed, message| seed.bytes(message))
                .done()
        })
        .into()
}

/// The target.
pub const TARGET: Target = Target {
    name: "mux",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(bytes: &[u8]) {
    let limits = Limits {
        max_streams: 8,
        ..Limits::default()
    };
    let meter = Meter::begin(BOUND);
    let mut mux = Mux::new(Role::Server, limits, Budget::new(4 << 20));
    let mut arrived_bytes = 0;
    let mut input = Reader::new(bytes);
    while let Some(message) = input.bytes() {
        arrived_bytes += message.len() as u64;
        if mux.handle_message(Bytes::copy_from_slice(message)).is_err() {
            break;
        }
        while let Some(id) = mux.accept() {
            let _ = mux.write(id, b"answer");
        }
        while let Some(event) = mux.poll_event() {
            if let Event::Readable(id) = event {
                let _ = mux.read(id);
            }
        }
        while mux.next_message(100, &mut Vec::new()).is_some() {}
        assert!(mux.stream_count() <= limits.max_streams);
        let max_bytes = limits.session_window_bytes + (4 << 20);
        assert!(mux.held_bytes() <= max_bytes.min(arrived_bytes));
    }
    meter.check(bytes.len());
}

//! Any bytes instead of SOCKS5 give a target for a server, or none. Neither memory nor time grows
//! faster than the bytes.

use anabranch_cli::fuzzing::{prepare, socks5};

use crate::{Bound, Meter, Target, Writer};

const BOUND: Bound = Bound {
    fixed_bytes: 4 << 10,
    bytes_per_byte: 8,
};

fn seeds() -> Vec<Vec<u8>> {
    let targets: [&[u8]; 3] = [
        b"\x01\xc0\x00\x02\x01\x00\x50",
        b"\x03\x03a.b\x01\xbb",
        b"\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x1f\x90",
    ];
    let greeting = b"\x05\x02\x02\x00\x05\x01\x00";
    let seeds = targets.into_iter().zip([0, 3, 255]);
    seeds
        .map(|(target, piece)| {
            Writer::default()
                .raw([piece])
                .raw(greeting)
                .raw(target)
                .done()
        })
        .collect()
}

/// The target.
pub const TARGET: Target = Target {
    name: "socks5",
    bound: BOUND,
    prepare,
    seeds,
    run,
};

fn run(input: &[u8]) {
    let Some((piece_bytes, bytes)) = input.split_first() else {
        return;
    };
    let meter = Meter::begin(BOUND);
    socks5(bytes, usize::from(*piece_bytes) + 1);
    meter.check(input.len());
}

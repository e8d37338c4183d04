//! Requests of a receiver to its sender, answers, and requests by HTTP with any bytes are read or
//! refused. They survive another encoding. Memory grows no faster than the bytes.

use anabranch_cli::fuzzing::control_request;

use crate::{Bound, Meter, Target};

/// Memory of texts and of errors about them, and twice that of a second encoding.
const BOUND: Bound = Bound {
    fixed_bytes: 64 << 10,
    bytes_per_byte: 64,
};

fn seeds() -> Vec<Vec<u8>> {
    let seeds: [&[u8]; 6] = [
        b"\x01\x01{\"id\":7,\"change\":{\"path\":{\"path\":\"wwan0\",\"on\":false}}}",
        b"\x01\x01{\"id\":8,\"change\":{\"target\":{\"min\":\"500kbit/s\",\"max\":\"3Mbit/s\"}}}",
        b"\x01\x01{\"id\":9,\"change\":{\"latency\":{\"latency\":\"800 ms\"}}}",
        b"\x01\x01{\"id\":7,\"done\":true,\"text\":\"path 0 (wwan0): off\"}",
        b"{\"path\":\"lo\",\"metered\":true,\"cap\":\"10GB\",\"max\":\"none\"}",
        b"{\"stream\":\"front\",\"keep_out\":\"10 min\"}",
    ];
    seeds.map(<[u8]>::to_vec).into()
}

/// The target.
pub const TARGET: Target = Target {
    name: "control_request",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(input: &[u8]) {
    let meter = Meter::begin(BOUND);
    control_request(input);
    meter.check(input.len());
}

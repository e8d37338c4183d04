//! Messages between a receiver and its relay are read without panicking, and have one spelling.

use anabranch_net::fuzzing;

use crate::{Bound, Target};

/// Memory of a message that is written again.
const BOUND: Bound = Bound {
    fixed_bytes: 4 << 10,
    bytes_per_byte: 8,
};

/// Returns a message of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let datagram = [&[1, 4, 27, 88, 192, 0, 2, 7][..], b"datagram"].concat();
    let mut to_a_proven_peer = vec![2, 6, 27, 88, 0x20, 1, 0x0d, 0xb8];
    to_a_proven_peer.extend([7; 12 + 8]);
    let numbers = (3..=6).map(|kind| [&[kind][..], &[1, 2, 3, 4, 5, 6, 7, 8]].concat());
    let mut seeds = vec![datagram, to_a_proven_peer, vec![7]];
    seeds.extend(numbers);
    seeds
}

pub(super) const TARGET: Target = Target {
    name: "relay_message",
    bound: BOUND,
    prepare: || {},
    seeds,
    run: fuzzing::relay_message,
};

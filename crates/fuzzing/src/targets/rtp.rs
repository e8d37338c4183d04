//! Any datagrams instead of RTP give whole transport packets, no more of them than arrived.

use anabranch_cli::fuzzing::RtpInput;
use anabranch_units::Duration;

use crate::{Bound, Meter, Reader, Target, Writer};

/// Memory of waiting packets, each held once, with some hundred bytes of a tree's node.
const BOUND: Bound = Bound {
    fixed_bytes: 8 << 10,
    bytes_per_byte: 4,
};

fn datagram(sequence: u16, source: u8, flags: u8) -> Vec<u8> {
    let number = sequence.to_be_bytes();
    let head = [flags, 33, number[0], number[1], 0, 0, 0, 0, 0, 0, 0, source];
    let packet = [&[0x47][..], &[0; 187]].concat();
    let extension: &[u8] = if flags & 0x10 != 0 {
        &[0xbe, 0xde, 0, 1, 1, 2, 3, 4]
    } else {
        &[]
    };
    let padding: &[u8] = if flags & 0x20 != 0 { &[0, 2] } else { &[] };
    [&head, extension, &packet, &packet, padding].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    fn of(numbers: &[(u8, u16, u8, u8)]) -> Vec<u8> {
        let seed = Writer::default();
        numbers
            .iter()
            .fold(seed, |seed, (millis, number, source, flags)| {
                seed.raw([*millis, 0])
                    .bytes(datagram(*number, *source, *flags))
            })
            .done()
    }
    vec![
        of(&[
            (0, 65_534, 7, 0x80),
            (1, 0, 7, 0x80),
            (1, 65_535, 7, 0x90),
            (1, 1, 7, 0xb0),
        ]),
        of(&[
            (0, 1, 7, 0x80),
            (10, 3, 7, 0x80),
            (60, 2, 7, 0x80),
            (1, 9, 8, 0x80),
            (1, 5, 8, 0x80),
        ]),
        Writer::default()
            .raw([0, 200])
            .bytes(datagram(1, 7, 0x80))
            .done(),
    ]
}

/// Takes a datagram, maybe many times with other numbers. Returns its bytes.
fn step(input: &mut Reader<'_>, rtp: &mut RtpInput) -> Option<usize> {
    let wait = Duration::from_millis(input.u8()?.into());
    let count = usize::from(input.u8()?);
    let mut datagram = input.bytes()?.to_vec();
    rtp.take(wait, &datagram);
    for number in 0..count {
        if let Some(sequence) = datagram.get_mut(2..4) {
            let before = u16::from_be_bytes([sequence[0], sequence[1]]);
            sequence.copy_from_slice(&before.wrapping_add(1 + number as u16 % 3).to_be_bytes());
        }
        rtp.take(Duration::ZERO, &datagram);
    }
    Some(datagram.len() * (1 + count))
}

/// The target.
pub const TARGET: Target = Target {
    name: "rtp",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(bytes: &[u8]) {
    let mut input = Reader::new(bytes);
    let meter = Meter::begin(BOUND);
    let (mut rtp, mut given_bytes) = (RtpInput::default(), bytes.len());
    while let Some(bytes) = step(&mut input, &mut rtp) {
        given_bytes += bytes;
    }
    meter.check(given_bytes);
}

//! The sender of SRTLA neither panics nor grows, with any datagrams of links and of the SRT sender.

use anabranch_srtla::{LinkId, LinkOptions, SECRET_BYTES, Sender};
use anabranch_units::{Duration, Instant};

use crate::{Bound, Meter, Reader, Target, Writer};

/// First byte of a step with a datagram of the SRT sender; others are numbers of links.
const FROM_SRT: u8 = 0xff;
/// A packet of 16 bytes takes 19 of the input, and ten times as many in the sender's lists.
const BOUND: Bound = Bound {
    fixed_bytes: 512 << 10,
    bytes_per_byte: 64,
};

fn seeds() -> Vec<Vec<u8>> {
    fn video(number: u32) -> Vec<u8> {
        [&number.to_be_bytes()[..], &[0x47; 60]].concat()
    }

    fn step(seed: Writer, from: u8, bytes: &[u8]) -> Writer {
        seed.raw([from]).u16(10).bytes(bytes)
    }
    let no_group = step(Writer::default(), 0, &[0x92, 0x11]);
    let joined = step(step(no_group, 0, &[0x92, 0x01]), 0, &[0x92, 0x02]);
    let joined = step(joined, 1, &[0x92, 0x02]);
    let streamed = (0..24).fold(joined, |seed, number| step(seed, FROM_SRT, &video(number)));
    let words =
        |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_be_bytes()).collect() };
    let answers = [
        words(&[0x9100_0000, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        words(&[0x8003_0000, 0, 0, 0, 11, 0x8000_000d, 15]),
        words(&[0x8002_0000, 1, 0, 0, 12, 20_000, 5_000]),
    ];
    let answered = answers
        .iter()
        .fold(streamed, |seed, bytes| step(seed, 1, bytes));
    vec![answered.done()]
}

/// The target.
pub const TARGET: Target = Target {
    name: "srtla_sender",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(bytes: &[u8]) {
    let meter = Meter::begin(BOUND);
    let mut now = Instant::from_secs(1);
    let mut sender = Sender::new(now, &[0; SECRET_BYTES]);
    for _ in 0..2 {
        sender.add_link(now, LinkOptions::default());
    }
    let mut asked = Vec::new();
    let mut input = Reader::new(bytes);
    while let (Some(from), Some(wait), Some(datagram)) = (input.u8(), input.u16(), input.bytes()) {
        now += Duration::from_millis(wait.into());
        // A name's first half is the sender's secret: a short REG2 stands for a right answer.
        let is_name = datagram == [0x92, 0x01];
        let answer = [&[0x92, 0x01][..], &asked].concat();
        let datagram = if is_name { &answer } else { datagram };
        match from {
            FROM_SRT => sender.handle_srt(now, datagram),
            link => sender.handle_link(now, LinkId(link), datagram),
        }
        sender.handle_time(now);
        while let Some(transmit) = sender.poll_transmit(now) {
            if transmit.datagram.starts_with(&[0x92, 0x00]) {
                asked = transmit.datagram[2..].to_vec();
            }
        }
        while sender.poll_srt().is_some() {}
        while sender.poll_event().is_some() {}
    }
    meter.check(bytes.len());
}

//! The receiver of SRTLA neither panics nor grows, with any datagrams of links and of the SRT
//! listener.

use std::net::{Ipv4Addr, SocketAddr};

use anabranch_srtla::{MAX_GROUPS, MAX_LINKS, Receiver, SECRET_BYTES, Taken};
use anabranch_units::{Duration, Instant};

use crate::{Bound, Meter, Reader, Target, Writer};

/// Prefix of a REG2. A shorter one stands for a REG2 with a name that the receiver gave.
const REG2: [u8; 2] = [0x92, 0x01];
/// A group with a link takes a kilobyte and a half, and three seconds of the input here: a name,
/// and a registration of two bytes.
const BOUND: Bound = Bound {
    fixed_bytes: 256 << 10,
    bytes_per_byte: 16,
};

fn seeds() -> Vec<Vec<u8>> {
    fn step(seed: Writer, host: u8, bytes: &[u8]) -> Writer {
        seed.raw([host]).u16(10).bytes(bytes)
    }

    fn video(number: u32) -> Vec<u8> {
        [&number.to_be_bytes()[..], &[0x47; 60]].concat()
    }

    let reg1 = [&[0x92, 0x00][..], &[1; 128], &[0; 128]].concat();
    let joined = step(step(Writer::default(), 1, &reg1), 1, &REG2);
    let joined = step(joined, 2, &REG2);
    let streamed = (0..24).fold(joined, |seed, number| {
        step(seed, 1 + (number % 2) as u8, &video(number))
    });
    let mut info = vec![0x90, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0x1f, 0, 1];
    info.resize(38, 1);
    let kept = step(step(streamed, 1, &info), 2, &[0x90, 0]);
    let srt = [0x8002_u16, 0x8001, 0x8000].map(|kind| [&kind.to_be_bytes()[..], &[0; 42]].concat());
    let acknowledged = srt.iter().fold(kept, |seed, bytes| step(seed, 1, bytes));
    vec![
        acknowledged.done(),
        step(Writer::default(), 3, &reg1).done(),
    ]
}

/// The target.
pub const TARGET: Target = Target {
    name: "srtla",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(bytes: &[u8]) {
    let meter = Meter::begin(BOUND);
    let mut receiver = Receiver::new(&[0; SECRET_BYTES]);
    let mut now = Instant::ZERO;
    let mut named = Vec::new();
    let mut input = Reader::new(bytes);
    while let (Some(host), Some(wait), Some(datagram)) = (input.u8(), input.u16(), input.bytes()) {
        let mut datagram = datagram.to_vec();
        now += Duration::from_millis(wait.into());
        if datagram.starts_with(&REG2) && datagram.len() < 258 {
            datagram.clone_from(&named);
        }
        let from = SocketAddr::from((Ipv4Addr::new(192, 0, host, host), 5_000));
        match receiver.handle_link(now, from, &datagram) {
            Taken::Answer(answer) if answer.starts_with(&REG2) => named = answer,
            Taken::Forward { group, .. } => {
                assert!(receiver.handle_srt(now, group, &datagram).len() <= MAX_LINKS);
            }
            Taken::Answer(_) | Taken::Nothing => {}
        }
        receiver.handle_time(now);
        while receiver.poll_event().is_some() {}
        assert!(receiver.group_count() <= MAX_GROUPS);
    }
    meter.check(bytes.len());
}

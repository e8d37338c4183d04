//! Whatever links and the SRT listener send, the receiver of SRTLA neither panics nor grows.
#![no_main]

use std::net::{Ipv4Addr, SocketAddr};

use anabranch_srtla::{MAX_GROUPS, MAX_LINKS, Receiver, SECRET_BYTES, Taken};
use anabranch_units::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

/// A REG2 that is shorter stands for one with a name that the receiver gave.
const REG2: [u8; 2] = [0x92, 0x01];

fuzz_target!(|steps: Vec<(u8, u16, Vec<u8>)>| {
    let mut receiver = Receiver::new(&[0; SECRET_BYTES]);
    let mut now = Instant::ZERO;
    let mut named = Vec::new();
    for (host, wait, mut datagram) in steps {
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
});

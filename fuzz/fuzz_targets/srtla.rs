//! Whatever links and the SRT listener send, the receiver of SRTLA neither panics nor grows.
#![no_main]

use std::net::{Ipv4Addr, SocketAddr};

use anabranch_srtla::{ID_BYTES, MAX_GROUPS, MAX_LINKS, Receiver, Taken};
use anabranch_units::{Duration, Instant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: Vec<(u8, u16, Vec<u8>)>| {
    let mut receiver = Receiver::new(|| [0; ID_BYTES / 2]);
    let mut now = Instant::ZERO;
    for (port, wait, datagram) in steps {
        now += Duration::from_millis(wait.into());
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, port.into()));
        if let Taken::Forward { group, .. } = receiver.handle_link(now, from, &datagram) {
            assert!(receiver.handle_srt(group, &datagram).len() <= MAX_LINKS);
        }
        receiver.handle_time(now);
        while receiver.poll_event().is_some() {}
        assert!(receiver.group_count() <= MAX_GROUPS);
    }
});

//! Whatever messages a peer sends, streams neither panic nor take more memory than their windows.
#![no_main]

use anabranch_mux::{Budget, Event, Limits, Mux, Role};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|messages: Vec<Vec<u8>>| {
    let limits = Limits {
        max_streams: 8,
        ..Limits::default()
    };
    let mut mux = Mux::new(Role::Server, limits, Budget::new(4 << 20));
    let mut arrived_bytes = 0;
    for message in messages {
        arrived_bytes += message.len() as u64;
        if mux.handle_message(Bytes::from(message)).is_err() {
            return;
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
});

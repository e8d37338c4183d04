//! An endpoint that sends survives any sequence of datagrams, frames and moments, and asks to be
//! called again at most once for each moment.
#![no_main]

use anabranch_core::{
    Config, DatagramMeta, Endpoint, Frame, MediaConfig, PathId, PathOptions,
};
use anabranch_units::{Duration, Ecn, Importance, Instant, Seed};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step {
    Datagram { path: u8, is_ce_marked: bool, bytes: Vec<u8> },
    Frame { bytes: u16, is_key: bool },
    Wait { micros: u32 },
    RemovePath { path: u8 },
    AddPath,
    Close,
}

fuzz_target!(|steps: Vec<Step>| {
    let mut now = Instant::ZERO;
    let media = MediaConfig { fec: "fixed:overhead=0.5:window=4".into(), ..MediaConfig::default() };
    let config = Config { media, ..Config::default() };
    let mut endpoint = Endpoint::new(config, Seed(1), now).unwrap();
    for _ in 0..2 {
        endpoint.add_path(now, PathOptions::default());
    }
    let mut datagram = Vec::new();
    for step in steps {
        match step {
            Step::Datagram { path, is_ce_marked, bytes } => {
                let ecn = if is_ce_marked { Ecn::Ce } else { Ecn::NotEct };
                let meta = DatagramMeta { path: PathId(path % 4), received_at: now, ecn };
                endpoint.handle_datagram(now, meta, &bytes);
            }
            Step::Frame { bytes, is_key } => {
                let importance = Importance::key_if(is_key);
                let bytes = vec![0; bytes.into()].into();
                let frame = Frame { bytes, importance, captured_at: now };
                let _ = endpoint.send_frame(now, &frame);
            }
            Step::Wait { micros } => now += Duration::from_micros(micros.into()),
            Step::RemovePath { path } => endpoint.remove_path(now, PathId(path % 4)),
            Step::AddPath => {
                endpoint.add_path(now, PathOptions::default());
            }
            Step::Close => endpoint.close(now),
        }
        endpoint.handle_timeout(now);
        datagram.clear();
        while endpoint.poll_transmit(now, &mut datagram).is_some() {}
        while endpoint.poll_event().is_some() {}
        if let Some((at, timer)) = endpoint.poll_timeout() {
            assert!(at > now, "{timer:?} was due at {at} and is still due at {now}");
        }
    }
});

//! The wire codec reads any bytes without panicking, and the contents of a report are consistent.

use anabranch_core::{Config, MediaConfig, MediaSession, PathOptions, StreamSession};
use anabranch_units::{Duration, Importance, Instant, Seed};

use crate::{Bound, Meter, Target};

/// Memory of a report, with at most some hundred ranges and arrivals.
const BOUND: Bound = Bound {
    fixed_bytes: 64 << 10,
    bytes_per_byte: 64,
};

fn config() -> Config {
    let controller = anabranch_controllers::default_controller();
    let scheduler = anabranch_schedulers::default_scheduler();
    let media = MediaConfig {
        fec: anabranch_schedulers::fec_policy("fixed:overhead=0.5:window=4").expect("a policy"),
        ..MediaConfig::default()
    };
    Config {
        media,
        ..Config::new(controller, scheduler)
    }
}

/// Returns a few datagrams of a session that sends, and of its peer.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut now = Instant::ZERO;
    let mut ends = [1, 2]
        .map(|seed| MediaSession::new(config(), Seed(seed), now))
        .map(|end| end.expect("a session"));
    for end in &mut ends {
        end.add_path(now, PathOptions::default());
    }
    for round in 0..30_usize {
        if round % 4 == 0 {
            let bytes = vec![7; 3_000].into();
            let importance = Importance::key_if(round == 0);
            let frame = anabranch_core::Frame {
                bytes,
                importance,
                captured_at: now,
                lifetime: None,
            };
            ends[0].send_frame(now, &frame).expect("a frame");
        }
        let mut datagram = Vec::new();
        let [from, to] = match round % 2 {
            0 => [0, 1],
            _ => [1, 0],
        };
        while let Some(transmit) = ends[from].poll_transmit(now, &mut datagram) {
            let meta = anabranch_core::DatagramMeta {
                path: transmit.path,
                received_at: now,
                ecn: anabranch_units::Ecn::NotEct,
            };
            ends[to].handle_datagram(now, meta, &datagram);
            seeds.push(core::mem::take(&mut datagram));
        }
        now += Duration::from_millis(5);
        ends.iter_mut().for_each(|end| end.handle_timeout(now));
    }
    let mut stream = StreamSession::new(config(), Seed(3), now).expect("a session");
    stream.add_path(now, PathOptions::default());
    stream.write(now, &[7; 2_000]).expect("bytes");
    let mut datagram = Vec::new();
    while stream.poll_transmit(now, &mut datagram).is_some() {
        seeds.push(core::mem::take(&mut datagram));
    }
    seeds
}

/// The target.
pub const TARGET: Target = Target {
    name: "wire",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(bytes: &[u8]) {
    let meter = Meter::begin(BOUND);
    read(bytes);
    meter.check(bytes.len());
}

/// Reads a datagram by the codec, which only fuzz programs see.
#[cfg(fuzzing)]
fn read(bytes: &[u8]) {
    anabranch_core::fuzzing::decode_datagram(bytes);
}

/// Reads a datagram by a session.
#[cfg(not(fuzzing))]
fn read(bytes: &[u8]) {
    let now = Instant::ZERO;
    let mut session = MediaSession::new(config(), Seed(1), now).expect("a session");
    session.add_path(now, PathOptions::default());
    let meta = anabranch_core::DatagramMeta {
        path: anabranch_core::PathId(0),
        received_at: now,
        ecn: anabranch_units::Ecn::NotEct,
    };
    session.handle_datagram(now, meta, bytes);
}

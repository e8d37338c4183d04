//! A long stream through paths that a seed makes change: no byte wrong, none missing.
//!
//! The long run, `STREAM_SEED` for another:
//! `STREAM_MEGABYTES=10000 cargo test -p anabranch-core --test tests stream_long -- --nocapture`.

use anabranch_core::{Config, PathId, Stream, StreamConfig};
use anabranch_units::{DataRate, Duration, Rng, Seed};
use bytes::Bytes;

use crate::support::{self, Network, TestPath};

const SEGMENT_BYTES: u16 = 1_400;
const WINDOW_BYTES: u64 = 4 << 20;
/// Mean time between changes of the network.
const CHANGE_EVERY: Duration = Duration::from_millis(400);

fn from_environment(name: &str, usual: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(usual, |text| text.parse().expect("a number"))
}

/// Returns the bytes from `offset` on: each eight are a hash of their position.
fn bytes_at(offset: u64, length: usize) -> Vec<u8> {
    let first = offset / 8;
    let words = first..=(offset + length as u64) / 8;
    let hashed = words.flat_map(|word| {
        let mixed = (word ^ word >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).to_le_bytes()
    });
    hashed
        .skip((offset - first * 8) as usize)
        .take(length)
        .collect()
}

fn change(rng: &mut Rng, network: &mut Network<Stream>) {
    fn millis(rng: &mut Rng, low: u64, high: u64) -> Duration {
        Duration::from_millis(low + rng.below(high - low))
    }

    let now = network.now;
    let index = rng.below(network.paths.len() as u64) as usize;
    match rng.below(12) {
        0 => network.paths[index].outage = Some((now, now + millis(rng, 50, 3_000))),
        1 => network.paths[index].outage_back = Some((now, now + millis(rng, 50, 1_000))),
        2 | 3 => {
            let kilobits = 2_000 + rng.below(60_000);
            network.paths[index].rate = DataRate::from_kilobits_per_second(kilobits);
        }
        4 | 5 => network.paths[index].delay = millis(rng, 1, 120),
        6 => network.paths[index].jitter = millis(rng, 0, 20),
        7 => network.paths[index].duplication = 0.01 * rng.below(3) as f64,
        8 => network.sender.suspend_path(now, PathId(index as u8)),
        _ => network.paths[index].loss = [0.0, 0.0, 0.005, 0.03][rng.below(4) as usize],
    }
    network.settle();
}

#[test]
fn every_byte_of_a_long_stream_arrives_over_paths_that_change() {
    let total = from_environment("STREAM_MEGABYTES", 20) * 1_000_000;
    let mut rng = Seed(from_environment("STREAM_SEED", 1)).rng();
    let config = Config {
        fragment_bytes: SEGMENT_BYTES,
        controller: support::controller("bbr3"),
        stream: StreamConfig {
            receive_window_bytes: WINDOW_BYTES,
            ..StreamConfig::default()
        },
        ..support::usual()
    };
    let paths = vec![
        TestPath::new(40, 10),
        TestPath::new(20, 40),
        TestPath::new(8, 80),
    ];
    let mut network = Network::<Stream>::of_stream_over(config, paths);
    network.is_reading = false;
    let began_at = network.now;
    let (mut written, mut read, mut changes) = (0, 0, 0);
    let mut next_change = network.now;
    let mut most_held = 0;
    while !network.receiver.is_complete() {
        while written < total {
            let length = (1 + rng.below(60_000)).min(total - written) as usize;
            let bytes = Bytes::from(bytes_at(written, length));
            let taken = network.sender.write_bytes(network.now, bytes);
            written += taken.expect("it is open") as u64;
            if taken != Ok(length) {
                break;
            }
        }
        if written == total {
            let _ = network.sender.finish();
        }
        network.run_until(network.now + Duration::from_millis(2));
        most_held = most_held.max(written - read);
        while let Some(bytes) = network.receiver.read_bytes() {
            assert!(
                bytes[..] == bytes_at(read, bytes.len()),
                "wrong near byte {read}"
            );
            read += bytes.len() as u64;
        }
        if network.now >= next_change {
            next_change = network.now + CHANGE_EVERY.mul_f64(2.0 * rng.next_f64());
            change(&mut rng, &mut network);
            changes += 1;
        }
        // Kept for other tests.
        network.sent.truncate(1);
        network.answered.clear();
    }
    assert_eq!((written, read), (total, total));
    // Unread data and data in flight fit the window, and unsent data fits its limit.
    let stream = StreamConfig::default();
    let limit = stream.send_buffer_bytes as u64 + WINDOW_BYTES;
    assert!(most_held <= limit, "{most_held} bytes were kept");
    let took = network.now - began_at;
    let rate = DataRate::from_bytes_per(total, took);
    println!("{total} bytes in {took}, {rate}, {changes} changes, {most_held} bytes kept at most");
}

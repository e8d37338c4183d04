//! Forward error correction as the drivers of two endpoints see it.

mod support;

use anabranch_core::{Config, MediaConfig, PathId};
use anabranch_units::{DataRate, Duration};
use support::{Network, TestPath};

const MBIT: fn(u64) -> DataRate = DataRate::from_megabits_per_second;

fn config(fec: &str, rate: u64) -> Config {
    Config {
        controller: "fixed".into(),
        fixed_rate: MBIT(rate),
        media: MediaConfig {
            fec: fec.into(),
            ..MediaConfig::default()
        },
        ..Config::default()
    }
}

/// Sends frames of so many bytes every so many milliseconds, every fiftieth a key frame.
fn stream(network: &mut Network, frames: u64, bytes: usize, every_millis: u64) {
    for index in 0..frames {
        network.send(bytes, index % 50 == 0);
        network.run_until(network.now + Duration::from_millis(every_millis));
    }
}

fn assert_intact(network: &Network) {
    for (_, frame) in &network.received {
        let mut bytes = frame.bytes.iter().zip(0_u32..);
        assert!(
            bytes.all(|(&byte, index)| byte == index as u8),
            "{}",
            frame.id
        );
    }
}

#[test]
fn fec_recovered_frames_are_byte_identical() {
    for (bytes, window) in [(9_000, 5), (700, 20), (200, 3)] {
        let path = TestPath {
            loss: 0.05,
            ..TestPath::new(8, 300)
        };
        let fec = format!("fixed:overhead=0.5,window={window}");
        let mut network = Network::new(config(&fec, 6), vec![path]);
        stream(&mut network, 500, bytes, 20);
        network.run_until(network.now + Duration::from_secs(3));
        assert_intact(&network);
        let counters = *network.receiver.counters();
        assert!(counters.recovered_fragments > 10, "{counters:?}");
        let complete = network.received.len();
        assert!(complete >= 495, "{complete} of 500: {counters:?}");
    }
}

#[test]
fn fec_repairs_whose_sources_have_arrived_are_not_sent() {
    // The pacer lets a packet go every 8 ms, and an acknowledgement takes 2 ms.
    let config = Config {
        feedback: Some(anabranch_core::congestion::FeedbackSchedule::EVERY_PACKET),
        ..config("fixed:overhead=1:window=1", 1)
    };
    let mut network = Network::new(config, vec![TestPath::new(8, 0)]);
    stream(&mut network, 10, 1_000, 40);
    network.run_until(network.now + Duration::from_secs(1));
    let sent = network.sender.path_counters(PathId(0)).unwrap();
    // The pacer lets the first two packets go at once.
    assert_eq!((sent.sent_packets, sent.repair_packets), (11, 1));
}

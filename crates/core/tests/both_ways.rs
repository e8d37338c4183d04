//! Sessions of media in which both ends send.

use anabranch_core::{
    Config, Frame, MediaConfig, MediaSession, MtuDiscovery, PathId, ReceivedFrame,
};
use anabranch_units::{Duration, Importance, Instant, Seed};

use crate::support::{self, Network, TestPath};

/// Returns two ends of which the second was asked for the session.
fn network(paths: Vec<TestPath>) -> Network {
    let config = Config {
        mtu: Some(MtuDiscovery::of_internet(28)),
        ..support::usual()
    };
    let asked = Config {
        media: MediaConfig {
            ends_with_peer: true,
            ..config.media.clone()
        },
        ..config.clone()
    };
    let mut network = Network::new(config, Vec::new());
    network.receiver = MediaSession::new(asked, Seed(2), Instant::ZERO).unwrap();
    paths.into_iter().for_each(|path| network.add_path(path));
    network.sender.keep_alive();
    network.checks_invariants = true;
    network
}

/// Sends frames of these sizes from both ends at the same moment.
fn send_both(network: &mut Network, bytes: [usize; 2]) {
    let ends = [&mut network.sender, &mut network.receiver];
    for (end, bytes) in ends.into_iter().zip(bytes) {
        let frame = Frame {
            bytes: vec![bytes as u8; bytes].into(),
            importance: Importance::Reference,
            captured_at: network.now,
            lifetime: None,
        };
        end.send_frame(network.now, &frame).unwrap();
    }
    network.settle();
}

fn run_for(network: &mut Network, span: Duration) {
    network.run_until(network.now + span);
}

fn are_in_order(frames: &[(Instant, ReceivedFrame)]) -> bool {
    frames.is_sorted_by(|before, after| before.1.id < after.1.id)
}

#[test]
fn frames_cross_each_other_over_paths_that_lose() {
    fn is_whole(frame: &ReceivedFrame, least: usize, span: usize) -> bool {
        let expected = least + frame.id.0 as usize % span;
        frame.bytes.len() == expected && frame.bytes.iter().all(|byte| *byte == expected as u8)
    }

    fn lossy(delay: u64) -> TestPath {
        TestPath {
            loss: 0.02,
            ..TestPath::new(8, delay)
        }
    }
    let mut network = network(vec![lossy(20), lossy(40)]);
    for index in 0..1_000 {
        send_both(&mut network, [1_000 + index % 900, 600 + index % 1_500]);
        run_for(&mut network, Duration::from_millis(10));
    }
    run_for(&mut network, Duration::from_secs(2));
    let (there, back) = (&network.received, &network.received_back);
    assert!(there.len() >= 999, "{} of 1,000 there", there.len());
    assert!(back.len() >= 999, "{} of 1,000 back", back.len());
    assert!(are_in_order(there) && are_in_order(back));
    assert!(there.iter().all(|(_, frame)| is_whole(frame, 1_000, 900)));
    assert!(back.iter().all(|(_, frame)| is_whole(frame, 600, 1_500)));
    for end in [&mut network.sender, &mut network.receiver] {
        let now = network.now;
        let mtus: Vec<_> = end.paths(now).iter().map(|path| path.mtu).collect();
        assert_eq!(mtus, [Some(1_500); 2], "both ends search it");
        let counters = end.path_counters(PathId(0)).unwrap();
        assert!(counters.lost_packets > 0, "{counters:?}");
    }
}

#[test]
fn a_session_is_over_for_the_end_that_was_asked_for_it_when_the_other_closes() {
    let mut network = network(vec![TestPath::new(8, 20)]);
    for _ in 0..10 {
        send_both(&mut network, [1_000, 1_000]);
        run_for(&mut network, Duration::from_millis(10));
    }
    let now = network.now;
    network.sender.close(now);
    run_for(&mut network, Duration::from_secs(1));
    assert!(network.is_peer_closed && network.receiver.is_closed());
}

#[test]
fn the_end_that_opened_it_waits_for_another_when_its_peer_leaves() {
    let mut network = network(vec![TestPath::new(8, 20)]);
    for _ in 0..10 {
        send_both(&mut network, [1_000, 1_000]);
        run_for(&mut network, Duration::from_millis(10));
    }
    let now = network.now;
    network.receiver.close(now);
    run_for(&mut network, Duration::from_secs(1));
    assert!(network.is_receiver_gone && !network.sender.is_closed());
}

//! The last moment at which another copy can arrive in time, as the drivers of two endpoints see
//! it.

use anabranch_core::{Config, Laboratory, MediaConfig, SenderRule, SenderRules};
use anabranch_units::{DataRate, Duration, Instant};

use crate::support::{self, Network, TestPath};

const DEADLINE: Duration = Duration::from_millis(130);
const WITHOUT_LAST_TRIES: SenderRules = SenderRules::ALL.without(SenderRule::LastTries);

/// Sends frames of one packet every 5 ms over 30 ms one way, and loses these packets. Returns the
/// number of frames before the deadline, and the number of sent packets.
fn stream(rules: SenderRules, lost: std::ops::Range<u64>) -> (usize, u64) {
    let path = TestPath {
        lost_there: lost.collect(),
        ..TestPath::new(6, 30)
    };
    stream_over(rules, path, 200)
}

fn stream_over(rules: SenderRules, path: TestPath, frames: usize) -> (usize, u64) {
    let config = Config {
        controller: support::controller("fixed"),
        laboratory: Laboratory {
            fixed_rate: DataRate::from_megabits_per_second(6),
            rules,
            ..Laboratory::default()
        },
        media: MediaConfig {
            deadline: DEADLINE,
            reassembly_wait: Duration::from_millis(100),
            ..MediaConfig::default()
        },
        ..support::usual()
    };
    let mut network = Network::new(config, vec![path]);
    for _ in 0..frames {
        network.send(1_000, false);
        network.run_until(network.now + Duration::from_millis(5));
    }
    network.run_until(network.now + Duration::from_secs(1));
    let delays = network.frame_delays();
    let in_time = delays.iter().filter(|delay| **delay <= DEADLINE);
    (in_time.count(), network.sent_on[0])
}

#[test]
fn last_try_restores_packets_of_a_long_burst() {
    // The hole shows 10 × 5 ms after the first packet in it was sent and a round trip later: too
    // late for that packet.
    let (single, _) = stream(WITHOUT_LAST_TRIES, 100..110);
    assert!(single < 200, "{single}");
    let (adaptive, sent) = stream(SenderRules::ALL, 100..110);
    assert_eq!(adaptive, 200);
    assert!(sent <= 200 + 2 * 10, "{sent}");
}

/// Sends a picture of seven packets every 40 ms over 30 ms one way, and loses these packets.
/// Returns the number of pictures before the deadline, and of the receiver's datagrams. There are
/// no last calls, which would resend unacknowledged packets.
fn pictures(lost: &[u64]) -> (usize, usize) {
    let config = Config {
        controller: support::controller("fixed"),
        laboratory: Laboratory {
            fixed_rate: DataRate::from_megabits_per_second(5),
            rules: WITHOUT_LAST_TRIES,
            ..Laboratory::default()
        },
        media: MediaConfig {
            deadline: DEADLINE,
            reassembly_wait: Duration::from_millis(100),
            ..MediaConfig::default()
        },
        ..support::usual()
    };
    let path = TestPath {
        lost_there: lost.to_vec(),
        ..TestPath::new(6, 30)
    };
    let mut network = Network::new(config, vec![path]);
    for _ in 0..100 {
        network.send(8_000, false);
        network.run_until(network.now + Duration::from_millis(40));
    }
    network.run_until(network.now + Duration::from_secs(1));
    let delays = network.frame_delays();
    let in_time = delays.iter().filter(|delay| **delay <= DEADLINE);
    (in_time.count(), network.answered.len())
}

/// No packet comes behind the end of a picture for 20 ms. A receiver that waits for one reports the
/// loss 95 ms after the capture, and a retransmission then comes after 130 ms.
#[test]
fn the_end_of_a_picture_is_sent_again_before_the_next_one_has_arrived() {
    let (whole, answers) = pictures(&[]);
    assert_eq!(whole, 100);
    for lost in [
        &[7 * 60 - 1][..],
        &[7 * 60 - 2, 7 * 60 - 1],
        &[416, 417, 418, 419],
    ] {
        let (in_time, more_answers) = pictures(lost);
        assert_eq!(in_time, 100, "{lost:?}");
        assert!(
            more_answers <= answers + 8,
            "{lost:?}: {more_answers} {answers}"
        );
    }
}

#[test]
fn nothing_is_sent_twice_where_nothing_is_lost() {
    assert_eq!(stream(SenderRules::ALL, 0..0), (200, 200));
}

#[test]
fn the_only_path_carries_media_while_nothing_comes_back_for_up_to_a_second() {
    fn in_time(silent_until: Instant) -> usize {
        let path = TestPath {
            outage_back: Some((Instant::from_millis(200), silent_until)),
            ..TestPath::new(6, 30)
        };
        stream_over(SenderRules::ALL, path, 400).0
    }
    assert_eq!(in_time(Instant::from_millis(700)), 400);
    // By 1.2 s, 240 frames have been sent.
    let until_out = in_time(Instant::from_secs(3));
    assert!((235..=250).contains(&until_out), "{until_out}");
}

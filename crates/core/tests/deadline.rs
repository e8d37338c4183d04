//! A packet that cannot arrive before its deadline does not leave.

use anabranch_core::{Config, Event, Laboratory, MediaConfig};
use anabranch_units::{DataRate, Duration, Importance, Instant};

use crate::support::{self, Network, TestPath};

const DEADLINE: Duration = Duration::from_millis(320);
/// One way, with the time that a packet of 1 kB takes to leave.
const ONE_WAY_DELAY: Duration = Duration::from_millis(29);

/// Sends a frame of 60 kB, for which a path of 1 Mbit/s takes half a second. Returns when its first
/// and last packet leave, in milliseconds after its capture, and whether it arrives whole.
fn departures() -> (f64, f64, bool) {
    fn after(at: Option<&Instant>, captured_at: Instant) -> f64 {
        (*at.unwrap() - captured_at).as_millis_f64()
    }

    let rate = DataRate::from_megabits_per_second(1);
    let config = Config {
        controller: support::controller("fixed"),
        laboratory: Laboratory {
            fixed_rate: rate,
            ..Laboratory::default()
        },
        media: MediaConfig {
            deadline: DEADLINE,
            reassembly_wait: DEADLINE * 2,
            ..MediaConfig::default()
        },
        ..support::usual()
    };
    let mut network = Network::new(config, vec![TestPath::new(1, 20)]);
    // So that the path's round trip is known.
    for _ in 0..10 {
        network.send(1_000, false);
        network.run_until(network.now + Duration::from_millis(100));
    }
    assert_eq!(network.received.len(), 10);
    let captured_at = network.now;
    network.send(60_000, false);
    network.run_until(network.now + Duration::from_secs(1));
    let departures: Vec<Instant> = network
        .sent
        .iter()
        .map(|(at, _)| *at)
        .filter(|at| *at >= captured_at)
        .collect();
    let is_whole = network.received.len() == 11;
    assert_eq!(
        network
            .dropped
            .iter()
            .any(|event| matches!(event, Event::FrameDropped { .. })),
        !is_whole
    );
    (
        after(departures.first(), captured_at),
        after(departures.last(), captured_at),
        is_whole,
    )
}

#[test]
fn packets_leave_a_sixteenth_before_the_deadline() {
    let (first, last, is_whole) = departures();
    assert!(!is_whole);
    assert!(
        first < 10.0,
        "what leaves first could still be part of a whole: {first}"
    );
    let latest = (DEADLINE - DEADLINE / 16).as_millis_f64() - ONE_WAY_DELAY.as_millis_f64();
    // A packet leaves every 10 ms.
    assert!(
        (latest - 15.0..=latest + 5.0).contains(&last),
        "{last}, not {latest}"
    );
}

const FRAME: Duration = Duration::from_millis(40);

/// Streams for 2 s, hands over nothing for 20 s, and then all of that together, in which every
/// 25th frame is a key frame, and goes on for 2 s; the tenth frame of these is a key frame. Returns
/// the network and when it went on.
fn stopped_for_20_s() -> (Network, Instant) {
    let metered = TestPath {
        is_metered: true,
        ..TestPath::new(8, 20)
    };
    let mut network = Network::new(support::usual(), vec![TestPath::new(8, 20), metered]);
    network.stream_until(Instant::from_secs(2));
    let stopped_at = network.now;
    network.run_until(stopped_at + FRAME * 500);
    for index in 0..500 {
        let importance = Importance::key_if(index % 25 == 0);
        network.send_captured(stopped_at + FRAME * index, 5_000, importance);
    }
    let resumed_at = network.now;
    for index in 0..50 {
        network.send_frame(5_000, Importance::key_if(index % 25 == 10));
        network.run_until(network.now + FRAME);
    }
    network.run_until(network.now + Duration::from_secs(1));
    (network, resumed_at)
}

#[test]
fn frames_that_are_handed_over_after_their_deadline_are_given_up_at_once() {
    fn is_late(captured_at: Instant, deadline: Duration, resumed_at: Instant) -> bool {
        captured_at > Instant::from_secs(2) && captured_at + deadline < resumed_at
    }

    let (network, resumed_at) = stopped_for_20_s();
    let deadline = MediaConfig::default().deadline;
    let frames = network.received.iter().map(|(_, frame)| frame);
    let late: Vec<_> = frames
        .filter(|frame| is_late(frame.captured_at, deadline, resumed_at))
        .collect();
    // Frames that are in time may need the last key frame.
    assert!(late.len() <= 1 && late.iter().all(|frame| frame.importance.is_key()));
    let counters = network.sender.counters();
    assert_eq!(counters.frames_sent, 600);
    let lost_count = 600 - network.received.len();
    assert_eq!(network.dropped.len(), 2 * lost_count, "both ends are told");
    let sent = network.sent.iter().filter(|(at, _)| *at >= resumed_at);
    let sent_bytes: u64 = sent.map(|(_, bytes)| bytes).sum();
    // 62 frames in time, a key frame, and their overhead.
    assert!(sent_bytes < 63 * 5_000 * 6 / 5, "{sent_bytes}");
    // Frames that are not sent do not make the free path too slow.
    let metered_count = network.sent_on[1];
    assert!(
        metered_count < 25,
        "{metered_count} packets over the metered path"
    );
}

#[test]
fn a_stream_that_stood_still_goes_on_in_time_with_its_next_key_frame() {
    let (network, resumed_at) = stopped_for_20_s();
    let key_at = resumed_at + FRAME * 10;
    let fresh: Vec<_> = network
        .received
        .iter()
        .filter(|(_, frame)| frame.captured_at >= key_at)
        .map(|(at, frame)| *at - frame.captured_at)
        .collect();
    assert_eq!(fresh.len(), 40);
    let worst = fresh.into_iter().max().unwrap();
    assert!(worst < MediaConfig::default().deadline / 2, "{worst}");
}

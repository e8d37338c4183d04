//! What cannot arrive before its deadline does not leave.

mod support;

use anabranch_core::{Config, Event, MediaConfig};
use anabranch_units::{DataRate, Duration, Instant};
use support::{Network, TestPath};

const DEADLINE: Duration = Duration::from_millis(320);
/// One way, with the time that a packet of 1 kB takes to leave.
const TRANSIT: Duration = Duration::from_millis(29);

/// After its capture, in milliseconds, when the first and the last packet leave of a frame of
/// 60 kB, for which a path of 1 Mbit/s takes half a second; and whether it arrives whole.
fn departures() -> (f64, f64, bool) {
    let rate = DataRate::from_megabits_per_second(1);
    let config = Config {
        controller: support::controller("fixed"),
        fixed_rate: rate,
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
    let departures = network.sent.iter().map(|(at, _)| *at);
    let departures: Vec<Instant> = departures.filter(|at| *at >= captured_at).collect();
    let after = |at: Option<&Instant>| (*at.unwrap() - captured_at).as_millis_f64();
    let is_told = |event: &Event| matches!(event, Event::FrameDropped { .. });
    let is_whole = network.received.len() == 11;
    assert_eq!(network.dropped.iter().any(is_told), !is_whole);
    (
        after(departures.first()),
        after(departures.last()),
        is_whole,
    )
}

#[test]
fn what_would_arrive_less_than_a_sixteenth_before_its_deadline_does_not_leave() {
    let (first, last, is_whole) = departures();
    assert!(!is_whole);
    assert!(
        first < 10.0,
        "what leaves first could still be part of a whole: {first}"
    );
    let latest = (DEADLINE - DEADLINE / 16).as_millis_f64() - TRANSIT.as_millis_f64();
    // A packet leaves every 10 ms.
    assert!(
        (latest - 15.0..=latest + 5.0).contains(&last),
        "{last}, not {latest}"
    );
}

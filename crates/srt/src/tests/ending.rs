//! The end of connections with payloads in flight.

use anabranch_units::{Duration, Instant};

use super::network::{Effects, World};
use crate::settings::Settings;
use crate::{CloseReason, SendError};

const COUNT: u64 = 200;
const STEP: Duration = Duration::from_millis(1);

fn settings(latency: Duration) -> Settings {
    Settings {
        receive_latency: latency,
        peer_latency: latency,
        ..Settings::default()
    }
}

/// Connects, and sends payloads at the rate of one in a millisecond.
fn streaming(seed: u64, latency: Duration, effects: Effects) -> World {
    let mut world = World::new(seed, settings(latency), settings(latency));
    world.effects = Effects {
        loss: 0.0,
        ..effects
    };
    world.connect();
    world.effects = effects;
    for number in 0..COUNT {
        let now = world.now;
        world.calling().send(now, &number.to_be_bytes()).unwrap();
        world.run_for(STEP);
    }
    world
}

/// Runs until the caller's connection is over, and returns the time.
fn end(world: &mut World) -> Instant {
    while world.caller.closed().is_none() {
        world.run_for(STEP);
    }
    world.now
}

/// A receiver like libsrt's loses the payloads that it has not delivered when the shutdown arrives.
#[test]
fn the_shutdown_arrives_after_the_last_payload_was_delivered() {
    for seed in 0..40 {
        let delay = Duration::from_millis(seed * 3);
        let latency = delay * 14 + Duration::from_millis(150);
        let effects = Effects {
            delay,
            jitter: Duration::from_millis(seed % 8),
            loss: 0.05,
            duplication: 0.0,
        };
        let mut world = streaming(seed, latency, effects);
        let finished_at = world.now;
        world.caller.finish(finished_at);
        let at = end(&mut world);
        assert_eq!(world.caller.closed(), Some(CloseReason::Local));
        let numbers = world
            .at_listener
            .iter()
            .map(|(_, delivered)| delivered.payload.clone());
        let sent = (0..COUNT).map(|number| number.to_be_bytes().to_vec());
        assert!(numbers.eq(sent), "seed {seed}");
        let most = latency + Duration::from_secs(1) + STEP;
        assert!(at <= finished_at + most, "seed {seed}");
        assert_eq!(world.calling().statistics().send_dropped_packets, 0);
    }
}

#[test]
fn a_silent_peer_delays_the_end_by_its_latency_and_a_second_at_most() {
    let latency = Duration::from_millis(1_500);
    let mut world = streaming(1, latency, Effects::default());
    let now = world.now;
    world.effects.loss = 1.0;
    world.calling().send(now, b"lost").unwrap();
    world.caller.finish(now);
    let took = end(&mut world).saturating_since(now);
    let most = latency + Duration::from_secs(1);
    assert!(took >= latency && took <= most, "{took}");
    // Acknowledgements of the packets before it are lost, too.
    let dropped = world.calling().statistics().send_dropped_packets;
    assert!((1..=20).contains(&dropped), "{dropped}");
}

#[test]
fn a_peer_that_leaves_meanwhile_ends_the_wait() {
    let latency = Duration::from_millis(300);
    let mut world = streaming(1, latency, Effects::default());
    let now = world.now;
    world.caller.finish(now);
    world.run_for(STEP);
    let id = world.listener.connection_ids()[0];
    world.listener.connection(id).unwrap().close(world.now);
    assert!(end(&mut world) < now + STEP * 10);
    assert_eq!(world.caller.closed(), Some(CloseReason::Peer));
}

#[test]
fn a_connection_that_finishes_takes_no_payload_and_ends_at_once_without_any() {
    let mut world = streaming(1, Duration::from_millis(300), Effects::default());
    let now = world.now;
    world.caller.finish(now);
    assert!(world.calling().is_finishing());
    assert_eq!(world.calling().send(now, b"more"), Err(SendError::Closed));
    assert_eq!(world.caller.closed(), None);
    // Long after the last payload there is nothing to wait for.
    for sends in [false, true] {
        let mut world = World::new(1, Settings::default(), Settings::default());
        world.connect();
        let now = world.now;
        if sends {
            world.calling().send(now, b"early").unwrap();
            world.run_for(Duration::from_secs(3));
        }
        let now = world.now;
        world.caller.finish(now);
        assert_eq!(world.caller.closed(), Some(CloseReason::Local));
    }
}

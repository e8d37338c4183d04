//! Media over networks of all kinds.

use anabranch_units::{Duration, Instant, Rng, Seed};

use super::network::{Effects, World};
use crate::settings::{KeyLength, KeyRefresh, MaxBandwidth, Passphrase, Settings};
use crate::{CloseReason, Event, Statistics};

const SEEDS: u64 = 60;

/// Parameters of a run.
#[derive(Clone, Debug)]
struct Plan {
    effects: Effects,
    settings: Settings,
    /// Time before the first packet; longer than a wrap-around of the timestamps in some runs.
    rest: Duration,
    packets: u64,
    interval: Duration,
    both_ways: bool,
}

impl Plan {
    fn draw(seed: u64) -> Self {
        fn millis(low: u64, high: u64, rng: &mut Rng) -> Duration {
            Duration::from_millis(low + rng.below(high - low))
        }

        let mut rng = Seed(seed).derive("plan").rng();
        let effects = Effects {
            delay: millis(1, 60, &mut rng),
            jitter: millis(0, 20, &mut rng),
            loss: 0.0,
            duplication: 0.0,
        };
        // Seven round trips: a packet may be lost five times.
        let latency = (effects.delay + effects.jitter) * 14 + Duration::from_millis(60);
        let effects = Effects {
            loss: 0.06 * rng.next_f64(),
            duplication: 0.05 * rng.next_f64(),
            ..effects
        };
        let lengths = [None, Some(KeyLength::Aes192), Some(KeyLength::Aes256)];
        Plan {
            effects,
            settings: Settings {
                receive_latency: latency,
                peer_latency: latency,
                passphrase: if rng.chance(0.6) {
                    Passphrase::new("correct horse")
                } else {
                    None
                },
                key_length: lengths[rng.below(3) as usize],
                key_refresh: KeyRefresh {
                    packets: 150 + rng.below(400),
                    announced_before: 100,
                },
                max_bandwidth: bandwidth(&mut rng),
                ..Settings::default()
            },
            rest: Duration::from_secs(if seed % 4 == 3 { 4_294 } else { 0 }),
            packets: 1_500,
            interval: Duration::from_micros(500 + rng.below(4_000)),
            both_ways: rng.chance(0.4),
        }
    }
}

fn bandwidth(rng: &mut Rng) -> MaxBandwidth {
    if rng.chance(0.5) {
        Settings::default().max_bandwidth
    } else {
        MaxBandwidth::Input {
            overhead_percent: 50,
        }
    }
}

/// Returns a payload that shows its number and length.
fn payload(number: u64) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(188 + (number % 7) as usize * 188, number as u8);
    payload
}

/// Counts of a direction.
struct Outcome {
    delivered: u64,
    dropped: u64,
}

/// Checks that payloads are whole, in order and in time.
fn check(
    seed: u64,
    plan: &Plan,
    sent_at: &[Instant],
    got: &[(Instant, crate::Delivered)],
) -> Outcome {
    let (mut next, mut dropped) = (0, 0);
    for (at, delivered) in got {
        next += delivered.dropped;
        dropped += delivered.dropped;
        assert_eq!(delivered.payload, payload(next), "seed {seed}: {plan:?}");
        assert!(*at >= delivered.due_at, "seed {seed}: before its time");
        let sent_at = sent_at[next as usize];
        let delay = at.saturating_since(sent_at);
        // The handshake had its own delay, which the clock contains.
        let least = plan.settings.receive_latency + plan.effects.delay;
        let most = least + plan.effects.jitter * 2 + Duration::from_millis(6);
        let is_in_time = delay + Duration::from_millis(6) >= least && delay <= most;
        assert!(is_in_time, "seed {seed}: {delay} is not {least} to {most}");
        next += 1;
    }
    Outcome {
        delivered: got.len() as u64,
        dropped,
    }
}

fn run(seed: u64) -> (Plan, World, [Outcome; 2], [Statistics; 2]) {
    let plan = Plan::draw(seed);
    let mut world = World::new(seed, plan.settings.clone(), plan.settings.clone());
    world
        .caller
        .set_initial_sequence(u32::MAX / 2 - (seed as u32 % 1_000));
    world.effects = Effects {
        jitter: plan.effects.jitter,
        delay: plan.effects.delay,
        ..Effects::default()
    };
    let id = world.connect();
    world.run_for(plan.rest);
    world.effects = plan.effects;
    let mut sent_at = Vec::new();
    for number in 0..plan.packets {
        let (now, payload) = (world.now, payload(number));
        sent_at.push(now);
        world.calling().send(now, &payload).unwrap();
        if plan.both_ways {
            world
                .listener
                .connection(id)
                .unwrap()
                .send(now, &payload)
                .unwrap();
        }
        world.run_for(plan.interval);
    }
    world.run_for(plan.settings.receive_latency + Duration::from_secs(2));
    let arrived = check(seed, &plan, &sent_at, &world.at_listener);
    let back = check(seed, &plan, &sent_at, &world.at_caller);
    let listening = world.listener.connection(id).unwrap().statistics();
    let calling = world.calling().statistics();
    (plan, world, [arrived, back], [calling, listening])
}

#[test]
fn media_arrive_whole_in_order_and_in_time_over_any_network() {
    let (mut missing, mut useless) = (0, 0);
    for seed in 0..SEEDS {
        let (plan, _, [arrived, back], [calling, listening]) = run(seed);
        assert_eq!(
            arrived.delivered + arrived.dropped,
            plan.packets,
            "seed {seed}"
        );
        missing += arrived.dropped;
        useless += listening.useless_packets;
        assert_eq!(listening.refused_packets, 0, "seed {seed}");
        assert_eq!(back.delivered > 0, plan.both_ways, "seed {seed}");
        assert_eq!(listening.received_packets, arrived.delivered, "seed {seed}");
        assert_eq!(listening.dropped_packets, arrived.dropped, "seed {seed}");
        assert_eq!(calling.sent_packets, plan.packets, "seed {seed}");
        assert_eq!(listening.undecrypted_packets, 0, "seed {seed}");
        // A retransmission for each loss, and those that a reordered packet causes.
        if plan.effects.jitter < plan.interval {
            let most = plan.packets as f64 * plan.effects.loss * 2.0 + 30.0;
            let sent = calling.retransmitted_packets as f64;
            assert!(sent <= most, "seed {seed}: {sent} of {most}");
        }
        let rtt = calling.rtt.expect("measured");
        let least = plan.effects.delay * 2;
        let most = least + plan.effects.jitter * 2 + Duration::from_millis(5);
        assert!(rtt >= least && rtt <= most, "seed {seed}: {rtt}");
    }
    assert!(useless > 0, "networks duplicate packets");
    // One loss in 17, and five or more in a row of the same packet: one in a million.
    assert!(missing <= 5, "{missing} of {} are missing", SEEDS * 1_500);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let [first, again] = [5, 5].map(|seed| run(seed).3);
    assert_eq!(first, again);
}

/// Checks an outage of two seconds. The sender drops packets after one second, and the others come
/// late.
#[test]
fn section_4_6_the_stream_goes_on_after_an_outage() {
    let mut world = World::new(1, Settings::default(), Settings::default());
    world.effects.delay = Duration::from_millis(10);
    let id = world.connect();
    for number in 0..5_000 {
        let is_out = (1_000..3_000).contains(&number);
        world.effects.loss = if is_out { 1.0 } else { 0.0 };
        let (now, payload) = (world.now, payload(number));
        world.calling().send(now, &payload).unwrap();
        world.run_for(Duration::from_millis(1));
    }
    world.run_for(Duration::from_secs(3));
    let statistics = world.listener.connection(id).unwrap().statistics();
    let delivered = world.at_listener.len() as u64;
    assert_eq!(delivered + statistics.dropped_packets, 5_000);
    assert!(
        (900..=1_100).contains(&statistics.dropped_packets),
        "{statistics:?}"
    );
    // Some of those that the sender has dropped had arrived, but were not acknowledged yet.
    let dropped = world.calling().statistics().send_dropped_packets;
    assert!(
        dropped.abs_diff(statistics.dropped_packets) < 50,
        "{dropped}, {statistics:?}"
    );
    assert_eq!(world.calling().closed(), None);
}

#[test]
fn last_packet_is_retransmitted_without_successor() {
    let mut world = World::new(1, Settings::default(), Settings::default());
    world.effects.delay = Duration::from_millis(5);
    world.connect();
    for number in 0..3 {
        let (now, payload) = (world.now, payload(number));
        world.calling().send(now, &payload).unwrap();
        world.effects.loss = if number == 2 { 1.0 } else { 0.0 };
        world.run_for(Duration::from_millis(1));
    }
    world.effects.loss = 0.0;
    world.run_for(Duration::from_secs(1));
    let last = &world.at_listener.last().unwrap().1;
    assert_eq!(last.payload, payload(2));
}

#[test]
fn a_shutdown_and_a_silence_end_a_connection_after_its_last_payload() {
    for is_shut_down in [true, false] {
        let mut world = World::new(1, Settings::default(), Settings::default());
        world.effects.delay = Duration::from_millis(5);
        let id = world.connect();
        let now = world.now;
        world.calling().send(now, &payload(0)).unwrap();
        world.run_for(Duration::from_millis(1));
        if is_shut_down {
            world.caller.close(world.now);
        } else {
            world.run_for(Duration::from_millis(10));
            world.effects.loss = 1.0;
        }
        world.run_for(Duration::from_millis(4_900));
        assert_eq!(
            world.events.iter().any(
                |event| matches!(event, Event::Closed(its, _, CloseReason::Peer) if *its == id)
            ),
            is_shut_down
        );
        assert_eq!(world.at_listener.len(), 1);
        world.run_for(Duration::from_millis(200));
        let reason = if is_shut_down {
            CloseReason::Local
        } else {
            CloseReason::Silence
        };
        assert_eq!(world.caller.closed(), Some(reason));
        assert_eq!(world.listener.connection_count(), 0);
    }
}

#[test]
fn an_idle_connection_is_kept_alive() {
    let mut world = World::new(1, Settings::default(), Settings::default());
    world.effects.delay = Duration::from_millis(5);
    world.connect();
    world.run_for(Duration::from_secs(600));
    assert_eq!(world.caller.closed(), None);
}

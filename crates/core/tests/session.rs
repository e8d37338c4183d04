//! The endpoint as its drivers see it: two of them over a small network.

use anabranch_core::media::DropReason;
use anabranch_core::{
    Config, DatagramMeta, Event, Frame, FrameId, Laboratory, MediaConfig, MediaSession,
    PaddingPolicy, PathId, PathOptions, PathState, SourceLimits,
};
use anabranch_units::{DataRate, Duration, Ecn, Importance, Instant, Rng, Seed};
use proptest::prelude::*;

use crate::support::{self, Network, TestPath};

const MBIT: fn(u64) -> DataRate = DataRate::from_megabits_per_second;

fn adaptive(max_megabits: u64) -> Config {
    let min = DataRate::from_kilobits_per_second(300);
    let source = SourceLimits::Adaptive {
        min,
        max: MBIT(max_megabits),
    };
    Config {
        media: MediaConfig {
            source,
            ..MediaConfig::default()
        },
        ..support::usual()
    }
}

fn fixed(rate: DataRate) -> Config {
    Config {
        controller: support::controller("fixed"),
        laboratory: Laboratory {
            fixed_rate: rate,
            ..Laboratory::default()
        },
        ..support::usual()
    }
}

#[test]
fn a_frame_arrives_byte_for_byte_after_serialization_and_delay() {
    let mut network = Network::new(fixed(MBIT(8)), vec![TestPath::new(8, 20)]);
    network.send(5_000, true);
    network.run_until(Instant::from_secs(1));
    let (_, frame) = &network.received[0];
    assert_eq!(
        (frame.id, frame.importance.is_key(), frame.bytes.len()),
        (FrameId(0), true, 5_000)
    );
    assert!(
        frame
            .bytes
            .iter()
            .zip(0..)
            .all(|(&byte, index): (&u8, u32)| byte == index as u8)
    );
    // Four packets at 8 Mbit/s and 20 ms.
    let delay = frame.completed_at - Instant::ZERO;
    assert!(
        (Duration::from_millis(25)..Duration::from_millis(27)).contains(&delay),
        "{delay}"
    );
    assert!(network.sender.is_drained());
}

#[test]
fn arq_five_percent_loss_leaves_999_of_1000_frames_complete() {
    let path = TestPath {
        loss: 0.05,
        ..TestPath::new(8, 25)
    };
    let mut network = Network::new(fixed(MBIT(4)), vec![path]);
    for index in 0..1_000 {
        network.send(5_000, index % 50 == 0);
        network.run_until(network.now + Duration::from_millis(40));
    }
    network.run_until(network.now + Duration::from_secs(2));
    assert!(
        network.received.len() >= 999,
        "{} of 1000",
        network.received.len()
    );
    let counters = network.sender.path_counters(PathId(0)).unwrap();
    // Every loss is repaired by one more packet, and so are the losses of those.
    assert!(
        counters.retransmitted_packets <= counters.lost_packets,
        "{counters:?}"
    );
}

#[test]
fn arq_with_an_rtt_beyond_the_deadline_only_key_frames_are_sent_again() {
    let path = TestPath {
        loss: 0.05,
        ..TestPath::new(8, 300)
    };
    let mut network = Network::new(fixed(MBIT(4)), vec![path]);
    for _ in 0..200 {
        network.send(5_000, false);
        network.run_until(network.now + Duration::from_millis(40));
    }
    network.run_until(network.now + Duration::from_secs(3));
    let counters = *network.sender.path_counters(PathId(0)).unwrap();
    assert!(counters.lost_packets > 20, "{counters:?}");
    assert_eq!(counters.retransmitted_packets, 0);
    network.paths[0].loss = 0.3;
    network.send(20_000, true);
    network.run_until(network.now + Duration::from_secs(10));
    assert!(network.received.last().unwrap().1.importance.is_key());
    assert!(
        network
            .sender
            .path_counters(PathId(0))
            .unwrap()
            .retransmitted_packets
            > 0
    );
}

#[test]
fn arq_losses_are_retransmitted_on_the_other_path() {
    let lossy = TestPath {
        loss: 0.2,
        ..TestPath::new(8, 20)
    };
    let mut network = Network::new(fixed(MBIT(4)), vec![lossy, TestPath::new(8, 21)]);
    for _ in 0..200 {
        network.send(5_000, false);
        network.run_until(network.now + Duration::from_millis(40));
    }
    network.run_until(network.now + Duration::from_secs(1));
    let repeated = |path| {
        network
            .sender
            .path_counters(PathId(path))
            .unwrap()
            .retransmitted_packets
    };
    assert!(
        repeated(1) > 20 && repeated(0) < repeated(1) / 4,
        "{} and {}",
        repeated(0),
        repeated(1)
    );
    assert_eq!(network.received.len(), 200);
}

/// The promises of the skeleton's demonstration, in virtual time.
#[test]
fn a_path_that_dies_without_notice_costs_no_frame() {
    let outage = Some((Instant::from_secs(10), Instant::from_secs(15)));
    let wifi = TestPath {
        outage,
        ..TestPath::new(4, 20)
    };
    let lte = TestPath {
        queue: Duration::from_millis(300),
        ..TestPath::new(3, 50)
    };
    let mut network = Network::new(adaptive(4), vec![wifi, lte]);
    network.stream_until(Instant::from_secs(30));
    network.run_until(network.now + Duration::from_secs(1));
    let sent = network.sender.counters().frames_sent as usize;
    let in_time = network
        .frame_delays()
        .iter()
        .filter(|d| d.as_millis() <= 500)
        .count();
    assert!(
        in_time * 1000 >= sent * 995,
        "{in_time} of {sent}; {:?}",
        network.dropped
    );
    let delivered = network.received.iter().map(|(at, _)| *at);
    let gap = delivered
        .clone()
        .zip(delivered.skip(1))
        .map(|(a, b)| b - a)
        .max()
        .unwrap();
    assert!(gap <= Duration::from_millis(500), "{gap}");
    let outside = network
        .received
        .iter()
        .filter(|(at, _)| !(Instant::from_secs(10)..Instant::from_secs(16)).contains(at));
    let delays: Vec<f64> = outside
        .map(|(at, frame)| (*at - frame.captured_at).as_millis_f64())
        .collect();
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    assert!(mean <= 150.0, "{mean} ms");
}

#[test]
fn a_silent_path_becomes_suspect_after_a_probe_timeout_then_out_and_comes_back_within_a_second() {
    let outage = Some((Instant::from_secs(5), Instant::from_secs(8)));
    let wifi = TestPath {
        outage,
        ..TestPath::new(4, 20)
    };
    let mut network = Network::new(adaptive(4), vec![wifi, TestPath::new(3, 50)]);
    network.stream_until(Instant::from_secs(8));
    let sent_before = network.sent_on[0];
    network.stream_until(Instant::from_secs(9));
    let states: Vec<_> = network
        .path_states
        .iter()
        .filter(|(_, id, _)| *id == PathId(0))
        .collect();
    let [.., suspect, out, active] = &states[..] else {
        panic!("{states:?}")
    };
    assert_eq!(
        (suspect.2, out.2, active.2),
        (PathState::Suspect, PathState::Out, PathState::Active)
    );
    assert!(suspect.0 < Instant::from_millis(5_200), "{states:?}");
    let out_after = out.0 - Instant::from_secs(5);
    assert!(out_after >= Duration::from_millis(200), "{states:?}");
    assert!(out_after <= Duration::from_millis(600), "{states:?}");
    assert!(active.0 < Instant::from_millis(8_300), "{states:?}");
    assert!(
        network.sent_on[0] > sent_before + 50,
        "the path carries video again"
    );
}

#[test]
fn a_lone_path_that_returns_carries_on() {
    let outage = Some((Instant::from_secs(3), Instant::from_secs(5)));
    let mut network = Network::new(
        adaptive(4),
        vec![TestPath {
            outage,
            ..TestPath::new(4, 20)
        }],
    );
    network.stream_until(Instant::from_secs(8));
    let after = network
        .received
        .iter()
        .filter(|(at, _)| *at > Instant::from_millis(5_500))
        .count();
    assert!(after > 50, "{after} frames after the return");
}

#[test]
fn feedback_lost_on_its_own_path_comes_by_the_other() {
    // The way back of path 0 is cut by tampering: its untracked datagrams vanish.
    let mut network = Network::new(
        adaptive(4),
        vec![TestPath::new(4, 20), TestPath::new(3, 30)],
    );
    network.stream_until(Instant::from_secs(2));
    let sent = network.sent_on[0];
    network.tamper = Some(|_, bytes| {
        const UNTRACKED: u8 = 0x40;
        const FEEDBACK: u8 = 0x02;
        if bytes.starts_with(&[UNTRACKED, FEEDBACK, 0]) {
            bytes.clear();
        }
    });
    network.stream_until(Instant::from_secs(6));
    assert!(
        network.sent_on[0] > sent + 100,
        "path 0 still carries media"
    );
    assert_eq!(network.sender.counters().frames_late, 0);
}

#[test]
fn padding_follows_its_policy() {
    /// Returns the bytes of padding of the first 20 s, and its share in the next 20.
    fn padding_of(padding: PaddingPolicy, max_megabits: u64) -> (u64, f64) {
        let config = Config {
            padding,
            ..adaptive(max_megabits)
        };
        let mut network = Network::new(config, vec![TestPath::new(4, 20)]);
        network.stream_until(Instant::from_secs(20));
        let after_start = network
            .sender
            .path_counters(PathId(0))
            .unwrap()
            .padding_bytes;
        network.stream_until(Instant::from_secs(40));
        let counters = network.sender.path_counters(PathId(0)).unwrap();
        let share = (counters.padding_bytes - after_start) as f64 / (20.0 * 4e6 / 8.0);
        (after_start, share)
    }

    assert_eq!(padding_of(PaddingPolicy::Never, 8), (0, 0.0));
    let (_, share) = padding_of(PaddingPolicy::Always, 1);
    assert!(share > 0.6, "a greedy session fills the path: {share}");
    let (start, share) = padding_of(PaddingPolicy::WhileProbing, 1);
    assert!(
        start > 0 && share < 0.01,
        "a source at its maximum needs no more: {start}, {share}"
    );
    let (_, share) = padding_of(PaddingPolicy::WhileProbing, 8);
    assert!(
        (0.001..0.15).contains(&share),
        "a source below its maximum probes: {share}"
    );
    let (_, earned) = padding_of(PaddingPolicy::Earned, 8);
    assert!(
        (0.001..0.03).contains(&earned) && earned < share / 2.0,
        "a steady network is probed in proportion: {earned} instead of {share}"
    );
}

#[test]
fn the_close_arrives_though_one_of_its_datagrams_is_lost() {
    let mut network = Network::new(adaptive(4), vec![TestPath::new(4, 20)]);
    network.stream_until(Instant::from_secs(1));
    network.paths[0].outage = Some((network.now, network.now + Duration::from_millis(40)));
    network.sender.close(network.now);
    network.run_until(network.now + Duration::from_secs(1));
    assert!(network.is_peer_closed && network.sender.is_closed());
    let frame = Frame {
        bytes: vec![1].into(),
        importance: Importance::Key,
        captured_at: network.now,
        lifetime: None,
    };
    assert!(network.sender.send_frame(network.now, &frame).is_err());
}

#[test]
fn late_frame_is_dropped_and_reported() {
    let mut network = Network::new(fixed(MBIT(1)), vec![TestPath::new(1, 20)]);
    for _ in 0..20 {
        network.send(20_000, false);
        network.run_until(network.now + Duration::from_millis(40));
    }
    network.run_until(network.now + Duration::from_secs(2));
    let late = network.dropped.iter().filter(|event| {
        matches!(
            event,
            Event::FrameDropped {
                reason: DropReason::Late,
                ..
            }
        )
    });
    assert!(late.count() >= 5);
    assert!(
        network
            .frame_delays()
            .iter()
            .all(|delay| delay.as_millis() <= 1_100)
    );
}

#[test]
fn a_removed_path_gives_its_packets_to_the_others() {
    let mut network = Network::new(
        adaptive(4),
        vec![TestPath::new(4, 20), TestPath::new(4, 30)],
    );
    network.stream_until(Instant::from_secs(3));
    network.sender.remove_path(network.now, PathId(0));
    network.receiver.remove_path(network.now, PathId(0));
    let sent = network.sent_on[0];
    network.stream_until(Instant::from_secs(6));
    network.run_until(Instant::from_secs(7));
    assert_eq!(network.sent_on[0], sent);
    assert_eq!(
        network.received.len() as u64,
        network.sender.counters().frames_sent
    );
}

#[test]
fn early_and_repeated_timeouts_have_no_effect() {
    let [usual, repeated] = [false, true].map(|extra_timeouts| {
        let mut network = Network::new(
            adaptive(4),
            vec![TestPath::new(4, 20), TestPath::new(3, 50)],
        );
        for index in 0..250 {
            network.send(8_000, index % 50 == 0);
            for _ in 0..8 {
                network.run_until(network.now + Duration::from_millis(5));
                if extra_timeouts {
                    network.sender.handle_timeout(network.now);
                    network.receiver.handle_timeout(network.now);
                }
            }
        }
        (network.sent_on.clone(), network.frame_delays())
    });
    assert_eq!(usual, repeated);
}

#[test]
fn bad_configuration_fails_at_construction() {
    let config = Config {
        fragment_bytes: 10,
        ..support::usual()
    };
    let error = MediaSession::new(config, Seed(0), Instant::ZERO).unwrap_err();
    assert!(error.to_string().contains("64 to 9000"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every verb survives any datagram, and the kept state stays bounded.
    #[test]
    fn any_bytes_are_survived(datagrams in prop::collection::vec(
        (0_u8..4, prop::collection::vec(any::<u8>(), 0..80), any::<bool>()), 1..200,
    )) {
        let mut endpoint = MediaSession::new(support::usual(), Seed(1), Instant::ZERO).unwrap();
        endpoint.add_path(Instant::ZERO, PathOptions::default());
        endpoint.add_path(Instant::ZERO, PathOptions::default());
        let mut now = Instant::ZERO;
        let mut buf = Vec::new();
        for (path, mut bytes, looks_right) in datagrams {
            now += Duration::from_millis(7);
            if looks_right && !bytes.is_empty() {
                bytes[0] = 0x40 | (bytes[0] & 1);
            }
            let importance = Importance::Reference;
            let frame = Frame::new(vec![0; 3_000], importance, now);
            // One of the datagrams may be a close.
            let _ = endpoint.send_frame(now, &frame);
            let meta = DatagramMeta { path: PathId(path), received_at: now, ecn: Ecn::Ce };
            endpoint.handle_datagram(now, meta, &bytes);
            endpoint.handle_timeout(now);
            buf.clear();
            while endpoint.poll_transmit(now, &mut buf).is_some() {}
            while endpoint.poll_event().is_some() {}
            endpoint.poll_timeout();
        }
    }

    /// Frames arrive as they were sent or not at all, whatever the network garbles; packet
    /// protection would have dropped garbled ones, so nothing is asked of how many arrive.
    #[test]
    fn garbled_datagrams_are_survived(seed in any::<u64>()) {
        let paths = vec![TestPath::new(4, 20), TestPath::new(3, 50)];
        let mut network = Network::new(adaptive(4), paths);
        network.tamper = Some(|rng: &mut Rng, bytes: &mut Vec<u8>| {
            if rng.chance(0.05) && !bytes.is_empty() {
                let index = rng.below(bytes.len() as u64) as usize;
                bytes[index] ^= 1 << rng.below(8);
            }
        });
        for _ in 0..seed % 7 {
            network.send(100, true);
        }
        network.stream_until(Instant::from_secs(3));
    }
}

#[test]
fn a_scheduler_that_holds_packets_is_asked_again_when_a_pacer_is_ready() {
    let config = Config {
        scheduler: support::scheduler("round-robin"),
        ..fixed(MBIT(4))
    };
    let mut network = Network::new(config, vec![TestPath::new(8, 20), TestPath::new(8, 20)]);
    for _ in 0..50 {
        network.send(10_000, false);
        network.run_until(network.now + Duration::from_millis(40));
    }
    // 10 kB over two paths at 4 Mbit/s each take 10 ms, and 20 ms to get there.
    let slowest = *network.frame_delays().iter().max().unwrap();
    assert!(slowest < Duration::from_millis(35), "{slowest}");
}

#[test]
fn a_fixed_source_survives_the_death_of_one_of_two_paths() {
    for delay_millis in [1, 20, 60] {
        let outage = Some((Instant::from_secs(3), Instant::from_secs(30)));
        let dies = TestPath {
            outage,
            ..TestPath::new(6, delay_millis)
        };
        let config = support::usual();
        let mut network = Network::new(config, vec![dies, TestPath::new(6, delay_millis)]);
        for index in 0..250 {
            network.send(
                if index % 50 == 0 { 30_000 } else { 9_600 },
                index % 50 == 0,
            );
            network.run_until(network.now + Duration::from_millis(40));
        }
        network.run_until(network.now + Duration::from_secs(1));
        let in_time = network
            .frame_delays()
            .iter()
            .filter(|d| d.as_millis() <= 500)
            .count();
        assert!(
            in_time >= 249,
            "{in_time} of 250 with {delay_millis} ms one way"
        );
    }
}

#[test]
fn held_packets_leave_in_bursts_where_the_pacer_allows_them_and_paths_may_come_and_go() {
    for scheduler in anabranch_schedulers::SCHEDULERS {
        let config = Config {
            scheduler: support::scheduler(scheduler.name),
            ..fixed(MBIT(4))
        };
        let paths = vec![
            TestPath::new(8, 20),
            TestPath::new(8, 50),
            TestPath::new(8, 30),
        ];
        let mut network = Network::new(config, paths);
        network.sender.remove_path(network.now, PathId(2));
        for index in 0..50 {
            if index == 25 {
                network.sender.remove_path(network.now, PathId(0));
            }
            network.send(12_000, false);
            network.run_until(network.now + Duration::from_millis(40));
        }
        network.run_until(Instant::from_secs(3));
        let ids: Vec<u64> = network
            .received
            .iter()
            .map(|(_, frame)| frame.id.0)
            .collect();
        assert_eq!(ids, (0..50).collect::<Vec<_>>(), "{}", scheduler.name);
        assert_eq!(network.sent_on[2], 0, "{}", scheduler.name);
    }
}

#[test]
fn redundant_targets_the_best_path_not_the_sum() {
    for (scheduler, capacity) in [("redundant", 4), ("min-cost", 8)] {
        let config = Config {
            scheduler: support::scheduler(scheduler),
            ..fixed(MBIT(4))
        };
        let paths = vec![TestPath::new(8, 20), TestPath::new(8, 50)];
        let mut network = Network::new(config, paths);
        network.send(1_000, true);
        network.run_until(Instant::from_secs(1));
        let target = network.sender.target_bitrate();
        assert_eq!(target, MBIT(capacity).mul_f64(0.8), "{scheduler}");
    }
}

#[test]
fn redundant_the_receiver_counts_every_second_copy_as_a_duplicate() {
    let config = Config {
        scheduler: support::scheduler("redundant"),
        ..fixed(MBIT(4))
    };
    // Both paths send a frame within 11 ms, so that no copy is passed over as acknowledged.
    let paths = vec![TestPath::new(8, 20), TestPath::new(8, 50)];
    let mut network = Network::new(config, paths);
    for index in 0..50 {
        network.send(5_000, index % 25 == 0);
        network.run_until(network.now + Duration::from_millis(40));
    }
    network.run_until(network.now + Duration::from_secs(1));
    let received = network.receiver.counters();
    assert_eq!(received.duplicate_fragments, 200);
    for path in [PathId(0), PathId(1)] {
        let sent = network.sender.path_counters(path).unwrap();
        assert_eq!(sent.sent_packets, 200, "{path}");
        // Packet numbers are a path's own: to each path every packet is a new one.
        let received = network.receiver.path_counters(path).unwrap();
        assert_eq!(received.duplicate_packets, 0, "{path}");
    }
}

//! Streams over several paths, as their drivers see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_core::control::{
    CongestionController, ControlParameters, Controller, RateKind, Timeout,
};
use anabranch_core::recovery::Feedback;
use anabranch_core::scheduler::{Assignment, Scheduler, SchedulerFactory, SendQueue};
use anabranch_core::{
    Config, PathCounters, PathId, PathSet, PathState, PathView, Reinjection, SendReason, Session,
    SessionView, Stream, StreamConfig, WriteStreamError,
};
use anabranch_units::{DataRate, Duration, Instant};
use bytes::Bytes;

use crate::support::{self, TestPath};

type Network = support::Network<Stream>;

/// Segments of 1000 bytes.
const SEGMENT: usize = 1_000;

fn config(scheduler: &str) -> Config {
    Config {
        controller: support::controller("cubic"),
        fragment_bytes: SEGMENT as u16,
        scheduler: support::scheduler(scheduler),
        ..support::usual()
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect()
}

fn network(config: Config, paths: Vec<TestPath>) -> Network {
    Network::of_stream_over(config, paths)
}

/// Sends `bytes` bytes. Returns the time taken.
fn transfer(network: &mut Network, bytes: usize, at_most: Duration) -> Duration {
    let began_at = network.now;
    let bytes = pattern(bytes);
    network.transfer(&bytes, began_at + at_most);
    assert!(network.sender.is_drained() && network.is_stream_finished);
    assert_eq!(network.stream, bytes);
    network.now - began_at
}

fn lossy() -> TestPath {
    TestPath {
        loss: 0.03,
        duplication: 0.02,
        jitter: Duration::from_millis(15),
        ..TestPath::new(4, 40)
    }
}

#[test]
fn every_byte_arrives_once_by_any_scheduler_over_paths_that_lose_and_reorder() {
    for entry in anabranch_schedulers::SCHEDULERS {
        for retransmits_on_same_path in [false, true] {
            let mut config = config(entry.name);
            config.laboratory.retransmits_on_same_path = retransmits_on_same_path;
            let mut network = network(config, vec![lossy(), TestPath::new(8, 20), lossy()]);
            network.checks_invariants = true;
            transfer(&mut network, 100_000, Duration::from_secs(60));
        }
    }
}

#[test]
fn two_paths_carry_what_both_have() {
    let mut alone = network(config("min-cost"), vec![TestPath::new(8, 20)]);
    let alone = transfer(&mut alone, 6_000_000, Duration::from_secs(30));
    let paths = vec![TestPath::new(8, 20), TestPath::new(8, 30)];
    let mut both = network(config("min-cost"), paths);
    let both = transfer(&mut both, 6_000_000, Duration::from_secs(30));
    let share = both.as_secs_f64() / alone.as_secs_f64();
    assert!((0.5..0.56).contains(&share), "{both} instead of {alone}");
}

#[test]
fn a_path_that_dies_is_left_and_one_that_returns_is_used_again() {
    let dead = (Instant::from_secs(1), Instant::from_secs(6));
    let paths = vec![
        TestPath {
            outage: Some(dead),
            ..TestPath::new(8, 20)
        },
        TestPath::new(8, 20),
    ];
    let mut network = network(config("min-cost"), paths);
    let took = transfer(&mut network, 14_000_000, Duration::from_secs(30));
    // The path that stays takes 14.9 s alone; both, with equal shares while both are usable, 9.9 s.
    assert!(took < Duration::from_millis(12_500), "{took}");
    let states: Vec<PathState> = network
        .path_states
        .iter()
        .filter(|(at, path, _)| *path == PathId(0) && *at > Instant::ZERO)
        .map(|(_, _, state)| *state)
        .collect();
    assert_eq!(states, [PathState::Out, PathState::Active]);
    let (came_back_at, ..) = network.path_states.last().unwrap();
    assert!(*came_back_at < dead.1 + Duration::from_millis(200));
}

#[test]
fn a_path_that_is_removed_takes_nothing_with_it() {
    let paths = vec![TestPath::new(4, 60), TestPath::new(8, 20)];
    let mut network = network(config("round-robin"), paths);
    let bytes = pattern(2_000_000);
    network.transfer(&bytes, Instant::from_millis(700));
    let written = network.sender.is_drained();
    assert!(!written);
    let now = network.now;
    network.sender.remove_path(now, PathId(0));
    network.settle();
    network.run_until(now + Duration::from_secs(5));
    let arrived = network.stream.len();
    assert!(arrived > 0 && network.stream == bytes[..arrived]);
    let reasons = network.sender.path_counters(PathId(1)).unwrap().reasons;
    assert!(reasons.of(SendReason::PathRemoved).packets > 0);
}

#[test]
fn fast_path_reinjects_for_a_full_window() {
    fn took(reinjection: Reinjection) -> f64 {
        let config = Config {
            stream: StreamConfig {
                receive_window_bytes: 65_536,
                reinjection,
                ..StreamConfig::default()
            },
            ..config("round-robin")
        };
        let paths = vec![TestPath::new(8, 10), TestPath::new(1, 300)];
        let mut network = network(config, paths);
        transfer(&mut network, 1_000_000, Duration::from_secs(60)).as_secs_f64()
    }
    let (without, with) = (
        took(Reinjection::Off),
        took(anabranch_schedulers::linux_reinjection()),
    );
    assert!(with < 0.6 * without, "{with} s instead of {without} s");
}

/// As in Linux: below four times the round trip a copy costs more than the wait.
#[test]
fn a_full_window_has_no_copies_sent_for_a_path_that_is_hardly_slower() {
    fn copies(delay: u64) -> u64 {
        fn copies(path: u8, sender: &Session<Stream>) -> u64 {
            counters(path, sender)
                .reasons
                .of(SendReason::Reinjection)
                .packets
        }

        fn counters(path: u8, sender: &Session<Stream>) -> &PathCounters {
            sender.path_counters(PathId(path)).unwrap()
        }

        let config = Config {
            stream: StreamConfig {
                receive_window_bytes: 65_536,
                reinjection: anabranch_schedulers::linux_reinjection(),
                ..StreamConfig::default()
            },
            ..config("round-robin")
        };
        let paths = vec![TestPath::new(20, 20), TestPath::new(20, delay)];
        let mut network = network(config, paths);
        transfer(&mut network, 2_000_000, Duration::from_secs(60));
        copies(0, &network.sender) + copies(1, &network.sender)
    }
    assert_eq!(copies(60), 0);
    assert!(copies(120) > 0);
}

/// A constant window, which may have been given up.
#[derive(Debug)]
struct Constant {
    is_given_up: bool,
    looks_at_paths: bool,
    /// Maximum number of paths in a call of `on_feedback`.
    shown: Arc<AtomicUsize>,
}

impl CongestionController for Constant {
    fn looks_at_paths(&self) -> bool {
        self.looks_at_paths
    }

    fn on_feedback(
        &mut self,
        _now: Instant,
        _feedback: &Feedback<'_>,
        _session: &SessionView,
        paths: &[PathView],
    ) {
        self.shown.fetch_max(paths.len(), Ordering::Relaxed);
    }

    fn on_timeout(&mut self, _now: Instant, _cause: Timeout) {}

    fn control(&self) -> ControlParameters {
        ControlParameters {
            congestion_window: Some(30_000),
            is_usable: !self.is_given_up,
            ..ControlParameters::of(DataRate::from_megabits_per_second(4))
        }
    }

    fn state(&self) -> &'static str {
        "Constant"
    }
}

#[test]
fn a_controller_is_shown_the_paths_if_it_looks_at_them() {
    fn shown_if(looks_at_paths: bool, path_count: usize) -> usize {
        let shown = Arc::new(AtomicUsize::new(0));
        let of_all = shown.clone();
        let config = Config {
            controller: Controller::new(
                "constant",
                RateKind::Bandwidth,
                move |_| -> Box<dyn CongestionController> {
                    Box::new(Constant {
                        is_given_up: false,
                        looks_at_paths,
                        shown: of_all.clone(),
                    })
                },
            ),
            ..config("min-cost")
        };
        let mut network = network(config, vec![TestPath::new(8, 20); path_count]);
        transfer(&mut network, 100_000, Duration::from_secs(5));
        shown.load(Ordering::Relaxed)
    }
    assert_eq!([1, 2].map(|count| shown_if(true, count)), [1, 2]);
    assert_eq!([1, 2].map(|count| shown_if(false, count)), [0, 0]);
}

#[test]
fn a_path_that_its_controller_gives_up_carries_data_only_when_no_other_will() {
    fn sent(network: &Network) -> u64 {
        let counters = network.sender.path_counters(PathId(1)).unwrap();
        counters.reasons.of(SendReason::New).packets
    }

    let built = AtomicUsize::new(0);
    let config = Config {
        controller: Controller::new(
            "constant",
            RateKind::Bandwidth,
            move |_| -> Box<dyn CongestionController> {
                // Each path is added at the sender and at the receiver: the sender's second.
                let is_given_up = built.fetch_add(1, Ordering::Relaxed) == 2;
                Box::new(Constant {
                    is_given_up,
                    looks_at_paths: false,
                    shown: Arc::default(),
                })
            },
        ),
        ..config("min-cost")
    };
    let outage = (Instant::from_secs(2), Instant::from_secs(4));
    let other = TestPath {
        outage: Some(outage),
        ..TestPath::new(8, 60)
    };
    let mut network = network(config, vec![other, TestPath::new(8, 20)]);
    let bytes = pattern(4_000_000);
    network.transfer(&bytes, outage.0);
    assert_eq!(sent(&network), 0);
    let arrived = network.stream.len();
    assert!(arrived > 200_000, "{arrived}");
    network.run_until(outage.1);
    assert!(sent(&network) > 100);
}

/// Returns the way over 20 Mbit/s and 20 ms of round-trip time, and a detour of 1 Mbit/s and 300
/// ms.
fn near_and_far() -> Vec<TestPath> {
    vec![TestPath::new(20, 10), TestPath::new(1, 150)]
}

fn packets(network: &Network, path: u8, reason: SendReason) -> u64 {
    let counters = network.sender.path_counters(PathId(path)).unwrap();
    counters.reasons.of(reason).packets
}

/// Returns a configuration without the race of a new session.
fn without_duplicates() -> Config {
    Config {
        stream: StreamConfig {
            reinjection: anabranch_schedulers::linux_reinjection(),
            ..StreamConfig::default()
        },
        ..config("spd")
    }
}

#[test]
fn a_further_path_carries_nothing_before_it_has_answered() {
    let mut network = network(without_duplicates(), near_and_far());
    let took = transfer(&mut network, 30_000, Duration::from_secs(10));
    assert!(took < Duration::from_millis(100), "{took}");
    assert_eq!(packets(&network, 1, SendReason::IdleProbe), 1);
    assert_eq!(packets(&network, 1, SendReason::New), 0);
}

#[test]
fn a_path_whose_answer_is_lost_is_asked_again_and_then_used() {
    let mut paths = near_and_far();
    paths[1].lost_there = (0..20).collect();
    let mut network = network(without_duplicates(), paths);
    transfer(&mut network, 10_000_000, Duration::from_secs(10));
    assert_eq!(packets(&network, 1, SendReason::IdleProbe), 2);
    assert!(packets(&network, 1, SendReason::New) > 20);
}

/// Returns the time of an object that is sent half a second after the session has begun.
fn object_takes(config: Config, paths: Vec<TestPath>, bytes: usize) -> Duration {
    let began_at = Instant::from_millis(500);
    let mut network = network(config, paths);
    network.run_until(began_at);
    let object = pattern(bytes);
    assert_eq!(network.sender.write(network.now, &object), Ok(bytes));
    while network.stream.len() < object.len() {
        network.run_until(network.now + Duration::from_millis(1));
    }
    network.now - began_at
}

/// The far path loses its part of an object. The near one brings a copy at once, and the far one is
/// asked, which shows the loss: no timer runs out, and it stays in use.
#[test]
fn a_lost_tail_that_has_come_by_another_path_costs_its_own_no_timeout() {
    let lost = (Instant::from_millis(499), Instant::from_millis(520));
    let far = TestPath {
        outage: Some(lost),
        ..TestPath::new(20, 60)
    };
    let mut network = network(config("round-robin"), vec![TestPath::new(20, 10), far]);
    network.run_until(Instant::from_millis(500));
    let object = pattern(20_000);
    assert_eq!(network.sender.write(network.now, &object), Ok(20_000));
    network.run_until(Instant::from_millis(560));
    assert_eq!(network.stream.len(), 20_000);
    network.run_until(Instant::from_secs(3));
    assert!(packets(&network, 0, SendReason::Reinjection) > 5);
    assert_eq!(packets(&network, 1, SendReason::TailLossProbe), 1);
    let counters = network.sender.path_counters(PathId(1)).unwrap();
    assert_eq!(counters.retransmission_timeouts, 0);
    let states: Vec<_> = network
        .path_states
        .iter()
        .filter(|(at, ..)| *at > Instant::ZERO)
        .collect();
    assert!(states.is_empty(), "{states:?}");
}

/// A window of hardly anything keeps what Linux's scheduler has bound to the far path, while the
/// near path, idle, would bring it.
#[test]
fn backlog_of_a_far_path_moves_to_the_near_one() {
    fn took(reinjection: Reinjection) -> Duration {
        let mut config = config("linux");
        config.controller = support::controller("cubic");
        config.stream.reinjection = reinjection;
        let paths = vec![TestPath::new(20, 10), TestPath::new(1, 150)];
        object_takes(config, paths, 100_000)
    }
    let (without, with) = (
        took(anabranch_schedulers::linux_reinjection()),
        took(Reinjection::Tail),
    );
    assert!(with * 3 < without, "{with} instead of {without}");
}

#[test]
fn how_far_paths_lead_is_known_before_the_first_segment() {
    // `ecf` waits for the near path, though its window is full.
    let alone = object_takes(config("ecf"), vec![TestPath::new(20, 10)], 30_000);
    let both = object_takes(config("ecf"), near_and_far(), 30_000);
    assert!(both <= alone + Duration::from_millis(1), "{both} {alone}");
    // Nobody takes the first path for one of 100 ms.
    let alone = object_takes(config("spd"), vec![TestPath::new(8, 20)], 10_000);
    let paths = vec![TestPath::new(8, 20), TestPath::new(8, 40)];
    let both = object_takes(config("spd"), paths, 10_000);
    assert!(both <= alone + Duration::from_millis(1), "{both} {alone}");
}

/// Scheduler that binds nothing, and stores the number of bytes known to wait.
#[derive(Debug)]
struct Asking(Arc<AtomicUsize>);

impl Scheduler for Asking {
    fn schedule(
        &mut self,
        _now: Instant,
        _queue: &SendQueue<'_>,
        session: &SessionView,
        _paths: &[PathView],
        _out: &mut Vec<Assignment>,
    ) {
        self.0
            .store(session.backlog_bytes as usize, Ordering::Relaxed);
    }
}

#[test]
fn schedulers_see_expected_further_bytes() {
    let counter = Arc::new(AtomicUsize::new(0));
    let kept = counter.clone();
    let config = Config {
        scheduler: SchedulerFactory::new("asking", move || {
            Box::new(Asking(kept.clone())) as Box<dyn Scheduler>
        }),
        ..config("min-cost")
    };
    let mut network = network(config, vec![TestPath::new(8, 20), TestPath::new(8, 20)]);
    for further in [0, 5_000_000] {
        network.sender.expect_further(further);
        network.sender.write(network.now, &[7; 1_000]).unwrap();
        network.run_until(network.now + Duration::from_millis(50));
        let counter = counter.load(Ordering::Relaxed) as u64;
        assert!((further..further + 3_000).contains(&counter), "{counter}");
    }
}

/// Waits for windows, and counts how often it is asked.
#[derive(Debug)]
struct Counting(Arc<AtomicUsize>);

impl Scheduler for Counting {
    fn schedule(
        &mut self,
        _now: Instant,
        queue: &SendQueue<'_>,
        _session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        self.0.fetch_add(1, Ordering::Relaxed);
        let mut room = paths[0].sendable_bytes;
        for (index, packet) in queue.iter() {
            if let Some(rest) = room.checked_sub(u64::from(packet.bytes)) {
                room = rest;
                let paths = PathSet::only(PathId(0));
                out.push(Assignment { index, paths });
            }
        }
    }
}

#[test]
fn a_scheduler_that_holds_segments_is_not_asked_after_each_that_leaves() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let config = Config {
        scheduler: SchedulerFactory::new("counting", move || {
            Box::new(Counting(counted.clone())) as Box<dyn Scheduler>
        }),
        ..config("spd")
    };
    let mut network = network(config, near_and_far());
    transfer(&mut network, 1_000_000, Duration::from_secs(10));
    let asked = count.load(Ordering::Relaxed);
    // 1,000 segments, and a report for every second one.
    assert!(asked <= 900, "{asked}");
}

/// Takes paths that have room, and counts how often none had, if packets were in flight on all.
#[derive(Debug)]
struct Unschedulable {
    count: Arc<AtomicUsize>,
    needs_room: bool,
}

impl Scheduler for Unschedulable {
    fn schedule(
        &mut self,
        _now: Instant,
        queue: &SendQueue<'_>,
        _session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        let is_unschedulable = paths
            .iter()
            .all(|path| path.sendable_bytes == 0 && path.bytes_in_flight > 0);
        self.count
            .fetch_add(usize::from(is_unschedulable), Ordering::Relaxed);
        let rooms = paths.iter().filter(|path| path.sendable_bytes > 0);
        out.extend(
            rooms
                .zip(queue.iter())
                .map(|(path, (index, _))| Assignment {
                    index,
                    paths: PathSet::only(path.id),
                }),
        );
    }

    fn needs_room(&self) -> bool {
        self.needs_room
    }
}

#[test]
fn a_scheduler_that_needs_room_is_not_asked_while_paced_paths_have_none() {
    fn run(needs_room: bool) -> (usize, Duration) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let config = Config {
            scheduler: SchedulerFactory::new("in-vain", move || -> Box<dyn Scheduler> {
                let count = counted.clone();
                Box::new(Unschedulable { count, needs_room })
            }),
            controller: support::controller("bbr3"),
            ..config("spd")
        };
        let mut network = network(config, vec![TestPath::new(8, 20), TestPath::new(8, 20)]);
        let took = transfer(&mut network, 1_000_000, Duration::from_secs(10));
        (count.load(Ordering::Relaxed), took)
    }
    let ((asked, usual), (left, took)) = (run(false), run(true));
    assert!(asked > 500 && left == 0, "{asked} {left}");
    assert_eq!(took, usual);
}

#[test]
fn each_message_arrives_once_and_does_not_wait_for_those_that_are_lost() {
    fn message(number: u32) -> Bytes {
        let length = 4 + number as usize * 37 % (SEGMENT - 3);
        let mut message = pattern(length);
        message[..4].copy_from_slice(&number.to_be_bytes());
        Bytes::from(message)
    }

    let config = Config {
        stream: StreamConfig {
            carries_messages: true,
            ..StreamConfig::default()
        },
        ..config("min-cost")
    };
    let mut network = network(config, vec![lossy(), TestPath::new(8, 20), lossy()]);
    network.checks_invariants = true;
    network.is_reading = false;
    let mut next = 0;
    let mut arrived = Vec::new();
    let mut overtaken_count = 0;
    while arrived.len() < 1_000 && network.now < Instant::ZERO + Duration::from_secs(60) {
        while next < 1_000 {
            match network.sender.write_bytes(network.now, message(next)) {
                Ok(0) => break,
                taken => assert_eq!(taken, Ok(message(next).len())),
            }
            next += 1;
        }
        network.run_until(network.now + Duration::from_millis(5));
        while let Some(bytes) = network.receiver.read_bytes() {
            let number = u32::from_be_bytes(bytes[..4].try_into().unwrap());
            assert_eq!(bytes, message(number));
            overtaken_count += u32::from(arrived.last().is_some_and(|last| *last > number));
            arrived.push(number);
        }
    }
    assert!(overtaken_count > 50, "{overtaken_count}");
    arrived.sort_unstable();
    assert_eq!(arrived, (0..1_000).collect::<Vec<_>>());
    network.run_until(network.now + Duration::from_secs(1));
    assert!(network.sender.is_drained());
    for bytes in [0, SEGMENT + 1] {
        let refused = network.sender.write(network.now, &vec![0; bytes]);
        let max = SEGMENT;
        assert_eq!(refused, Err(WriteStreamError::NoMessage { bytes, max }));
    }
}

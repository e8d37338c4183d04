//! Delivery of the first frames, before the paths have answered.

use anabranch_core::{Config, Frame, MediaConfig, MediaSession, SourceLimits};
use anabranch_units::{DataRate, Duration, Importance, Instant, Seed};

use crate::support::{self, Network, TestPath};

const FRAME_BYTES: usize = 20_000;

fn config(deadline_millis: u64) -> Config {
    let deadline = Duration::from_millis(deadline_millis);
    Config {
        media: MediaConfig {
            deadline,
            reassembly_wait: deadline,
            ..MediaConfig::default()
        },
        ..support::usual()
    }
}

/// Sends 4 Mbit/s, 25 frames a second.
fn stream(network: &mut Network, frames: usize) {
    for frame in 0..frames {
        network.send(FRAME_BYTES, frame == 0);
        network.run_until(network.now + Duration::from_millis(40));
    }
}

fn finish(network: &mut Network) {
    network.run_until(network.now + Duration::from_secs(3));
}

#[test]
fn no_frame_waits_for_a_path_of_600_ms_to_answer() {
    let mut network = Network::new(config(1_000), vec![TestPath::new(8, 300)]);
    stream(&mut network, 150);
    finish(&mut network);
    let delays = network.frame_delays();
    assert_eq!(delays.len(), 150);
    let latest = delays.iter().max().unwrap();
    assert!(*latest < Duration::from_millis(450), "{latest}");
}

#[test]
fn a_source_that_follows_begins_with_the_initial_window() {
    fn sent_before_an_answer(config: Config) -> u64 {
        let mut network = Network::new(config, vec![TestPath::new(8, 300)]);
        stream(&mut network, 15);
        network.sent_on[0]
    }

    let mut following = config(1_000);
    following.media.source = SourceLimits::Adaptive {
        min: DataRate::from_kilobits_per_second(300),
        max: DataRate::from_megabits_per_second(8),
    };
    // 10 packets at once, and 400 kbit/s for 600 ms.
    let following = sent_before_an_answer(following);
    assert!((20..=40).contains(&following), "{following}");
    let fixed = sent_before_an_answer(config(1_000));
    assert!(fixed > 200, "{fixed}");
}

#[test]
fn a_slow_path_gets_too_much_for_two_round_trips_at_most() {
    fn sent_in(network: &Network, from: u64, to: u64) -> u64 {
        let span = Instant::from_millis(from)..Instant::from_millis(to);
        let sent = network.sent.iter().filter(|(at, _)| span.contains(at));
        sent.map(|(_, bytes)| bytes * 8).sum::<u64>() / (to - from)
    }

    let slow = TestPath {
        queue: Duration::from_millis(200),
        ..TestPath::new(1, 20)
    };
    // A round trip is 40 ms without a queue, and 240 ms with a full one.
    let mut network = Network::new(config(500), vec![slow]);
    stream(&mut network, 50);
    let end = sent_in(&network, 400, 500);
    assert!(end < 1_500, "{end}");
    let after = sent_in(&network, 500, 1_500);
    assert!((600..1_100).contains(&after), "{after}");
}

/// Returns the number of packets that the farther path of the two has got from a moment on, and of
/// frames that were not late.
fn near_and_far(network: &mut Network, from: Duration) -> (u64, usize) {
    let began_at = network.now;
    stream(network, (from.as_millis() / 40) as usize);
    let before = network.sent_on[1];
    stream(network, 25);
    let sent = network.sent_on[1] - before;
    finish(network);
    let whole = network.received.iter();
    (
        sent,
        whole
            .filter(|(_, frame)| frame.captured_at >= began_at)
            .count(),
    )
}

#[test]
fn a_path_is_as_far_as_it_has_kept_its_answer_waited_for() {
    // The nearer one is full with each frame for 32 ms: another that is less than 84 ms away would
    // get some of it.
    let paths = vec![TestPath::new(5, 20), TestPath::new(8, 300)];
    let mut network = Network::new(config(200), paths);
    let (sent, _) = near_and_far(&mut network, Duration::from_millis(240));
    assert!(sent < 5, "{sent} packets");
}

#[test]
fn a_session_that_is_kept_alive_knows_its_paths_before_the_first_frame() {
    let paths = vec![TestPath::new(5, 20), TestPath::new(8, 300)];
    let mut network = Network::new(config(200), paths);
    network.sender.keep_alive();
    network.run_until(Instant::from_secs(1));
    let now = network.now;
    let known: Vec<_> = network
        .sender
        .paths(now)
        .into_iter()
        .map(|path| path.rtt.latest)
        .map(|rtt| rtt.unwrap().as_millis())
        .collect();
    assert!((40..60).contains(&known[0]) && (600..620).contains(&known[1]));
    let (_, whole) = near_and_far(&mut network, Duration::from_millis(240));
    assert_eq!(whole, 6 + 25);
}

#[test]
fn a_copy_that_is_too_late_on_one_path_leaves_the_one_that_waits_on_another() {
    // The farther path comes back and has to prove itself with copies, but none can be in time.
    let far = TestPath {
        outage: Some((Instant::from_secs(1), Instant::from_secs(6))),
        ..TestPath::new(8, 300)
    };
    let mut config = config(250);
    config.scheduler = support::scheduler("anabranch");
    let mut network = Network::new(config, vec![far, TestPath::new(8, 20)]);
    network.sender.keep_alive();
    network.run_until(Instant::from_millis(900));
    stream(&mut network, 300);
    finish(&mut network);
    assert_eq!(network.received.len(), 300, "{:?}", network.dropped);
}

/// Before the second group of pictures begins, the length of groups is unknown.
#[test]
fn the_first_group_ends_so_that_the_second_one_finds_room() {
    fn decodable_from(key: u64, whole: &[u64]) -> usize {
        (key..key + 50).take_while(|id| whole.contains(id)).count()
    }

    let path = TestPath {
        queue: Duration::from_millis(60),
        ..TestPath::new(3, 30)
    };
    let mut network = Network::new(config(1_030), vec![path]);
    for frame in 0..100 {
        let is_key = frame % 50 == 0;
        network.send(if is_key { 92_500 } else { 18_500 }, is_key);
        network.run_until(network.now + Duration::from_millis(40));
    }
    finish(&mut network);
    let received = network.received.iter();
    let whole: Vec<u64> = received.map(|(_, frame)| frame.id.0).collect();
    let (first, second) = (decodable_from(0, &whole), decodable_from(50, &whole));
    assert!(first >= 30 && second >= 30, "{first} and {second}");
}

/// Returns the delays of the last half second of an earlier session, at 2.5 Mbit/s, over two paths
/// of 3 Mbit/s, which began with this rate; and those of the two seconds after.
fn delays_after_an_earlier_session(initial_rate: Option<DataRate>) -> Vec<Duration> {
    fn frames(frame: u64) -> Instant {
        Instant::from_millis(500 + frame * 40)
    }

    fn path(delay: u64, initial_rate: Option<DataRate>) -> TestPath {
        TestPath {
            queue: Duration::from_millis(160),
            initial_rate,
            ..TestPath::new(3, delay)
        }
    }
    let mut network = Network::new(config(500), Vec::new());
    network.run_until(Instant::from_millis(1_000));
    [30, 50]
        .into_iter()
        .for_each(|delay| network.add_path(path(delay, initial_rate)));
    let mut before = MediaSession::new(config(500), Seed(4), frames(0)).unwrap();
    for frame in 0..13 {
        let sent = Frame {
            bytes: vec![0; 12_500].into(),
            importance: Importance::key_if(frame == 0),
            captured_at: frames(frame),
            lifetime: None,
        };
        before.send_frame(frames(frame), &sent).unwrap();
    }
    network.sender.go_on_from(network.now, &mut before);
    for frame in 13..63 {
        network.run_until(frames(frame));
        network.send(12_500, false);
    }
    finish(&mut network);
    network.frame_delays()
}

#[test]
fn the_frames_of_an_earlier_session_leave_at_the_rate_that_it_had() {
    let known = delays_after_an_earlier_session(Some(DataRate::from_megabits_per_second(3)));
    assert_eq!(known.len(), 63, "no frame is lost");
    // 162 kB have come at once, which 6 Mbit/s carry in 217 ms.
    let in_time = known.iter().filter(|delay| delay.as_millis() <= 500);
    assert!(in_time.count() >= 60, "{known:?}");
    let unknown = delays_after_an_earlier_session(None);
    assert!(unknown.len() < known.len(), "{unknown:?}");
}

//! Frames of which bytes leave before their end is known.

use std::collections::BTreeMap;

use anabranch_core::media::SendFrameError;
use anabranch_core::{Config, Frame, HandOut, MediaConfig, MediaSession, SourceLimits};
use anabranch_units::{DataRate, Duration, Importance, Instant, Seed};

use crate::support::{self, Network, TestPath};

const PICTURE_BYTES: usize = 40_000;
const PROPAGATION: Duration = Duration::from_millis(20);

fn config(fec: &str) -> Config {
    Config {
        initial_rate: DataRate::from_megabits_per_second(10),
        media: MediaConfig {
            fec: support::fec(fec),
            hand_out: HandOut::PartsInOrder,
            source: SourceLimits::Fixed,
            ..MediaConfig::default()
        },
        ..support::usual()
    }
}

fn network(fec: &str) -> Network {
    Network::new(
        config(fec),
        vec![TestPath::new(20, PROPAGATION.as_millis())],
    )
}

fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 / 7) as u8).collect()
}

fn frame(network: &Network, bytes: Vec<u8>) -> Frame {
    Frame::new(bytes, Importance::Reference, network.now)
}

fn run_for(network: &mut Network, span: Duration) {
    network.run_until(network.now + span);
}

#[test]
fn a_frame_that_grows_arrives_as_it_was_appended() {
    for fec in ["off", "fixed:overhead=0.5"] {
        let mut network = network(fec);
        network.checks_invariants = true;
        let whole = payload(30_001);
        let now = network.now;
        let begun = frame(&network, whole[..500].to_vec());
        network.sender.begin_frame(now, &begun).unwrap();
        for piece in whole[500..].chunks(1_316) {
            network.sender.append(network.now, piece).unwrap();
            network.settle();
            run_for(&mut network, Duration::from_millis(1));
        }
        network.sender.finish_frame(network.now);
        network.settle();
        run_for(&mut network, Duration::from_secs(1));
        let [(_, received)] = &network.received[..] else {
            panic!("{} frames", network.received.len())
        };
        assert_eq!(received.bytes, whole, "{fec}");
        assert!(network.sender.is_drained(), "{fec}");
    }
}

/// Returns the datagrams of a frame that is sent at once.
fn datagrams(send: impl FnOnce(&mut Network)) -> Vec<(Instant, u64)> {
    let mut network = network("fixed:overhead=0.5");
    send(&mut network);
    network.settle();
    run_for(&mut network, Duration::from_secs(1));
    assert_eq!(network.received[0].1.bytes, payload(10_100));
    network.sent
}

#[test]
fn a_frame_that_grows_at_once_leaves_as_a_whole_one() {
    let whole = datagrams(|network| {
        let frame = frame(network, payload(10_100));
        network.sender.send_frame(network.now, &frame).unwrap();
    });
    let grown = datagrams(|network| {
        let begun = frame(network, payload(10_100)[..100].to_vec());
        network.sender.begin_frame(network.now, &begun).unwrap();
        let rest = &payload(10_100)[100..];
        network.sender.append(network.now, rest).unwrap();
        network.sender.finish_frame(network.now);
    });
    assert_eq!(whole, grown);
}

#[test]
fn one_frame_grows_at_a_time() {
    let mut network = network("off");
    let now = network.now;
    assert_eq!(
        network.sender.append(now, &[1]),
        Err(SendFrameError::NotBegun)
    );
    network.sender.finish_frame(now);
    let one = frame(&network, vec![1; 10]);
    assert_eq!(network.sender.begin_frame(now, &one).unwrap().0, 0);
    assert_eq!(
        network.sender.send_frame(now, &one),
        Err(SendFrameError::Unfinished)
    );
    assert_eq!(
        network.sender.begin_frame(now, &one),
        Err(SendFrameError::Unfinished)
    );
    network.sender.finish_frame(now);
    assert_eq!(network.sender.send_frame(now, &one).unwrap().0, 1);
    let too_large = vec![0; 9 << 20];
    network.sender.begin_frame(now, &one).unwrap();
    let refused = network.sender.append(now, &too_large);
    assert!(
        matches!(refused, Err(SendFrameError::TooLarge { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_frame_whose_end_does_not_come_in_time_is_given_up_and_the_next_is_sent() {
    let mut network = network("off");
    network.checks_invariants = true;
    let begun = frame(&network, payload(5_000));
    network.sender.begin_frame(network.now, &begun).unwrap();
    network.settle();
    run_for(&mut network, Duration::from_secs(2));
    assert_eq!(network.sender.counters().frames_sent, 1);
    // Its bytes are of no use any more.
    network.sender.append(network.now, &[1; 100]).unwrap();
    network.sender.finish_frame(network.now);
    assert!(network.sender.is_drained());
    network.send(3_000, true);
    run_for(&mut network, Duration::from_secs(2));
    let ids: Vec<u64> = network.received.iter().map(|(_, it)| it.id.0).collect();
    assert_eq!(ids, [1]);
}

#[test]
fn a_session_that_takes_another_ones_place_goes_on_with_the_frame_that_grows() {
    // Of a frame that has come too late, the end is awaited all the same.
    for is_late in [false, true] {
        let mut network = network("off");
        let whole = payload(9_000);
        let mut before = MediaSession::new(config("off"), Seed(4), network.now).unwrap();
        let begun = frame(&network, whole[..5_000].to_vec());
        before.begin_frame(network.now, &begun).unwrap();
        if is_late {
            run_for(&mut network, Duration::from_secs(1));
        }
        let now = network.now;
        network.sender.go_on_from(now, &mut before);
        network.sender.append(now, &whole[5_000..]).unwrap();
        network.sender.finish_frame(now);
        network.send(3_000, true);
        run_for(&mut network, Duration::from_secs(1));
        let lengths = network.received.iter().map(|(_, it)| it.size_bytes);
        let expected: &[usize] = if is_late { &[3_000] } else { &[9_000, 3_000] };
        assert!(lengths.eq(expected.iter().copied()), "{is_late}");
    }
}

#[test]
fn a_frame_that_is_abandoned_is_dropped_and_the_next_is_sent() {
    let mut network = network("off");
    network.checks_invariants = true;
    let begun = frame(&network, payload(5_000));
    network.sender.begin_frame(network.now, &begun).unwrap();
    network.settle();
    run_for(&mut network, Duration::from_millis(100));
    network.sender.abandon_frame(network.now);
    network.sender.abandon_frame(network.now);
    network.send(3_000, true);
    run_for(&mut network, Duration::from_secs(1));
    assert!(network.sender.is_drained());
    let ids: Vec<u64> = network.received.iter().map(|(_, it)| it.id.0).collect();
    // Both ends report it.
    assert_eq!((ids, network.dropped.len()), (vec![1], 2));
}

/// A source of 8 Mbit/s.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// Datagrams of 1,316 bytes at equal intervals.
    Constant,
    /// A picture every 40 ms, at once.
    Bursts,
}

struct Measured {
    /// Delay beyond propagation, by hundredths of the bytes.
    delays: Vec<Duration>,
    /// Bytes on the wire beside the media, as a share of the media.
    overhead: f64,
}

impl Measured {
    fn percentile(&self, percent: usize) -> Duration {
        self.delays[(self.delays.len() - 1) * percent / 100]
    }
}

/// Streams ten seconds. Pictures are appended to as their bytes come, or sent when whole.
fn measure(source: Source, grows: bool) -> Measured {
    let mut network = network("off");
    let (count, piece) = (7_600, 1_316);
    // The picture that a byte is of ends with the first byte of the next.
    let (mut written, mut held) = (Vec::new(), Vec::new());
    let mut captured_at = Instant::ZERO;
    for index in 0..count {
        let picture = index * piece / PICTURE_BYTES;
        let at_micros = match source {
            Source::Constant => 1_316 * index as u64,
            Source::Bursts => picture as u64 * 40_000,
        };
        network.run_until(Instant::from_micros(at_micros));
        let now = network.now;
        written.push((index * piece, now));
        let is_first = index == 0 || picture != (index - 1) * piece / PICTURE_BYTES;
        let bytes = vec![index as u8; piece];
        if is_first && grows {
            network.sender.finish_frame(now);
            let begun = frame(&network, bytes);
            network.sender.begin_frame(now, &begun).unwrap();
        } else if grows {
            network.sender.append(now, &bytes).unwrap();
        } else {
            if is_first && !held.is_empty() {
                let whole = Frame {
                    captured_at,
                    ..frame(&network, core::mem::take(&mut held))
                };
                network.sender.send_frame(now, &whole).unwrap();
            }
            if is_first {
                captured_at = now;
            }
            held.extend(bytes);
        }
        network.settle();
    }
    network.sender.finish_frame(network.now);
    run_for(&mut network, Duration::from_secs(1));
    let arrived = arrivals(&network);
    let mut delays: Vec<Duration> = written
        .iter()
        .filter_map(|(offset, at)| {
            let (_, came_at) = arrived.range(offset + 1..).next()?;
            Some(came_at.saturating_since(*at + PROPAGATION))
        })
        .collect();
    delays.sort_unstable();
    let media_bytes = network.sender.counters().media_bytes_sent as f64;
    let sent: u64 = network.sent.iter().map(|(_, bytes)| bytes).sum();
    Measured {
        delays,
        overhead: sent as f64 / media_bytes - 1.0,
    }
}

/// Returns when all bytes of the stream before a position had been handed out, by positions.
fn arrivals(network: &Network) -> BTreeMap<usize, Instant> {
    let mut handed_out: Vec<(Instant, u64, usize)> = Vec::new();
    for (at, part) in &network.parts {
        handed_out.push((*at, part.id.0, part.bytes.len()));
    }
    for (at, whole) in &network.received {
        handed_out.push((*at, whole.id.0, whole.size_bytes - whole.parted_bytes));
    }
    // The end of a frame may come later than all of its bytes.
    handed_out.retain(|(_, _, bytes)| *bytes > 0);
    handed_out.sort_by_key(|(at, frame, _)| (*frame, *at));
    let mut end = 0;
    let ends = handed_out.into_iter().map(|(at, _, bytes)| {
        end += bytes;
        (end, at)
    });
    ends.collect()
}

/// Without losses, bytes leave as they come.
#[test]
fn bytes_of_a_growing_picture_are_handed_out_as_they_came() {
    for source in [Source::Constant, Source::Bursts] {
        let (grown, whole) = (measure(source, true), measure(source, false));
        let [median, latest] = [50, 99].map(|percent| grown.percentile(percent));
        assert!(grown.delays.len() > 7_000, "{source:?}");
        let limits = match source {
            Source::Constant => (5, 12),
            // 40 kB take 16 ms on a link of 20 Mbit/s.
            Source::Bursts => (15, 30),
        };
        assert!(
            median <= Duration::from_millis(limits.0),
            "{source:?}: {median}"
        );
        assert!(
            latest <= Duration::from_millis(limits.1),
            "{source:?}: {latest}"
        );
        let median_of_whole = whole.percentile(50);
        assert!(
            median < median_of_whole,
            "{source:?}: {median} {median_of_whole}"
        );
        let added = grown.overhead - whole.overhead;
        assert!(added <= 0.005, "{source:?}: {added}");
    }
}

//! A peer that acknowledges packets which were never sent, or contradicts itself.

use anabranch_core::{
    DatagramMeta, Event, Frame, MediaSession, PathId, PathOptions, StreamSession,
};
use anabranch_units::{Duration, Ecn, Importance, Instant, Seed};

use crate::support;

fn session() -> MediaSession {
    let mut session = MediaSession::new(support::usual(), Seed(1), Instant::ZERO).unwrap();
    session
        .add_path(Instant::ZERO, PathOptions::default())
        .unwrap();
    session
}

fn send(session: &mut MediaSession, bytes: usize) {
    let frame = Frame {
        bytes: vec![7; bytes].into(),
        importance: Importance::Key,
        captured_at: Instant::ZERO,
        lifetime: None,
    };
    session.send_frame(Instant::ZERO, &frame).unwrap();
}

/// Hands all datagrams of `from` until `until` to `to`.
fn hand_over(from: &mut MediaSession, to: &mut MediaSession, until: Instant) {
    let mut now = Instant::ZERO;
    loop {
        let mut datagram = Vec::new();
        while let Some(transmit) = from.poll_transmit(now, &mut datagram) {
            let meta = DatagramMeta {
                path: transmit.path,
                received_at: now,
                ecn: Ecn::NotEct,
            };
            to.handle_datagram(now, meta, &datagram);
            datagram.clear();
        }
        match from.poll_timeout() {
            Some((at, _)) if at <= until => now = now.max(at),
            _ => return,
        }
        from.handle_timeout(now);
    }
}

#[test]
fn acknowledging_unsent_packets_ends_the_session() {
    let at = Instant::ZERO + Duration::from_millis(200);
    // Two senders alike, of which one sends more than the other.
    let (mut honest, mut other) = (session(), session());
    send(&mut honest, 1_000);
    send(&mut other, 30_000);
    let (mut receiver, mut of_other) = (session(), session());
    hand_over(&mut honest, &mut receiver, at);
    hand_over(&mut other, &mut of_other, at);
    hand_over(&mut receiver, &mut honest, at);
    assert!(!honest.is_closed());
    assert!(honest.path_counters(PathId(0)).unwrap().acked_packets > 0);
    // The other receiver's report is a lie to the first sender.
    hand_over(&mut of_other, &mut honest, at);
    let events: Vec<Event> = std::iter::from_fn(|| honest.poll_event()).collect();
    assert!(events.contains(&Event::PeerLies), "{events:?}");
    assert!(honest.is_closed());
}

/// Returns a packet of one segment: its kind, offset and payload.
fn segment(packet_number: u32, kind: u8, offset: u32, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0x41];
    datagram.extend_from_slice(&packet_number.to_le_bytes());
    datagram.push(kind);
    datagram.extend_from_slice(&offset.to_le_bytes());
    datagram.extend_from_slice(payload);
    datagram
}

/// Returns the events of a session of messages after these segments.
fn after_segments(segments: impl IntoIterator<Item = (u8, u32, &'static [u8])>) -> Vec<Event> {
    let mut config = support::usual();
    config.stream.carries_messages = true;
    let mut session = StreamSession::new(config, Seed(1), Instant::ZERO).unwrap();
    let path = session
        .add_path(Instant::ZERO, PathOptions::default())
        .unwrap();
    for (number, (kind, offset, payload)) in segments.into_iter().enumerate() {
        let meta = DatagramMeta {
            path,
            received_at: Instant::ZERO,
            ecn: Ecn::NotEct,
        };
        let datagram = segment(number as u32, kind, offset, payload);
        session.handle_datagram(Instant::ZERO, meta, &datagram);
        while session.read_bytes().is_some() {}
    }
    std::iter::from_fn(|| session.poll_event()).collect()
}

#[test]
fn a_part_whose_rest_never_comes_ends_the_session() {
    let (whole, begin) = (0x10, 0x18);
    let honest = [(begin, 0, &[1; 1_000][..]), (whole, 2_000, &[2; 9])];
    assert!(!after_segments(honest).contains(&Event::PeerLies));
    let attack = [(begin, 0, &[1; 1_000][..]), (whole, 1_000, &[2; 9])];
    assert!(after_segments(attack).contains(&Event::PeerLies));
}

#[test]
fn more_gaps_than_a_network_leaves_end_the_session() {
    let with_gaps = |count: u32| (0..count).map(|index| (0x10, 10 + 3 * index, &[3; 2][..]));
    assert!(!after_segments(with_gaps(1_000)).contains(&Event::PeerLies));
    assert!(after_segments(with_gaps(70_000)).contains(&Event::PeerLies));
}

/// Returns a packet with one byte of a frame.
fn fragment(packet_number: u32, frame: u32, offset: u32) -> Vec<u8> {
    let mut datagram = vec![0x41];
    datagram.extend_from_slice(&packet_number.to_le_bytes());
    datagram.push(0x50);
    // A varint of four bytes.
    datagram.extend_from_slice(&(frame | 2 << 30).to_be_bytes());
    datagram.extend_from_slice(&offset.to_le_bytes()[..3]);
    // Time of capture, payload.
    datagram.extend_from_slice(&[0, 0, 0, 0, 7]);
    datagram
}

/// Returns the time that fragments of one frame take behind this many open ones.
#[allow(clippy::disallowed_methods, reason = "time is what is measured")]
fn time_beside(open_frames: u32) -> std::time::Duration {
    const FRAGMENTS: u32 = 5_000;
    let mut session = session();
    let mut packet_numbers = 0..;
    let mut take = |frame: u32, offset: u32| {
        let datagram = fragment(packet_numbers.next().unwrap(), frame, offset);
        let meta = DatagramMeta {
            path: PathId(0),
            received_at: Instant::ZERO,
            ecn: Ecn::NotEct,
        };
        session.handle_datagram(Instant::ZERO, meta, &datagram);
        while session.poll_event().is_some() {}
    };
    (0..open_frames).for_each(|frame| take(frame, 1));
    let began_at = std::time::Instant::now();
    (1..FRAGMENTS).for_each(|offset| take(open_frames, offset));
    let took = began_at.elapsed();
    let counters = session.counters();
    assert_eq!(counters.frames_received, 0, "{counters:?}");
    took
}

/// A walk over all open frames would cost a hundred times as much.
#[test]
fn a_fragment_costs_the_same_beside_many_open_frames() {
    let least = |open_frames| (0..5).map(|_| time_beside(open_frames)).min();
    let (beside_few, beside_many) = (least(2).unwrap(), least(15_000).unwrap());
    assert!(
        beside_many < 10 * beside_few,
        "{beside_many:?} instead of {beside_few:?}"
    );
}

/// Returns the time of 200 fragments, each of this place in a frame of its own, of 6 MB.
#[allow(clippy::disallowed_methods, reason = "time is what is measured")]
fn time_at(offset: u32) -> std::time::Duration {
    let mut session = session();
    let began_at = std::time::Instant::now();
    for frame in 0..200 {
        let mut datagram = fragment(frame, frame, offset);
        datagram.extend_from_slice(&[7; 99]);
        let meta = DatagramMeta {
            path: PathId(0),
            received_at: Instant::ZERO,
            ecn: Ecn::NotEct,
        };
        session.handle_datagram(Instant::ZERO, meta, &datagram);
        while session.poll_event().is_some() {}
    }
    began_at.elapsed()
}

/// Zeros before a fragment would cost a hundred times as much.
#[test]
fn a_fragment_far_ahead_in_its_frame_costs_little_more_than_the_first() {
    let least = |offset| (0..5).map(|_| time_at(offset)).min().unwrap();
    let (first, far) = (least(0), least(5_999_800));
    assert!(far < 10 * first, "{far:?} instead of {first:?}");
}

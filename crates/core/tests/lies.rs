//! A peer that acknowledges packets which were never sent, or contradicts itself.

mod support;

use anabranch_core::{
    DatagramMeta, Event, Frame, MediaSession, PathId, PathOptions, StreamSession,
};
use anabranch_units::{Duration, Ecn, Importance, Instant, Seed};

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
    };
    session.send_frame(Instant::ZERO, &frame).unwrap();
}

/// All that `from` has to say until `until` is handed to `to`.
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
fn a_report_of_what_was_never_sent_ends_the_session() {
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
    // What the other's receiver reports is a lie to the first.
    hand_over(&mut of_other, &mut honest, at);
    let events: Vec<Event> = std::iter::from_fn(|| honest.poll_event()).collect();
    assert!(events.contains(&Event::PeerLies), "{events:?}");
    assert!(honest.is_closed());
}

/// A packet of one segment: its kind, offset and payload.
fn segment(packet_number: u32, kind: u8, offset: u32, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0x41];
    datagram.extend_from_slice(&packet_number.to_le_bytes());
    datagram.push(kind);
    datagram.extend_from_slice(&offset.to_le_bytes());
    datagram.extend_from_slice(payload);
    datagram
}

/// The events of a session of messages after these segments.
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
fn a_half_whose_other_half_never_comes_ends_the_session() {
    let (whole, first_half) = (0x10, 0x18);
    let honest = [(first_half, 0, &[1; 1_000][..]), (whole, 2_000, &[2; 9])];
    assert!(!after_segments(honest).contains(&Event::PeerLies));
    let attack = [(first_half, 0, &[1; 1_000][..]), (whole, 1_000, &[2; 9])];
    assert!(after_segments(attack).contains(&Event::PeerLies));
}

#[test]
fn more_gaps_than_a_network_leaves_end_the_session() {
    let with_gaps = |count: u32| (0..count).map(|index| (0x10, 10 + 3 * index, &[3; 2][..]));
    assert!(!after_segments(with_gaps(1_000)).contains(&Event::PeerLies));
    assert!(after_segments(with_gaps(70_000)).contains(&Event::PeerLies));
}

//! A peer that acknowledges what was never sent.

mod support;

use anabranch_core::{DatagramMeta, Event, Frame, MediaSession, PathId, PathOptions};
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

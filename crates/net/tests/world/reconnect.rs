//! Sessions whose receiver leaves and returns.

use std::time::Duration;

use anabranch_net::{Ended, Event, Events, Receptions, Sender};

use super::bed::{Bed, drain, line, millis};

/// Returns the events of a sender that streams for this time.
fn events_for(bed: &Bed, sender: &Sender, events: &Events, span: Duration) -> Vec<Event> {
    bed.send_for(sender, span);
    drain(events)
}

/// Returns the capture times of the frames of the first session.
fn first_captures(sessions: &Receptions) -> Vec<anabranch_units::Instant> {
    let session = sessions.try_recv().expect("a session has begun");
    let captures = drain(session.events())
        .into_iter()
        .filter_map(|event| match event {
            Event::FrameReceived(frame) => Some(frame.captured_at),
            _ => None,
        });
    captures.collect()
}

fn silence_before_reconnection(events: &[Event]) -> Option<anabranch_units::Duration> {
    events.iter().find_map(|event| match event {
        Event::Reconnecting { silent_for } => Some(*silent_for),
        _ => None,
    })
}

#[test]
fn a_restarted_receiver_has_the_next_session_at_once() {
    let bed = Bed::new(1, &[line(10, 10)]);
    let first = bed.receiver();
    let (sender, events) = bed.world.block_on(bed.connect());
    bed.send_for(&sender, millis(300));
    bed.studio.kill();
    let (_second, sessions) = bed.receiver();
    let seen = events_for(&bed, &sender, &events, millis(900));
    // Without the receiver's notice, it takes a second.
    let silent_for = silence_before_reconnection(&seen).expect("it notices");
    assert!(silent_for < millis(400).into(), "{silent_for}");
    assert!(first_captures(&sessions).len() > 20);
    let seen = sender.snapshot();
    assert_eq!(seen.past_sessions, 1);
    assert!(seen.session.frames_sent > 10, "of both sessions: {seen:?}");
    assert_eq!(sender.finish(), Ended::Closed);
    drop(first);
}

#[test]
fn a_receiver_that_leaves_says_so_and_the_next_has_the_stream() {
    let bed = Bed::new(2, &[line(10, 10)]);
    let (first, _sessions) = bed.receiver();
    let (sender, events) = bed.world.block_on(bed.connect());
    bed.send_for(&sender, millis(300));
    drop(first);
    let seen = events_for(&bed, &sender, &events, millis(200));
    assert!(seen.contains(&Event::ReceiverLeft), "{seen:?}");
    assert_eq!(silence_before_reconnection(&seen), None, "{seen:?}");
    assert!(sender.snapshot().peer_left_at.is_some());
    let (_second, sessions) = bed.receiver();
    bed.send_for(&sender, millis(700));
    assert!(!first_captures(&sessions).is_empty());
    let seen = sender.snapshot();
    assert_eq!((seen.past_sessions, seen.peer_left_at), (1, None));
    assert_eq!(sender.finish(), Ended::Closed);
}

#[test]
fn a_receiver_that_left_is_waited_for_as_long_as_asked() {
    let bed = Bed::new(3, &[line(10, 10)]);
    let (receiver, _sessions) = bed.receiver();
    let client = bed.client().give_up_after(millis(700));
    let connected = bed.world.block_on(client.connect_async());
    let (sender, _events) = connected.expect("the studio answers");
    bed.send_for(&sender, millis(300));
    drop(receiver);
    bed.send_for(&sender, millis(1_500));
    let ended = sender.ended().expect("it gives up");
    assert!(matches!(ended, Ended::ReceiverLeft { .. }), "{ended:?}");
}

#[test]
fn a_receiver_that_is_away_for_seconds_is_waited_for() {
    let bed = Bed::new(4, &[line(10, 10)]);
    let _first = bed.receiver();
    let (sender, events) = bed.world.block_on(bed.connect());
    bed.send_for(&sender, millis(300));
    bed.studio.kill();
    let seen = events_for(&bed, &sender, &events, millis(4_000));
    let silent_for = silence_before_reconnection(&seen).expect("it notices");
    assert!(silent_for >= millis(900).into(), "{silent_for}");
    let (_second, sessions) = bed.receiver();
    let back_at = bed.world.now();
    // Challenges leave every 100 ms, and the receiver does not know their session.
    bed.send_for(&sender, millis(500));
    let first = first_captures(&sessions)[0];
    // Frames that can still be in time are not lost with their session.
    assert!(first < back_at, "{first:?} {back_at:?}");
}

#[test]
fn an_outage_alone_leaves_the_session_as_it_is() {
    let bed = Bed::new(5, &[line(10, 10)]);
    let (receiver, sessions) = bed.receiver();
    let (sender, events) = bed.world.block_on(bed.connect());
    bed.send_for(&sender, millis(300));
    bed.studio_line.unplug();
    bed.send_for(&sender, millis(2_000));
    bed.studio_line.plug();
    bed.send_for(&sender, millis(1_000));
    let seen = drain(&events);
    assert!(silence_before_reconnection(&seen).is_some());
    assert!(
        !seen
            .iter()
            .any(|event| matches!(event, Event::Reconnected { .. })),
        "{seen:?}"
    );
    assert_eq!(receiver.snapshots().len(), 1);
    assert_eq!(sender.finish(), Ended::Closed);
    let session = sessions.try_recv().expect("it began");
    bed.world.run_for(millis(100));
    assert_eq!(session.events().ended(), Some(Ended::ClosedByPeer));
}

#[test]
fn a_sender_gives_up_in_time() {
    let bed = Bed::new(6, &[line(10, 10)]);
    let _receiver = bed.receiver();
    let client = bed.client().give_up_after(millis(1_500));
    let connected = bed.world.block_on(client.connect_async());
    let (sender, _events) = connected.expect("the studio answers");
    bed.send_for(&sender, millis(300));
    bed.studio_line.unplug();
    bed.send_for(&sender, millis(1_400));
    assert_eq!(sender.ended(), None);
    bed.send_for(&sender, millis(300));
    let ended = sender.ended().expect("it gives up");
    assert!(matches!(ended, Ended::PeerSilent { .. }), "{ended:?}");
}

#[test]
fn a_sender_whose_place_was_taken_learns_of_it_after_an_absence() {
    let bed = Bed::new(7, &[line(10, 10), line(10, 10)]);
    let (_receiver, sessions) = bed.receiver();
    let first = bed.client_by(&["line0"]).connect_async();
    let (first, _first_events) = bed.world.block_on(first).expect("the studio answers");
    bed.send_for(&first, millis(300));
    let replaced = sessions.try_recv().expect("it began");
    // The first is cut off, and receives nothing more.
    bed.lines[0].unplug();
    let second = bed.client_by(&["line1"]).connect_async();
    let (second, _second_events) = bed.world.block_on(second).expect("the studio answers");
    bed.send_for(&second, millis(300));
    assert_eq!(replaced.events().ended(), Some(Ended::Replaced));
    bed.lines[0].plug();
    bed.send_for(&first, millis(1_000));
    assert_eq!(first.ended(), Some(Ended::Replaced));
    assert_eq!(second.finish(), Ended::Closed);
}

#[test]
fn an_absent_path_is_reported_and_the_others_carry_the_session() {
    let bed = Bed::new(8, &[line(10, 10), line(10, 10)]);
    let (receiver, _sessions) = bed.receiver();
    bed.lines[1].unplug();
    let (sender, events) = bed.client().start().expect("it is waited for");
    bed.world.run_for(millis(500));
    bed.send_for(&sender, millis(1_000));
    let seen = drain(&events);
    assert!(
        seen.iter().any(|event| match event {
            Event::PathAbsent { path, reason } => path.0 == 1 && reason.contains("line1"),
            _ => false,
        }),
        "{seen:?}"
    );
    assert_eq!(receiver.snapshot().session.frames_received, 50);
    bed.lines[1].plug();
    bed.send_for(&sender, millis(2_000));
    assert!(
        drain(&events)
            .iter()
            .any(|event| matches!(event, Event::PathPresent { path } if path.0 == 1))
    );
    assert!(sender.snapshot().paths[1].counters.acked_packets > 0);
    assert_eq!(sender.finish(), Ended::Closed);
}

#[test]
fn a_session_lasts_for_an_hour_without_frames() {
    let bed = Bed::new(9, &[line(10, 10)]);
    let _receiver = bed.receiver();
    let (sender, _events) = bed.world.block_on(bed.connect());
    bed.world.run_for(Duration::from_secs(3_600));
    bed.send_for(&sender, millis(100));
    assert_eq!(sender.snapshot().past_sessions, 0);
    assert_eq!(sender.finish(), Ended::Closed);
}

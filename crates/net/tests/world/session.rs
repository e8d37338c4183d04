//! Whole sessions of frames.

use anabranch_net::{ConnectError, Ended, RefusedSender, SendError, Sender};
use anabranch_units::Importance;

use super::bed::{Bed, line, millis, receive};

/// Streams 250 frames over these lines. Returns the received frames' numbers and the trace's hash.
fn stream(seed: u64, lines: &[anabranch_net::testing::Line]) -> (Vec<u64>, u64) {
    let bed = Bed::new(seed, lines);
    let numbers = bed.carry(250);
    (numbers, bed.world.trace_hash())
}

#[test]
fn frames_arrive_over_two_lossy_lines() {
    let lines = [line(10, 20).with_loss(0.03), line(6, 60).with_loss(0.03)];
    let (numbers, _) = stream(1, &lines);
    assert_eq!(numbers, (0..250).collect::<Vec<_>>());
}

#[test]
fn a_seed_repeats_a_world() {
    let lines = [line(10, 20).with_loss(0.05), line(6, 60).with_loss(0.05)];
    let first = stream(7, &lines);
    assert_eq!(stream(7, &lines), first);
    assert_ne!(stream(8, &lines).1, first.1);
}

#[test]
fn a_finished_sender_runs_the_world_to_its_end() {
    let bed = Bed::new(3, &[line(10, 20)]);
    let (_receiver, sessions) = bed.receiver();
    let (sender, _events) = bed.world.block_on(bed.connect());
    bed.world.block_on(bed.stream(&sender, 0, 10));
    assert_eq!(sender.finish(), Ended::Closed);
    bed.world.run_for(millis(100));
    let session = sessions.try_recv().expect("it came");
    let (numbers, _) = bed.world.block_on(receive(&session));
    assert_eq!(numbers.len(), 10);
}

/// A process that asks for a turn at a time that is over would keep a processor busy. The world
/// ends such a loop.
#[test]
fn a_sender_closes_without_a_busy_loop_although_nobody_answers() {
    let bed = Bed::new(4, &[line(10, 20)]);
    let (_receiver, _sessions) = bed.receiver();
    let (sender, _events) = bed.world.block_on(bed.connect());
    bed.lines[0].unplug();
    bed.world.block_on(bed.stream(&sender, 0, 100));
    let ended = sender.finish();
    assert!(matches!(ended, Ended::PeerSilent { .. }), "{ended:?}");
}

#[test]
fn a_session_that_ends_unheard_has_not_closed() {
    let bed = Bed::new(5, &[line(10, 20)]);
    let (_receiver, _sessions) = bed.receiver();
    let client = bed.client().drain_timeout(millis(400));
    let (sender, _events) = bed
        .world
        .block_on(client.connect_async())
        .expect("an answer");
    bed.send_for(&sender, millis(500));
    bed.lines[0].block_udp(true);
    bed.send_for(&sender, millis(500));
    let ended = sender.finish();
    assert!(matches!(ended, Ended::PeerSilent { .. }), "{ended:?}");
}

#[test]
fn a_stranger_gets_no_answer_and_is_reported() {
    let bed = Bed::new(6, &[line(10, 20)]);
    let (receiver, sessions) = bed.receiver();
    let stranger = bed.world.key("stranger");
    let name = stranger.public_key();
    let client = bed.client().key(stranger).connect_timeout(millis(1_000));
    let (sender, events) = client.start().expect("the set-up works");
    let early = sender.send(vec![1], Importance::Key);
    assert_eq!(early, Err(SendError::NotConnected));
    bed.world.run_for(millis(1_500));
    let ended = events.ended().expect("it gives up");
    assert!(matches!(&ended, Ended::NoAnswer { local_key, .. } if *local_key == name));
    assert!(receiver.snapshot().edge.refused_handshakes >= 1);
    let refused = receiver.take_refused_senders();
    assert!(matches!(refused[..], [RefusedSender::NotAllowed { peer, .. }] if peer == name));
    assert!(sessions.try_recv().is_err());
}

#[test]
fn a_restarted_sender_takes_its_session_over() {
    let bed = Bed::new(7, &[line(10, 20)]);
    let (_receiver, sessions) = bed.receiver();
    let (first, _first_events) = bed.world.block_on(bed.connect());
    bed.send_for(&first, millis(200));
    let replaced = sessions.try_recv().expect("it began");
    bed.camera.kill();
    let (second, _second_events) = bed.world.block_on(bed.connect());
    bed.send_for(&second, millis(200));
    assert_eq!(replaced.events().ended(), Some(Ended::Replaced));
    let session = sessions.try_recv().expect("it began");
    drop(second);
    bed.world.run_for(millis(200));
    assert_eq!(session.events().ended(), Some(Ended::ClosedByPeer));
    drop(first);
}

#[test]
fn a_sender_without_an_answer_gives_up_in_time() {
    let bed = Bed::new(8, &[line(10, 20)]);
    let client = bed.client().connect_timeout(millis(3_000));
    let begun_at = bed.world.now();
    let ended = bed
        .world
        .block_on(client.connect_async())
        .map(|(_, _): (Sender, _)| ());
    let is_silence = matches!(ended, Err(ConnectError::Ended(Ended::NoAnswer { .. })));
    assert!(is_silence, "{ended:?}");
    assert_eq!(bed.world.now() - begun_at, millis(3_000).into());
}

//! Whole sessions of frames.

use anabranch_net::Ended;

use crate::bed::{Bed, line, millis, receive};

/// Streams 250 frames over these lines. Returns the received frames' numbers and the trace's hash.
fn stream(seed: u64, lines: &[anabranch_net::testing::Line]) -> (Vec<u64>, u64) {
    let bed = Bed::new(seed, lines);
    let (_receiver, sessions) = bed.receiver();
    let sending = async {
        let (sender, _events) = bed.connect().await;
        bed.stream(&sender, 0, 250).await;
        sender.finish_async().await
    };
    let receiving = async {
        let session = sessions.recv_async().await.expect("the camera comes");
        receive(&session).await
    };
    let both = async { tokio::join!(sending, receiving) };
    let (ended, (numbers, _)) = bed.world.block_on(both);
    assert_eq!(ended, Ended::Closed);
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
    let session = sessions.recv_timeout(millis(0)).expect("it came");
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

//! Fragments of which several copies are under way.

use super::*;

#[test]
fn the_loss_of_another_copy_counts_after_a_retransmission_was_dropped() {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    let stuck = lose(&mut buffer, (0, 1), A, true, NEVER_LATE);
    assert_eq!(stuck, Verdict::SendCopy);
    let packet = buffer.waiting()[0];
    buffer.retain_waiting(|_| true);
    // It is bound: the loss of the stuck copy asks for no other.
    buffer.on_sent(FrameId(0), 1, B, packet.reason);
    buffer.queue_retransmission(id(0, 1), PathSet::EMPTY, SendReason::LastCall);
    buffer.retain_waiting(|_| true);
    buffer.on_dropped(&packet);
    assert_eq!(
        lose(&mut buffer, (0, 1), A, false, NEVER_LATE),
        Verdict::Settled,
        "a copy is in flight"
    );
    assert_eq!(
        lose(&mut buffer, (0, 1), B, false, NEVER_LATE),
        Verdict::SendCopy
    );
}

#[test]
fn a_retransmission_waits_on_when_a_copy_of_the_scheduler_leaves() {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    lose(&mut buffer, (0, 1), A, false, NEVER_LATE);
    buffer.on_sent(FrameId(0), 1, B, SendReason::Duplicate);
    let verdict = lose(&mut buffer, (0, 1), B, false, NEVER_LATE);
    assert_eq!((verdict, buffer.waiting().len()), (Verdict::Settled, 1));
}

#[test]
fn of_several_copies_that_were_bound_one_comes_back() {
    let mut buffer = buffer_with(&[(0, false)]);
    let packets: Vec<PacketView> = buffer.waiting().to_vec();
    buffer.retain_waiting(|_| true);
    let copy = PacketView {
        reason: SendReason::Duplicate,
        ..packets[0]
    };
    buffer.unbind(copy);
    buffer.unbind(copy);
    assert_eq!(buffer.waiting(), [copy]);
    // Of one that was sent and lost the retransmission waits.
    let copy = PacketView {
        fragment: 1,
        ..copy
    };
    buffer.on_sent(FrameId(0), 1, A, SendReason::New);
    lose(&mut buffer, (0, 1), A, false, NEVER_LATE);
    buffer.unbind(copy);
    // Of one that is in flight nothing comes back until that copy is lost.
    buffer.on_sent(FrameId(0), 2, A, SendReason::New);
    buffer.unbind(PacketView {
        fragment: 2,
        ..copy
    });
    let waiting = buffer.waiting().iter().map(|packet| packet.fragment);
    assert_eq!(waiting.collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn first_copy_sent_is_new_and_others_keep_reasons() {
    let mut buffer = buffer_with(&[(0, false)]);
    let [copy, alone] = [SendReason::Duplicate, SendReason::New].map(|reason| PacketView {
        reason,
        ..buffer.waiting()[0]
    });
    assert_eq!(buffer.reason_of(&copy), SendReason::New);
    buffer.on_sent(FrameId(0), 0, A, SendReason::New);
    for packet in [copy, alone] {
        assert_eq!(buffer.reason_of(&packet), SendReason::Duplicate);
    }
}

#[test]
fn of_two_copies_on_each_of_two_paths_the_first_loss_leaves_one_in_flight() {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    for path in [A, B, B] {
        buffer.on_sent(FrameId(0), 0, path, SendReason::LastTrySamePath);
    }
    for path in [A, B, A] {
        let verdict = lose(&mut buffer, (0, 0), path, false, NEVER_LATE);
        assert_eq!(verdict, Verdict::Settled);
    }
    let last = lose(&mut buffer, (0, 0), B, false, NEVER_LATE);
    assert_eq!(last, Verdict::SendCopy);
}

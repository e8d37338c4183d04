mod copies;
mod dependencies;
mod growing;
mod waits;

use super::*;
use crate::copies::Outlook;
use crate::scheduler::PacketKind;

const NEVER_LATE: Instant = Instant::ZERO;
const A: PathId = PathId(0);
const B: PathId = PathId(1);

fn buffer(has_repairs: bool) -> SendBuffer {
    let deadline = Duration::from_millis(500);
    SendBuffer::new(1000, 60, deadline, has_repairs)
}

pub(super) const fn id(frame: u64, fragment: u16) -> FragmentId {
    FragmentId {
        frame: FrameId(frame),
        fragment,
    }
}

/// Returns prospects without hope for the copies in flight; another copy arrives at `arrives_at`.
fn hopeless(now: Instant, arrives_at: Instant) -> Outlook {
    Outlook {
        now,
        chance: 0.0,
        known_after: Duration::ZERO,
        arrives_after: arrives_at.saturating_since(now),
        delay_margin: Duration::ZERO,
        loss_reported_after: Duration::from_millis(100),
    }
}

/// Reconsiders a fragment, and queues it for a retransmission if the verdict asks for one.
fn reconsider(
    buffer: &mut SendBuffer,
    id: FragmentId,
    reason: SendReason,
    outlook: &Outlook,
) -> Verdict {
    let verdict = buffer.reconsider(id, reason, outlook);
    if verdict == Verdict::SendCopy {
        buffer.queue_retransmission(id, PathSet::only(A), reason);
    }
    verdict
}

/// Loses a copy on `path`, or finds it stuck. Another copy arrives at `arrives_at`. Copies in
/// flight on other paths suffice.
fn lose(
    buffer: &mut SendBuffer,
    (frame, fragment): (u64, u16),
    path: PathId,
    is_stuck: bool,
    arrives_at: Instant,
) -> Verdict {
    let id = id(frame, fragment);
    let reason = if is_stuck {
        SendReason::PathSuspect
    } else {
        buffer.on_lost(id, path);
        SendReason::Lost
    };
    let mut outlook = hopeless(Instant::ZERO, arrives_at);
    if let Some(copies_in_flight) = buffer.copies_in_flight(id) {
        let mut elsewhere = copies_in_flight.in_flight_on;
        if is_stuck {
            elsewhere.remove(path);
        }
        outlook.chance = f64::from(u8::from(!elsewhere.is_empty()));
    }
    reconsider(buffer, id, reason, &outlook)
}

fn buffer_with(frames: &[(u64, bool)]) -> SendBuffer {
    let mut buffer = buffer(false);
    for &(captured_millis, is_key) in frames {
        let captured_at = Instant::from_millis(captured_millis);
        buffer
            .push(&Frame {
                bytes: vec![7; 2500].into(),
                importance: Importance::key_if(is_key),
                captured_at,
                lifetime: None,
            })
            .unwrap();
    }
    buffer
}

/// Returns a buffer with a frame of three fragments of this importance, captured at the origin and
/// all sent.
pub(super) fn buffer_of(importance: Importance) -> SendBuffer {
    let mut buffer = buffer(false);
    push(&mut buffer, 0, importance);
    send_all(&mut buffer);
    buffer
}

fn send_all(buffer: &mut SendBuffer) {
    for packet in buffer.waiting().to_vec() {
        buffer.on_sent(packet.frame, packet.fragment, A, SendReason::New);
    }
    buffer.retain_waiting(|_| true);
}

#[test]
fn a_frame_is_cut_into_fragments() {
    let buffer = buffer_with(&[(0, false)]);
    let sizes: Vec<u32> = buffer.waiting().iter().map(|packet| packet.bytes).collect();
    assert_eq!(sizes, [1060, 1060, 560]);
    let fragment = buffer.fragment(FrameId(0), 2).unwrap();
    let payload_bytes = fragment.payload.len();
    let header = fragment.header;
    let place = (header.offset, header.ends_frame, payload_bytes);
    assert_eq!(place, (2_000, true, 500));
}

#[test]
fn a_frame_lives_no_longer_than_it_asks_for_and_no_longer_than_the_session_permits() {
    let mut buffer = buffer(false);
    let session = buffer.deadline;
    for (index, (own, lifetime)) in [
        (None, session),
        (Some(Duration::from_millis(80)), Duration::from_millis(80)),
        (Some(session * 2), session),
    ]
    .into_iter()
    .enumerate()
    {
        let captured_at = Instant::from_secs(1);
        let frame = Frame {
            lifetime: own,
            ..Frame::new(vec![1], Importance::Reference, captured_at)
        };
        let id = buffer.push(&frame).unwrap();
        assert_eq!(buffer.lifetime_of(id), lifetime);
        assert_eq!(buffer.due_at(id), Some(captured_at + lifetime));
        let packet = buffer.waiting()[index];
        assert_eq!(packet.deadline, Some(captured_at + lifetime));
    }
    let mut late = Vec::new();
    buffer.expire(Instant::from_millis(1_081), |id| late.push(id));
    assert_eq!(late, [FrameId(1)], "not those behind and before it");
}

#[test]
fn a_lost_fragment_is_sent_again_before_sources_and_avoids_its_path() {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    buffer
        .push(&Frame {
            bytes: vec![1].into(),
            importance: Importance::Reference,
            captured_at: Instant::ZERO,
            lifetime: None,
        })
        .unwrap();
    let verdict = lose(&mut buffer, (0, 1), A, false, NEVER_LATE);
    assert_eq!(verdict, Verdict::SendCopy);
    let first = buffer.waiting()[0];
    assert_eq!(
        (first.fragment, first.kind()),
        (1, PacketKind::Retransmission)
    );
    assert!(first.avoid.contains(A) && first.in_flight_on.is_empty());
    let second = lose(&mut buffer, (0, 1), A, false, NEVER_LATE);
    assert_eq!(second, Verdict::Settled, "it waits already");
}

#[test]
fn arq_late_fragments_are_given_up_but_key_frames() {
    let mut buffer = buffer_with(&[(0, false), (0, true)]);
    send_all(&mut buffer);
    let late = Instant::from_millis(501);
    assert_eq!(lose(&mut buffer, (0, 0), A, false, late), Verdict::GiveUp);
    assert_eq!(lose(&mut buffer, (1, 0), A, false, late), Verdict::SendCopy);
}

#[test]
fn arq_a_fragment_is_sent_again_as_often_as_there_is_time() {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    for _ in 0..9 {
        assert_eq!(
            lose(&mut buffer, (0, 0), A, false, NEVER_LATE),
            Verdict::SendCopy
        );
        send_all(&mut buffer);
    }
    let late = Instant::from_millis(501);
    assert_eq!(lose(&mut buffer, (0, 0), A, false, late), Verdict::GiveUp);
}

#[test]
fn a_stuck_copy_is_doubled_once_and_its_loss_then_changes_nothing() {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    assert_eq!(
        lose(&mut buffer, (0, 0), A, true, NEVER_LATE),
        Verdict::SendCopy
    );
    buffer.on_sent(FrameId(0), 0, B, SendReason::New);
    buffer.retain_waiting(|_| true);
    assert_eq!(
        lose(&mut buffer, (0, 0), A, true, NEVER_LATE),
        Verdict::Settled
    );
    assert_eq!(
        lose(&mut buffer, (0, 0), A, false, NEVER_LATE),
        Verdict::Settled
    );
    assert_eq!(
        lose(&mut buffer, (0, 0), B, false, NEVER_LATE),
        Verdict::SendCopy
    );
}

#[test]
fn an_acknowledged_frame_is_forgotten_and_its_late_copies_are_ignored() {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    for fragment in 0..3 {
        assert!(buffer.on_acked(FrameId(0), fragment, A));
    }
    assert!(buffer.is_empty() && !buffer.on_acked(FrameId(0), 0, B));
    assert_eq!(buffer.buffered_bytes, 0);
}

#[test]
fn arq_nothing_older_than_the_deadline_is_kept_but_the_last_key_frame() {
    let mut buffer = buffer_with(&[(0, true), (40, false), (80, true), (120, false)]);
    let mut late = Vec::new();
    buffer.expire(Instant::from_millis(700), |id| late.push(id.0));
    assert_eq!(late, [0, 1, 3]);
    assert!(
        buffer
            .waiting()
            .iter()
            .all(|packet| packet.frame == FrameId(2))
    );
    buffer.expire(Instant::from_secs(6), |id| late.push(id.0));
    assert!(buffer.is_empty() && late.len() == 4);
}

#[test]
fn invalid_frames_are_refused() {
    fn frame(bytes: Vec<u8>) -> Frame {
        Frame {
            bytes: bytes.into(),
            importance: Importance::Reference,
            captured_at: Instant::ZERO,
            lifetime: None,
        }
    }

    let mut buffer = buffer_with(&[]);
    assert_eq!(buffer.push(&frame(Vec::new())), Err(SendFrameError::Empty));
    let huge = vec![0; MAX_FRAME_BYTES + 1];
    assert!(matches!(
        buffer.push(&frame(huge)),
        Err(SendFrameError::TooLarge { .. })
    ));
}

fn only_wait(verdict: Verdict) {
    assert_eq!(verdict, Verdict::Wait);
}

/// Returns a buffer with one frame of three fragments, all sent, and this many repairs for it.
fn protected(repairs: u16) -> SendBuffer {
    let mut buffer = buffer(true);
    push(&mut buffer, 0, Importance::Reference);
    let protection = crate::fec::Protection::of_frame(repairs);
    buffer.protect(FrameId(0), &protection, u16::MAX);
    assert_eq!(buffer.waiting().len(), 3);
    assert_eq!(buffer.take_waiting_repairs().len(), usize::from(repairs));
    for fragment in 0..3 {
        buffer.on_sent(FrameId(0), fragment, A, SendReason::New);
    }
    buffer.retain_waiting(|_| true);
    buffer
}

fn push(buffer: &mut SendBuffer, captured_millis: u64, importance: Importance) {
    let captured_at = Instant::from_millis(captured_millis);
    let frame = Frame {
        bytes: vec![7; 2500].into(),
        importance,
        captured_at,
        lifetime: None,
    };
    buffer.push(&frame).unwrap();
}

#[test]
fn a_frame_is_given_up_once() {
    let mut buffer = buffer_with(&[(0, false)]);
    assert!(buffer.give_up(FrameId(0)));
    assert!(!buffer.give_up(FrameId(0)), "it was before");
    assert!(!buffer.give_up(FrameId(1)), "there is none");
}

#[test]
fn arq_a_lost_fragment_waits_for_the_repairs_that_may_save_it() {
    let mut buffer = protected(1);
    only_wait(lose(
        &mut buffer,
        (0, 1),
        A,
        false,
        Instant::from_millis(100),
    ));
    assert_eq!(buffer.waits_until(), Some(Instant::from_millis(100)));
    assert!(buffer.next_unrepaired(Instant::from_millis(99)).is_none());
    assert!(buffer.waiting().is_empty());
    // The repair is lost too.
    buffer.on_repair_settled(FrameId(0), 0);
    let waited = buffer.next_unrepaired(Instant::from_millis(99)).unwrap();
    assert_eq!(waited, id(0, 1));
    assert!(buffer.next_unrepaired(Instant::from_millis(99)).is_none());
    let outlook = hopeless(Instant::from_millis(99), Instant::from_millis(150));
    let verdict = reconsider(&mut buffer, waited, SendReason::NotRecovered, &outlook);
    assert_eq!(verdict, Verdict::SendCopy);
}

#[test]
fn arq_recovered_fragment_is_not_sent_again() {
    let mut buffer = protected(1);
    only_wait(lose(
        &mut buffer,
        (0, 1),
        A,
        false,
        Instant::from_millis(100),
    ));
    assert!(buffer.on_recovered(1) && !buffer.on_recovered(1));
    assert!(!buffer.on_recovered(3) && !buffer.on_recovered(u64::MAX));
    buffer.on_repair_settled(FrameId(0), 0);
    let waited = buffer.next_unrepaired(Instant::from_millis(200)).unwrap();
    let outlook = hopeless(Instant::from_millis(200), Instant::from_millis(250));
    let verdict = reconsider(&mut buffer, waited, SendReason::NotRecovered, &outlook);
    assert_eq!(verdict, Verdict::Settled);
    buffer.on_acked(FrameId(0), 0, A);
    buffer.on_acked(FrameId(0), 2, A);
    assert!(buffer.is_empty());
}

#[test]
fn arq_a_lost_fragment_does_not_wait_when_that_would_cost_its_last_try() {
    let mut buffer = protected(1);
    let at_the_deadline = Instant::from_millis(500);
    let verdict = lose(&mut buffer, (0, 1), A, false, at_the_deadline);
    assert_eq!(verdict, Verdict::SendCopy);
}

#[test]
fn arq_pending_repairs_keep_a_late_fragment() {
    let too_late = Instant::from_millis(501);
    let mut buffer = protected(1);
    assert_eq!(
        lose(&mut buffer, (0, 1), A, false, too_late),
        Verdict::Settled
    );
    let mut buffer = protected(0);
    assert_eq!(
        lose(&mut buffer, (0, 1), A, false, too_late),
        Verdict::GiveUp
    );
}

#[test]
fn repair_covers_unacknowledged_fragments() {
    let mut buffer = protected(2);
    buffer.on_acked(FrameId(0), 0, A);
    let window = buffer.take_repair(FrameId(0), 0).unwrap();
    assert_eq!((window.first, window.count, window.row), (1, 2, 0));
    let payloads = buffer.symbols(window).map(|symbol| symbol.payload.len());
    assert_eq!(payloads.collect::<Vec<_>>(), [1000, 500]);
    buffer.on_acked(FrameId(0), 2, A);
    let window = buffer.take_repair(FrameId(0), 1).unwrap();
    assert_eq!((window.first, window.count, window.row), (1, 1, 1));
    buffer.on_acked(FrameId(0), 1, A);
    assert_eq!(buffer.take_repair(FrameId(0), 1), None);
}

#[test]
fn a_sliding_window_spans_the_frames_that_are_still_kept() {
    let mut buffer = protected(0);
    for fragment in 0..3 {
        buffer.on_acked(FrameId(0), fragment, A);
    }
    push(&mut buffer, 40, Importance::Reference);
    push(&mut buffer, 80, Importance::Reference);
    let window = crate::fec::SlidingWindow {
        symbols: 8,
        repairs: 2,
    };
    let protection = crate::fec::Protection::of_window(window);
    buffer.protect(FrameId(2), &protection, 1);
    let repair = *buffer.take_waiting_repairs().last().unwrap();
    assert_eq!(repair.kind(), PacketKind::Repair);
    assert_eq!((repair.frame, repair.fragment), (FrameId(2), 0));
    assert_eq!(repair.bytes, 1060);
    let window = buffer.take_repair(FrameId(2), 0).unwrap();
    assert_eq!((window.first, window.count), (3, 6));
}

#[test]
fn a_frame_larger_than_a_window_is_protected_in_blocks() {
    let mut buffer = buffer(true);
    let frame = Frame {
        bytes: vec![7; 300_000].into(),
        importance: Importance::Key,
        captured_at: Instant::ZERO,
        lifetime: None,
    };
    buffer.push(&frame).unwrap();
    buffer.protect(FrameId(0), &crate::fec::Protection::of_frame(6), u16::MAX);
    let windows: Vec<_> = (0..6)
        .map(|index| buffer.take_repair(FrameId(0), index).unwrap())
        .map(|window| (window.first, window.count))
        .collect();
    assert_eq!(windows[..3], [(0, 100), (100, 100), (200, 100)]);
    assert_eq!(windows[3..], windows[..3]);
}

#[test]
fn arq_the_loss_of_one_of_two_copies_on_a_path_changes_nothing() {
    fn lost(buffer: &mut SendBuffer) -> Verdict {
        lose(buffer, (0, 1), B, false, NEVER_LATE)
    }

    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    lose(&mut buffer, (0, 1), A, false, NEVER_LATE);
    for _ in 0..2 {
        buffer.on_sent(FrameId(0), 1, B, SendReason::New);
    }
    assert_eq!(
        (lost(&mut buffer), lost(&mut buffer)),
        (Verdict::Settled, Verdict::SendCopy)
    );
}

fn given_up(buffer: &mut SendBuffer, frame: u64) -> Vec<u64> {
    let mut late = Vec::new();
    buffer.give_up_with_dependents(FrameId(frame), |id| late.push(id.0));
    late
}

#[test]
fn a_frame_is_given_up_with_all_that_need_it_and_wait() {
    let mut buffer = buffer_with(&[
        (0, true),
        (40, false),
        (80, false),
        (120, true),
        (160, false),
    ]);
    assert_eq!(given_up(&mut buffer, 1), [1, 2]);
    assert!(
        !buffer.is_chain_broken(),
        "there is a key frame behind them"
    );
    assert_eq!(given_up(&mut buffer, 3), [3, 4]);
    assert!(buffer.is_chain_broken());
    let waiting: Vec<u64> = buffer.unsent().map(|frame| frame.frame.0).collect();
    assert_eq!(waiting, [0]);
    push(&mut buffer, 200, Importance::Key);
    assert!(!buffer.is_chain_broken());
}

#[test]
fn nothing_needs_a_disposable_frame_or_one_of_a_source_without_key_frames() {
    let mut buffer = buffer_with(&[(0, true)]);
    push(&mut buffer, 40, Importance::Disposable);
    push(&mut buffer, 80, Importance::Reference);
    assert_eq!(given_up(&mut buffer, 1), [1]);
    assert!(!buffer.is_chain_broken());
    let mut packets = buffer_with(&[(0, false), (1, false)]);
    assert_eq!(given_up(&mut packets, 0), [0]);
    assert!(!packets.is_chain_broken());
}

#[test]
fn the_next_key_frame_is_expected_when_the_last_group_would_end_again() {
    let mut buffer = buffer_with(&[(0, true), (40, false)]);
    let at = Instant::from_millis;
    assert!(buffer.group(at(50)).is_none(), "one key frame says nothing");
    push(&mut buffer, 80, Importance::Key);
    let group = buffer.group(at(100)).unwrap();
    assert_eq!(group.next_key_at, at(160));
    assert_eq!(group.key_bytes, group.other_bytes);
    assert!(buffer.group(at(160)).is_none());
}

/// Returns the fragments whose last calls have come.
fn called(buffer: &mut SendBuffer, millis: u64) -> Vec<(u64, u16, bool)> {
    let mut calls = Vec::new();
    buffer.last_calls(Instant::from_millis(millis), &mut calls);
    calls
        .iter()
        .map(|call| {
            let is_copy = call.reason == SendReason::LastTry;
            (call.id.frame.0, call.id.fragment, is_copy)
        })
        .collect()
}

#[test]
fn last_call_precedes_the_deadline_by_its_lead() {
    let mut buffer = buffer_with(&[(0, false), (10, false), (20, false), (30, false)]);
    assert_eq!(buffer.next_last_call(), None, "no path is known");
    buffer.set_last_call_lead(Some(Duration::from_millis(100)));
    send_all(&mut buffer);
    for fragment in 0..3 {
        buffer.on_acked(FrameId(0), fragment, A);
        buffer.on_acked(FrameId(2), fragment, A);
    }
    buffer.on_acked(FrameId(1), 1, A);
    // The deadline is 500 ms after the capture.
    assert_eq!(buffer.next_last_call(), Some(Instant::from_millis(410)));
    assert_eq!(called(&mut buffer, 409), []);
    assert_eq!(called(&mut buffer, 410), [(1, 0, false), (1, 2, false)]);
    assert_eq!(
        called(&mut buffer, 420),
        [],
        "once, and what has arrived has none"
    );
    assert_eq!(buffer.next_last_call(), Some(Instant::from_millis(430)));
    // A retransmission that waits needs no call.
    lose(&mut buffer, (3, 1), A, false, NEVER_LATE);
    assert_eq!(called(&mut buffer, 430), [(3, 0, false), (3, 2, false)]);
    assert_eq!(buffer.next_last_call(), None);
}

#[test]
fn a_copy_is_called_at_its_moment_unless_the_first_has_arrived() {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    for fragment in 0..2 {
        buffer.call_copy(Instant::from_millis(80), id(0, fragment));
    }
    buffer.on_acked(FrameId(0), 0, A);
    assert_eq!(buffer.next_last_call(), Some(Instant::from_millis(80)));
    assert_eq!(called(&mut buffer, 79), []);
    assert_eq!(called(&mut buffer, 80), [(0, 1, true)]);
    assert_eq!(buffer.next_last_call(), None);
}

#[test]
fn a_frame_that_no_other_needs_has_no_last_call() {
    let mut buffer = buffer(false);
    push(&mut buffer, 0, Importance::Disposable);
    buffer.set_last_call_lead(Some(Duration::ZERO));
    send_all(&mut buffer);
    assert_eq!(called(&mut buffer, 500), []);
}

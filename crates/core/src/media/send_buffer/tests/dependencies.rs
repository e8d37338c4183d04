//! Until when frames are worth sending, and which need which.

use super::*;

const fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

#[test]
fn a_frame_expires_at_its_deadline_and_the_last_key_frame_after_five_seconds() {
    fn expires_at(frames: &[(u64, bool)]) -> Option<Instant> {
        buffer_with(frames).expires_at()
    }

    assert_eq!(buffer_with(&[]).expires_at(), None);
    assert_eq!(expires_at(&[(40, false)]), Some(at(540)));
    assert_eq!(expires_at(&[(40, true), (80, false)]), Some(at(5_040)));
    assert_eq!(expires_at(&[(40, true), (80, true)]), Some(at(540)));
}

#[test]
fn a_frame_expires_at_its_moment_and_not_before() {
    let mut buffer = buffer_with(&[(40, false)]);
    let mut late = Vec::new();
    buffer.expire(at(539), |id| late.push(id.0));
    assert_eq!(late, []);
    buffer.expire(at(540), |id| late.push(id.0));
    assert_eq!(late, [0]);
    // One that was sent whole is no frame of which anything did not leave.
    let mut buffer = buffer_with(&[(40, false)]);
    send_all(&mut buffer);
    buffer.expire(at(540), |id| late.push(id.0));
    assert_eq!((late.len(), buffer.is_empty()), (1, true));
}

#[test]
fn any_frame_is_due_at_its_deadline_until_it_is_given_up() {
    let mut buffer = buffer_with(&[(0, true), (40, false)]);
    let due_at = [0, 1, 2].map(|id| buffer.due_at(FrameId(id)));
    assert_eq!(due_at, [Some(at(500)), Some(at(540)), None]);
    buffer.give_up(FrameId(1));
    assert_eq!(buffer.due_at(FrameId(1)), None);
}

#[test]
fn a_packet_of_a_key_frame_has_no_deadline() {
    let buffer = buffer_with(&[(40, true), (80, false)]);
    let waiting = buffer.waiting().iter();
    let deadlines: Vec<_> = waiting.map(|packet| packet.deadline).collect();
    let due_at = Some(at(580));
    assert_eq!(deadlines, [None, None, None, due_at, due_at, due_at]);
}

#[test]
fn packets_of_all_intra_frames_have_deadlines() {
    let buffer = buffer_with(&[(0, true), (40, true), (80, true)]);
    assert_eq!(
        [0, 1, 2].map(|id| {
            let view = buffer.view(FrameId(id), 0, SendReason::Lost, PathSet::EMPTY);
            view.unwrap().deadline
        }),
        [500, 540, 580].map(|ms| Some(at(ms)))
    );
    assert_eq!(buffer.expires_at(), Some(at(500)));
}

#[test]
fn unsent_frames_count_wire_bytes() {
    fn unsent(buffer: &SendBuffer) -> Vec<(u64, Instant, u64, bool)> {
        let unsent = buffer.unsent();
        let texts = unsent.map(|frame| (frame.frame.0, frame.due_at, frame.bytes, frame.is_begun));
        texts.collect::<Vec<_>>()
    }

    let mut buffer = buffer_with(&[(0, true), (40, false)]);
    let whole = 2_500 + 3 * 60;
    let all = [(0, at(500), whole, false), (1, at(540), whole, false)];
    assert_eq!(unsent(&buffer), all);
    buffer.on_sent(FrameId(0), 2, A, SendReason::New);
    assert_eq!(unsent(&buffer)[0], (0, at(500), 2_000 + 2 * 60, true));
    send_all(&mut buffer);
    assert_eq!(unsent(&buffer), []);
}

#[test]
fn structure_needs_frames_of_differing_importance() {
    assert!(!buffer_with(&[(0, false), (40, false)]).has_structure());
    assert!(buffer_with(&[(0, true)]).has_structure());
    let mut buffer = buffer_with(&[(0, false)]);
    push(&mut buffer, 40, Importance::Disposable);
    assert!(buffer.has_structure());
}

#[test]
fn sent_frames_outlive_their_dropped_reference() {
    let mut buffer = buffer_with(&[(0, true), (40, false), (80, false)]);
    for fragment in 0..3 {
        buffer.on_sent(FrameId(1), fragment, A, SendReason::New);
    }
    assert_eq!(given_up(&mut buffer, 0), [0, 2]);
}

#[test]
fn group_counts_reference_bytes_between_key_frames() {
    let mut buffer = buffer_with(&[(100, true), (140, false), (180, false)]);
    push(&mut buffer, 220, Importance::Disposable);
    push(&mut buffer, 260, Importance::Key);
    let group = buffer.group(at(300)).unwrap();
    assert_eq!(group.span, Duration::from_millis(160));
    assert_eq!((group.key_bytes, group.other_bytes), (2_500, 5_000));
    assert_eq!(group.next_key_at, at(420));
    let is_key = [0, 1, 9].map(|id| buffer.is_key(FrameId(id)));
    assert_eq!(is_key, [true, false, false]);
}

#[test]
fn frames_come_at_the_interval_of_the_last_two() {
    let mut buffer = buffer_with(&[(100, true)]);
    assert_eq!(buffer.frame_interval(), Duration::ZERO);
    push(&mut buffer, 140, Importance::Reference);
    assert_eq!(buffer.frame_interval(), Duration::from_millis(40));
    push(&mut buffer, 160, Importance::Reference);
    assert_eq!(buffer.frame_interval(), Duration::from_millis(20));
}

/// A caller that never learns of losses must not fill the memory.
#[test]
fn a_source_is_refused_when_64_mib_wait_and_taken_again_when_some_have_left() {
    let mut buffer = buffer(false);
    let frame = Frame {
        bytes: vec![7; 8 << 20].into(),
        importance: Importance::Reference,
        captured_at: Instant::ZERO,
        lifetime: None,
    };
    buffer.set_fragment_bytes(1_400);
    for _ in 0..9 {
        buffer.push(&frame).unwrap();
    }
    let bytes = 9 * (8 << 20);
    let refused = buffer.push(&frame);
    assert_eq!(refused, Err(SendFrameError::Backlogged { bytes }));
    buffer.expire(at(500), |_| {});
    assert_eq!(buffer.push(&frame), Ok(FrameId(9)));
}

#[test]
fn a_frame_given_up_alone_leaves_those_that_need_it_marked_until_the_next_key_frame() {
    fn undecodable(buffer: &SendBuffer) -> Vec<u64> {
        let unsent = buffer.unsent().filter(|frame| frame.is_undecodable);
        unsent.map(|frame| frame.frame.0).collect::<Vec<_>>()
    }
    let mut buffer = buffer_with(&[(0, true), (40, false), (80, false), (120, true)]);
    buffer.give_up_alone(FrameId(1));
    assert_eq!(undecodable(&buffer), [2]);
    assert!(!buffer.is_chain_broken());
    buffer.give_up_alone(FrameId(3));
    // One that comes later needs it too, and none behind the next key frame does.
    push(&mut buffer, 160, Importance::Reference);
    push(&mut buffer, 200, Importance::Key);
    push(&mut buffer, 240, Importance::Reference);
    assert_eq!(undecodable(&buffer), [2, 4]);
    assert_eq!(buffer.unsent().count(), 5);
}

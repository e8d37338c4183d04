use super::*;

const NEVER_LATE: Instant = Instant::ZERO;
const A: PathId = PathId(0);
const B: PathId = PathId(1);

fn buffer(has_repairs: bool) -> SendBuffer {
    let deadline = Duration::from_millis(500);
    SendBuffer::new(
        1000,
        60,
        deadline,
        RetransmissionCopies::Adaptive,
        has_repairs,
    )
}

/// A copy on `path` is lost, or stuck, and another could be there at this moment.
fn lose(
    buffer: &mut SendBuffer,
    (frame, fragment): (u64, u16),
    path: PathId,
    is_stuck: bool,
    arrives_at: Instant,
) -> Verdict {
    let copy = LostCopy {
        frame: FrameId(frame),
        fragment,
        path,
        is_stuck,
        may_wait: true,
    };
    let retry = Retry {
        now: Instant::ZERO,
        arrives_at,
        told_after: Duration::from_millis(100),
    };
    buffer.on_lost(copy, retry)
}

fn buffer_with(frames: &[(u64, bool)]) -> SendBuffer {
    let mut buffer = buffer(false);
    for &(captured_millis, is_key) in frames {
        let captured_at = Instant::from_millis(captured_millis);
        buffer
            .push(&Frame {
                bytes: &[7; 2500],
                importance: Importance::key_if(is_key),
                captured_at,
            })
            .unwrap();
    }
    buffer
}

fn send_all(buffer: &mut SendBuffer) {
    for packet in buffer.waiting().to_vec() {
        buffer.on_sent(packet.frame, packet.fragment, A);
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
    assert_eq!((fragment.header.fragment_count, payload_bytes), (3, 500));
}

#[test]
fn a_lost_fragment_is_sent_again_before_sources_and_avoids_its_path() {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    buffer
        .push(&Frame {
            bytes: &[1],
            importance: Importance::Reference,
            captured_at: Instant::ZERO,
        })
        .unwrap();
    let verdict = lose(&mut buffer, (0, 1), A, false, NEVER_LATE);
    assert_eq!(verdict, Verdict::SendAgain);
    let first = buffer.waiting()[0];
    assert_eq!(
        (first.fragment, first.kind),
        (1, PacketKind::Retransmission)
    );
    assert!(first.avoid.contains(A) && first.in_flight_on.is_empty());
    let again = lose(&mut buffer, (0, 1), A, false, NEVER_LATE);
    assert_eq!(again, Verdict::Settled, "it waits already");
}

#[test]
fn arq_what_would_come_late_is_given_up_but_not_a_key_frame() {
    let mut buffer = buffer_with(&[(0, false), (0, true)]);
    send_all(&mut buffer);
    let late = Instant::from_millis(501);
    assert_eq!(lose(&mut buffer, (0, 0), A, false, late), Verdict::GiveUp);
    assert_eq!(
        lose(&mut buffer, (1, 0), A, false, late),
        Verdict::SendAgain
    );
}

#[test]
fn arq_a_fragment_is_sent_again_three_times_at_most() {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    for _ in 0..3 {
        assert_eq!(
            lose(&mut buffer, (0, 0), A, false, NEVER_LATE),
            Verdict::SendAgain
        );
        send_all(&mut buffer);
    }
    assert_eq!(
        lose(&mut buffer, (0, 0), A, false, NEVER_LATE),
        Verdict::GiveUp
    );
}

#[test]
fn a_stuck_copy_is_doubled_once_and_its_loss_then_changes_nothing() {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    assert_eq!(
        lose(&mut buffer, (0, 0), A, true, NEVER_LATE),
        Verdict::SendAgain
    );
    buffer.on_sent(FrameId(0), 0, B);
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
        Verdict::SendAgain
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
fn a_callers_mistake_is_told() {
    let mut buffer = buffer_with(&[]);
    let frame = |bytes| Frame {
        bytes,
        importance: Importance::Reference,
        captured_at: Instant::ZERO,
    };
    assert_eq!(buffer.push(&frame(&[])), Err(SendFrameError::Empty));
    let huge = vec![0; MAX_FRAME_BYTES + 1];
    assert!(matches!(
        buffer.push(&frame(&huge)),
        Err(SendFrameError::TooLarge { .. })
    ));
}

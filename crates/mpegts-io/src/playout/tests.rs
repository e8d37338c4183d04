//! Tests of the times at which bytes leave.

use anabranch_core::FrameId;
use anabranch_units::Duration;
use proptest::prelude::*;

use super::super::spread::PIECE_PACKETS;
use super::*;

const PIECE_BYTES: usize = PIECE_PACKETS as usize * PACKET_LEN;
const HOUR: Duration = Duration::from_secs(3_600);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Returns a frame that was captured at `millis` of a clock that is an hour ahead, 10 ms away.
fn frame_at(millis: u64, importance: Importance, bytes: Vec<u8>) -> ReceivedFrame {
    ReceivedFrame {
        id: FrameId(millis),
        importance,
        captured_at: at(millis) + HOUR,
        size_bytes: bytes.len(),
        bytes,
        completed_at: at(0),
        offset: offset(10),
        parted_bytes: 0,
    }
}

/// Returns the clock offset of a sender that is an hour ahead and `delay` ms away.
fn offset(delay: u64) -> ClockOffset {
    ClockOffset::between(at(delay), Instant::ZERO + HOUR)
}

/// Returns frame `id` of 25 a second.
fn frame(id: u64, importance: Importance, size_bytes: usize) -> ReceivedFrame {
    frame_at(40 * id, importance, vec![id as u8; size_bytes])
}

fn fixed(millis: u64) -> Playout {
    let buffer = JitterBuffer::Fixed(Duration::from_millis(millis));
    Playout::new(buffer, true, at(0))
}

/// Takes all bytes in order. Returns when each packet left, in µs, and its first byte.
fn drained(playout: &mut Playout) -> Vec<(u64, u8)> {
    let mut packets = Vec::new();
    while let Some(next_at) = playout.next_at() {
        let piece = playout.pop(next_at).expect("due");
        let left_at = (next_at - Instant::ZERO).as_micros();
        packets.extend(
            piece
                .bytes
                .chunks(PACKET_LEN)
                .map(|packet| (left_at, packet[0])),
        );
    }
    packets
}

fn popped(playout: &mut Playout, now: Instant) -> Option<(u8, usize, bool)> {
    let piece = playout.pop(now)?;
    Some((piece.bytes[0], piece.bytes.len(), piece.begins_key_frame))
}

#[test]
fn packets_leave_the_latency_after_they_came_in() {
    let mut playout = fixed(500);
    // Sound, sound and a picture, handed over after a pause of 2 ms.
    let (sound, picture) = (vec![1; 2 * PACKET_LEN], vec![2; 30 * PACKET_LEN]);
    let arrivals = [
        (2, at(1_000) + HOUR),
        (2, at(1_021) + HOUR),
        (30, at(1_040) + HOUR),
    ];
    let times = ArrivalTimes::new(&arrivals, at(1_042) + HOUR).unwrap();
    let mut bytes = [sound.clone(), sound, picture].concat();
    times.append_to(&mut bytes);
    playout.push(at(1_060), frame_at(1_042, Importance::Key, bytes));
    let packets = drained(&mut playout);
    assert_eq!(packets.len(), 34);
    assert!(packets[..2].iter().all(|packet| *packet == (1_510_000, 1)));
    assert!(packets[2..4].iter().all(|packet| *packet == (1_531_000, 1)));
    assert!(packets[4..].iter().all(|packet| *packet == (1_550_000, 2)));
}

#[test]
fn null_packets_come_out_at_their_times_and_with_min_not_at_all() {
    let null = [&[0x47, 0x1f, 0xff, 0x10][..], &[0xff; 184]].concat();
    let unit = [vec![1; PACKET_LEN], null.repeat(20), vec![2; PACKET_LEN]].concat();
    let arrivals: Vec<_> = (0..22).map(|at_ms| (1, at(1_000 + at_ms) + HOUR)).collect();
    let mut times = Vec::new();
    let arrivals = ArrivalTimes::new(&arrivals, at(1_021) + HOUR).unwrap();
    arrivals.append_to(&mut times);
    let mut bytes = unit.clone();
    assert_eq!(null_packets::append_times(&mut bytes, &times), 20);
    assert!(bytes.len() < 3 * PACKET_LEN);
    let mut playout = fixed(500);
    playout.push(at(1_060), frame_at(1_021, Importance::Key, bytes.clone()));
    let packets = drained(&mut playout);
    let firsts: Vec<u8> = packets.iter().map(|(_, first)| *first).collect();
    assert_eq!(firsts, [vec![1], vec![0x47; 20], vec![2]].concat());
    let span = packets[21].0 - packets[0].0;
    assert!((18_000..=21_000).contains(&span), "{span}");
    assert!(playout.summary().contains("20 null packets"));
    let mut min = Playout::new(JitterBuffer::Off, true, at(0));
    min.push(at(1_060), frame_at(1_021, Importance::Key, bytes));
    let left: Vec<u8> = drained(&mut min).iter().map(|(_, first)| *first).collect();
    assert_eq!(left, [1, 2]);
}

#[test]
fn a_lost_frame_changes_no_other_frames_time() {
    let mut playout = fixed(200);
    playout.push(at(10), frame(0, Importance::Key, 188));
    for id in 1..=8 {
        playout.on_dropped(at(40 * id));
    }
    // None of these can be decoded.
    for id in 9..=12 {
        playout.push(at(40 * id + 20), frame(id, Importance::Reference, 188));
    }
    let left: Vec<_> = drained(&mut playout)
        .iter()
        .map(|(at, _)| at / 1_000)
        .collect();
    assert_eq!(left, [210, 570, 570, 610, 650]);
    assert!(playout.summary().contains("4 undecodable, 8 lost"));
}

/// A restarted receiver gets frames that are older than its clock.
#[test]
fn a_frame_captured_before_the_receivers_clock_began_leaves_at_its_time() {
    let mut playout = fixed(500);
    for id in 0..3 {
        let importance = Importance::key_if(id == 0);
        playout.push(
            at(120),
            ReceivedFrame {
                offset: ClockOffset::between(at(120), at(450) + HOUR),
                ..frame(id, importance, 188)
            },
        );
    }
    let left: Vec<_> = drained(&mut playout)
        .iter()
        .map(|(at, _)| at / 1_000)
        .collect();
    // Bytes of a frame came in since the frame before it.
    assert_eq!(left, [170, 170, 210]);
}

#[test]
fn frames_leave_evenly_that_came_unevenly() {
    let mut playout = fixed(200);
    for (id, came_at) in [(0, 10), (1, 190), (2, 200)] {
        let importance = Importance::key_if(id == 0);
        playout.push(at(came_at), frame(id, importance, 4 * PIECE_BYTES));
    }
    let all = 4 * PIECE_BYTES;
    assert_eq!(popped(&mut playout, at(209)), None);
    assert_eq!(popped(&mut playout, at(210)), Some((0, all, true)));
    for (due_at, id) in [(210, 1), (250, 2)] {
        for quarter in 0..4 {
            let now = at(due_at + 10 * quarter);
            assert_eq!(playout.next_at(), Some(now));
            assert_eq!(popped(&mut playout, now), Some((id, PIECE_BYTES, false)));
        }
    }
    assert_eq!(playout.next_at(), None);
    let summary = playout.summary();
    assert!(summary.starts_with("playout 200 ms"), "{summary}");
    assert!(summary.contains("3 pictures in time, 0 late"), "{summary}");
}

#[test]
fn only_a_pause_that_a_picture_ends_is_a_freeze() {
    let mut playout = fixed(100);
    for id in 0..50 {
        let importance = Importance::key_if(id == 0);
        playout.push(at(40 * id + 10), frame(id, importance, 188));
    }
    // A client that reads the summary ten minutes later reads the same.
    assert!(playout.summary().contains("; 0 freezes"));
    playout.push(at(3_610), frame(90, Importance::Reference, 188));
    assert!(playout.summary().contains("; 1 freezes, 1.64 s"));
}

#[test]
fn bytes_that_come_late_leave_at_once_and_in_order() {
    let mut playout = fixed(100);
    playout.push(at(10), frame(0, Importance::Key, 188));
    assert_eq!(popped(&mut playout, at(110)), Some((0, 188, true)));
    playout.push(at(170), frame(1, Importance::Reference, 2 * PIECE_BYTES));
    let late = Some((1, 2 * PIECE_BYTES, false));
    assert_eq!(popped(&mut playout, at(170)), late);
}

#[test]
fn a_large_frame_leaves_in_steps_of_a_millisecond() {
    let mut playout = fixed(100);
    playout.push(at(10), frame(0, Importance::Key, 188));
    playout.push(at(50), frame(1, Importance::Reference, 2_000 * 188));
    assert_eq!(popped(&mut playout, at(110)), Some((0, 188, true)));
    let mut count = 0;
    while let Some(next_at) = playout.next_at() {
        assert!(next_at <= at(150));
        let (_, bytes, _) = popped(&mut playout, next_at).unwrap();
        assert_eq!(bytes % 188, 0);
        count += 1;
    }
    assert_eq!(count, 40);
}

#[test]
fn frames_that_wait_follow_the_clock() {
    let mut playout = fixed(500);
    let far = frame_at(0, Importance::Key, vec![0; 188]);
    playout.push(
        at(300),
        ReceivedFrame {
            offset: offset(300),
            ..far
        },
    );
    assert_eq!(playout.next_at(), Some(at(800)));
    // A packet of a faster path arrives before the frame leaves.
    playout.push(at(310), frame(1, Importance::Reference, 188));
    assert_eq!(playout.next_at(), Some(at(510)));
}

/// Returns the part of a key frame that begins at byte `begin`.
fn key_part(id: u64, begin: usize, bytes: &[u8]) -> FramePart {
    FramePart {
        id: FrameId(id),
        importance: Importance::Key,
        captured_at: at(0) + HOUR,
        offset: offset(10),
        begin,
        bytes: bytes.to_vec(),
    }
}

/// Returns a whole key frame, of which 1,000 bytes came in parts.
fn parted_frame(id: u64, whole: &[u8]) -> ReceivedFrame {
    ReceivedFrame {
        id: FrameId(id),
        parted_bytes: 1_000,
        ..frame_at(0, Importance::Key, whole.to_vec())
    }
}

#[test]
fn parts_leave_at_once_and_the_rest_with_their_frame() {
    let mut playout = Playout::new(JitterBuffer::Off, true, at(0));
    playout.push_part(key_part(0, 0, &[5; 400]));
    assert_eq!(popped(&mut playout, at(1)), Some((5, 376, true)));
    playout.push_part(key_part(0, 400, &[5; 400]));
    assert_eq!(popped(&mut playout, at(2)), Some((5, 376, false)));
    let mut bytes = vec![5; 6 * PACKET_LEN];
    let times = ArrivalTimes::new(&[(6, at(0) + HOUR)], at(2) + HOUR);
    times.unwrap().append_to(&mut bytes);
    let whole = frame_at(0, Importance::Key, bytes);
    playout.push(
        at(3),
        ReceivedFrame {
            parted_bytes: 800,
            ..whole
        },
    );
    assert_eq!(
        popped(&mut playout, at(3)),
        Some((5, 2 * PACKET_LEN, false))
    );
    // A frame that is dropped after a part leaves whole packets behind.
    playout.push_part(key_part(0, 0, &[5; 200]));
    playout.on_dropped(at(4));
    playout.push(at(5), frame(1, Importance::Reference, 188));
    assert_eq!(popped(&mut playout, at(5)), Some((5, 188, true)));
    assert_eq!(popped(&mut playout, at(5)), Some((1, 188, false)));
    assert_eq!(playout.next_at(), None);
}

#[test]
fn bytes_behind_a_part_that_was_lost_leave_once_with_their_frame() {
    let whole: Vec<u8> = (0..8 * PACKET_LEN).map(|at| at as u8).collect();
    let mut playout = Playout::new(JitterBuffer::Off, true, at(0));
    let mut left = Vec::new();
    playout.push_part(key_part(0, 0, &whole[..400]));
    playout.push_part(key_part(0, 700, &whole[700..1_000]));
    playout.push(at(3), parted_frame(0, &whole));
    // Of the next frame the first part is lost, and of the one after it the whole.
    playout.push_part(key_part(1, 400, &whole[400..1_000]));
    playout.push(at(4), parted_frame(1, &whole));
    playout.push_part(key_part(2, 0, &whole[..400]));
    playout.push_part(key_part(3, 400, &whole[400..1_000]));
    playout.push(at(5), parted_frame(3, &whole));
    while let Some(piece) = playout.pop(at(5)) {
        left.extend(piece.bytes);
    }
    let expected = [&whole[..], &whole, &whole[..2 * PACKET_LEN], &whole];
    assert!(left == expected.concat(), "{} B", left.len());
}

#[test]
fn memory_is_bounded_and_overflow_reported_once() {
    let buffer = JitterBuffer::Fixed(Duration::from_secs(60));
    let mut playout = Playout::new(buffer, false, at(0));
    let (mut sent, mut written) = (0, 0);
    for id in 0..1_000 {
        let frame = frame(id, Importance::Key, 1 << 20);
        sent += frame.bytes.len();
        playout.push(at(40 * id), frame);
        while let Some(piece) = playout.pop(at(40 * id)) {
            written += piece.bytes.len();
        }
        assert!(sent - written <= MAX_WAITING_BYTES / 2, "{id}");
    }
    assert!(playout.next_at() > Some(at(40_000)), "the rest has time");
    assert!(
        playout
            .overflow()
            .is_some_and(|message| message.contains("256 MiB"))
    );
    assert_eq!(playout.overflow(), None);
}

#[test]
fn many_senders_share_a_total_and_give_it_back() {
    let memory = SharedMemory::new(MAX_WAITING_BYTES);
    let buffer = JitterBuffer::Fixed(Duration::from_secs(60));
    let mut playouts: Vec<_> = (0..8)
        .map(|_| Playout::within(memory.share(), buffer, false, at(0)))
        .collect();
    let mut waiting = [0_usize; 8];
    for id in 0..150 {
        for (playout, waiting) in playouts.iter_mut().zip(&mut waiting) {
            playout.push(at(40 * id), frame(id, Importance::Key, 1 << 20));
            *waiting += 1 << 20;
            while let Some(piece) = playout.pop(at(40 * id)) {
                *waiting -= piece.bytes.len();
            }
        }
        let all: usize = waiting.iter().sum();
        assert!(all <= MAX_WAITING_BYTES + (1 << 20), "{id}: {all}");
    }
    let least = waiting.iter().min().unwrap();
    assert!(*least >= (MAX_WAITING_BYTES / 9) - (2 << 20), "{waiting:?}");
    drop(playouts);
    assert_eq!(memory.held_bytes(), 0);
}

#[test]
fn without_a_buffer_frames_are_due_as_they_come() {
    let mut playout = Playout::new(JitterBuffer::Off, true, at(0));
    playout.push(at(70), frame(0, Importance::Key, 5_000));
    assert_eq!(popped(&mut playout, at(70)), Some((0, 5_000, true)));
}

proptest! {
    #[test]
    fn all_bytes_leave_in_order_whatever_was_lost(
        frames in prop::collection::vec((0_u64..80, 1_usize..40, any::<bool>()), 1..60),
    ) {
        let mut playout = fixed(300);
        let (mut now, mut sent) = (0, Vec::new());
        for (number, (gap, packets, is_lost)) in frames.into_iter().enumerate() {
            now += gap;
            if is_lost {
                playout.on_dropped(at(now + 10));
                continue;
            }
            let bytes = vec![number as u8; packets * PACKET_LEN];
            sent.extend(core::iter::repeat_n(number as u8, packets));
            playout.push(at(now + 10), frame_at(now, Importance::Reference, bytes));
        }
        let left = drained(&mut playout);
        prop_assert!(left.is_sorted_by_key(|(at, _)| *at));
        prop_assert_eq!(left.iter().map(|(_, byte)| *byte).collect::<Vec<_>>(), sent);
    }
}

use anabranch_units::SharedMemory;

use super::*;

const WAIT: Duration = Duration::from_millis(500);

fn new(keeps_bytes: bool, hand_out: HandOut, memory: SharedMemory) -> Reassembly {
    let media = MediaConfig {
        reassembly_wait: WAIT,
        hand_out,
        memory,
        ..MediaConfig::default()
    };
    Reassembly::new(&media, keeps_bytes)
}

struct Bed {
    reassembly: Reassembly,
    out: Vec<Outcome>,
}

impl Bed {
    fn new() -> Self {
        Bed {
            reassembly: new(true, HandOut::InOrder, SharedMemory::default()),
            out: Vec::new(),
        }
    }

    fn insert(&mut self, millis: u64, frame: u64, fragment: u16, of: u16, is_key: bool) -> Taken {
        let header = FragmentHeader {
            frame: FrameId(frame),
            offset: 100 * u32::from(fragment),
            ends_frame: fragment + 1 == of,
            importance: Importance::key_if(is_key),
        };
        let length = if fragment + 1 == of { 40 } else { 100 };
        let payload = vec![fragment as u8; length];
        let now = Instant::from_millis(millis);
        self.reassembly
            .insert(now, header, now, &payload, &mut self.out)
    }

    fn deliver(&mut self, millis: u64) {
        self.reassembly
            .deliver(Instant::from_millis(millis), &mut self.out);
    }

    /// Returns "3" for a whole frame, "3i" for an incomplete and "3m" for a missing one.
    fn outcomes(&mut self) -> String {
        let texts = self.out.drain(..).map(|outcome| match outcome {
            Outcome::Part(part) => format!(
                "{}p{}-{}",
                part.id,
                part.begin,
                part.begin + part.bytes.len()
            ),
            Outcome::Whole(frame) => frame.id.to_string(),
            Outcome::Dropped(id, DropReason::Missing) => format!("{id}m"),
            Outcome::Dropped(id, _) => format!("{id}i"),
        });
        texts.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn without_an_order_frames_leave_once_they_are_whole_and_gaps_are_settled_in_time() {
    let mut bed = Bed::new();
    bed.reassembly = new(true, HandOut::WhenWhole, SharedMemory::default());
    bed.insert(10, 0, 0, 2, true);
    bed.insert(10, 2, 0, 1, false);
    bed.insert(20, 4, 0, 1, true);
    assert_eq!(bed.outcomes(), "2 4");
    assert_eq!(bed.insert(21, 2, 0, 1, false), Taken::Duplicate);
    assert_eq!(bed.reassembly.first_unsettled(), FrameId(0));
    bed.insert(30, 0, 1, 2, true);
    assert_eq!(bed.outcomes(), "0");
    assert_eq!(bed.reassembly.first_unsettled(), FrameId(1));
    let expires_at = Instant::from_millis(510);
    assert_eq!(bed.reassembly.expires_at(), Some(expires_at));
    bed.deliver(510);
    assert_eq!(bed.outcomes(), "1m");
    assert_eq!(bed.insert(511, 1, 0, 1, false), Taken::Late);
    bed.insert(512, 3, 0, 1, false);
    assert_eq!(bed.outcomes(), "3");
    assert_eq!(bed.reassembly.first_unsettled(), FrameId(5));
    assert_eq!(bed.insert(513, 4, 0, 1, true), Taken::Duplicate);
    let mut checker = crate::invariants::Checker::default();
    bed.reassembly.check(&mut checker);
    assert!(checker.violations.is_empty());
}

#[test]
fn parts_leave_in_order_as_soon_as_nothing_is_missing_before_them() {
    let mut bed = Bed::new();
    bed.reassembly = new(true, HandOut::PartsInOrder, SharedMemory::default());
    bed.insert(1, 0, 1, 4, true);
    assert_eq!(bed.outcomes(), "");
    bed.insert(2, 0, 0, 4, true);
    assert_eq!(bed.outcomes(), "0p0-200");
    // The next frame's bytes wait for this one, and leave with it.
    bed.insert(3, 1, 0, 3, false);
    bed.insert(4, 0, 2, 4, true);
    assert_eq!(bed.outcomes(), "0p200-300");
    bed.insert(5, 0, 3, 4, true);
    let Outcome::Whole(whole) = &bed.out[0] else {
        panic!("{:?}", bed.out)
    };
    assert_eq!((whole.bytes.len(), whole.parted_bytes), (340, 300));
    assert_eq!(bed.outcomes(), "0 1p0-100");
    bed.deliver(505);
    assert_eq!(bed.outcomes(), "1i");
}

#[test]
fn fragments_in_any_order_give_the_same_bytes() {
    let expected: Vec<u8> = [vec![0; 100], vec![1; 100], vec![2; 40]].concat();
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let mut bed = Bed::new();
        for fragment in order {
            assert_eq!(bed.insert(1, 0, fragment, 3, true), Taken::New);
        }
        let Some(Outcome::Whole(frame)) = bed.out.pop() else {
            panic!("not whole: {order:?}")
        };
        assert_eq!(frame.bytes, expected, "{order:?}");
        assert_eq!(frame.size_bytes, expected.len(), "{order:?}");
    }
}

#[test]
fn without_their_bytes_frames_are_the_same() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let whole = [true, false].map(|keeps_bytes| {
            let mut bed = Bed::new();
            bed.reassembly = new(keeps_bytes, HandOut::InOrder, SharedMemory::default());
            for fragment in order {
                assert_eq!(bed.insert(1, 0, fragment, 3, true), Taken::New);
            }
            assert_eq!(bed.reassembly.peak().bytes, 240);
            match bed.out.pop() {
                Some(Outcome::Whole(frame)) => frame,
                other => panic!("not whole: {other:?}"),
            }
        });
        let [with, without] = whole;
        assert!(without.bytes.is_empty());
        let bytes = with.bytes.clone();
        assert_eq!(ReceivedFrame { bytes, ..without }, with);
    }
}

#[test]
fn a_later_frame_waits_for_its_predecessors_or_their_expiry() {
    let mut bed = Bed::new();
    bed.insert(0, 0, 0, 2, false);
    bed.insert(10, 2, 0, 1, false);
    bed.deliver(499);
    assert_eq!(bed.outcomes(), "");
    bed.deliver(500);
    assert_eq!(bed.outcomes(), "0i", "frame 1 was noticed missing at 10 ms");
    bed.deliver(510);
    assert_eq!(bed.outcomes(), "1m 2");
}

#[test]
fn a_key_frame_is_waited_for_until_the_next_one_is_whole() {
    let mut bed = Bed::new();
    bed.insert(0, 0, 0, 2, true);
    bed.insert(40, 1, 0, 2, false);
    bed.deliver(10_000);
    assert_eq!(
        (bed.outcomes().as_str(), bed.reassembly.expires_at()),
        ("", None)
    );
    bed.insert(10_000, 2, 0, 1, true);
    assert_eq!(bed.outcomes(), "0i 1i 2");
}

#[test]
fn where_every_frame_is_a_key_frame_each_has_its_own_time() {
    let mut bed = Bed::new();
    for frame in 0..10 {
        bed.insert(40 * frame, frame, 0, 2, true);
        if frame != 2 {
            bed.insert(40 * frame, frame, 1, 2, true);
        }
    }
    assert_eq!(bed.outcomes(), "0 1");
    bed.deliver(579);
    assert_eq!(bed.outcomes(), "", "frame 2 can still come");
    bed.insert(579, 2, 1, 2, true);
    assert_eq!(bed.outcomes(), "2 3 4 5 6 7 8 9");
    bed.insert(600, 10, 0, 2, true);
    bed.insert(640, 11, 0, 1, true);
    bed.deliver(1_100);
    assert_eq!(bed.outcomes(), "10i 11");
}

#[test]
fn a_key_frame_makes_no_other_frame_late() {
    let mut bed = Bed::new();
    bed.insert(0, 0, 0, 2, true);
    bed.insert(40, 1, 0, 1, false);
    bed.deliver(539);
    assert_eq!(bed.outcomes(), "");
    bed.deliver(540);
    assert_eq!(bed.outcomes(), "0i 1");
}

#[test]
fn a_frame_that_began_late_has_no_more_time_than_others() {
    let mut bed = Bed::new();
    bed.insert(0, 0, 0, 1, false);
    // Captured at 40 ms; the fragment that has arrived waited 400 ms at the sender.
    let header = FragmentHeader {
        frame: FrameId(1),
        offset: 0,
        ends_frame: false,
        importance: Importance::Reference,
    };
    let (now, captured_at) = (Instant::from_millis(440), Instant::from_millis(40));
    let reassembly = &mut bed.reassembly;
    reassembly.insert(now, header, captured_at, &[0; 100], &mut bed.out);
    assert_eq!(reassembly.expires_at(), Some(Instant::from_millis(540)));
    // One of which nothing came is over with the one behind it.
    bed.insert(500, 3, 0, 1, false);
    bed.deliver(540);
    assert_eq!(bed.outcomes(), "0 1i");
    assert_eq!(
        bed.reassembly.expires_at(),
        Some(Instant::from_millis(1_000))
    );
}

#[test]
fn abandoned_frames_block_nothing() {
    let mut bed = Bed::new();
    bed.insert(0, 0, 0, 2, true);
    bed.insert(40, 2, 0, 1, false);
    let now = Instant::from_millis(50);
    bed.reassembly.give_up(now, 0..2, &mut bed.out);
    assert_eq!(bed.outcomes(), "0i 1m 2");
    bed.reassembly.give_up(now, 2..5, &mut bed.out);
    assert_eq!(bed.outcomes(), "3m 4m");
    assert_eq!(bed.insert(60, 3, 0, 1, false), Taken::Late);
    bed.reassembly.give_up(now, 5..u64::MAX, &mut bed.out);
    bed.insert(60, 5, 0, 1, false);
    assert_eq!(bed.outcomes(), "5", "a range that cannot be is ignored");
    assert_eq!(bed.reassembly.open_bytes, 0);
}

#[test]
fn late_double_and_contradictory_fragments_change_nothing() {
    let mut bed = Bed::new();
    bed.insert(0, 0, 0, 1, false);
    assert_eq!(bed.insert(1, 0, 0, 1, false), Taken::Duplicate);
    bed.insert(2, 1, 0, 3, false);
    assert_eq!(bed.insert(3, 1, 0, 3, false), Taken::Duplicate);
    assert_eq!(bed.insert(3, 1, 1, 3, true), Taken::Contradictory);
    assert_eq!(bed.insert(3, 1, 2, 3, false), Taken::New);
    assert_eq!(bed.insert(3, 1, 3, 5, false), Taken::Contradictory);
    assert_eq!(bed.outcomes(), "0");
}

#[test]
fn copies_are_duplicate_if_delivered_else_late() {
    let mut bed = Bed::new();
    bed.insert(0, 0, 0, 2, false);
    bed.insert(0, 1, 0, 1, false);
    bed.insert(600, 2, 0, 1, false);
    assert_eq!(bed.insert(601, 0, 1, 2, false), Taken::Late);
    for frame in 2..66 {
        assert_eq!(bed.insert(601, 1, 0, 1, false), Taken::Duplicate);
        bed.insert(601, frame, 0, 1, false);
    }
    assert_eq!(
        bed.insert(602, 1, 0, 1, false),
        Taken::Late,
        "64 frames ago"
    );
    // A sender that skips more frames than may be open: not one of them was whole.
    bed.insert(603, 5_000, 0, 1, false);
    bed.insert(1_200, 5_001, 0, 1, false);
    assert_eq!(bed.insert(1_201, 4_000, 0, 1, false), Taken::Late);
    assert_eq!(bed.insert(1_201, 5_000, 0, 1, false), Taken::Duplicate);
}

#[test]
fn sessions_share_a_total_whichever_holds_it() {
    let memory = SharedMemory::new(1 << 20);
    let mut beds: Vec<Bed> = (0..40)
        .map(|_| {
            let mut bed = Bed::new();
            bed.reassembly = new(true, HandOut::InOrder, memory.clone());
            bed
        })
        .collect();
    for frame in 0..100 {
        for (place, bed) in beds.iter_mut().enumerate() {
            // The first ones keep their frames, and the others go on.
            if frame < 20 || place >= 10 {
                for fragment in 0..30 {
                    bed.insert(frame, frame, fragment, 31, true);
                    assert!(memory.held_bytes() <= (1 << 20) + 2_000);
                }
            }
        }
    }
    let held = beds.iter().map(|bed| bed.reassembly.taken_bytes());
    assert_eq!(held.sum::<usize>(), memory.held_bytes());
    for bed in &mut beds {
        bed.reassembly.finish(&mut bed.out);
    }
    assert_eq!(memory.held_bytes(), 0);
}

#[test]
fn memory_is_bounded_when_frames_never_complete() {
    let mut bed = Bed::new();
    for frame in 0..20_000 {
        bed.insert(0, frame, 0, 2, true);
    }
    assert_eq!(bed.reassembly.slots.len(), MAX_OPEN_FRAMES);
    assert_eq!(
        bed.insert(0, 1 << 40, 0, 1, false),
        Taken::New,
        "a leap is survived"
    );
    assert!(bed.reassembly.slots.len() <= MAX_OPEN_FRAMES);
    assert!(bed.reassembly.open_bytes <= MAX_HELD_BYTES);
}

#[test]
fn memory_is_bounded_behind_a_key_frame_that_never_completes() {
    let mut bed = Bed::new();
    bed.insert(0, 0, 0, 2, true);
    let payload = vec![0; 4 << 20];
    let mut handed_out = 0;
    for frame in 1..=60 {
        let header = FragmentHeader {
            frame: FrameId(frame),
            offset: 0,
            ends_frame: true,
            importance: Importance::Reference,
        };
        let now = Instant::from_millis(frame);
        let out = &mut bed.out;
        let taken = bed.reassembly.insert(now, header, now, &payload, out);
        assert_eq!(taken, Taken::New);
        let held = bed.reassembly.open_bytes + bed.reassembly.whole_bytes;
        assert!(held <= MAX_HELD_BYTES, "{held}");
        handed_out += out.drain(..).count();
        assert_eq!(handed_out > 0, frame > 15, "nothing goes before it has to");
    }
    assert_eq!(
        handed_out, 61,
        "the key frame is given up, and nothing else"
    );
}

impl Bed {
    /// Inserts a fragment of the first frame, with this many bytes from `offset` on.
    fn insert_range(&mut self, offset: usize, length: usize, ends_frame: bool) -> Taken {
        let header = FragmentHeader {
            frame: FrameId(0),
            offset: offset as u32,
            ends_frame,
            importance: Importance::Key,
        };
        let payload: Vec<u8> = (offset..offset + length).map(|at| at as u8).collect();
        let (now, out) = (Instant::ZERO, &mut self.out);
        self.reassembly.insert(now, header, now, &payload, out)
    }
}

#[test]
fn a_frame_larger_than_any_sender_s_is_contradictory() {
    let mut bed = Bed::new();
    let most = MAX_FRAME_BYTES - 1_000;
    assert_eq!(bed.insert_range(most, 1_001, false), Taken::Contradictory);
    assert_eq!(bed.insert_range(most, 1_000, false), Taken::New);
}

#[test]
fn ranges_that_overlap_make_the_frame_whatever_their_cuts() {
    let mut bed = Bed::new();
    assert_eq!(bed.insert_range(10, 10, false), Taken::New);
    assert_eq!(bed.insert_range(12, 5, false), Taken::Duplicate);
    assert_eq!(bed.insert_range(5, 20, true), Taken::New);
    assert_eq!(bed.insert_range(20, 5, true), Taken::Duplicate);
    assert_eq!(bed.insert_range(0, 15, false), Taken::New);
    let Some(Outcome::Whole(frame)) = bed.out.pop() else {
        panic!("not whole")
    };
    assert_eq!(frame.bytes, (0..25).collect::<Vec<u8>>());
}

#[test]
fn an_end_without_bytes_ends_the_frame_before_it() {
    for end_comes_first in [false, true] {
        let mut bed = Bed::new();
        if end_comes_first {
            assert_eq!(bed.insert_range(30, 0, true), Taken::New);
        }
        assert_eq!(bed.insert_range(0, 30, false), Taken::New);
        if !end_comes_first {
            assert_eq!(bed.insert_range(30, 0, true), Taken::New);
        }
        assert_eq!(bed.outcomes(), "0");
    }
}

#[test]
fn a_known_end_is_not_contradicted() {
    let mut bed = Bed::new();
    assert_eq!(bed.insert_range(10, 10, true), Taken::New);
    for (offset, length, ends) in [(20, 1, false), (15, 6, false), (20, 0, false), (5, 5, true)] {
        let taken = bed.insert_range(offset, length, ends);
        let expected = match (offset, length) {
            (20, 0) => Taken::Duplicate,
            _ => Taken::Contradictory,
        };
        assert_eq!(taken, expected, "{length} from {offset}");
    }
    assert_eq!(bed.insert_range(0, 10, false), Taken::New);
    assert_eq!(bed.outcomes(), "0");
    let mut bed = Bed::new();
    assert_eq!(bed.insert_range(10, 10, false), Taken::New);
    assert_eq!(bed.insert_range(0, 15, true), Taken::Contradictory);
}

#[test]
fn single_bytes_of_one_frame_take_bounded_memory() {
    let mut bed = Bed::new();
    for at in 0..100_000 {
        bed.insert_range(64 * at + 1, 1, false);
        let taken_bytes = bed.reassembly.taken_bytes();
        assert!(taken_bytes < 700 << 10, "{taken_bytes}");
    }
    let mut checker = crate::invariants::Checker::default();
    bed.reassembly.check(&mut checker);
    assert!(checker.violations.is_empty());
}

#[test]
fn a_frame_is_incomplete_from_its_first_fragment_to_its_last() {
    let mut bed = Bed::new();
    let mut states = vec![bed.reassembly.has_incomplete()];
    for fragment in 0..3 {
        bed.insert(0, 0, fragment, 3, false);
        states.push(bed.reassembly.has_incomplete());
    }
    assert_eq!(states, [false, true, true, false]);
}

#[test]
fn a_missing_frame_is_given_up_when_one_behind_it_of_which_anything_came_is_due() {
    let mut bed = Bed::new();
    bed.insert(300, 0, 0, 1, false);
    // It waited for 30 ms at the sender.
    let header = FragmentHeader {
        frame: FrameId(2),
        offset: 0,
        ends_frame: false,
        importance: Importance::Reference,
    };
    let (now, captured_at) = (Instant::from_millis(350), Instant::from_millis(320));
    let Bed { reassembly, out } = &mut bed;
    reassembly.insert(now, header, captured_at, &[0; 100], out);
    assert_eq!(reassembly.expires_at(), Some(captured_at + WAIT));
    // The first of those behind it counts.
    bed.insert(360, 3, 0, 1, false);
    assert_eq!(bed.reassembly.expires_at(), Some(captured_at + WAIT));
}

#[test]
fn as_many_frames_are_given_up_at_once_as_may_be_open() {
    let most = MAX_OPEN_FRAMES as u64;
    for (count, given_up) in [(most, MAX_OPEN_FRAMES), (most + 1, 0)] {
        let mut bed = Bed::new();
        bed.reassembly
            .give_up(Instant::ZERO, 0..count, &mut bed.out);
        assert_eq!(bed.out.len(), given_up);
    }
}

#[test]
fn session_end_delivers_whole_frames() {
    let mut bed = Bed::new();
    bed.insert(0, 0, 0, 2, true);
    bed.insert(10, 1, 0, 1, false);
    bed.insert(10, 3, 0, 1, false);
    bed.reassembly.finish(&mut bed.out);
    assert_eq!(bed.outcomes(), "0i 1 2m 3");
    assert_eq!(bed.reassembly.expires_at(), None);
}

/// Datagrams of 200 Mbit/s, every other by a path that is 100 ms longer.
#[test]
fn paths_of_unequal_delay_lose_no_small_frames() {
    let mut bed = Bed::new();
    let frames_per_ms = 18;
    let count = 500 * frames_per_ms;
    let mut arrivals: Vec<(u64, u64)> = (0..count)
        .map(|frame| (frame / frames_per_ms + frame % 2 * 100, frame))
        .collect();
    arrivals.sort_unstable();
    for (millis, frame) in arrivals {
        let header = FragmentHeader {
            frame: FrameId(frame),
            offset: 0,
            ends_frame: true,
            importance: Importance::Reference,
        };
        let captured_at = Instant::from_millis(frame / frames_per_ms);
        let now = Instant::from_millis(millis);
        let payload = [0; 1_380];
        let taken = bed
            .reassembly
            .insert(now, header, captured_at, &payload, &mut bed.out);
        assert_eq!(taken, Taken::New, "{frame}");
    }
    assert!(bed.reassembly.peak().frames > 1_700);
    for (expected, outcome) in (0..).zip(&bed.out) {
        let is_next = matches!(outcome, Outcome::Whole(frame) if frame.id == FrameId(expected));
        assert!(is_next, "{expected}");
    }
    assert_eq!(bed.out.len() as u64, count);
}

/// One byte behind a gap that is filled with zeros costs as much as these.
#[test]
fn bytes_behind_gaps_hold_no_more_than_is_allowed() {
    let mut bed = Bed::new();
    for frame in 0..2_000 {
        let header = FragmentHeader {
            frame: FrameId(frame),
            offset: 64 << 10,
            ends_frame: false,
            importance: Importance::Reference,
        };
        let (now, out) = (Instant::ZERO, &mut bed.out);
        bed.reassembly.insert(now, header, now, &[1], out);
        let placed = bed.reassembly.slots.iter().map(|slot| match slot {
            Slot::Open(frame) => frame.bytes.placed().len(),
            _ => 0,
        });
        assert!(placed.sum::<usize>() <= MAX_HELD_BYTES, "{frame}");
    }
    assert!(bed.reassembly.slots.len() > 500);
}

use super::*;

/// A sender and a receiver, whose frames arrive as a test says.
#[derive(Default)]
struct Bed {
    numbering: Numbering,
    next: u64,
    order: Order,
    settled: u64,
    now: Instant,
    out: Vec<Bytes>,
}

const SESSION_DEADLINE: Duration = Duration::from_millis(200);
const HASTY: Duration = Duration::from_millis(80);

impl Bed {
    /// Sends a datagram of one byte and returns its frame on the way.
    fn send(&mut self, group: Option<u16>, lifetime: Option<Duration>, byte: u8) -> Arrival {
        let options = DatagramOptions { group, lifetime };
        let bytes = self.numbering.write(options, SESSION_DEADLINE, &[byte]);
        let frame = FrameId(self.next);
        self.numbering.on_sent(options, frame);
        self.next += 1;
        let sent_at = self.now;
        Arrival {
            frame,
            sent_at,
            bytes,
        }
    }

    /// Sends datagrams of these groups without lifetimes of their own; each contains its index.
    fn send_all(&mut self, groups: &[Option<u16>]) -> Vec<Option<Arrival>> {
        let indexed = groups.iter().enumerate();
        let sent = indexed.map(|(index, group)| Some(self.send(*group, None, index as u8)));
        sent.collect()
    }

    fn arrive(&mut self, arrival: Arrival) -> Vec<u8> {
        let settled = FrameId(self.settled);
        self.order.insert(self.now, settled, arrival, &mut self.out);
        self.taken()
    }

    fn release(&mut self) -> Vec<u8> {
        let settled = FrameId(self.settled);
        self.order.release(self.now, settled, &mut self.out);
        self.taken()
    }

    fn taken(&mut self) -> Vec<u8> {
        self.out.drain(..).map(|datagram| datagram[0]).collect()
    }
}

#[test]
fn a_gap_holds_up_its_own_group_alone() {
    let mut bed = Bed::default();
    let (a, b) = (Some(7), Some(8));
    let mut sent = bed.send_all(&[a, b, a, None, b, a]);
    for (index, taken) in [
        (1, vec![1]),
        // 0 is missing.
        (2, vec![]),
        // It has no order.
        (3, vec![3]),
        (4, vec![4]),
        (5, vec![]),
        (0, vec![0, 2, 5]),
    ] {
        assert_eq!(bed.arrive(sent[index].take().unwrap()), taken, "{index}");
    }
}

#[test]
fn a_datagram_no_longer_waits_for_a_frame_that_is_settled() {
    let mut bed = Bed::default();
    let mut sent = bed.send_all(&[Some(1); 4]);
    for index in [1, 3] {
        assert_eq!(bed.arrive(sent[index].take().unwrap()), [0; 0]);
    }
    bed.settled = 1;
    assert_eq!(bed.release(), [1], "0 was given up, and 2 may come");
    assert_eq!(bed.arrive(sent[0].take().unwrap()), [0; 0], "too late");
    assert_eq!(bed.arrive(sent[2].take().unwrap()), [2, 3]);
}

#[test]
fn a_lifetime_of_its_own_bounds_the_wait() {
    let mut bed = Bed::default();
    let _lost = bed.send(Some(1), Some(HASTY), 0);
    bed.now = Instant::from_millis(10);
    let second = bed.send(Some(1), Some(HASTY), 1);
    bed.now = Instant::from_millis(50);
    assert_eq!(bed.arrive(second), [0; 0]);
    let due_at = Instant::from_millis(90);
    assert_eq!(bed.order.due_at(), Some(due_at));
    bed.now = due_at.saturating_sub(Duration::from_micros(1));
    assert_eq!(bed.release(), [0; 0]);
    bed.now = due_at;
    assert_eq!(bed.release(), [1]);
    assert_eq!(bed.order.due_at(), None);
}

#[test]
fn a_receiver_that_is_new_starts_with_any_frame() {
    let mut bed = Bed::default();
    let mut sent = bed.send_all(&[Some(1); 3]);
    bed.settled = 2;
    assert_eq!(bed.arrive(sent[2].take().unwrap()), [2]);
}

#[test]
fn memory_is_bounded_and_the_oldest_goes_ahead() {
    let mut bed = Bed::default();
    let long = Some(Duration::from_secs(60));
    let _lost = bed.send(Some(1), long, 0);
    let mut handed_out = 0;
    for index in 0..200_000_u32 {
        let arrival = bed.send(Some(1), long, index as u8);
        handed_out += bed.arrive(arrival).len();
        assert!(bed.order.held_bytes <= MAX_HELD_BYTES);
    }
    assert!(handed_out > 0);
    let mut bed = Bed::default();
    for group in 0..5_000 {
        let _lost = bed.send(Some(group), None, 0);
        let arrival = bed.send(Some(group), None, 1);
        bed.arrive(arrival);
        assert!(bed.order.held.len() <= MAX_GROUPS, "{group}");
    }
    bed.settled = bed.next;
    bed.release();
    assert_eq!((bed.order.held_bytes, bed.order.held.len()), (0, 0));
    assert_eq!(bed.order.newest.len(), 5_000);
    for group in 5_000..5_000 + 2 * MAX_GROUPS as u16 {
        let arrival = bed.send(Some(group), None, 0);
        bed.settled = bed.next;
        bed.arrive(arrival);
    }
    assert!(bed.order.newest.len() < 5_000, "old groups are forgotten");
}

#[test]
fn frames_that_are_no_datagrams_are_ignored() {
    let mut bed = Bed::default();
    for wrong in [&b""[..], b"\x01", b"\x01\0\0\0\0\0", b"\x02\0\0\0\0\0\0abc"] {
        let arrival = Arrival {
            frame: FrameId(3),
            sent_at: Instant::ZERO,
            bytes: Bytes::from_static(wrong),
        };
        assert_eq!(bed.arrive(arrival), [0; 0], "{wrong:?}");
    }
    // A distance beyond the session's first frame.
    let arrival = Arrival {
        frame: FrameId(3),
        sent_at: Instant::ZERO,
        bytes: Bytes::from_static(b"\x01\0\0\xff\xff\0\x019"),
    };
    assert_eq!(bed.arrive(arrival), b"9");
}

use super::*;

const PACKET_BYTES: u32 = 1_000;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// One queue with the parameters of RFC 8289 §4.4: 5 ms and 100 ms.
#[derive(Default)]
struct Bed {
    control: Control,
    fifo: Fifo,
    ledger: Ledger,
}

impl Bed {
    fn push(&mut self, millis: u64, count: usize, bytes: u32) {
        for _ in 0..count {
            self.fifo.push(at(millis), Packet::of_size(bytes));
        }
    }

    /// Takes a packet, and returns whether one leaves.
    fn serve(&mut self, millis: u64) -> bool {
        let options = CoDelOptions::default();
        let (fifo, ledger) = (&mut self.fifo, &mut self.ledger);
        let head = self.control.dequeue(at(millis), fifo, &options, ledger);
        head.is_some()
    }

    fn serve_each_ms(&mut self, from: u64, to: u64) {
        for millis in from..to {
            assert!(self.serve(millis));
        }
    }

    /// Returns the times of drops since the last call, in milliseconds.
    fn dropped_at(&mut self) -> Vec<u64> {
        let dropped = self.ledger.dropped.drain(..);
        dropped
            .map(|dropped| dropped.at.as_nanos() / 1_000_000)
            .collect()
    }
}

/// Returns the number of drops in 5 s of packets of `bytes`, while `count` of them stay behind the
/// one that leaves every 20 ms.
fn drops_with_standing(count: usize, bytes: u32, largest_bytes: u32) -> usize {
    let mut bed = Bed::default();
    bed.push(0, 1, largest_bytes);
    assert!(bed.serve(0));
    bed.push(0, count, bytes);
    for step in 1..=250 {
        // The number of dropped packets is enqueued again.
        let missing = count + 1 - bed.fifo.load().packets;
        bed.push(20 * (step - 1), missing, bytes);
        assert!(bed.serve(20 * step));
    }
    bed.dropped_at().len()
}

#[test]
fn rfc8289_5_5_a_queue_of_no_more_than_the_largest_packet_is_a_good_one() {
    assert_eq!(drops_with_standing(1, 1_000, 1_000), 0);
    assert!(drops_with_standing(2, 1_000, 1_000) > 20);
    assert_eq!(drops_with_standing(3, 500, 1_500), 0, "one was larger");
    assert!(drops_with_standing(4, 500, 1_500) > 20);
}

/// 5 ms and an interval, then an interval over the root of 1, 2, 3, and 4:
/// 105 + 100 + 70.7 + 57.7 + 50.
const FIRST_DROPS: [u64; 5] = [105, 205, 276, 334, 384];

#[test]
fn rfc8289_5_3_drops_follow_each_other_by_the_control_law() {
    let mut bed = Bed::default();
    bed.push(0, 1_000, PACKET_BYTES);
    bed.serve_each_ms(1, 400);
    assert_eq!(bed.dropped_at(), FIRST_DROPS);
}

/// Returns the times of drops after dropping began, for the second time, at this instant. The next
/// drop of the first time would have been at 383.4 ms, the fifth.
fn drops_from(millis: u64) -> Vec<u64> {
    let mut bed = Bed::default();
    bed.push(0, 1_000, PACKET_BYTES);
    bed.serve_each_ms(1, 340);
    assert_eq!(bed.dropped_at(), FIRST_DROPS[..4]);
    while bed.fifo.pop().is_some() {}
    assert!(!bed.serve(340));
    bed.push(millis - 105, 1_000, PACKET_BYTES);
    bed.serve_each_ms(millis - 100, millis + 170);
    let dropped_at = bed.dropped_at();
    dropped_at.iter().map(|at| at - millis).collect()
}

#[test]
fn rfc8289_5_5_within_16_intervals_dropping_goes_on_where_it_was() {
    // Of four drops, three were after the first: 100 / √3, then 100 / √4 and 100 / √5 more.
    for soon in [500, 1_983] {
        assert_eq!(drops_from(soon), [0, 58, 108, 153], "{soon}");
    }
    for late in [1_984, 5_000] {
        assert_eq!(drops_from(late), [0, 100], "{late}");
    }
}

//! Frames of which bytes leave before their end is known.

use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn begun(has_repairs: bool, bytes: usize) -> SendBuffer {
    let mut buffer = buffer(has_repairs);
    let frame = Frame::new(vec![7; bytes], Importance::Reference, Instant::ZERO);
    assert_eq!(buffer.begin(Instant::ZERO, &frame), Ok(FrameId(0)));
    buffer
}

/// Returns the offsets, lengths and end marks of the waiting fragments.
fn waiting(buffer: &SendBuffer) -> Vec<(u32, usize, bool)> {
    let fragments = buffer.waiting().iter().map(|packet| {
        let fragment = buffer.fragment(packet.frame, packet.fragment).unwrap();
        let header = fragment.header;
        (header.offset, fragment.payload.len(), header.ends_frame)
    });
    fragments.collect()
}

#[test]
fn full_fragments_are_queued_as_their_bytes_come_and_the_rest_at_the_end() {
    let mut buffer = begun(false, 600);
    assert!(buffer.waiting().is_empty());
    assert_eq!(buffer.append(at(1), &[8; 1_500]), Ok(1_500));
    assert_eq!(waiting(&buffer), [(0, 1_000, false), (1_000, 1_000, false)]);
    assert_eq!(buffer.finish(), Some(FrameId(0)));
    assert_eq!(waiting(&buffer)[2..], [(2_000, 100, true)]);
    assert_eq!(buffer.finish(), None);
}

#[test]
fn a_frame_without_a_rest_ends_with_an_empty_fragment() {
    let mut buffer = begun(false, 2_000);
    buffer.finish();
    let ended = [(0, 1_000, false), (1_000, 1_000, false), (2_000, 0, true)];
    assert_eq!(waiting(&buffer), ended);
    send_all(&mut buffer);
    for fragment in 0..3 {
        assert!(!buffer.is_empty());
        buffer.on_acked(FrameId(0), fragment, A);
    }
    assert!(buffer.is_empty());
}

#[test]
fn a_frame_is_not_over_before_its_end_though_all_of_it_has_arrived() {
    let mut buffer = begun(false, 1_000);
    send_all(&mut buffer);
    buffer.on_acked(FrameId(0), 0, A);
    assert!(!buffer.is_empty());
    assert_eq!(buffer.acked_frame_count(), 0);
    let mut late = Vec::new();
    buffer.expire(at(501), |id| late.push(id));
    assert_eq!(late, [FrameId(0)]);
    assert_eq!(buffer.append(at(502), &[1; 10]), Ok(0));
    assert_eq!(buffer.finish(), None);
    assert!(buffer.is_empty());
}

#[test]
fn a_rest_leaves_after_three_milliseconds_while_its_headers_are_paid_for() {
    // An additional packet costs 60 bytes of headers: half a percent of 12 kB.
    let mut buffer = begun(false, 11_990);
    assert_eq!(buffer.tail_due_at(), None, "not paid for");
    buffer.append(at(1), &[1; 2]).unwrap();
    assert_eq!(buffer.tail_due_at(), None);
    buffer.append(at(2), &[1; 208]).unwrap();
    assert_eq!(
        buffer.tail_due_at(),
        Some(at(5)),
        "since the newest fragment"
    );
    buffer.append(at(4), &[1; 10]).unwrap();
    assert_eq!(buffer.tail_due_at(), Some(at(5)));
    buffer.retain_waiting(|_| true);
    buffer.release_tail();
    assert_eq!(waiting(&buffer), [(12_000, 210, false)]);
    buffer.append(at(6), &[1; 10]).unwrap();
    assert_eq!(buffer.tail_due_at(), None, "the credit is used up");
    buffer.append(at(7), &[1; 980]).unwrap();
    assert_eq!((waiting(&buffer).len(), buffer.tail_due_at()), (1, None));
}

#[test]
fn pieces_of_a_frame_that_grows_are_symbols_in_the_order_of_their_numbers() {
    let mut buffer = begun(true, 1_000);
    let packet = buffer.waiting()[0];
    buffer.cut_again(&packet, 600);
    buffer.append(at(1), &[1; 1_000]).unwrap();
    buffer.finish();
    let symbols = [0, 1, 2, 3].map(|fragment| buffer.symbol(FrameId(0), fragment));
    assert_eq!(symbols, [0, 1, 2, 3].map(Some));
    push(&mut buffer, 40, Importance::Reference);
    assert_eq!(buffer.symbol(FrameId(1), 0), Some(4));
    let window = anabranch_fec::RepairHeader {
        first: 0,
        count: 4,
        row: 0,
    };
    let lengths = buffer.symbols(window).map(|symbol| symbol.payload.len());
    assert_eq!(lengths.collect::<Vec<_>>(), [1_000, 400, 1_000, 0]);
}

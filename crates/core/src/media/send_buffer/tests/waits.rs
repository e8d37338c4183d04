//! Packets that wait for a path, and the order in which they come back.

use super::*;
use crate::fec::Protection;
use crate::recovery::PacketContent;

/// Returns a buffer with two frames with two repairs each.
fn two_with_repairs() -> SendBuffer {
    let mut buffer = buffer(true);
    for frame in 0..2 {
        push(&mut buffer, 40 * frame, Importance::Reference);
        let protection = crate::fec::Protection::of_frame(2);
        buffer.protect(FrameId(frame), &protection, u16::MAX);
    }
    buffer
}

fn places(packets: &[PacketView]) -> Vec<(u64, u16)> {
    let packets = packets.iter();
    packets
        .map(|packet| (packet.frame.0, packet.fragment))
        .collect()
}

#[test]
fn repairs_alone_wait_too() {
    let mut buffer = two_with_repairs();
    assert!(buffer.has_waiting() && !buffer.is_empty());
    // Sources and repairs of 1,000, 1,000 and 500 bytes, with 60 each; repairs are of the longest.
    assert_eq!(buffer.waiting_bytes(), 2 * (2_500 + 3 * 60) + 4 * 1_060);
    send_all(&mut buffer);
    assert!(buffer.has_waiting());
    assert_eq!(buffer.waiting_bytes(), 4 * 1_060);
    buffer.take_waiting_repairs();
    assert!(!buffer.has_waiting());
    assert_eq!(buffer.waiting_bytes(), 0);
}

#[test]
fn repairs_that_come_back_from_a_path_wait_in_order() {
    let mut buffer = two_with_repairs();
    let repairs = buffer.take_waiting_repairs();
    assert_eq!(places(&repairs), [(0, 0), (0, 1), (1, 0), (1, 1)]);
    for index in [2, 0, 3, 1] {
        buffer.unbind(repairs[index]);
    }
    assert_eq!(places(&buffer.take_waiting_repairs()), places(&repairs));
    buffer.put_back_repairs(repairs[..3].to_vec());
    buffer.give_up(FrameId(0));
    assert_eq!(places(&buffer.take_waiting_repairs()), [(1, 0)]);
}

#[test]
fn sources_that_come_back_wait_in_order_behind_retransmissions() {
    let mut buffer = buffer_with(&[(0, false), (40, false)]);
    let sources = buffer.waiting().to_vec();
    buffer.retain_waiting(|_| true);
    buffer.on_sent(FrameId(1), 1, A, SendReason::New);
    lose(&mut buffer, (1, 1), A, false, NEVER_LATE);
    for index in [3, 0, 5, 2, 1] {
        buffer.unbind(sources[index]);
    }
    let expected = [(1, 1), (0, 0), (0, 1), (0, 2), (1, 0), (1, 2)];
    assert_eq!(places(buffer.waiting()), expected);
}

/// Returns the content of a packet with a fragment of the first frame.
fn content(fragment: u16, is_piece: bool) -> PacketContent {
    PacketContent::Fragment {
        frame: FrameId(0),
        fragment,
        is_piece,
    }
}

/// Returns a buffer with one frame of which the first fragment, of 1000 bytes, is about to leave by
/// a narrow path for the second time, and its packet.
fn about_to_leave_again() -> (SendBuffer, PacketView) {
    let mut buffer = buffer_with(&[(0, false)]);
    send_all(&mut buffer);
    let now = Instant::ZERO;
    lose(&mut buffer, (0, 0), A, false, now);
    let packet = buffer.waiting()[0];
    assert_eq!(packet.id(), id(0, 0));
    buffer.retain_waiting(|_| true);
    buffer.on_sent(FrameId(0), 0, B, SendReason::Lost);
    buffer.queue_retransmission(id(0, 0), PathSet::EMPTY, SendReason::Lost);
    let packet = PacketView {
        reason: SendReason::Lost,
        ..packet
    };
    buffer.retain_waiting(|_| true);
    (buffer, packet)
}

#[test]
fn a_fragment_that_is_cut_again_has_arrived_when_all_pieces_have() {
    fn lengths(numbers: &[u16], buffer: &SendBuffer) -> Vec<(u32, usize)> {
        let parts = numbers
            .iter()
            .map(|number| buffer.fragment(FrameId(0), *number).unwrap());
        parts
            .map(|part| (part.header.offset, part.payload.len()))
            .collect::<Vec<_>>()
    }

    let (mut buffer, packet) = about_to_leave_again();
    let pieces = buffer.cut_again(&packet, 400);
    assert_eq!(
        lengths(&[0, 3, 4], &buffer),
        [(0, 400), (400, 400), (800, 200)]
    );
    let views: Vec<_> = pieces
        .iter()
        .map(|piece| (piece.fragment, piece.bytes))
        .collect();
    assert_eq!(views, [(3, 460), (4, 260)]);
    assert!(buffer.is_piece(id(0, 0)) && !buffer.is_piece(id(0, 3)));
    for fragment in [1, 2] {
        buffer.on_packet_acked(content(fragment, false), A);
    }
    buffer.on_packet_acked(content(0, true), A);
    buffer.on_packet_acked(content(4, false), A);
    assert_eq!(buffer.acked_frame_count(), 0);
    buffer.on_packet_acked(content(3, false), A);
    assert!(buffer.is_empty());
    assert_eq!(buffer.acked_frame_count(), 1);
}

#[test]
fn a_copy_that_left_before_the_cut_counts_for_every_piece() {
    let (mut buffer, packet) = about_to_leave_again();
    buffer.cut_again(&packet, 400);
    let carried: Vec<u16> = buffer
        .carried_by(content(0, false))
        .map(|id| id.fragment)
        .collect();
    assert_eq!(carried, [0, 3, 4]);
    assert_eq!(buffer.carried_by(content(0, true)).count(), 1);
    assert!(
        [0, 3, 4]
            .map(|fragment| buffer.view(FrameId(0), fragment, SendReason::Lost, PathSet::EMPTY))
            .iter()
            .flatten()
            .all(|it| it.in_flight_on.contains(B))
    );
    for fragment in [1, 2] {
        buffer.on_packet_acked(content(fragment, false), A);
    }
    buffer.on_packet_acked(content(0, false), B);
    assert!(buffer.is_empty());
}

#[test]
fn a_cut_fragment_is_the_same_symbol_and_its_pieces_are_none() {
    let mut buffer = two_with_repairs();
    let packet = buffer
        .view(FrameId(0), 0, SendReason::New, PathSet::EMPTY)
        .unwrap();
    let whole = buffer.fragment(FrameId(0), 0).unwrap().payload.to_vec();
    let window = anabranch_fec::RepairHeader {
        first: 0,
        count: 1,
        row: 0,
    };
    buffer.cut_again(&packet, 400);
    let symbol = buffer.symbols(window).next().unwrap();
    assert_eq!(symbol.payload, whole);
    let numbers = [0, 1, 3].map(|number| buffer.fragment(FrameId(0), number).unwrap().symbol);
    assert_eq!(numbers, [None, Some(1), None]);
    assert_eq!(buffer.symbol(FrameId(1), 0), Some(3));
    assert!(buffer.on_recovered(0));
    assert!(
        [0, 3, 4]
            .iter()
            .all(|number| buffer.fragment(FrameId(0), *number).is_none())
    );
}

#[test]
fn frames_are_cut_as_was_said_last() {
    let mut buffer = buffer_with(&[(0, false)]);
    buffer.set_fragment_bytes(500);
    push(&mut buffer, 40, Importance::Reference);
    let counts = [0, 1, 2].map(|id| Some(buffer.to_protect(FrameId(id))?.symbol_count));
    assert_eq!(counts, [Some(3), Some(5), None]);
}

#[test]
fn repairs_are_as_long_as_the_longest_fragment_that_they_cover() {
    fn bytes(protection: Protection, buffer: &SendBuffer) -> u64 {
        buffer.repair_bytes(FrameId(1), &protection)
    }

    fn of_window(symbols: u16) -> Protection {
        let window = crate::fec::SlidingWindow {
            symbols,
            repairs: 1,
        };
        crate::fec::Protection::of_window(window)
    }

    let mut buffer = buffer(true);
    push(&mut buffer, 0, Importance::Reference);
    let small = Frame {
        bytes: vec![7; 300].into(),
        importance: Importance::Reference,
        captured_at: Instant::from_millis(40),
        lifetime: None,
    };
    buffer.push(&small).unwrap();
    assert_eq!(bytes(crate::fec::Protection::of_frame(1), &buffer), 300);
    // The last symbol is all of the second frame.
    assert_eq!(
        (bytes(of_window(1), &buffer), bytes(of_window(2), &buffer)),
        (300, 1_000)
    );
    let protection = of_window(1);
    assert_eq!(buffer.repair_bytes(FrameId(2), &protection), 0);
}

#[test]
fn symbols_are_numbered_through_and_found_again() {
    let mut buffer = two_with_repairs();
    assert_eq!(buffer.next_symbol(), 6);
    assert_eq!(buffer.symbol(FrameId(1), 2), Some(5));
    assert_eq!(buffer.symbol(FrameId(2), 0), None);
    assert_eq!(buffer.repair_window(FrameId(1), 1), Some(3..6));
    buffer.on_repair_settled(FrameId(1), 1);
    assert_eq!(buffer.repair_window(FrameId(1), 1), None);
    assert_eq!(buffer.repair_window(FrameId(1), 0), Some(3..6));
}

#[test]
fn recovered_fragments_of_any_frame_have_arrived() {
    fn is_wanted(buffer: &SendBuffer, fragment: u16) -> bool {
        buffer.fragment(FrameId(1), fragment).is_some()
    }

    let mut buffer = two_with_repairs();
    send_all(&mut buffer);
    let window = buffer.take_repair(FrameId(1), 0).unwrap();
    let symbols: Vec<_> = buffer
        .symbols(window)
        .map(|symbol| (symbol.symbol, symbol.payload.len()))
        .collect();
    assert_eq!(
        symbols,
        [(Some(3), 1_000), (Some(4), 1_000), (Some(5), 500)]
    );
    assert!(buffer.on_recovered(4) && !buffer.on_recovered(4));
    assert_eq!(
        [0, 1, 2].map(|index| is_wanted(&buffer, index)),
        [true, false, true]
    );
    assert_eq!(buffer.acked_frame_count(), 0);
    assert!(buffer.on_recovered(3) && buffer.on_recovered(5));
    assert_eq!(buffer.acked_frame_count(), 1);
    assert!(
        buffer.fragment(FrameId(0), 1).is_some(),
        "the other frame is as it was"
    );
}

#[test]
fn a_packet_has_left_while_a_copy_is_in_flight_or_has_arrived() {
    let mut buffer = buffer_with(&[(0, false)]);
    let packets = buffer.waiting().to_vec();
    assert!(!buffer.has_left(&packets[1]));
    buffer.on_sent(FrameId(0), 1, A, SendReason::New);
    assert!(buffer.has_left(&packets[1]) && !buffer.has_left(&packets[0]));
    lose(&mut buffer, (0, 1), A, false, NEVER_LATE);
    assert!(!buffer.has_left(&packets[1]));
    buffer.on_acked(FrameId(0), 1, A);
    assert!(buffer.has_left(&packets[1]));
}

#[test]
fn nothing_of_a_frame_that_is_given_up_waits_and_all_of_the_others_does() {
    let mut buffer = two_with_repairs();
    buffer.give_up(FrameId(0));
    assert_eq!(places(buffer.waiting()), [(1, 0), (1, 1), (1, 2)]);
    assert_eq!(places(&buffer.take_waiting_repairs()), [(1, 0), (1, 1)]);
    let windows = [0, 1].map(|frame| buffer.repair_window(FrameId(frame), 0));
    assert_eq!(windows, [None, Some(3..6)]);
}

#[test]
fn copies_that_wait_for_their_moment_are_counted_by_frame() {
    let mut buffer = buffer_with(&[(0, false), (40, false)]);
    send_all(&mut buffer);
    for (frame, fragment) in [(0, 0), (0, 2), (1, 1)] {
        let frame = FrameId(frame);
        let id = FragmentId { frame, fragment };
        buffer.call_copy(Instant::from_millis(80), id);
    }
    let counts = [0, 1, 2].map(|frame| buffer.called_copies(FrameId(frame)));
    assert_eq!(counts, [2, 1, 0]);
}

#[test]
fn a_lost_fragment_of_a_later_frame_waits_for_its_repairs_too() {
    let mut buffer = two_with_repairs();
    buffer.take_waiting_repairs();
    send_all(&mut buffer);
    let verdict = lose(&mut buffer, (1, 2), A, false, Instant::from_millis(100));
    assert_eq!(verdict, Verdict::Wait);
    assert_eq!(
        buffer.next_unrepaired(Instant::from_millis(9)).map(|_| ()),
        None
    );
    for index in 0..2 {
        buffer.on_repair_settled(FrameId(1), index);
    }
    assert!(buffer.next_unrepaired(Instant::from_millis(9)).is_some());
}

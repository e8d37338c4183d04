//! Limits of a sender against a receiver and an SRT sender that ignore them.

use anabranch_srtla::{LinkId, LinkOptions, LinkState, Sender, SenderEvent};
use anabranch_units::{Duration, Instant};

use crate::bed::{Bed, Way};
use crate::judge::libsrt::{control, handshake, word};

/// Types of SRT's control packets.
const KEEPALIVE: u16 = 0x8001;
const ACK: u16 = 0x8002;
const NAK: u16 = 0x8003;
/// Most datagrams that wait for a driver.
const MAX_WAITING: usize = 1_024;
/// Number of the bed's first packet.
const FIRST: u32 = 700;

fn is_ack(datagram: &[u8]) -> bool {
    matches!(word(datagram, 0) >> 16, 0x8002 | 0x9100)
}

/// A connected bed whose receiver has acknowledged nothing for 100 ms, and a number that has left
/// in that time. Without acknowledgements only a few leave.
fn without_acks() -> (Bed, u32) {
    let mut bed = Bed::new(&[20]);
    bed.stream(1_000);
    bed.tamper(|_, way, _, datagram| (way == Way::There || !is_ack(&datagram)).then_some(datagram));
    let sent = FIRST + bed.sender.counters().taken_packets as u32 + 1;
    bed.stream(100);
    (bed, sent)
}

#[test]
fn no_handshake_sets_a_latency_beyond_eight_seconds() {
    let mut bed = Bed::new(&[20]);
    bed.stream(1_000);
    for (asked, taken) in [(7_999, 7_999), (8_000, 8_000), (60_000, 8_000)] {
        let latency = Some(Duration::from_millis(asked));
        let datagram = handshake(u32::MAX, 1, 2, latency);
        bed.sender.handle_link(bed.now(), LinkId(0), &datagram);
        assert_eq!(bed.sender.latency(), Duration::from_millis(taken));
    }
}

#[test]
fn datagrams_that_a_driver_does_not_take_are_bounded() {
    let mut bed = Bed::new(&[20]);
    bed.stream(1_000);
    let (now, keepalive) = (bed.now(), control(KEEPALIVE, 0, 0, &[]));
    let sender = &mut bed.sender;
    while sender.poll_transmit(now).is_some() {}
    while sender.poll_srt().is_some() {}
    for _ in 0..2 * MAX_WAITING {
        sender.handle_link(now, LinkId(0), &keepalive);
        sender.handle_srt(now, &keepalive);
    }
    let to_srt = core::iter::from_fn(|| sender.poll_srt()).count();
    let to_links = core::iter::from_fn(|| sender.poll_transmit(now)).count();
    assert_eq!((to_srt, to_links), (MAX_WAITING, MAX_WAITING));
}

#[test]
fn events_that_nobody_reads_are_bounded() {
    let mut sender = Sender::new(Instant::ZERO, &[3; 32]);
    let link = sender.add_link(Instant::ZERO, LinkOptions::default());
    let refused = [0x92, 0x10];
    for second in 0..600 {
        let now = Instant::from_secs(10 * second);
        sender.handle_time(now);
        // It has no group for the probe; then it refuses the name that it is asked for.
        sender.handle_link(now, link.expect("a link"), &[0x92, 0x11]);
        sender.handle_link(now, link.expect("a link"), &refused);
    }
    let count = core::iter::from_fn(|| sender.poll_event())
        .filter(|event| matches!(event, SenderEvent::Refused(_)))
        .count();
    assert_eq!(count, 256);
}

#[test]
fn a_report_counts_for_256_ranges() {
    let (mut bed, sent) = without_acks();
    let before = bed.sender.counters().kept_back;
    // One number 256 times, and others behind it.
    let singles: Vec<u32> = (1..6).map(|at| sent + at).collect();
    let once: Vec<u32> = core::iter::repeat_n(sent, 256).chain(singles).collect();
    let report = control(NAK, 0, 0, &once);
    bed.sender.handle_link(bed.now(), LinkId(0), &report);
    assert_eq!(bed.sender.counters().kept_back - before, 1);
}

#[test]
fn packets_older_than_the_latency_and_a_second_are_reported_to_the_sender() {
    let (mut bed, sent) = without_acks();
    // The latency is a second.
    let report = control(NAK, 0, 0, &[sent]);
    bed.tamper(|_, _, _, _| None);
    bed.run(1_800);
    bed.sender.handle_link(bed.now(), LinkId(0), &report);
    assert_eq!(bed.sender.counters().passed_on, 0, "it is kept");
    bed.run(200);
    bed.sender.handle_link(bed.now(), LinkId(0), &report);
    assert_eq!(bed.sender.counters().passed_on, 1, "it is forgotten");
}

#[test]
fn no_packet_that_is_older_than_the_latency_leaves_again() {
    let (mut bed, sent) = without_acks();
    bed.tamper(|_, _, _, _| None);
    bed.run(1_100);
    let before = bed.sender.counters().sent_again;
    let report = control(NAK, 0, 0, &[sent, sent + 1]);
    bed.tamper(|_, way, _, datagram| (way == Way::There || !is_ack(&datagram)).then_some(datagram));
    bed.run(50);
    bed.sender.handle_link(bed.now(), LinkId(0), &report);
    bed.run(400);
    assert_eq!(bed.sender.counters().sent_again, before);
}

#[test]
fn a_number_far_from_the_stream_begins_another() {
    for (distance, is_other) in [(1 << 16, false), ((1 << 16) + 1, true)] {
        let (mut bed, sent) = without_acks();
        let before = bed.sender.counters().kept_back;
        let newest = FIRST + bed.sender.counters().taken_packets as u32 - 1;
        let media: Vec<u8> = [newest + distance, 0, 0, 0]
            .into_iter()
            .flat_map(u32::to_be_bytes)
            .collect();
        bed.sender.handle_srt(bed.now(), &media);
        let report = control(NAK, 0, 0, &[sent]);
        bed.sender.handle_link(bed.now(), LinkId(0), &report);
        let kept = bed.sender.counters().kept_back - before;
        assert_eq!(kept, u64::from(!is_other), "{distance}");
    }
}

#[test]
fn messages_leave_by_the_fastest_link_that_costs_nothing() {
    let mut bed = Bed::new(&[70, 20, 40]);
    bed.stream(2_000);
    let now = bed.now();
    let keepalive = control(KEEPALIVE, 0, 0, &[]);
    let sender = &mut bed.sender;
    for (metered, expected) in [
        ([false; 3], LinkId(1)),
        ([false, true, false], LinkId(2)),
        ([true; 3], LinkId(1)),
    ] {
        for (index, is_metered) in metered.into_iter().enumerate() {
            let options = LinkOptions {
                is_metered,
                ..LinkOptions::default()
            };
            sender.set_options(LinkId(index as u8), options);
        }
        while sender.poll_transmit(now).is_some() {}
        sender.handle_srt(now, &keepalive);
        let message = sender.poll_transmit(now).expect("a message");
        assert_eq!(message.link, expected, "{metered:?}");
    }
}

#[test]
fn light_acknowledgements_are_passed_on_once() {
    fn light(next: u32) -> Vec<u8> {
        control(ACK, 0, 0, &[next])
    }

    let (mut bed, sent) = without_acks();
    let now = bed.now();
    while bed.sender.poll_srt().is_some() {}
    for (next, is_news) in [(sent - 5, true), (sent - 5, false), (sent - 9, false)] {
        bed.sender.handle_link(now, LinkId(0), &light(next));
        let passed_on = bed.sender.poll_srt().is_some();
        assert_eq!(passed_on, is_news, "{next}");
    }
}

/// As after a restart of the encoder, whose numbers begin anywhere.
#[test]
fn another_caller_begins_another_stream() {
    let (mut bed, sent) = without_acks();
    let before = bed.sender.counters().kept_back;
    let induction = handshake(1, 0xdead, 0, None);
    bed.sender.handle_srt(bed.now(), &induction);
    let report = control(NAK, 0, 0, &[sent]);
    bed.sender.handle_link(bed.now(), LinkId(0), &report);
    assert_eq!(bed.sender.counters().kept_back, before);
}

#[test]
fn packets_that_never_left_cannot_be_acknowledged() {
    let (mut bed, sent) = without_acks();
    let before = bed.sender.counters().kept_back;
    let end = FIRST + bed.sender.counters().taken_packets as u32;
    for (index, (next, kept)) in [(end + 1, 1), (end, 1)].into_iter().enumerate() {
        let light = control(ACK, 0, 0, &[next]);
        bed.sender.handle_link(bed.now(), LinkId(0), &light);
        let report = control(NAK, 0, 0, &[sent + index as u32]);
        bed.sender.handle_link(bed.now(), LinkId(0), &report);
        assert_eq!(bed.sender.counters().kept_back - before, kept, "{next}");
    }
}

#[test]
fn an_echo_that_was_not_asked_for_raises_no_link() {
    fn state(bed: &Bed) -> Option<LinkState> {
        bed.sender.links().next().map(|link| link.state)
    }

    let mut bed = Bed::new(&[20]);
    bed.stream(1_000);
    bed.tamper(|_, _, _, _| None);
    bed.run(3_000);
    assert_eq!(state(&bed), Some(LinkState::Out));
    let mut echo = vec![0x90, 0];
    echo.extend_from_slice(&1_234_567_u64.to_be_bytes());
    bed.sender.handle_link(bed.now(), LinkId(0), &echo);
    assert_eq!(state(&bed), Some(LinkState::Out));
}

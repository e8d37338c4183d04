//! The sender before this crate's receiver and a model of libsrt, over links on which a test may
//! change every datagram.

use anabranch_srtla::{LinkId, LinkOptions, LinkState, MAX_LINKS, Sender, SenderEvent};
use anabranch_units::{Duration, Instant};
use proptest::prelude::*;

use crate::bed::{Bed, Way};
use crate::judge::libsrt::word;

const REG_ERR: [u8; 2] = [0x92, 0x10];
const REG_NGP: [u8; 2] = [0x92, 0x11];

fn kind(datagram: &[u8]) -> u32 {
    word(&[datagram, &[0; 4]].concat(), 0) >> 16
}

fn is_media(datagram: &[u8]) -> bool {
    word(datagram, 0) >> 31 == 0
}

#[test]
fn losses_are_repaired_without_any_report_of_them() {
    let mut bed = Bed::new(&[20, 70]);
    bed.tamper(|_, way, link, datagram| match way {
        Way::There if link == 0 && is_media(&datagram) => {
            (!word(&datagram, 0).is_multiple_of(50) || datagram[4] & 0x04 != 0).then_some(datagram)
        }
        // The reports go by a link that is dead that way.
        Way::Back if kind(&datagram) == 0x8003 => None,
        _ => Some(datagram),
    });
    bed.repeat_once();
    bed.stream(20_000);
    assert_eq!(bed.missing(), 0);
    let again = bed.sender.counters().sent_again;
    assert!((100..=300).contains(&again), "{again}");
}

#[test]
fn a_link_whose_acknowledgements_are_withheld_is_not_lossy() {
    let mut bed = Bed::new(&[20, 70]);
    bed.tamper(|_, way, link, datagram| {
        let is_ack = kind(&datagram) == 0x9100;
        (way == Way::There || link != 0 || !is_ack).then_some(datagram)
    });
    bed.stream(10_000);
    assert_eq!(bed.missing(), 0);
    let links: Vec<_> = bed.sender.links().map(|link| link.counters).collect();
    let total: u64 = links.iter().map(|link| link.delivered_packets).sum();
    assert!(links[0].delivered_packets * 2 > total, "{links:?}");
    assert_eq!(
        (links[0].lost_packets, bed.sender.counters().sent_again),
        (0, 0)
    );
}

#[test]
fn each_acknowledgement_and_report_counts_once() {
    let mut bed = Bed::new(&[20, 70]);
    bed.copy_answers(3);
    bed.tamper(|_, way, link, datagram| match way {
        Way::There if link == 0 && is_media(&datagram) && datagram[4] & 0x04 == 0 => {
            (!word(&datagram, 0).is_multiple_of(100)).then_some(datagram)
        }
        _ => Some(datagram),
    });
    bed.repeat_once();
    bed.stream(10_000);
    assert_eq!(bed.missing(), 0);
    let acks = bed.answers.iter().filter(|answer| kind(answer) == 0x8002);
    let numbers: Vec<u32> = acks.map(|ack| word(ack, 1)).collect();
    assert!(
        numbers.len() > 500 && numbers.is_sorted_by(|a, b| a < b),
        "{numbers:?}"
    );
    let naks = bed.answers.iter().filter(|answer| kind(answer) == 0x8003);
    assert_eq!(naks.count(), 0, "all are in memory");
    let again = bed.sender.counters().sent_again;
    assert!((20..=60).contains(&again), "{again}");
}

#[test]
fn short_answers_register_as_padded_ones_do() {
    let mut bed = Bed::new(&[20, 70]);
    bed.tamper(|_, way, _, mut datagram| {
        if way == Way::Back && datagram.len() == 32 {
            datagram.truncate(2);
        }
        Some(datagram)
    });
    bed.run(1_000);
    assert_eq!(bed.up(), 2);
}

#[test]
fn a_refused_sender_asks_again() {
    let mut bed = Bed::new(&[20, 70]);
    bed.tamper(|now, way, _, datagram| match way {
        Way::Back if now < Instant::from_secs(3) && kind(&datagram) == 0x9201 => {
            Some(REG_ERR.to_vec())
        }
        _ => Some(datagram),
    });
    bed.run(4_000);
    assert!(
        bed.events
            .iter()
            .any(|event| matches!(event, SenderEvent::Refused(_)))
    );
    assert_eq!(bed.up(), 0);
    bed.run(6_000);
    assert_eq!(bed.up(), 2);
}

#[test]
fn of_more_links_than_a_receiver_takes_the_others_carry() {
    let mut bed = Bed::new(&[20; 9]);
    bed.tamper(|_, way, link, datagram| match way {
        Way::Back if link == 8 && kind(&datagram) == 0x9202 => Some(REG_ERR.to_vec()),
        _ => Some(datagram),
    });
    bed.stream(3_000);
    assert_eq!((bed.up(), bed.missing()), (8, 0));
    let refused = SenderEvent::Refused(LinkId(8));
    let count = bed.events.iter().filter(|event| **event == refused).count();
    assert!(
        (1..=2).contains(&count),
        "asked every five seconds: {count}"
    );
}

#[test]
fn sixteen_links_are_used_and_no_more() {
    let mut bed = Bed::new(&[20; MAX_LINKS]);
    assert_eq!(
        bed.sender.add_link(Instant::ZERO, LinkOptions::default()),
        None
    );
    bed.stream(3_000);
    assert_eq!((bed.up(), bed.missing()), (MAX_LINKS, 0));
}

#[test]
fn a_message_that_the_group_is_lost_needs_silent_links() {
    let mut bed = Bed::new(&[20, 70]);
    bed.stream(1_000);
    let now = bed.now();
    bed.sender.handle_link(now, LinkId(1), &REG_NGP);
    bed.stream(1_000);
    assert_eq!((bed.up(), bed.missing()), (2, 0));
    assert!(!bed.events.contains(&SenderEvent::GroupLost));
}

#[test]
fn a_receiver_that_is_back_after_a_second_has_the_stream_within_three() {
    let mut bed = Bed::new(&[20, 70]);
    bed.stream(2_000);
    bed.stop_receiver();
    bed.stream(1_000);
    assert_eq!(bed.up(), 0);
    bed.start_receiver();
    bed.stream(3_000);
    assert_eq!(bed.up(), 2);
    assert!(bed.events.contains(&SenderEvent::GroupLost));
    let shutdowns = bed.answers.iter().filter(|answer| kind(answer) == 0x8005);
    assert_eq!(shutdowns.count(), 1, "the SRT sender connects again");
    let before = bed.played();
    bed.stream(1_000);
    assert!(bed.played() > before + 300, "{before} {}", bed.played());
}

#[test]
fn a_link_whose_port_changes_is_used_again_within_two_seconds() {
    let mut bed = Bed::new(&[20, 70]);
    bed.stream(2_000);
    bed.change_port(0);
    bed.stream(2_000);
    let before = bed
        .sender
        .links()
        .next()
        .unwrap()
        .counters
        .delivered_packets;
    bed.stream(1_000);
    let links: Vec<_> = bed.sender.links().collect();
    assert_eq!(links[0].state, LinkState::Up);
    assert!(
        links[0].counters.delivered_packets > before + 100,
        "{links:?}"
    );
    assert_eq!(bed.missing(), 0);
}

#[test]
fn a_replugged_modem_is_used_again_within_two_seconds() {
    let mut bed = Bed::new(&[20, 70]);
    bed.stream(2_000);
    let now = bed.now();
    bed.sender.remove_link(now, LinkId(0));
    bed.stream(1_000);
    let now = bed.now();
    let link = bed.sender.add_link(now, LinkOptions::default());
    assert_eq!(link, Some(LinkId(0)));
    bed.change_port(0);
    bed.stream(2_000);
    let first = bed.sender.links().next().unwrap();
    assert!(first.counters.delivered_packets > 100, "{first:?}");
    let now = bed.now();
    bed.sender.handle_new_network(now, LinkId(0));
    bed.change_port(0);
    bed.stream(2_000);
    assert_eq!((bed.up(), bed.missing()), (2, 0));
}

#[test]
fn a_metered_link_carries_media_only_when_the_other_fails() {
    fn carried(bed: &Bed, link: usize) -> u64 {
        let counters = bed.sender.links().nth(link).unwrap().counters;
        counters.delivered_packets
    }

    let mut bed = Bed::new(&[20, 70]);
    let metered = LinkOptions {
        is_metered: true,
        ..LinkOptions::default()
    };
    bed.sender.set_options(LinkId(0), metered);
    bed.stream(3_000);
    assert_eq!(carried(&bed, 0), 0);
    bed.tamper(|_, _, link, datagram| (link == 0).then_some(datagram));
    bed.stream(3_000);
    assert!(carried(&bed, 0) > 500);
    assert_eq!(bed.missing(), 0);
}

#[test]
fn a_limited_link_keeps_its_limit() {
    let mut bed = Bed::new(&[20, 70]);
    let limited = LinkOptions {
        max_rate: Some("1Mbit/s".parse().unwrap()),
        ..LinkOptions::default()
    };
    bed.sender.set_options(LinkId(0), limited);
    bed.stream(5_000);
    let bytes = bed.sender.links().next().unwrap().counters.sent_bytes;
    assert!((400_000..690_000).contains(&bytes), "{bytes}");
    assert_eq!(bed.missing(), 0);
}

/// A datagram of either side, valid or not.
/// Checks a receiver that acknowledges nothing, and reports the packets of the last second missing
/// each 10 ms.
#[test]
fn a_receiver_that_asks_without_end_gets_a_quarter_more() {
    let mut bed = Bed::new(&[20, 70]);
    bed.stream(2_000);
    let before = bed.sender.counters();
    bed.tamper(|_, way, _, datagram| {
        let is_ack = matches!(kind(&datagram), 0x8002 | 0x9100);
        (way == Way::There || !is_ack).then_some(datagram)
    });
    for _ in 0..3_000 {
        bed.stream(10);
        let newest = 700 + bed.sender.counters().taken_packets as u32 - 1;
        for link in 0..2 {
            let report = report(newest - 400, newest);
            bed.sender.handle_link(bed.now(), LinkId(link), &report);
        }
    }
    let counters = bed.sender.counters();
    let taken = counters.taken_packets - before.taken_packets;
    let again = counters.sent_again - before.sent_again;
    assert!(again <= taken / 4 + 1_000, "{again} of {taken}");
    assert!(
        again >= taken / 20,
        "{again} of {taken}: it asks for nothing"
    );
    assert_eq!(bed.missing(), 0);
}

/// Returns a report of SRT that the packets from `first` to `last` are missing.
fn report(first: u32, last: u32) -> Vec<u8> {
    let words = [0x8003_0000, 0, 0, 0, 1 << 31 | first, last];
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}

/// Checks reports that have crossed the acknowledgements of a link: SRT's own are withheld.
#[test]
fn reports_of_packets_that_a_link_has_just_acknowledged_are_old() {
    let mut bed = Bed::new(&[20]);
    bed.stream(2_000);
    bed.tamper(|_, way, _, datagram| {
        (way == Way::There || kind(&datagram) != 0x8002).then_some(datagram)
    });
    for _ in 0..100 {
        bed.stream(10);
        let newest = 700 + bed.sender.counters().taken_packets as u32 - 1;
        // 60 to 180 ms old.
        bed.sender
            .handle_link(bed.now(), LinkId(0), &report(newest - 70, newest - 24));
    }
    assert_eq!(bed.sender.counters().sent_again, 0);
    let newest = 700 + bed.sender.counters().taken_packets as u32 - 1;
    // 300 ms after the acknowledgement it was lost behind the link.
    bed.sender
        .handle_link(bed.now(), LinkId(0), &report(newest - 140, newest - 130));
    bed.stream(100);
    assert_eq!(bed.sender.counters().sent_again, 11);
}

fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop::sample::select(vec![
        0x9000_u16, 0x9100, 0x9201, 0x9202, 0x9210, 0x9211, 0x8000, 0x8002, 0x8003, 0x8005, 0, 1,
    ]);
    let words = prop::collection::vec(prop_oneof![0..2_000_u32, any::<u32>()], 0..70);
    (kinds, any::<u16>(), words, 0..4_usize).prop_map(|(kind, rest, words, cut)| {
        let mut bytes = [kind.to_be_bytes(), rest.to_be_bytes()].concat();
        bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        bytes
    })
}

proptest! {
    #[test]
    fn nothing_that_comes_breaks_it(
        steps in prop::collection::vec((any::<bool>(), 0..3_u8, 0..400_u64, datagram()), 1..200),
    ) {
        let mut now = Instant::from_secs(1);
        let mut sender = Sender::new(now, &[1; 32]);
        for _ in 0..2 {
            sender.add_link(now, LinkOptions::default());
        }
        for (is_srt, link, millis, datagram) in steps {
            now += Duration::from_millis(millis);
            if is_srt {
sender.handle_srt(now, &datagram)
} else {
sender.handle_link(now, LinkId(link), &datagram)
}
            sender.handle_time(now);
            let sent = core::iter::from_fn(|| sender.poll_transmit(now)).take(1_000).count();
            prop_assert!(sent < 1_000, "a datagram makes few");
            while sender.poll_srt().is_some() {}
            while sender.poll_event().is_some() {}
            prop_assert!(sender.links().all(|link| link.in_flight < 20_000));
            let _ = (sender.target(now), sender.next_timeout());
        }
    }
}

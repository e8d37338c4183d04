//! The receiver against senders that are simulated here.

use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

type Random = fn() -> [u8; ID_BYTES / 2];

fn receiver() -> Receiver<Random> {
    Receiver::new(|| [9; ID_BYTES / 2])
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn with_id(kind: u16, id: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes(), id].concat()
}

fn video(number: u32) -> Vec<u8> {
    let mut packet = number.to_be_bytes().to_vec();
    packet.resize(1_332, 0x47);
    packet
}

/// What an SRT listener answers.
fn answer(kind: u16) -> Vec<u8> {
    let mut bytes = kind.to_be_bytes().to_vec();
    bytes.resize(44, 0);
    bytes
}

/// What a sender does as BELABOX's: one link asks for a group, all join.
struct Sender {
    half: [u8; ID_BYTES / 2],
    links: Vec<SocketAddr>,
}

impl Sender {
    fn new(seed: u8, ports: impl Iterator<Item = u16>) -> Self {
        Sender {
            half: [seed; ID_BYTES / 2],
            links: ports.map(address).collect(),
        }
    }

    fn ask<F: FnMut() -> [u8; 128]>(&self, to: &mut Receiver<F>, now: Instant) -> Taken {
        let asked = with_id(0x9200, &[self.half, [0; ID_BYTES / 2]].concat());
        to.handle_link(now, self.links[0], &asked)
    }

    /// Registers, and returns the group.
    fn register<F: FnMut() -> [u8; 128]>(&self, to: &mut Receiver<F>, now: Instant) -> GroupId {
        let Taken::Answer(answer) = self.ask(to, now) else {
            panic!("no answer");
        };
        assert_eq!(answer[..2], [0x92, 0x01]);
        assert_eq!(answer[2..130], self.half);
        for &link in &self.links {
            let joined = to.handle_link(now, link, &answer);
            assert_eq!(joined, Taken::Answer(wire::joined()));
        }
        let mut events = core::iter::from_fn(|| to.poll_event());
        let began = events.find_map(|event| match event {
            Event::GroupBegan(group) => Some(group),
            _ => None,
        });
        let group = began.unwrap();
        for &link in &self.links {
            assert_eq!(to.poll_event(), Some(Event::LinkJoined(group, link)));
        }
        group
    }
}

#[test]
fn a_sender_registers_and_each_link_is_acknowledged_apart() {
    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=2);
    let group = sender.register(&mut receiver, at(0));
    // Three of four packets by the first link.
    let mut acks = Vec::new();
    for number in 0..40 {
        let link = sender.links[usize::from(number % 4 == 3)];
        match receiver.handle_link(at(10), link, &video(number)) {
            Taken::Forward { group: its, ack } => {
                assert_eq!(its, group);
                acks.extend(ack.map(|ack| (link, ack)));
            }
            taken => panic!("{taken:?}"),
        }
    }
    let told: Vec<_> = acks.iter().map(|(link, _)| link.port()).collect();
    assert_eq!(told, [1, 1, 1, 2]);
    let numbers = |ack: &[u8]| -> Vec<u32> {
        let numbers = ack[4..].chunks(4);
        numbers
            .map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap()))
            .collect()
    };
    assert_eq!(numbers(&acks[0].1), [0, 1, 2, 4, 5, 6, 8, 9, 10, 12]);
    assert_eq!(numbers(&acks[3].1), [3, 7, 11, 15, 19, 23, 27, 31, 35, 39]);
}

#[test]
fn control_packets_are_forwarded_and_not_acknowledged() {
    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=1);
    let group = sender.register(&mut receiver, at(0));
    let mut handshake = vec![0x80, 0];
    handshake.resize(64, 0);
    for _ in 0..30 {
        let taken = receiver.handle_link(at(0), sender.links[0], &handshake);
        assert_eq!(taken, Taken::Forward { group, ack: None });
    }
}

#[test]
fn acknowledgements_go_to_all_links_and_the_rest_to_the_latest() {
    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=3);
    let group = sender.register(&mut receiver, at(0));
    assert_eq!(receiver.handle_srt(group, &answer(0x8002)), sender.links);
    let naks = receiver.handle_srt(group, &answer(0x8003));
    assert_eq!(naks, [sender.links[2]]);
    receiver.handle_link(at(1), sender.links[1], &video(7));
    // A keepalive is no sign that the sender prefers its link.
    receiver.handle_link(at(2), sender.links[0], &[0x90, 0]);
    let naks = receiver.handle_srt(group, &answer(0x8003));
    assert_eq!(naks, [sender.links[1]]);
    assert_eq!(receiver.handle_srt(group, &[0x80, 0x02]), []);
}

#[test]
fn keepalives_come_back_and_what_they_tell_is_kept() {
    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=1);
    let group = sender.register(&mut receiver, at(0));
    let mut keepalive = vec![0x90, 0];
    for _ in 0..2 {
        let taken = receiver.handle_link(at(0), sender.links[0], &keepalive);
        assert_eq!(taken, Taken::Answer(keepalive.clone()));
        keepalive.extend(5_u64.to_be_bytes());
    }
    keepalive.truncate(10);
    keepalive.extend([0xc0, 0x1f, 0, 1]);
    keepalive.extend((0_u32..6).flat_map(|number| (10 * number).to_be_bytes()));
    let taken = receiver.handle_link(at(0), sender.links[0], &keepalive);
    assert_eq!(taken, Taken::Answer(keepalive));
    receiver.handle_link(at(0), sender.links[0], &video(1));
    receiver.handle_time(at(10_001));
    let Some(Event::LinkLeft(of, summary)) = receiver.poll_event() else {
        panic!("the link is silent");
    };
    assert_eq!(
        (of, summary.datagram_count, summary.bytes),
        (group, 1, 1_332)
    );
    assert_eq!(summary.info.unwrap().rtt_millis, 30);
    // Who is unknown gets no echo.
    let taken = receiver.handle_link(at(10_002), sender.links[0], &[0x90, 0]);
    assert_eq!(taken, Taken::Nothing);
}

#[test]
fn a_link_that_fails_comes_back_and_a_group_without_links_ends() {
    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=2);
    let group = sender.register(&mut receiver, at(0));
    let id = [[1; ID_BYTES / 2], [9; ID_BYTES / 2]].concat();
    for second in 1..=12 {
        receiver.handle_link(at(1_000 * second), sender.links[0], &[0x90, 0]);
        receiver.handle_time(at(1_000 * second));
    }
    let left = receiver.poll_event();
    assert!(matches!(left, Some(Event::LinkLeft(of, _)) if of == group));
    assert_eq!(receiver.poll_event(), None);
    assert_eq!(receiver.links(group).collect::<Vec<_>>(), [address(1)]);
    // It asks again by another port, as after a change of its address.
    let joined = receiver.handle_link(at(12_000), address(3), &with_id(0x9201, &id));
    assert_eq!(joined, Taken::Answer(wire::joined()));
    assert_eq!(
        receiver.poll_event(),
        Some(Event::LinkJoined(group, address(3)))
    );
    receiver.handle_time(at(22_001));
    let events: Vec<_> = core::iter::from_fn(|| receiver.poll_event()).collect();
    assert_eq!(events.len(), 3);
    assert_eq!(events[2], Event::GroupEnded(group));
    let joined = receiver.handle_link(at(23_000), address(3), &with_id(0x9201, &id));
    assert_eq!(joined, Taken::Answer(wire::no_group()));
}

#[test]
fn a_lost_answer_is_sent_again_and_a_member_founds_no_other_group() {
    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=1);
    let first = sender.ask(&mut receiver, at(0));
    assert_eq!(sender.ask(&mut receiver, at(4_000)), first);
    assert_eq!(receiver.group_count(), 1);
    // A sender that was restarted at the same port.
    let restarted = Sender::new(2, 1..=1);
    assert_ne!(restarted.ask(&mut receiver, at(5_000)), first);
    assert_eq!(receiver.group_count(), 1);
    while receiver.poll_event().is_some() {}
    let Taken::Answer(answer) = restarted.ask(&mut receiver, at(5_000)) else {
        panic!("no answer");
    };
    receiver.handle_link(at(5_000), address(1), &answer);
    let refused = Taken::Answer(wire::refused());
    assert_eq!(restarted.ask(&mut receiver, at(6_000)), refused);
    // Nor does it join that of another.
    let other = Sender::new(3, 2..=2);
    let Taken::Answer(others) = other.ask(&mut receiver, at(6_000)) else {
        panic!("no answer");
    };
    assert_eq!(
        receiver.handle_link(at(6_000), address(1), &others),
        refused
    );
}

#[test]
fn a_flood_of_registrations_keeps_out_nobody_and_ends_no_stream() {
    let mut count = 0_u16;
    let mut receiver = Receiver::new(move || {
        count += 1;
        let [high, low] = count.to_be_bytes();
        core::array::from_fn(|index| if index == 0 { high } else { low })
    });
    let streaming = Sender::new(1, 1..=2);
    let group = streaming.register(&mut receiver, at(0));
    receiver.handle_srt(group, &answer(0x8002));
    for port in 1_000..1_500 {
        // They send, but nobody accepts them.
        let stranger = Sender::new(2, port..=port);
        let theirs = stranger.register(&mut receiver, at(1));
        receiver.handle_link(at(1), stranger.links[0], &video(0));
        receiver.handle_srt(theirs, &answer(0x8000));
    }
    assert_eq!(receiver.group_count(), MAX_GROUPS);
    while receiver.poll_event().is_some() {}
    Sender::new(3, 5_000..=5_001).register(&mut receiver, at(2));
    assert_eq!(receiver.links(group).count(), 2);
}

#[test]
fn links_and_groups_are_bounded() {
    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=MAX_LINKS as u16);
    let group = sender.register(&mut receiver, at(0));
    let id = [[1; ID_BYTES / 2], [9; ID_BYTES / 2]].concat();
    let refused = receiver.handle_link(at(0), address(99), &with_id(0x9201, &id));
    assert_eq!(refused, Taken::Answer(wire::refused()));
    receiver.handle_link(at(0), address(1), &video(0));
    for number in 1..MAX_GROUPS as u16 {
        let other = Sender::new(2, 100 + number..=100 + number);
        let Taken::Answer(answer) = other.ask(&mut receiver, at(0)) else {
            panic!("no answer");
        };
        // All have the same name here: the first of them is joined, and the others are not.
        receiver.handle_link(at(0), other.links[0], &answer);
        receiver.handle_link(at(0), other.links[0], &video(0));
    }
    assert!(receiver.group_count() <= MAX_GROUPS);
    assert_eq!(receiver.links(group).count(), MAX_LINKS);
}

proptest! {
    /// Whatever comes from whomever, limits hold, and who is forgotten is forgotten everywhere.
    #[test]
    fn nothing_that_comes_breaks_it(
        steps in prop::collection::vec(
            (0_u16..200, 0_u64..3_000, prop::sample::select(vec![
                0x9000_u16, 0x9100, 0x9200, 0x9201, 0x9202, 0x8002, 0x0001,
            ]), 0_u8..4, prop::sample::select(vec![0_usize, 1, 2, 14, 36, 256, 257, 1_400])),
            0..400,
        )
    ) {
        let mut count = 0_u8;
        let mut receiver = Receiver::new(move || {
            count = count.wrapping_add(1);
            [count; ID_BYTES / 2]
        });
        let mut now = at(0);
        let mut open = std::collections::BTreeSet::new();
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (port, wait, kind, seed, length) in steps {
            now += Duration::from_millis(wait);
            let mut datagram = with_id(kind, &vec![seed; length]);
            if kind == 0x9201 && let Some(name) = names.get(usize::from(seed)) {
                datagram.clone_from(name);
            }
            match receiver.handle_link(now, address(port), &datagram) {
                Taken::Answer(bytes) => {
                    prop_assert!(bytes.len() <= datagram.len().max(32), "no amplification");
                    if bytes.starts_with(&[0x92, 0x01]) {
                        names.push(bytes);
                    }
                }
                Taken::Forward { group, .. } => {
                    let links = receiver.handle_srt(group, &[0x80, 2].repeat(10));
                    prop_assert!(links.contains(&address(port)) && links.len() <= MAX_LINKS);
                }
                Taken::Nothing => {}
            }
            receiver.handle_time(now);
            while let Some(event) = receiver.poll_event() {
                match event {
                    Event::GroupBegan(group) => prop_assert!(open.insert(group)),
                    Event::GroupEnded(group) => prop_assert!(open.remove(&group)),
                    Event::LinkJoined(group, _) | Event::LinkLeft(group, _) => {
                        prop_assert!(open.contains(&group));
                    }
                }
            }
            prop_assert_eq!(open.len(), receiver.group_count());
            prop_assert!(receiver.members.len() <= receiver.group_count() * (MAX_LINKS + 1));
        }
        receiver.handle_time(now + Duration::from_secs(60));
        prop_assert!(receiver.members.is_empty());
    }
}

#[test]
fn links_are_seen_once_the_listener_has_accepted_their_sender() {
    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=2);
    let group = sender.register(&mut receiver, at(0));
    receiver.handle_link(at(5), sender.links[1], &video(1));
    assert!(receiver.has_link(sender.links[0]));
    assert!(!receiver.has_link(Sender::new(2, 3..=3).links[0]));
    assert_eq!(receiver.accepted_links().count(), 0);
    receiver.handle_srt(group, &answer(0x8002));
    let seen: Vec<_> = receiver
        .accepted_links()
        .map(|(link, heard_at)| (link.address, link.datagram_count, heard_at))
        .collect();
    let [first, second] = [sender.links[0], sender.links[1]];
    assert_eq!(seen, [(first, 0, at(0)), (second, 1, at(5))]);
}

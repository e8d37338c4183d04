//! The receiver against senders that are simulated here.

use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::group_limits::MAX_GROUPS_OF_NETWORK;
use crate::wire::ID_BYTES;

mod attacks;

fn receiver() -> Receiver {
    Receiver::new(&[9; SECRET_BYTES])
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

/// Returns an answer of an SRT listener.
fn answer(kind: u16) -> Vec<u8> {
    let mut bytes = kind.to_be_bytes().to_vec();
    bytes.resize(44, 0);
    bytes
}

/// A sender that behaves like BELABOX's: one link asks for a group, all join.
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

    /// Requests a group. Returns the answer, a REG2.
    fn ask(&self, to: &mut Receiver, now: Instant) -> Vec<u8> {
        let asked = with_id(0x9200, &[self.half, [0; ID_BYTES / 2]].concat());
        let Taken::Answer(answer) = to.handle_link(now, self.links[0], &asked) else {
            panic!("no answer");
        };
        assert_eq!(answer[..2], [0x92, 0x01]);
        assert_eq!(answer[2..130], self.half);
        answer
    }

    /// Registers, and returns the group.
    fn register(&self, to: &mut Receiver, now: Instant) -> GroupId {
        self.try_register(to, now).expect("a place")
    }

    /// Registers, and returns the group; `None` if there is no place.
    fn try_register(&self, to: &mut Receiver, now: Instant) -> Option<GroupId> {
        let named = self.ask(to, now);
        for &link in &self.links {
            let answer = to.handle_link(now, link, &named);
            if answer == Taken::Answer(wire::no_group()) {
                return None;
            }
            assert_eq!(answer, Taken::Answer(wire::joined()));
        }
        Some(to.members[&self.links[0]])
    }
}

fn events(receiver: &mut Receiver) -> Vec<Event> {
    core::iter::from_fn(|| receiver.poll_event()).collect()
}

#[test]
fn a_sender_registers_and_each_link_is_acknowledged_apart() {
    fn numbers(ack: &[u8]) -> Vec<u32> {
        let numbers = ack[4..].chunks(4);
        numbers
            .map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap()))
            .collect()
    }

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
    let expected: Vec<_> = acks.iter().map(|(link, _)| link.port()).collect();
    assert_eq!(expected, [1, 1, 1, 2]);
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
fn acknowledgements_go_to_all_links_that_carry_and_the_rest_to_the_latest() {
    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=4);
    let group = sender.register(&mut receiver, at(0));
    for link in &sender.links[..3] {
        receiver.handle_link(at(0), *link, &video(6));
    }
    let acked = receiver.handle_srt(at(0), group, &answer(0x8002));
    assert_eq!(acked, sender.links[..3]);
    let naks = receiver.handle_srt(at(0), group, &answer(0x8003));
    assert_eq!(naks, [sender.links[2]]);
    receiver.handle_link(at(1), sender.links[1], &video(7));
    // Neither a keepalive nor a REG2 shows that the sender prefers its link.
    receiver.handle_link(at(2), sender.links[0], &[0x90, 0]);
    let named = sender.ask(&mut receiver, at(2));
    receiver.handle_link(at(2), sender.links[0], &named);
    let naks = receiver.handle_srt(at(2), group, &answer(0x8003));
    assert_eq!(naks, [sender.links[1]]);
    assert_eq!(receiver.handle_srt(at(2), group, &[0x80, 0x02]), []);
}

#[test]
fn keepalives_are_echoed_and_their_info_kept() {
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
    // An unknown address gets no echo.
    let taken = receiver.handle_link(at(10_002), sender.links[0], &[0x90, 0]);
    assert_eq!(taken, Taken::Nothing);
}

#[test]
fn a_link_that_fails_comes_back_and_a_group_without_links_ends() {
    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=2);
    let group = sender.register(&mut receiver, at(0));
    let named = sender.ask(&mut receiver, at(0));
    for second in 1..=300 {
        receiver.handle_link(at(1_000 * second), sender.links[0], &[0x90, 0]);
        receiver.handle_time(at(1_000 * second));
    }
    let left = events(&mut receiver);
    assert!(matches!(left[..], [Event::LinkLeft(of, _)] if of == group));
    assert_eq!(receiver.links(group).collect::<Vec<_>>(), [address(1)]);
    // It registers again from another port, as after a change of its address. Its name is too old
    // to found a group, but the group exists.
    let joined = receiver.handle_link(at(300_000), address(3), &named);
    assert_eq!(joined, Taken::Answer(wire::joined()));
    assert_eq!(receiver.members[&address(3)], group);
    receiver.handle_time(at(310_001));
    let events = events(&mut receiver);
    assert_eq!(events.len(), 3);
    assert_eq!(events[2], Event::GroupEnded(group));
    let joined = receiver.handle_link(at(311_000), address(3), &named);
    assert_eq!(joined, Taken::Answer(wire::no_group()));
}

#[test]
fn a_lost_answer_is_sent_again_and_a_member_joins_no_other_group() {
    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=1);
    let first = sender.ask(&mut receiver, at(0));
    assert_eq!(sender.ask(&mut receiver, at(4_000)), first);
    assert_eq!(receiver.group_count(), 0);
    sender.register(&mut receiver, at(4_000));
    // A sender that was restarted at the same port.
    let restarted = Sender::new(2, 1..=1);
    let named = restarted.ask(&mut receiver, at(5_000));
    let refused = Taken::Answer(wire::refused());
    let link = restarted.links[0];
    assert_eq!(receiver.handle_link(at(6_000), link, &named), refused);
    receiver.handle_time(at(14_001));
    let joined = Taken::Answer(wire::joined());
    assert_eq!(receiver.handle_link(at(14_001), link, &named), joined);
}

/// Checks that any link may be the first, as their networks differ in delay.
#[test]
fn a_group_is_founded_by_whichever_link_brings_its_name_first() {
    let mut receiver = receiver();
    let mut sender = Sender::new(1, 1..=1);
    sender.links.push(([198, 51, 100, 1], 2).into());
    let named = sender.ask(&mut receiver, at(0));
    for &link in sender.links.iter().rev() {
        let joined = receiver.handle_link(at(50), link, &named);
        assert_eq!(joined, Taken::Answer(wire::joined()));
    }
    assert_eq!(receiver.group_count(), 1);
    let group = receiver.members[&address(1)];
    assert_eq!(receiver.address(group), Some(address(1).ip()));
}

#[test]
fn links_and_groups_are_bounded() {
    fn another(receiver: &mut Receiver, seed: usize, now: Instant) -> Option<GroupId> {
        let port = 100 + seed as u16;
        Sender::new(seed as u8, port..=port).try_register(receiver, now)
    }

    let mut receiver = receiver();
    let sender = Sender::new(1, 1..=MAX_LINKS as u16);
    let group = sender.register(&mut receiver, at(0));
    let named = sender.ask(&mut receiver, at(0));
    let refused = receiver.handle_link(at(0), address(9_999), &named);
    assert_eq!(refused, Taken::Answer(wire::refused()));
    for seed in 2..=MAX_GROUPS_OF_NETWORK {
        another(&mut receiver, seed, at(0)).unwrap();
    }
    assert_eq!(receiver.group_count(), MAX_GROUPS_OF_NETWORK);
    assert_eq!(receiver.links(group).count(), MAX_LINKS);
    let refused = another(&mut receiver, MAX_GROUPS_OF_NETWORK + 1, at(999));
    assert_eq!(refused, None, "all are new");
    another(&mut receiver, MAX_GROUPS_OF_NETWORK + 1, at(1_000)).unwrap();
    assert_eq!(receiver.group_count(), MAX_GROUPS_OF_NETWORK);
    assert_eq!(receiver.links(group).count(), 0, "the oldest");
    assert_eq!(receiver.members.len(), MAX_GROUPS_OF_NETWORK);
}

proptest! {
    /// Checks that limits hold for all datagrams, and that each group ends once.
    #[test]
    fn nothing_that_comes_breaks_it(
        steps in prop::collection::vec(
            (0_u16..200, 0_u64..3_000, prop::sample::select(vec![
                0x9000_u16, 0x9100, 0x9200, 0x9201, 0x9202, 0x8002, 0x0001,
            ]), 0_u8..4, prop::sample::select(vec![0_usize, 1, 2, 14, 36, 256, 257, 1_400])),
            0..400,
        )
    ) {
        let mut receiver = receiver();
        let mut now = at(0);
        let mut over = std::collections::BTreeSet::new();
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut bytes = std::collections::BTreeMap::<SocketAddr, [usize; 2]>::new();
        for (port, wait, kind, seed, length) in steps {
            now += Duration::from_millis(wait);
            let mut datagram = with_id(kind, &vec![seed; length]);
            if kind == 0x9201 && let Some(name) = names.get(usize::from(seed)) {
                datagram.clone_from(name);
            }
            let from = SocketAddr::from(([10, 0, (port % 9) as u8, 1], port));
            let [came, went] = bytes.entry(from).or_default();
            *came += datagram.len();
            match receiver.handle_link(now, from, &datagram) {
                Taken::Answer(bytes) => {
                    prop_assert!(bytes.len() <= datagram.len().max(32), "no amplification");
                    *went += bytes.len();
                    if bytes.starts_with(&[0x92, 0x01]) {
                        names.push(bytes);
                    }
                }
                Taken::Forward { group, ack } => {
                    *went += ack.map_or(0, |ack| ack.len());
                    prop_assert!(!over.contains(&group));
                    let answer = [0x80, 2].repeat(10);
                    let links = receiver.handle_srt(now, group, &answer);
                    prop_assert!(links.len() <= MAX_LINKS);
                    for link in links {
                        bytes.entry(link).or_default()[1] += answer.len();
                    }
                }
                Taken::Nothing => {}
            }
            for [came, went] in bytes.values() {
                prop_assert!(*went <= 3 * *came + 32, "amplified: {went} for {came}");
            }
            receiver.handle_time(now);
            while let Some(event) = receiver.poll_event() {
                match event {
                    Event::GroupEnded(group) => prop_assert!(over.insert(group)),
                    Event::LinkAccepted(group, _) | Event::LinkLeft(group, _) => {
                        prop_assert!(!over.contains(&group));
                    }
                }
            }
            let (groups, links) = (receiver.group_count(), receiver.members.len());
            prop_assert!(groups <= MAX_GROUPS && groups <= links && links <= groups * MAX_LINKS);
        }
        receiver.handle_time(now + Duration::from_secs(60));
        prop_assert!(receiver.members.is_empty() && receiver.group_count() == 0);
    }
}

#[test]
fn links_are_reported_while_the_listener_accepts_their_sender() {
    fn accepted(link: SocketAddr, group: GroupId) -> Event {
        Event::LinkAccepted(group, link)
    }

    let mut receiver = receiver();
    let mut sender = Sender::new(1, 1..=2);
    let group = sender.register(&mut receiver, at(0));
    receiver.handle_link(at(5), sender.links[1], &video(1));
    assert!(receiver.has_link(sender.links[0]));
    assert!(!receiver.has_link(Sender::new(2, 3..=3).links[0]));
    for kind in [0x8000, 0x8001, 0x8003] {
        receiver.handle_srt(at(5), group, &answer(kind));
    }
    assert_eq!(receiver.accepted_links(at(5)).count(), 0);
    assert_eq!(events(&mut receiver), []);
    receiver.handle_srt(at(5), group, &answer(0x8002));
    let seen: Vec<_> = receiver
        .accepted_links(at(5))
        .map(|(link, heard_at)| (link.address, link.datagram_count, heard_at))
        .collect();
    let [first, second] = [sender.links[0], sender.links[1]];
    assert_eq!(seen, [(first, 0, at(0)), (second, 1, at(5))]);
    assert_eq!(
        events(&mut receiver),
        [accepted(first, group), accepted(second, group)]
    );
    // A later link is reported at once, and none twice.
    sender.links.push(address(7));
    sender.register(&mut receiver, at(6));
    receiver.handle_srt(at(6), group, &answer(0x8002));
    assert_eq!(events(&mut receiver), [accepted(address(7), group)]);
    // A pause of the video is no pause of SRT. Handshakes do not show that it continues.
    receiver.handle_srt(at(9_000), group, &answer(0x8001));
    receiver.handle_srt(at(15_000), group, &answer(0x8000));
    assert_eq!(receiver.accepted_links(at(19_000)).count(), 3);
    assert_eq!(receiver.accepted_links(at(19_001)).count(), 0);
    receiver.handle_srt(at(19_001), group, &answer(0x8001));
    assert_eq!(receiver.accepted_links(at(19_001)).count(), 0);
}

//! Attacks on the receiver, each from the first datagram on.

use super::*;

/// Returns an address of a network of its own.
fn anywhere(number: u16) -> SocketAddr {
    let [high, low] = number.to_be_bytes();
    SocketAddr::from(([10, high, low, 1], 4_000 + number % 1_000))
}

fn sender_at(seed: u8, links: impl IntoIterator<Item = SocketAddr>) -> Sender {
    Sender {
        half: [seed; ID_BYTES / 2],
        links: links.into_iter().collect(),
    }
}

/// Returns a true sender over two networks.
fn true_sender() -> Sender {
    let links = [([198, 51, 100, 1], 1), ([203, 0, 113, 1], 1)];
    sender_at(7, links.map(SocketAddr::from))
}

/// Registers 500 times a second from forged addresses, whose sender sees no answer. A true sender
/// registers among them, is accepted a second later, and stays.
#[test]
fn registrations_from_forged_addresses_take_no_place() {
    let mut receiver = receiver();
    let sender = true_sender();
    let mut named = Vec::new();
    let mut group = None;
    for millis in (0..30_000).step_by(2) {
        let now = at(millis);
        // They know the protocol: a REG2 that guesses the name follows.
        for kind in [0x9200, 0x9201] {
            let mut forged = with_id(kind, &[3; ID_BYTES]);
            forged[2..10].copy_from_slice(&millis.to_be_bytes());
            receiver.handle_link(now, anywhere(millis as u16), &forged);
        }
        match millis {
            5_000 => named = sender.ask(&mut receiver, now),
            5_100 | 5_400 => {
                let link = sender.links[usize::from(millis == 5_400)];
                let joined = receiver.handle_link(now, link, &named);
                assert_eq!(joined, Taken::Answer(wire::joined()));
                group = Some(receiver.members[&link]);
            }
            6_000.. if millis % 20 == 0 => {
                let taken = receiver.handle_link(now, sender.links[0], &video(1));
                let its = group.unwrap();
                assert!(matches!(taken, Taken::Forward { group, .. } if group == its));
                receiver.handle_link(now, sender.links[1], &[0x90, 0]);
                receiver.handle_srt(now, its, &answer(0x8002));
            }
            _ => {}
        }
        if millis % 1_000 == 0 {
            receiver.handle_time(now);
        }
        assert!(receiver.group_count() <= 1 && receiver.members.len() <= 2);
    }
    let group = group.unwrap();
    assert_eq!(receiver.links(group).collect::<Vec<_>>(), sender.links);
    let reported = sender
        .links
        .iter()
        .copied()
        .map(|link| Event::LinkAccepted(group, link));
    assert_eq!(events(&mut receiver), reported.collect::<Vec<_>>());
}

/// Registers 500 times a second from ten hosts in each of some networks, which do get the answers.
/// A true sender registers after a second, and waits for its encoder. Returns its links at the end,
/// and the number of groups.
fn registrations_by(networks: u16) -> (Vec<SocketAddr>, usize) {
    let mut receiver = receiver();
    let sender = true_sender();
    let mut its = None;
    for number in 0..10_000_u16 {
        let now = at(2 * u64::from(number));
        let [network, host] = [number % networks, number / networks % 10].map(|part| part as u8);
        let from = SocketAddr::from(([10, 0, network, host], number));
        let mut stranger = sender_at(0, [from]);
        stranger.half[..2].copy_from_slice(&number.to_be_bytes());
        // They call the SRT listener, which answers and accepts none of them.
        if let Some(theirs) = stranger.try_register(&mut receiver, now) {
            receiver.handle_link(now, from, &video(0));
            receiver.handle_srt(now, theirs, &answer(0x8000));
        }
        if number == 500 {
            its = Some(sender.register(&mut receiver, now));
        }
        if number > 500 && number % 500 == 0 {
            for &link in &sender.links {
                receiver.handle_link(now, link, &[0x90, 0]);
            }
            receiver.handle_time(now);
        }
        let links = receiver.members.len();
        assert!(receiver.group_count() <= MAX_GROUPS && links <= MAX_GROUPS + 1);
        for event in events(&mut receiver) {
            assert!(!matches!(event, Event::LinkAccepted(..)), "{event:?}");
        }
    }
    (
        receiver.links(its.unwrap()).collect(),
        receiver.group_count(),
    )
}

#[test]
fn registrations_from_few_networks_push_no_other_sender_out() {
    for networks in [1, 5, 60] {
        let (links, group_count) = registrations_by(networks);
        assert_eq!(links, true_sender().links, "{networks} networks");
        let most = usize::from(networks) * MAX_GROUPS_OF_NETWORK + 1;
        assert!(group_count <= most, "{networks} networks");
    }
}

#[test]
fn registrations_from_more_networks_than_places_end_no_accepted_stream() {
    let mut receiver = receiver();
    let sender = true_sender();
    let group = sender.register(&mut receiver, at(0));
    receiver.handle_link(at(0), sender.links[0], &video(0));
    receiver.handle_srt(at(0), group, &answer(0x8002));
    for number in 0..5_000 {
        sender_at(1, [anywhere(number)]).register(&mut receiver, at(1 + u64::from(number)));
    }
    assert_eq!(receiver.group_count(), MAX_GROUPS);
    assert_eq!(receiver.links(group).count(), 2);
}

/// Checks strangers whom SRT accepted once, and who have since sent only keepalives.
#[test]
fn a_group_keeps_its_place_no_longer_than_srt_speaks() {
    fn keep(receiver: &mut Receiver, now: Instant, strangers: &[SocketAddr]) {
        for &from in strangers {
            receiver.handle_link(now, from, &[0x90, 0]);
        }
        receiver.handle_time(now);
    }

    let mut receiver = receiver();
    let strangers: Vec<_> = (0..MAX_GROUPS as u16).map(anywhere).collect();
    for &from in &strangers {
        let group = sender_at(1, [from]).register(&mut receiver, at(0));
        receiver.handle_link(at(0), from, &video(0));
        receiver.handle_srt(at(0), group, &answer(0x8002));
    }
    let sender = true_sender();
    keep(&mut receiver, at(9_000), &strangers);
    let named = sender.ask(&mut receiver, at(9_000));
    let refused = receiver.handle_link(at(9_000), sender.links[0], &named);
    assert_eq!(refused, Taken::Answer(wire::no_group()));
    keep(&mut receiver, at(10_001), &strangers);
    sender.register(&mut receiver, at(10_001));
    assert_eq!(receiver.group_count(), MAX_GROUPS);
}

/// Checks an attacker with a group of his own who names 15 addresses that are not his as its links.
#[test]
fn what_srt_answers_goes_to_no_address_that_did_not_bring_half_as_much() {
    let mut receiver = receiver();
    let attacker = sender_at(1, [anywhere(0)]);
    let group = attacker.register(&mut receiver, at(0));
    let named = attacker.ask(&mut receiver, at(0));
    let victims: Vec<_> = (1..MAX_LINKS as u16).map(anywhere).collect();
    for &victim in &victims {
        receiver.handle_link(at(0), victim, &named);
        // Keepalives are returned, and earn no acknowledgements.
        let keepalive = [&[0x90, 0][..], &[1; 36]].concat();
        for _ in 0..10 {
            receiver.handle_link(at(0), victim, &keepalive);
        }
    }
    let mut got = [0, 0];
    for number in 0..1_000 {
        let now = at(10 * u64::from(number));
        receiver.handle_link(now, attacker.links[0], &video(number));
        // Under the addresses of seven he forges one packet of SRT.
        let forged = if number == 0 { 7 } else { 0 };
        for &victim in &victims[..forged] {
            receiver.handle_link(now, victim, &video(number));
        }
        for link in receiver.handle_srt(now, group, &answer(0x8002)) {
            if let Some(at) = victims.iter().position(|&victim| victim == link) {
                got[usize::from(at >= 7)] += 44;
            }
        }
    }
    let brought = 7 * (1_332 + 10 * 38);
    assert!(
        got[0] <= 2 * brought && got[1] == 0,
        "{got:?} for {brought}"
    );
    // Other answers do not go to the link that has registered last either.
    receiver.handle_link(at(10_000), victims[14], &named);
    let naks = receiver.handle_srt(at(10_000), group, &answer(0x8003));
    assert_eq!(naks, attacker.links);
}

/// Checks a stranger behind the same carrier's address. It registers 100 groups a second while the
/// SRT listener answers another sender within a second.
#[test]
fn a_sender_that_shares_its_address_with_a_stranger_is_accepted() {
    let mut receiver = receiver();
    let sender = true_sender();
    let shared = sender.links[0].ip();
    for seed in 0..300_u16 {
        let from = SocketAddr::new(shared, 10_000 + seed);
        let mut stranger = sender_at(0, [from]);
        stranger.half[..2].copy_from_slice(&seed.to_be_bytes());
        stranger.register(&mut receiver, at(10 * u64::from(seed)));
    }
    let group = sender.register(&mut receiver, at(3_000));
    for seed in 300..400_u16 {
        let from = SocketAddr::new(shared, 10_000 + seed);
        let mut stranger = sender_at(0, [from]);
        stranger.half[..2].copy_from_slice(&seed.to_be_bytes());
        stranger.register(&mut receiver, at(10 * u64::from(seed)));
    }
    receiver.handle_link(at(4_000), sender.links[0], &video(0));
    receiver.handle_srt(at(4_000), group, &answer(0x8002));
    assert!(receiver.accepted_links(at(4_000)).count() >= 1);
    assert_eq!(receiver.address(group), Some(shared));
}

/// Checks a sender in a network from whose other hosts strangers register 1,000 times a second. It
/// tries every 50 ms, and the SRT listener answers it 900 ms after it has got a place.
#[test]
fn a_crowd_in_its_network_pushes_no_sender_out_before_srt_answers() {
    let mut receiver = receiver();
    let sender = sender_at(7, [([198, 51, 100, 250], 1).into()]);
    let (mut group, mut founded) = (None, 0);
    for millis in 0..20_000_u64 {
        let now = at(millis);
        let host = (millis % 200) as u8;
        let from = SocketAddr::from(([198, 51, 100, host], (millis / 200) as u16 + 1));
        let mut stranger = sender_at(0, [from]);
        stranger.half[..8].copy_from_slice(&millis.to_be_bytes());
        founded += u64::from(stranger.try_register(&mut receiver, now).is_some());
        if group.is_none() && millis % 50 == 10 {
            let its = sender.try_register(&mut receiver, now);
            group = its.map(|its| (its, now + Duration::from_millis(900)));
        }
        if let Some((its, answered_at)) = group
            && now == answered_at
        {
            receiver.handle_link(now, sender.links[0], &video(0));
            receiver.handle_srt(now, its, &answer(0x8002));
            assert_eq!(receiver.accepted_links(now).count(), 1);
        }
        if millis % 1_000 == 0 {
            receiver.handle_time(now);
        }
    }
    assert!(founded <= 20 * MAX_GROUPS_OF_NETWORK as u64, "{founded}");
    let (_, answered_at) = group.expect("a place");
    assert!(answered_at < at(10_000), "{answered_at}");
}

/// Checks that strangers found groups at the limiter's rate, and those of a crowd leave the rest.
#[test]
fn groups_are_founded_at_a_rate_and_a_sender_from_elsewhere_waits_for_none() {
    let mut receiver = receiver();
    let mut founded = 0;
    for millis in 0..10_000_u64 {
        for part in 0..4 {
            let number = (4 * millis + part) as u16;
            let from = SocketAddr::new(anywhere(number % 512).ip(), 1 + number / 512);
            let mut stranger = sender_at(0, [from]);
            stranger.half[..2].copy_from_slice(&number.to_be_bytes());
            founded += usize::from(stranger.try_register(&mut receiver, at(millis)).is_some());
        }
        if millis == 9_000 {
            let sender = true_sender();
            assert!(sender.try_register(&mut receiver, at(millis)).is_some());
        }
    }
    // The upper half of the bucket is everybody's, and so are the tokens that come into it.
    assert!((512..=512 + 10_000 + 512).contains(&founded), "{founded}");
}

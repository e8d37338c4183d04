//! Tests of routes: the address that is trusted to be the peer's, and its changes.

use super::*;
use std::net::Ipv4Addr;

const RTT: u64 = 40;

fn address(port: u16) -> Address {
    Address {
        socket: 0,
        peer: (Ipv4Addr::LOCALHOST, port).into(),
        local: Some(Ipv4Addr::LOCALHOST.into()),
    }
}

/// A route with a token counter and a wire on which challenges are answered.
struct Bed {
    route: Route,
    next_token: Token,
    next_counter: u64,
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

impl Bed {
    /// Creates a bed with a peer that was first heard from port `port`.
    fn new(port: u16) -> Self {
        let heard = Heard {
            from: address(port),
            counter: 0,
            datagram_bytes: 100,
            is_copy: false,
        };
        Bed {
            route: Route::back(at(0), &heard, || 1),
            next_token: 2,
            next_counter: 1,
        }
    }

    /// Creates a bed with a peer that has also answered.
    fn proven(port: u16) -> Self {
        let mut bed = Bed::new(port);
        let [challenge] = bed.challenges()[..] else {
            panic!("the first address is challenged");
        };
        bed.answer(1, challenge.token);
        assert!(bed.route.is_proven());
        bed
    }

    /// Handles an answer, from any address.
    fn answer(&mut self, millis: u64, token: Token) {
        self.route.take_answer(at(millis), address(9), token);
    }

    /// Handles the peer's next datagram, from `port`.
    fn hear(&mut self, millis: u64, port: u16) {
        let counter = self.next_counter;
        self.next_counter += 1;
        self.hear_counter(millis, port, counter);
    }

    fn hear_counter(&mut self, millis: u64, port: u16, counter: u64) {
        self.hear_one(millis, port, counter, false);
    }

    /// Handles a copy of an earlier datagram, from `port`.
    fn hear_copy(&mut self, millis: u64, port: u16) {
        let counter = self.next_counter - 1;
        self.hear_one(millis, port, counter, true);
    }

    fn hear_one(&mut self, millis: u64, port: u16, counter: u64, is_copy: bool) {
        let heard = Heard {
            from: address(port),
            counter,
            datagram_bytes: 26,
            is_copy,
        };
        let next_token = &mut self.next_token;
        self.route.advance(at(millis));
        self.route.hear(at(millis), &heard, || {
            *next_token += 1;
            *next_token
        });
    }

    fn challenges(&mut self) -> Vec<Challenge> {
        self.route.challenges().collect()
    }

    /// Returns the tokens that wait to be sent to these two ports, in this order.
    fn tokens(&mut self, ports: [u16; 2]) -> [Token; 2] {
        let challenges = self.challenges();
        let sent: Vec<_> = challenges
            .iter()
            .map(|challenge| challenge.to.peer.port())
            .collect();
        assert_eq!(sent, ports);
        [challenges[0].token, challenges[1].token]
    }

    fn port(&mut self, millis: u64) -> u16 {
        self.route.advance(at(millis));
        self.route.address().peer.port()
    }
}

#[test]
fn a_copy_from_elsewhere_moves_nothing() {
    let mut bed = Bed::proven(1);
    // The bystander's copies are always first: the peer's own datagrams are then replays.
    for millis in 0..10_000 {
        bed.hear(millis, 2);
        for challenge in bed.challenges() {
            // The peer answers each challenge that it receives, and the bystander copies that, too.
            if challenge.to == address(1) {
                bed.answer(millis, challenge.token);
            }
        }
        assert_eq!(bed.port(millis), 1);
    }
}

#[test]
fn a_bystander_that_relays_the_challenge_moves_nothing_while_the_peer_answers() {
    let mut bed = Bed::proven(1);
    bed.hear(100, 2);
    let [old, new] = bed.tokens([1, 2]);
    bed.answer(100 + RTT, new);
    assert_eq!(bed.port(101 + RTT), 1, "the old address has time to answer");
    bed.answer(105 + RTT, old);
    assert_eq!(bed.port(5_000), 1);
}

#[test]
fn nat_rebinding_is_followed_within_a_round_trip_and_a_quarter() {
    let mut bed = Bed::proven(1);
    bed.hear(1_000, 2);
    let [_, new] = bed.tokens([1, 2]);
    assert_eq!(bed.port(1_000 + RTT), 1, "not before it has answered");
    bed.answer(1_000 + RTT, new);
    assert_eq!(bed.route.next_at(), Some(at(1_000 + RTT + RTT / 4)));
    assert_eq!(bed.port(1_000 + RTT + RTT / 4), 2);
    assert!(bed.route.is_proven());
    // And another one, at once.
    bed.hear(1_100, 3);
    let [_, new] = bed.tokens([2, 3]);
    bed.answer(1_100 + RTT, new);
    assert_eq!(bed.port(1_100 + RTT + RTT / 4), 3);
}

#[test]
fn a_late_answer_of_the_old_address_leads_back() {
    let mut bed = Bed::proven(1);
    bed.hear(100, 2);
    let [old, new] = bed.tokens([1, 2]);
    bed.answer(140, new);
    assert_eq!(bed.port(150), 2);
    bed.answer(400, old);
    assert_eq!(bed.port(400), 1);
}

/// Moves the route to a bystander that has answered first. The peer's challenge and its answer are
/// lost once.
#[test]
fn a_former_address_that_is_heard_has_the_whole_trial_to_answer() {
    let mut bed = Bed::proven(1);
    bed.hear(100, 2);
    let [old, new] = bed.tokens([1, 2]);
    bed.answer(140, new);
    assert_eq!(bed.port(150), 2);
    for millis in 151..400 {
        bed.hear_copy(millis, 1);
        bed.hear(millis, 2);
        // Somebody else is not faster either.
        bed.hear(millis, 3);
    }
    assert_eq!(bed.tokens([1, 2]), [old, new], "again");
    bed.answer(440, new);
    bed.answer(460, old);
    assert_eq!(bed.port(460), 1);
}

#[test]
fn an_overtaken_datagram_from_an_old_address_is_no_news() {
    let mut bed = Bed::proven(1);
    bed.hear_counter(100, 2, 12);
    let [_, new] = bed.tokens([1, 2]);
    bed.answer(140, new);
    assert_eq!(bed.port(150), 2);
    bed.hear_counter(151, 1, 11);
    assert_eq!(bed.challenges(), []);
    assert_eq!(bed.port(5_000), 2);
}

#[test]
fn lost_challenges_are_sent_again_with_the_same_tokens() {
    let mut bed = Bed::proven(1);
    bed.hear(100, 2);
    let tokens = bed.tokens([1, 2]);
    bed.hear(349, 2);
    assert_eq!(bed.challenges(), []);
    bed.hear(350, 2);
    assert_eq!(bed.tokens([1, 2]), tokens);
    bed.answer(390, tokens[1]);
    assert_eq!(bed.port(400), 2, "a quarter of 40 ms later");
}

#[test]
fn an_address_that_never_answers_makes_room_for_another() {
    let mut bed = Bed::proven(1);
    bed.hear(100, 2);
    bed.hear(200, 3);
    bed.tokens([1, 2]);
    // The old one has not answered either: each source is asked now.
    assert_eq!(bed.port(3_100), 1);
    bed.hear(3_101, 2);
    bed.hear(3_102, 3);
    let [_, new] = bed.tokens([2, 3]);
    bed.answer(3_142, new);
    assert_eq!(bed.port(3_142), 3);
}

#[test]
fn an_address_that_failed_leaves_its_turn_to_another() {
    let mut bed = Bed::proven(1);
    bed.hear(100, 2);
    let [old, _] = bed.tokens([1, 2]);
    bed.answer(140, old);
    bed.hear(150, 2);
    assert_eq!(bed.challenges(), [], "it was refused a moment ago");
    bed.hear(160, 3);
    let [old, _] = bed.tokens([1, 3]);
    bed.answer(200, old);
    bed.hear(1_199, 3);
    assert_eq!(bed.challenges(), []);
    bed.hear(1_200, 3);
    bed.tokens([1, 3]);
}

#[test]
fn a_bystander_that_is_first_from_the_first_datagram_on_gets_nothing() {
    let mut bed = Bed::new(2);
    // The peer's own datagrams are replays.
    bed.hear_copy(0, 1);
    let challenges = bed.challenges();
    let to = challenges.iter().map(|challenge| challenge.to);
    assert_eq!(to.collect::<Vec<_>>(), [address(2), address(1)]);
    bed.answer(40, challenges[1].token);
    assert_eq!(bed.port(40), 1);
    assert!(bed.route.is_proven());
}

#[test]
fn a_bystander_with_a_thousand_addresses_gets_nothing_either() {
    let mut bed = Bed::new(1_000);
    let mut own = None;
    bed.challenges();
    for millis in 0..40 {
        bed.hear(millis, 1_001);
        bed.hear_copy(millis, 1);
        let challenges = bed.challenges();
        own = challenges
            .into_iter()
            .find(|challenge| challenge.to == address(1))
            .or(own);
        // Its challenge is no longer among the recent ones when its answer arrives.
        for port in 1_002..2_000 {
            bed.hear_copy(millis, port);
            let sent = bed.challenges();
            assert!(sent.len() <= 2, "no more than it sends");
        }
    }
    let token = own.expect("a challenge").token;
    bed.route.take_answer(at(40), address(1), token);
    assert_eq!(bed.port(40), 1);
}

#[test]
fn a_peer_behind_another_address_is_found_although_a_bystander_is_faster() {
    let mut bed = Bed::proven(1);
    let mut found_at = None;
    for millis in 0..10_000 {
        // The peer moved to 3, and a bystander at 2 copies all its datagrams.
        bed.hear(millis, 2);
        bed.hear_copy(millis, 3);
        for challenge in bed.challenges() {
            if challenge.to == address(3) {
                bed.route
                    .take_answer(at(millis), address(3), challenge.token);
            }
        }
        if bed.port(millis) == 3 {
            found_at.get_or_insert(millis);
        }
    }
    assert!(found_at.is_some_and(|at| at < 3_500), "{found_at:?}");
    assert_eq!(bed.port(10_000), 3);
}

#[test]
fn unproven_address_gets_three_times_its_bytes() {
    let mut bed = Bed::new(1);
    assert!(bed.route.may_send(200));
    assert!(!bed.route.may_send(101));
    assert!(bed.route.may_send(100));
    bed.hear(10, 1);
    assert!(bed.route.may_send(78) && !bed.route.may_send(1));
    // Another address on trial gets only its challenge, one for each of its datagrams.
    bed.challenges();
    let mut challenges = 0;
    for millis in 0..3_000 {
        bed.hear(millis, 1);
        if millis % 500 == 0 {
            bed.hear(millis, 2);
            bed.hear_copy(millis, 2);
        }
        let sent = bed.challenges();
        challenges += sent.iter().filter(|sent| sent.to == address(2)).count();
    }
    assert!((1..=6).contains(&challenges), "{challenges}");
}

#[test]
fn chosen_address_is_not_challenged() {
    let mut route = Route::to(0, address(1).peer);
    assert!(route.is_proven() && route.may_send(1 << 20));
    assert_eq!(route.challenges().count(), 0);
    assert_eq!(route.next_at(), None);
    route.take_answer(at(1), address(1), 7);
    assert_eq!(route.address().peer, address(1).peer);
}

#[test]
fn headers_are_those_of_the_peers_family() {
    assert_eq!(header_bytes("192.0.2.1:9".parse().unwrap()), 28);
    assert_eq!(header_bytes("[::ffff:192.0.2.1]:9".parse().unwrap()), 28);
    assert_eq!(header_bytes("[2001:db8::1]:9".parse().unwrap()), 48);
}

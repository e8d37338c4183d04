//! Paths that move, join, die and come back.

use std::net::IpAddr;

use anabranch_core::PathState;
use anabranch_net::testing::Nat;
use anabranch_net::{ClientPath, Ended, Event, Roster, Sender, StartError, Vacancy, Via};
use anabranch_units::Instant;

use super::bed::{Bed, drain, line, millis};

#[test]
fn a_peer_whose_nat_forgets_it_is_followed_and_loses_nothing() {
    let bed = Bed::new(1, &[line(10, 20).behind(Nat::default())]);
    let (receiver, _sessions) = bed.receiver();
    let (sender, _events) = bed.world.block_on(bed.connect());
    bed.send_for(&sender, millis(500));
    let before = receiver.snapshot().paths[0].peer;
    bed.lines[0].rebind();
    bed.send_for(&sender, millis(2_500));
    bed.world.run_for(millis(500));
    assert_ne!(receiver.snapshot().paths[0].peer, before);
    assert_eq!(receiver.snapshot().session.frames_received, 150);
    assert_eq!(sender.finish(), Ended::Closed);
}

/// Checks routers whose line comes back before their translation does: packets renew an entry that
/// leads nowhere.
#[test]
fn a_path_behind_a_stuck_translation_comes_back() {
    let behind = line(10, 20).behind(Nat::default());
    for lines in [vec![behind.clone()], vec![behind, line(10, 10)]] {
        let bed = Bed::new(31, &lines);
        let (receiver, _sessions) = bed.receiver();
        let (sender, events) = bed.world.block_on(bed.connect());
        bed.send_for(&sender, millis(500));
        drain(&events);
        bed.lines[0].stick();
        bed.send_for(&sender, millis(10_000));
        let before = receiver.snapshot().session.frames_received;
        bed.send_for(&sender, millis(2_000));
        bed.world.run_for(millis(500));
        let after = receiver.snapshot();
        assert!(after.session.frames_received >= before + 99, "{lines:?}");
        let state = after.paths[0].state();
        assert_eq!(state, PathState::Active, "{lines:?}");
        assert_eq!(sender.finish(), Ended::Closed);
    }
}

/// A process that asked for turns in the past would loop without end, which panics in a world.
#[test]
fn a_sender_that_closes_behind_a_stuck_translation_waits() {
    let bed = Bed::new(32, &[line(10, 20).behind(Nat::default())]);
    let (_receiver, _sessions) = bed.receiver();
    let (sender, _events) = bed.world.block_on(bed.connect());
    bed.send_for(&sender, millis(500));
    bed.lines[0].stick();
    bed.send_for(&sender, millis(2_500));
    let began_at = bed.world.now();
    sender.finish();
    let took = (bed.world.now() - began_at).as_secs_f64();
    assert!((2.9..3.2).contains(&took), "{took} s");
}

#[test]
fn a_path_that_dies_costs_no_frame() {
    let bed = Bed::new(2, &[line(6, 5), line(6, 15)]);
    let (receiver, _sessions) = bed.receiver();
    let (sender, events) = bed.world.block_on(bed.connect());
    bed.send_for(&sender, millis(1_500));
    bed.lines[0].block_udp(true);
    bed.send_for(&sender, millis(2_500));
    bed.world.run_for(millis(500));
    assert!(drain(&events).iter().any(|event| match event {
        Event::PathState { path, state } => path.0 == 0 && *state == PathState::Out,
        _ => false,
    }));
    assert_eq!(receiver.snapshot().session.frames_received, 200);
    assert_eq!(sender.finish(), Ended::Closed);
}

#[test]
fn a_path_joins_while_the_session_runs() {
    let bed = Bed::new(3, &[line(10, 10), line(10, 10)]);
    let (receiver, _sessions) = bed.receiver();
    let client = bed.client_by(&["line0"]).scheduler_named("wrr");
    let (sender, _events) = bed
        .world
        .block_on(client.connect_async())
        .expect("an answer");
    bed.send_for(&sender, millis(200));
    let path = ClientPath::new(Via::from("line1"), bed.address().into());
    sender.add_path(path.clone()).expect("there is room");
    bed.send_for(&sender, millis(1_000));
    let over_v6 = ClientPath::new(Via::DefaultRoute, "[::1]:9".parse().expect("an address"));
    let refused = sender.add_path(over_v6).expect_err("longer headers");
    assert!(matches!(refused, StartError::Family { .. }), "{refused}");
    for _ in 2..32 {
        sender.add_path(path.clone()).expect("there is room");
    }
    let refused = sender.add_path(path).expect_err("no room");
    assert!(matches!(refused, StartError::TooManyPaths { count: 33 }));
    let sent = sender.snapshot();
    for path in &sent.paths[..2] {
        assert!(path.counters.acked_packets > 10, "{path:?}");
    }
    bed.world.run_for(millis(500));
    assert_eq!(receiver.snapshot().session.frames_received, 60);
    assert_eq!(sender.finish(), Ended::Closed);
}

/// The interface's own firewall refuses for a while (EPERM), and then its MTU shrinks.
#[test]
fn refusals_of_the_own_machine_end_no_session() {
    let bed = Bed::new(4, &[line(10, 10), line(10, 20)]);
    let (receiver, _sessions) = bed.receiver();
    let (sender, _events) = bed.world.block_on(bed.connect());
    bed.send_for(&sender, millis(500));
    bed.lines[0].refuse(true);
    bed.send_for(&sender, millis(2_000));
    bed.lines[0].refuse(false);
    bed.lines[1].set_mtu(1_280);
    bed.send_for(&sender, millis(2_000));
    bed.world.run_for(millis(500));
    assert_eq!(receiver.snapshot().session.frames_received, 225);
    assert!(sender.snapshot().paths[0].unsent_datagrams > 0);
    assert_eq!(sender.finish(), Ended::Closed);
}

#[test]
fn an_interface_that_is_made_again_carries_its_path_again() {
    let bed = Bed::new(5, &[line(10, 10), line(10, 20)]);
    let (receiver, _sessions) = bed.receiver();
    let (sender, events) = bed.world.block_on(bed.connect());
    bed.send_for(&sender, millis(500));
    bed.lines[0].unplug();
    bed.send_for(&sender, millis(2_000));
    bed.lines[0].plug();
    bed.send_for(&sender, millis(3_000));
    bed.world.run_for(millis(500));
    let seen = drain(&events);
    assert!(
        seen.iter()
            .any(|event| matches!(event, Event::PathPresent { path } if path.0 == 0)),
        "{seen:?}"
    );
    assert_eq!(receiver.snapshot().session.frames_received, 275);
    assert_eq!(sender.finish(), Ended::Closed);
}

/// A roster adds the interfaces of a pattern as they appear. If all numbers are taken, they get
/// those of interfaces that are gone, and never that of a path named singly.
/// Lets paths join, and sends for three seconds. Returns the places of the new paths.
fn tend(roster: &mut Roster, bed: &Bed, sender: &Sender) -> Vec<(usize, Option<Vacancy>)> {
    let joined = roster.tend(bed.world.now(), sender).expect("a list");
    bed.send_for(sender, millis(3_000));
    joined
        .into_iter()
        .map(|place| (place.index, place.vacancy))
        .collect()
}

#[test]
fn interfaces_of_a_pattern_join_and_take_the_places_of_those_that_are_gone() {
    let bed = Bed::new(8, &[line(10, 10)]);
    let (_receiver, _sessions) = bed.receiver();
    let wanted = ["line0", "wwan*"].map(|via| ClientPath::new(via.into(), bed.address().into()));
    let mut roster = Roster::new(bed.camera.network(), wanted.into(), 2);
    for present in roster.present().expect("a list") {
        let place = roster.next_place().expect("there is room");
        roster.settle(place, present);
    }
    assert_eq!(roster.paths().count(), 1);
    let connecting = bed.client().connect_async();
    let (sender, _events) = bed.world.block_on(connecting).expect("an answer");
    assert_eq!(tend(&mut roster, &bed, &sender), []);
    let first = bed.camera.attach("wwan0", &line(10, 20));
    assert_eq!(tend(&mut roster, &bed, &sender), [(1, None)]);
    assert!(sender.snapshot().paths[1].counters.acked_packets > 0);
    bed.camera.attach("wwan1", &line(10, 20));
    assert_eq!(tend(&mut roster, &bed, &sender), [], "no room");
    first.unplug();
    let gone = (1, Some(Vacancy::Gone));
    assert_eq!(tend(&mut roster, &bed, &sender), [gone]);
    let replaced = &sender.snapshot().paths[1];
    assert_eq!(replaced.succession, 1);
    assert!(replaced.counters.acked_packets > 0);
    bed.lines[0].unplug();
    first.plug();
    let none = tend(&mut roster, &bed, &sender);
    assert_eq!(none, [], "the path that is gone was named singly");
    assert_eq!(sender.finish(), Ended::Closed);
}

#[test]
fn a_name_that_leads_elsewhere_is_followed_once_nobody_answers() {
    let bed = Bed::new(6, &[line(10, 10)]);
    let nobody = IpAddr::from([203, 0, 113, 9]);
    bed.world.set_name("studio.example", Ok(vec![nobody]));
    let (_receiver, _sessions) = bed.receiver();
    let client = bed.client().to("studio.example:7000");
    let (sender, events) = client.start().expect("the set-up works");
    bed.world.run_for(millis(3_000));
    assert_eq!(sender.snapshot().peer, None);
    bed.world
        .set_name("studio.example", Ok(vec![bed.address().ip()]));
    bed.world.run_for(millis(6_000));
    let seen = drain(&events);
    assert!(
        seen.iter()
            .any(|event| matches!(event, Event::Connected { .. })),
        "{seen:?}"
    );
    assert_eq!(sender.finish(), Ended::Closed);
}

/// Routers drop longer packets without a word (no ICMP), on the only path and in the middle of the
/// stream.
#[test]
fn a_network_whose_mtu_falls_without_a_word_is_survived() {
    let mut falling = line(10, 20);
    falling.up.mtu_schedule = vec![(Instant::from_secs(3), 1_300)];
    let bed = Bed::new(7, &[falling]);
    let (receiver, _sessions) = bed.receiver();
    let (sender, _events) = bed.world.block_on(bed.connect());
    bed.send_for(&sender, millis(1_500));
    assert_eq!(sender.snapshot().paths[0].view.mtu, Some(1_500));
    bed.send_for(&sender, millis(4_000));
    let before = receiver.snapshot().session.frames_received;
    bed.send_for(&sender, millis(2_000));
    assert!(receiver.snapshot().session.frames_received >= before + 95);
    assert!(sender.snapshot().paths[0].view.mtu <= Some(1_300));
    assert_eq!(sender.snapshot().past_sessions, 0);
    assert_eq!(sender.finish(), Ended::Closed);
}

//! Relays on loopback, in real time. Early arrivals are errors; limits for late ones are generous,
//! since the machine may be busy.
//!
//! Needs a clock: a relay releases datagrams of real sockets at their instants.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration as StdDuration;

use anabranch_emu::{LinkDirection, Relay, RelayConfig, RelayError, RelayLink};
use anabranch_link::{
    Discipline, DropCause, FqCoDelOptions, LinkChange, LinkConfig, LinkStatistics, LossModel,
    QueueLimit,
};
use anabranch_units::{DataRate, Duration, Ecn, Instant, Seed};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use rustix::net::sockopt::{set_ip_recvtos, set_ip_tos};

use crate::punctual::Watch;

const GENEROUS: StdDuration = StdDuration::from_millis(50);
/// Limit for any wait.
const PATIENCE: StdDuration = StdDuration::from_secs(20);

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(loopback()).expect("a port of loopback");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// Waits by a socket that receives nothing.
fn idle_until(at: std::time::Instant) {
    let least = std::time::Duration::from_millis(1);
    let left = at.saturating_duration_since(now()).max(least);
    let idle = socket();
    idle.set_read_timeout(Some(left)).expect("a timeout");
    assert!(idle.recv(&mut [0]).is_err());
}

#[allow(clippy::disallowed_methods, reason = "these tests measure real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "these tests take real time")]
fn pause(time: StdDuration) {
    std::thread::sleep(time);
}

fn link(target: &UdpSocket, forward: LinkConfig, reverse: LinkConfig) -> RelayLink {
    let target = target.local_addr().expect("bound");
    RelayLink {
        name: "wi-fi".into(),
        listen: loopback(),
        target,
        forward,
        reverse,
        seed: Seed(1),
    }
}

fn start(links: Vec<RelayLink>) -> Relay {
    Relay::start(RelayConfig {
        links,
        origin: None,
    })
    .expect("loopback can be relayed")
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2_000];
    let (len, from) = socket.recv_from(&mut buffer).expect("a datagram in time");
    (buffer[..len].to_vec(), from)
}

/// Waits until the statistics of the first link there are as wanted.
fn wait_until(relay: &Relay, is_so: impl Fn(&LinkStatistics) -> bool) {
    let began = now();
    loop {
        let seen = relay.statistics(0).forward.link;
        if is_so(&seen) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{seen:?}");
        pause(StdDuration::from_millis(1));
    }
}

/// Sends datagrams of 1,000 bytes with their headers. The relay's socket never holds more than 50.
fn send_many(client: &UdpSocket, relay: &Relay, count: u64) {
    for sent_count in 1..=count {
        client
            .send_to(&[0; 972], relay.listen_addr(0))
            .expect("sent");
        if sent_count % 50 == 0 {
            wait_until(relay, |seen| seen.offered_packets >= sent_count);
        }
    }
}

fn with_delay(millis: u64) -> LinkConfig {
    LinkConfig {
        delay: Duration::from_millis(millis),
        ..LinkConfig::default()
    }
}

/// Returns the times that a datagram and its answer take.
fn round_trip(
    client: &UdpSocket,
    target: &UdpSocket,
    link: SocketAddr,
) -> (StdDuration, StdDuration) {
    let sent_at = now();
    client.send_to(b"frame", link).expect("sent");
    let (payload, from) = receive(target);
    let forward = sent_at.elapsed();
    assert_eq!(payload, b"frame");

    let answered_at = now();
    target.send_to(b"report", from).expect("sent");
    assert_eq!(receive(client), (b"report".to_vec(), link));
    (forward, answered_at.elapsed())
}

#[test]
fn packets_overtake_when_the_delay_falls_if_the_link_lets_them() {
    for (overtaking, expected) in [(true, ["second", "first"]), (false, ["first", "second"])] {
        let (client, target) = (socket(), socket());
        let forward = LinkConfig {
            delay: Duration::from_millis(3_000),
            delay_schedule: vec![(Instant::from_millis(1_000), Duration::from_millis(10))],
            overtaking,
            ..LinkConfig::default()
        };
        let relay = start(vec![link(&target, forward, LinkConfig::default())]);
        client
            .send_to(b"first", relay.listen_addr(0))
            .expect("sent");
        pause(StdDuration::from_millis(1_200));
        client
            .send_to(b"second", relay.listen_addr(0))
            .expect("sent");
        let received = [receive(&target), receive(&target)].map(|(payload, _)| payload);
        assert_eq!(received, expected.map(|text| text.as_bytes().to_vec()));
        relay.stop();
    }
}

#[test]
fn each_direction_of_each_link_has_its_own_delay() {
    let watch = Watch::start();
    let (client, target) = (socket(), socket());
    let links = [(30, 10), (5, 60)];
    let configs = links.map(|(there, back)| link(&target, with_delay(there), with_delay(back)));
    let relay = start(configs.into());
    for (index, (there, back)) in links.into_iter().enumerate() {
        assert_ne!(relay.listen_addr(index).port(), 0);
        let round_trips: Vec<_> = (0..3)
            .map(|_| round_trip(&client, &target, relay.listen_addr(index)))
            .collect();
        let forward = round_trips
            .iter()
            .map(|times| times.0)
            .min()
            .expect("three");
        let reverse = round_trips
            .iter()
            .map(|times| times.1)
            .min()
            .expect("three");
        // If the quickest is not early, none is; and if it is not late, the link is not slow.
        for (measured, millis) in [(forward, there), (reverse, back)] {
            let delay = StdDuration::from_millis(millis);
            assert!(measured >= delay, "{measured:?} for {delay:?}");
            assert!(
                watch.allows(measured < delay + GENEROUS, "the delay", &[]),
                "{measured:?} for {delay:?}"
            );
        }
        let statistics = relay.statistics(index);
        assert_eq!(statistics.forward.link.delivered_bytes, 3 * (5 + 28));
        assert_eq!(statistics.reverse.link.delivered_bytes, 3 * (6 + 28));
    }
    relay.stop();
}

#[test]
fn the_rate_is_kept_and_what_exceeds_the_queue_is_lost() {
    let (client, target) = (socket(), socket());
    let forward = LinkConfig {
        rate: Some(DataRate::from_megabits_per_second(4)),
        queue: QueueLimit::Time(Duration::from_secs(1)),
        ..LinkConfig::default()
    };
    let relay = start(vec![link(&target, forward, LinkConfig::default())]);
    // 500,000 bytes fit, which are 500 datagrams of 972 + 28 bytes and take 1 s. Those that leave
    // while the others arrive make room for a few more.
    let (watch, sent_at) = (Watch::start(), now());
    let reader = thread::spawn(move || {
        (0..500).for_each(|_| drop(receive(&target)));
        sent_at.elapsed().as_secs_f64()
    });
    send_many(&client, &relay, 700);
    let elapsed = reader.join().expect("500 arrive");
    let statistics = relay.statistics(0).forward;
    assert_eq!(statistics.link.offered_packets, 700);
    let dropped_count = statistics.link.dropped.of(DropCause::QueueFull);
    assert!(elapsed >= 1.0 && dropped_count <= 200, "{elapsed}");
    let is_in_time = elapsed < 1.2 && dropped_count >= 100;
    assert!(
        watch.allows(is_in_time, "the rate", &[]),
        "{elapsed}, {dropped_count}"
    );
    assert!(statistics.link.queue.max_queued_bytes > 499_000);
}

#[test]
fn an_outage_counts_from_the_origin_and_the_link_comes_back() {
    let (client, target) = (socket(), socket());
    let ms = StdDuration::from_millis;
    let forward = LinkConfig {
        delay: Duration::from_millis(800),
        outages: vec![(
            anabranch_units::Instant::from_millis(1_200),
            Duration::from_millis(1_200),
        )],
        ..LinkConfig::default()
    };
    let origin = now() + ms(800);
    let links = vec![link(&target, forward, LinkConfig::default())];
    let relay = Relay::start(RelayConfig {
        links,
        origin: Some(origin),
    })
    .expect("started");
    // Down from 1.2 to 2.4 s after the origin: "early" leaves before, "lost" is in flight, "late"
    // arrives during it.
    client
        .send_to(b"early", relay.listen_addr(0))
        .expect("sent");
    assert_eq!(receive(&target).0, b"early");
    idle_until(origin + ms(800));
    client.send_to(b"lost", relay.listen_addr(0)).expect("sent");
    idle_until(origin + ms(1_800));
    client.send_to(b"late", relay.listen_addr(0)).expect("sent");
    idle_until(origin + ms(2_600));
    client.send_to(b"back", relay.listen_addr(0)).expect("sent");
    assert_eq!(receive(&target).0, b"back");
    assert_eq!(
        relay
            .statistics(0)
            .forward
            .link
            .dropped
            .of(DropCause::Outage),
        2
    );
}

#[test]
fn a_target_that_nobody_listens_at_is_no_error() {
    let client = socket();
    // An address of its own, so that no other test takes the port meanwhile.
    let target = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).expect("a port of loopback");
    let target_addr = target.local_addr().expect("bound");
    let relay = start(vec![link(
        &target,
        LinkConfig::default(),
        LinkConfig::default(),
    )]);
    drop(target);
    for _ in 0..3 {
        client
            .send_to(b"nobody", relay.listen_addr(0))
            .expect("sent");
        client
            .set_read_timeout(Some(StdDuration::from_millis(20)))
            .expect("a timeout");
        assert!(
            matches!(client.recv(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        );
    }
    wait_until(&relay, |seen| seen.delivered_packets == 3);
    let target = UdpSocket::bind(target_addr).expect("the port is free again");
    target.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    client
        .send_to(b"somebody", relay.listen_addr(0))
        .expect("sent");
    assert_eq!(receive(&target).0, b"somebody");
}

#[test]
fn a_relay_that_is_dropped_frees_its_ports() {
    let target = socket();
    // An address of its own, so that no other test takes the port meanwhile.
    let link = RelayLink {
        listen: (Ipv4Addr::new(127, 0, 0, 3), 0).into(),
        ..link(&target, with_delay(10_000), LinkConfig::default())
    };
    let relay = start(vec![link]);
    let address = relay.listen_addr(0);
    assert!(UdpSocket::bind(address).is_err());
    target.send_to(b"held for 10 s", address).expect("sent");
    drop(relay);
    assert!(UdpSocket::bind(address).is_ok());
}

#[test]
fn start_error_names_link_and_cause() {
    let target = socket();
    let taken = RelayLink {
        listen: target.local_addr().expect("bound"),
        ..link(&target, LinkConfig::default(), LinkConfig::default())
    };
    let error = Relay::start(RelayConfig {
        links: vec![taken],
        origin: None,
    })
    .expect_err("taken");
    assert!(
        matches!(
            error,
            RelayError::Socket {
                action: "listen at",
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("wi-fi"), "{error}");

    let loss = LossModel::Bernoulli { probability: 2.0 };
    let reverse = LinkConfig {
        loss,
        ..LinkConfig::default()
    };
    let links = vec![link(&target, LinkConfig::default(), reverse)];
    let error = Relay::start(RelayConfig {
        links,
        origin: None,
    })
    .expect_err("no probability");
    assert!(
        matches!(
            error,
            RelayError::Link {
                direction: "reverse",
                ..
            }
        ),
        "{error}"
    );
}

/// Returns the ECN field of the next datagram.
fn received_mark(socket: &UdpSocket) -> Ecn {
    let mut bytes = [0; 2_000];
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let mut control = nix::cmsg_space!(u8);
    let socket = socket.as_raw_fd();
    let message = recvmsg::<()>(socket, &mut slices, Some(&mut control), MsgFlags::empty())
        .expect("a datagram in time");
    let mut fields = message.cmsgs().expect("room for the field");
    let Some(ControlMessageOwned::Ipv4Tos(field)) = fields.next() else {
        panic!("no ECN field");
    };
    Ecn::from_bits(field)
}

#[test]
fn the_ecn_field_passes_and_a_queue_that_marks_sets_it() {
    let (client, target) = (socket(), socket());
    set_ip_recvtos(&client, true).expect("Linux tells it");
    set_ip_recvtos(&target, true).expect("Linux tells it");
    let marking = LinkConfig {
        rate: Some(DataRate::from_megabits_per_second(4)),
        queue: QueueLimit::Time(Duration::from_secs(1)),
        discipline: Discipline::DropTail {
            mark_above: Some(QueueLimit::Packets(10)),
        },
        ..LinkConfig::default()
    };
    let relay = start(vec![link(&target, marking, LinkConfig::default())]);
    let listen = relay.listen_addr(0);
    for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        set_ip_tos(&client, ecn.to_bits()).expect("Linux lets it be set");
        client.send_to(&[0; 100], listen).expect("sent");
        assert_eq!(
            received_mark(&target),
            ecn,
            "an empty queue changes nothing"
        );
    }
    // 100 datagrams take 200 ms to leave, so most of them find more than ten before them, unless
    // this thread is kept from sending for that long.
    set_ip_tos(&client, Ecn::Ect1.to_bits()).expect("Linux lets it be set");
    let watch = Watch::start();
    send_many(&client, &relay, 100);
    let marks: Vec<_> = (0..100).map(|_| received_mark(&target)).collect();
    let marked_count = marks.iter().filter(|mark| **mark == Ecn::Ce).count();
    let statistics = relay.statistics(0).forward.link;
    assert_eq!(marked_count as u64, statistics.queue.marked_packets);
    assert!(
        watch.allows((50..=90).contains(&marked_count), "marks of a queue", &[]),
        "{marked_count}"
    );
    assert!(marks.iter().all(|mark| matches!(mark, Ecn::Ect1 | Ecn::Ce)));

    // And back: the target answers the source.
    client.send_to(b"frame", listen).expect("sent");
    let (_, from) = receive(&target);
    set_ip_tos(&target, Ecn::Ect1.to_bits()).expect("Linux lets it be set");
    target.send_to(b"report", from).expect("sent");
    assert_eq!(received_mark(&client), Ecn::Ect1);
}

#[test]
fn every_sender_is_a_flow_of_its_own() {
    let (bulk, thin, target) = (socket(), socket(), socket());
    let fair = LinkConfig {
        rate: Some(DataRate::from_megabits_per_second(4)),
        queue: QueueLimit::Time(Duration::from_secs(2)),
        discipline: Discipline::FqCoDel(FqCoDelOptions::default()),
        ..LinkConfig::default()
    };
    let relay = start(vec![link(&target, fair, LinkConfig::default())]);
    let watch = Watch::start();
    send_many(&bulk, &relay, 500);
    thin.send_to(b"frame", relay.listen_addr(0)).expect("sent");
    // In one queue it would be behind 1 s of the others, less CoDel's drops; in a queue of its own
    // it is next. A quarter of a second is left for delays of this thread.
    let before_count = (0..500)
        .take_while(|_| receive(&target).0 != b"frame")
        .count();
    assert!(
        watch.allows(before_count < 125, "a flow's own queue", &[]),
        "{before_count}"
    );
}

#[test]
fn a_faster_link_lets_packets_go_that_waited_for_the_slow_one() {
    let (client, target) = (socket(), socket());
    let slow = LinkConfig {
        rate: Some(DataRate::from_bits_per_second(8)),
        ..LinkConfig::default()
    };
    let relay = start(vec![link(&target, slow, LinkConfig::default())]);
    client
        .send_to(b"waits", relay.listen_addr(0))
        .expect("sent");
    wait_until(&relay, |seen| seen.offered_packets == 1);
    let rate = LinkChange::Rate(DataRate::from_megabits_per_second(1));
    relay
        .change(0, LinkDirection::Forward, rate)
        .expect("valid");
    assert_eq!(receive(&target).0, b"waits");
    relay
        .change(0, LinkDirection::Forward, LinkChange::Down)
        .expect("valid");
    client.send_to(b"lost", relay.listen_addr(0)).expect("sent");
    wait_until(&relay, |seen| seen.dropped.total() == 1);
    relay
        .change(0, LinkDirection::Forward, LinkChange::Up)
        .expect("valid");
    client
        .send_to(b"arrives", relay.listen_addr(0))
        .expect("sent");
    assert_eq!(receive(&target).0, b"arrives");
    let forward = relay.statistics(0).forward.link;
    assert_eq!((forward.delivered_packets, forward.dropped.total()), (2, 1));
}

//! Links that change while packets are on them.

use anabranch_link::{
    CoDelOptions, Discipline, Link, LinkChange, LinkConfig, LossModel, Packet, QueueLimit, Trace,
};
use anabranch_units::{DataRate, Duration, Instant, Seed};

/// 1,250 bytes take 10 ms at 1 Mbit/s.
const BYTES: u32 = 1_250;

fn mbps(rate: u64) -> DataRate {
    DataRate::from_megabits_per_second(rate)
}

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn config(rate: Option<DataRate>) -> LinkConfig {
    LinkConfig {
        rate,
        delay: Duration::from_millis(20),
        ..LinkConfig::default()
    }
}

/// The same link behind each kind of queue.
fn links(config: &LinkConfig) -> Vec<Link> {
    fn built(config: &LinkConfig) -> Link {
        config.build_changeable(Seed(1)).unwrap()
    }

    let managed = LinkConfig {
        discipline: Discipline::CoDel(CoDelOptions {
            target: Duration::from_secs(10),
            ..CoDelOptions::default()
        }),
        ..config.clone()
    };
    vec![built(config), built(&managed)]
}

fn push(link: &mut Link, at: Instant, count: u64) {
    for id in 0..count {
        let packet = Packet {
            id,
            ..Packet::of_size(BYTES)
        };
        link.push(at, packet).unwrap();
    }
}

/// Milliseconds at which packets leave, until none is inside.
fn exits(link: &mut Link) -> Vec<u64> {
    let mut exits = Vec::new();
    while let Some(at) = link.next_at() {
        while link.pop(at).is_some() {
            exits.push(at.as_micros() / 1_000);
        }
        while link.take_dropped().is_some() {}
    }
    exits
}

#[test]
fn a_rate_applies_to_the_queue_and_to_the_rest_of_the_packet_in_service() {
    for mut link in links(&config(Some(mbps(1)))) {
        push(&mut link, Instant::ZERO, 4);
        assert!(link.pop(ms(15)).is_none());
        // The second packet is half sent, the first in propagation.
        link.change(ms(15), LinkChange::Rate(mbps(10))).unwrap();
        // 0.5 ms for the rest of the second, and a millisecond for each of the others.
        assert_eq!(exits(&mut link), [30, 35, 36, 37]);
        push(&mut link, ms(100), 2);
        link.change(ms(100), LinkChange::Rate(mbps(1))).unwrap();
        assert_eq!(exits(&mut link), [130, 140]);
        assert_eq!(link.statistics(ms(200)).delivered_packets, 6);
    }
}

#[test]
fn a_rate_replaces_schedules_and_traces_and_ends_a_standstill() {
    let mut standing = config(Some(mbps(1)));
    standing.rate_schedule = vec![(ms(5), DataRate::ZERO), (ms(500), mbps(1))];
    for mut link in links(&standing) {
        push(&mut link, Instant::ZERO, 2);
        link.change(ms(100), LinkChange::Rate(mbps(1))).unwrap();
        let exits = exits(&mut link);
        assert!(exits.len() == 2 && exits[1] <= 140, "{exits:?}");
        push(&mut link, ms(600), 1);
        assert_eq!(link.next_at(), Some(ms(630)));
    }
    let mut of_trace = config(None);
    of_trace.trace = Some(Trace::new(&[1_000, 2_000]).unwrap());
    for mut link in links(&of_trace) {
        push(&mut link, Instant::ZERO, 2);
        link.change(ms(10), LinkChange::Rate(mbps(1))).unwrap();
        assert_eq!(exits(&mut link), [40, 50]);
    }
}

#[test]
fn a_line_without_limit_can_be_given_one() {
    for mut link in links(&config(None)) {
        push(&mut link, Instant::ZERO, 2);
        assert_eq!(exits(&mut link), [20, 20]);
        link.change(ms(50), LinkChange::Rate(mbps(1))).unwrap();
        push(&mut link, ms(50), 2);
        assert_eq!(exits(&mut link), [80, 90]);
    }
}

#[test]
fn a_delay_applies_to_later_packets_and_lets_none_overtake() {
    fn delay(millis: u64) -> LinkChange {
        LinkChange::Delay(Duration::from_millis(millis))
    }

    for mut link in links(&config(Some(mbps(10)))) {
        push(&mut link, Instant::ZERO, 1);
        assert!(link.pop(ms(2)).is_none());
        link.change(ms(2), delay(80)).unwrap();
        push(&mut link, ms(2), 1);
        assert!(link.pop(ms(10)).is_none());
        link.change(ms(10), delay(5)).unwrap();
        push(&mut link, ms(10), 1);
        assert_eq!(exits(&mut link), [21, 83, 83]);
    }
}

#[test]
fn losses_begin_and_end() {
    fn loss(probability: f64) -> LinkChange {
        LinkChange::Loss(LossModel::Bernoulli { probability })
    }

    for mut link in links(&config(Some(mbps(100)))) {
        link.change(ms(0), loss(1.0)).unwrap();
        push(&mut link, ms(0), 5);
        assert!(exits(&mut link).is_empty());
        link.change(ms(100), loss(0.0)).unwrap();
        push(&mut link, ms(100), 5);
        assert_eq!(exits(&mut link).len(), 5);
        assert!(link.change(ms(200), loss(1.5)).is_err());
    }
}

#[test]
fn a_link_is_down_until_it_is_up_whatever_was_scheduled() {
    let mut scheduled = config(Some(mbps(1)));
    scheduled.outages = vec![(ms(300), Duration::from_secs(9))];
    for mut link in links(&scheduled) {
        push(&mut link, ms(0), 3);
        link.change(ms(15), LinkChange::Down).unwrap();
        assert!(link.push(ms(20), Packet::of_size(BYTES)).is_err());
        assert!(exits(&mut link).is_empty());
        link.change(ms(100), LinkChange::Up).unwrap();
        push(&mut link, ms(400), 1);
        assert_eq!(exits(&mut link), [430]);
        let statistics = link.statistics(ms(500));
        assert_eq!(
            (statistics.held_packets, statistics.dropped.total()),
            (0, 4)
        );
    }
}

#[test]
fn packets_are_conserved_by_any_changes() {
    let mut config = config(Some(mbps(2)));
    config.queue = QueueLimit::Bytes(20_000);
    config.burst_bytes = 3_000;
    let mut link = config.build_changeable(Seed(3)).unwrap();
    let mut rng = Seed(7).rng();
    let mut out = 0;
    for step in 0..20_000u64 {
        let at = Instant::from_micros(step * 700);
        let _ = link.push(at, Packet::of_size(100 + (rng.next_f64() * 1_300.0) as u32));
        let change = match (rng.next_f64() * 40.0) as u64 {
            0 => LinkChange::Rate(mbps(1 + step % 9)),
            1 => LinkChange::Delay(Duration::from_millis(step % 90)),
            2 => LinkChange::Loss(LossModel::Bernoulli { probability: 0.1 }),
            3 => LinkChange::Down,
            4..8 => LinkChange::Up,
            _ => continue,
        };
        link.change(at, change).unwrap();
        while link.pop(at).is_some() {
            out += 1;
        }
        let statistics = link.statistics(at);
        let inside = statistics.held_packets + statistics.dropped.total();
        assert_eq!(statistics.offered_packets, out + inside, "step {step}");
    }
    assert!(out > 2_000, "{out}");
}

//! Bottlenecks that send at the opportunities of a trace.

use anabranch_link::{
    CoDelOptions, Delay, Discipline, DropTail, Element, LinkConfig, LinkConfigError, Packet,
    QueueLimit, Schedule, Trace,
};
use anabranch_units::{DataRate, Duration, Instant, Rng, Seed};

use crate::support::quantities::{at_ms, megabits, ms};

fn nothing() -> Delay {
    Delay::new(Schedule::constant(Duration::ZERO))
}

fn link(millis: &[u64]) -> DropTail<Delay> {
    let trace = Trace::new(millis).expect("a trace");
    DropTail::with_trace(trace, QueueLimit::Unlimited, nothing())
}

fn push(link: &mut DropTail<Delay>, at: Instant, id: u64, size_bytes: u32) {
    let packet = Packet {
        id,
        ..Packet::of_size(size_bytes)
    };
    assert!(link.push(at, packet).is_ok());
}

/// Returns all departures, in milliseconds.
fn drain<E: Element>(element: &mut E) -> Vec<(u64, u64)> {
    let mut departures = Vec::new();
    while let Some(at) = element.next_at() {
        while let Some(packet) = element.pop(at) {
            departures.push((at.as_micros() / 1_000, packet.id));
        }
    }
    departures
}

#[test]
fn an_opportunity_serves_parts_of_packets_and_several() {
    let mut link = link(&[2, 4, 4, 10]);
    // 1504 bytes each at 2, 4, 4, 10, 12, …
    let sizes = [1_000, 500, 1_504, 504, 2_000, 1];
    (0..)
        .zip(sizes)
        .for_each(|(id, size)| push(&mut link, Instant::ZERO, id, size));
    // At 2 ms 0, 1 and 4 bytes of 2; at 4 ms 2, then 4 bytes and 3 and 996 of 4, whose rest at
    // 10 ms leaves 504 bytes for 5.
    let expected = [(2, 0), (2, 1), (4, 2), (4, 3), (10, 4), (10, 5)];
    assert_eq!(drain(&mut link), expected);
}

#[test]
fn an_unused_opportunity_is_lost() {
    let mut link = link(&[2, 4, 4, 10]);
    push(&mut link, at_ms(1), 0, 100);
    assert_eq!(drain(&mut link), [(2, 0)]);
    // The bytes left at 2 ms are gone, and so is the opportunity at the time at which a packet
    // arrives.
    push(&mut link, at_ms(2), 1, 100);
    assert_eq!(drain(&mut link), [(4, 1)]);
    push(&mut link, at_ms(4), 2, 100);
    assert_eq!(drain(&mut link), [(10, 2)]);
    push(&mut link, at_ms(1_003), 3, 1_504);
    push(&mut link, at_ms(1_003), 4, 1_504);
    push(&mut link, at_ms(1_003), 5, 1_504);
    assert_eq!(drain(&mut link), [(1_004, 3), (1_004, 4), (1_010, 5)]);
}

#[test]
fn one_opportunity_a_millisecond_is_12_megabits_per_second() {
    fn departures(link: &mut DropTail<Delay>) -> Vec<(Instant, u64)> {
        let mut departures = Vec::new();
        while let Some(at) = link.next_at() {
            departures.extend(link.pop(at).map(|packet| (at, packet.id)));
        }
        departures
    }

    let rate = DataRate::from_bits_per_second(1_504 * 8 * 1_000);
    assert_eq!(Trace::new(&[1]).map(|trace| trace.mean_rate()), Ok(rate));
    let mut by_trace = link(&[1]);
    let mut by_rate = DropTail::new(Schedule::constant(rate), QueueLimit::Unlimited, nothing());
    let mut rng: Rng = Seed(1).rng();
    let mut now = Instant::ZERO;
    let mut id = 0;
    // Bursts with pauses. A packet leaves with its last opportunity: at most 1 ms after the last
    // bit at the constant rate, plus the wait of the burst's start for its first opportunity.
    for _ in 0..2_000 {
        now += Duration::from_micros(rng.below(40_000));
        for _ in 0..rng.below(20) {
            let size = 40 + rng.below(1_464) as u32;
            push(&mut by_trace, now, id, size);
            push(&mut by_rate, now, id, size);
            id += 1;
        }
    }
    let (by_trace, by_rate) = (departures(&mut by_trace), departures(&mut by_rate));
    assert_eq!(by_trace.len(), by_rate.len());
    for ((traced_at, traced), (rated_at, rated)) in by_trace.iter().zip(&by_rate) {
        assert_eq!(traced, rated);
        let late = traced_at.saturating_since(*rated_at);
        let early = rated_at.saturating_since(*traced_at);
        assert!(late < ms(2), "{traced}: {late} late");
        assert!(early < ms(1), "{traced}: {early} early");
    }
}

#[test]
fn a_backlog_gets_every_opportunity() {
    let mut link = link(&[1, 1, 3, 10, 11]);
    (0..10_000).for_each(|id| push(&mut link, Instant::ZERO, id, 752));
    let departures = drain(&mut link);
    // Ten packets each 11 ms.
    assert_eq!(departures.last(), Some(&(11_000, 9_999)));
    let statistics = link.statistics(at_ms(22_000));
    // All of the capacity of 11 s; 10,000 times rounded up by up to 1 ns, at a rate rounded down.
    let off = statistics.busy.abs_diff(Duration::from_secs(11));
    assert!(off < Duration::from_micros(20), "{off}");
    assert_eq!(statistics.max_wait, Duration::from_secs(11));
}

#[test]
fn the_wait_for_an_opportunity_counts_as_wait() {
    // A pause of 700 ms each second: CoDel must see the packets that wait for its end.
    let millis: Vec<u64> = (0..300).chain([1_000]).collect();
    let config = LinkConfig {
        trace: Trace::new(&millis).ok(),
        discipline: Discipline::CoDel(CoDelOptions::default()),
        ..LinkConfig::default()
    };
    let mut link = config.build(Seed(1)).expect("valid");
    assert!(link.push(at_ms(299), Packet::of_size(1_504)).is_ok());
    assert_eq!(link.next_at(), Some(at_ms(1_000)));
    assert!(link.pop(at_ms(1_000)).is_some());
    let statistics = link.statistics(at_ms(1_000));
    assert_eq!(statistics.queue.max_wait, ms(701));
    // One opportunity of 301.
    assert!((statistics.utilisation() - 1.0 / 301.0).abs() < 1e-6);
}

#[test]
fn a_time_limit_is_taken_at_the_mean_rate() {
    let config = LinkConfig {
        trace: Trace::new(&[1]).ok(),
        queue: QueueLimit::Time(ms(10)),
        ..LinkConfig::default()
    };
    let mut link = config.build(Seed(1)).expect("valid");
    assert_eq!(
        (0..20)
            .filter(|_| link.push(Instant::ZERO, Packet::of_size(1_504)).is_ok())
            .count(),
        10
    );
}

#[test]
fn an_outage_empties_the_link_and_the_trace_goes_on() {
    let config = LinkConfig {
        trace: Trace::new(&[10]).ok(),
        outages: vec![(at_ms(25), ms(10))],
        ..LinkConfig::default()
    };
    let mut link = config.build(Seed(1)).expect("valid");
    for id in 0..9 {
        let packet = Packet {
            id,
            ..Packet::of_size(3_008)
        };
        assert!(link.push(Instant::ZERO, packet).is_ok());
    }
    assert_eq!(drain(&mut link), [(20, 0)]);
    assert_eq!(link.statistics(at_ms(30)).dropped.total(), 8);
    assert!(link.push(at_ms(36), Packet::of_size(1_000)).is_ok());
    assert_eq!(drain(&mut link), [(40, 0)]);
}

#[test]
fn a_rate_and_a_trace_exclude_each_other() {
    let config = LinkConfig {
        rate: Some(megabits(1)),
        trace: Trace::new(&[1]).ok(),
        ..LinkConfig::default()
    };
    let error = config.build(Seed(1)).err();
    assert_eq!(error, Some(LinkConfigError::RateAndTrace));
}

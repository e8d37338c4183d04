//! Packets taken out of a link before their instants.

use anabranch_link::{Link, LinkConfig, Packet};
use anabranch_units::{Duration, Instant, Seed};

use crate::support::{
    at_ms, drain, drain_dropped, exponential, lively_configs, megabits, ms, packet,
};

/// Packets by their number, with their times.
type LossHistory = Vec<(Instant, u64)>;

/// Drives a link with random arrivals for 4 s. Returns the packets' departures and drops.
fn driven(
    config: &LinkConfig,
    mut drive: impl FnMut(&mut Link, &[(Instant, Packet)]) -> LossHistory,
) -> [LossHistory; 2] {
    let mut rng = Seed(5).derive("arrivals").rng();
    let mut now = Instant::ZERO;
    let arrivals: Vec<_> = (0..1_000)
        .map(|id| {
            now += exponential(&mut rng, ms(4));
            (now, packet(id, 40 + rng.below(1_460) as u32))
        })
        .collect();
    let mut link = config.build(Seed(5)).expect("a valid configuration");
    let mut departures = drive(&mut link, &arrivals);
    departures.sort();
    assert_eq!(link.held_packets(), 0);
    let mut dropped: Vec<_> = drain_dropped(&mut link)
        .iter()
        .map(|drop| (drop.at, drop.packet.id))
        .collect();
    dropped.sort();
    [departures, dropped]
}

#[test]
fn packets_taken_ahead_are_those_that_leave_and_when() {
    fn by_windows(
        horizon: fn(&Link, Instant) -> Instant,
        config: &LinkConfig,
        end: Instant,
    ) -> [Vec<(Instant, u64)>; 2] {
        driven(config, |link, arrivals| {
            in_windows(link, arrivals, end, horizon)
        })
    }

    for config in lively_configs() {
        let end = at_ms(30_000);
        let at_their_instants = driven(&config, |link, arrivals| {
            let mut departures = Vec::new();
            for (at, packet) in arrivals {
                departures.extend(drain(link, at.saturating_sub(Duration::from_nanos(1))));
                let _ = link.push(*at, *packet);
            }
            departures.extend(drain(link, end));
            departures
        });
        let by_least_delay = by_windows(|link, start| start + link.min_delay(), &config, end);
        // The backlog in front of new packets makes the windows longer.
        let by_what_waits = by_windows(|link, start| link.earliest_exit(start), &config, end);
        assert!(
            by_least_delay[0].len() > 100 && by_least_delay[1].len() > 10,
            "{}",
            by_least_delay[0].len()
        );
        assert_eq!(at_their_instants, by_least_delay, "{config:?}");
        assert_eq!(at_their_instants, by_what_waits, "{config:?}");
    }
}

/// Takes the departures of each window before the window's arrivals are pushed.
fn in_windows(
    link: &mut Link,
    arrivals: &[(Instant, Packet)],
    end: Instant,
    horizon: fn(&Link, Instant) -> Instant,
) -> LossHistory {
    let mut departures = Vec::new();
    let mut arrivals = arrivals.iter().peekable();
    let mut start = Instant::ZERO;
    while start < end {
        let before = horizon(link, start);
        assert!(before >= start + ms(1), "{start} {before}");
        while let Some((at, packet)) = link.pop_before(start, before) {
            departures.push((at, packet.id));
        }
        while let Some((at, packet)) = arrivals.next_if(|(at, _)| *at < before) {
            let _ = link.push(*at, *packet);
        }
        start = before;
    }
    departures
}

#[test]
fn earliest_exit_follows_queued_packets() {
    let config = LinkConfig {
        rate: Some(megabits(8)),
        delay: ms(10),
        outages: vec![(at_ms(100), ms(5))],
        ..LinkConfig::default()
    };
    let mut link = config.build(Seed(1)).expect("a valid configuration");
    assert_eq!(link.earliest_exit(at_ms(0)), at_ms(10));
    (0..20).for_each(|id| assert!(link.push(at_ms(0), packet(id, 1_000)).is_ok()));
    assert_eq!(link.earliest_exit(at_ms(0)), at_ms(30));
    assert_eq!(link.earliest_exit(at_ms(15)), at_ms(30));
    // The outage takes the waiting packets.
    (0..200).for_each(|id| assert!(link.push(at_ms(0), packet(id, 1_000)).is_ok()));
    assert_eq!(link.earliest_exit(at_ms(0)), at_ms(115));
}

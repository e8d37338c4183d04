//! Packets taken out of a link before their instants.

mod support;

use anabranch_link::{Link, LinkConfig, Packet};
use anabranch_units::{Duration, Instant, Seed};

use support::{at_ms, drain, drain_dropped, exponential, lively_configs, ms, packet};

/// Packets by their number, and when.
type Fates = Vec<(Instant, u64)>;

/// Random arrivals for 4 s; the packets' departures and drops.
fn driven(
    config: &LinkConfig,
    mut drive: impl FnMut(&mut Link, &[(Instant, Packet)]) -> Fates,
) -> [Fates; 2] {
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
    let dropped = drain_dropped(&mut link);
    let mut dropped: Vec<_> = dropped
        .iter()
        .map(|drop| (drop.at, drop.packet.id))
        .collect();
    dropped.sort();
    [departures, dropped]
}

#[test]
fn packets_taken_ahead_are_those_that_leave_and_when() {
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
        let ahead = driven(&config, |link, arrivals| {
            let span = link.min_delay();
            assert!(span >= ms(1), "{span}");
            let mut departures = Vec::new();
            let mut arrivals = arrivals.iter().peekable();
            let mut start = Instant::ZERO;
            while start < end {
                let before = start + span;
                while let Some((at, packet)) = link.pop_before(start, before) {
                    departures.push((at, packet.id));
                }
                while let Some((at, packet)) = arrivals.next_if(|(at, _)| *at < before) {
                    let _ = link.push(*at, *packet);
                }
                start = before;
            }
            departures
        });
        assert!(
            ahead[0].len() > 100 && ahead[1].len() > 10,
            "{}",
            ahead[0].len()
        );
        assert_eq!(at_their_instants, ahead, "{config:?}");
    }
}
